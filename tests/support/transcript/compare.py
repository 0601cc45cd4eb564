"""Differences between two transcripts of a scene, each as one line that a list of known differences can name."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from typing import Any

# What tells the members of a list of objects apart, in the order of trial.
NAMES = ("name", "type", "manager", "field", "key", "ip")


def differences(real: list[dict[str, Any]], here: list[dict[str, Any]]) -> list[str]:
    """One line per difference: ``command > request > place: what``."""
    found = []
    for ours, theirs in zip(here, real, strict=True):
        assert ours["run"] == theirs["run"], "the scene has changed since it was recorded: record it again"
        found += [f"{ours['run']} > {line}" for line in _step(theirs, ours)]
    return list(dict.fromkeys(found))


def _step(real: dict[str, Any], here: dict[str, Any]) -> Iterator[str]:
    for line in difflib.ndiff(real.get("fields", ()), here.get("fields", ())):
        if line[:2] in ("- ", "+ "):
            yield f"fields: {'missing' if line[0] == '-' else 'only'} here, {line[2:]}"
    for key in ("exit", "stderr"):
        if real.get(key) != here.get(key):
            yield from _values(f"{key}", real.get(key), here.get(key))
    asked, answered = ([one["request"] for one in side["exchanges"]] for side in (real, here))
    matcher = difflib.SequenceMatcher(a=asked, b=answered, autojunk=False)
    for tag, first, last, start, end in matcher.get_opcodes():
        if tag == "equal":
            for theirs, ours in zip(real["exchanges"][first:last], here["exchanges"][start:end], strict=True):
                for key in ("status", "warnings", "body"):
                    yield from _values(f"{ours['request']} > {key}", theirs.get(key), ours.get(key))
            continue
        yield from (f"not asked: {request}" for request in asked[first:last])
        yield from (f"asked besides: {request}" for request in answered[start:end])


def _values(place: str, real: Any, here: Any) -> Iterator[str]:
    if real == here:
        return
    if isinstance(real, dict) and isinstance(here, dict):
        yield from _objects(place, real, here)
        return
    if isinstance(real, list) and isinstance(here, list):
        name = next((key for key in NAMES if _told_apart(real, key) and _told_apart(here, key)), None)
        if name is not None:
            theirs, ours = ({one[name]: one for one in side} for side in (real, here))
            yield from _objects(place, theirs, ours)
            return
        if len(real) == len(here):
            for index, (one, other) in enumerate(zip(real, here, strict=True)):
                yield from _values(f"{place}.{index}", one, other)
            return
    yield f"{place}: real {_short(real)}, here {_short(here)}"


def _objects(place: str, real: dict[str, Any], here: dict[str, Any]) -> Iterator[str]:
    for key in sorted({*real, *here}):
        where = f"{place}.{key}"
        if key not in here:
            yield f"{where}: missing here, real {_short(real[key])}"
        elif key not in real:
            yield f"{where}: only here, {_short(here[key])}"
        else:
            yield from _values(where, real[key], here[key])


def _told_apart(side: list[Any], key: str) -> bool:
    names = [one.get(key) for one in side if isinstance(one, dict)]
    return len(names) == len(side) == len(set(map(repr, names))) and all(isinstance(name, str) for name in names)


def _short(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
