"""Publishes verdicts: the latest per PodGroup in memory, and as JSON in an annotation that any client can read."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import msgspec

from unisono.engine.verdict import Verdict
from unisono.engine.verdicts.changes import Change

_MAX_BYTES = 4096
_MAX_TEXT = 1000
_MAX_ENTRIES = 12
_MAX_HOLDERS = 5
_MAX_PODS = 16


def render(verdict: Verdict) -> str:
    """One verdict as compact JSON of at most 4 KB.

    Keys are those of `Verdict` in camelCase: ``job, cause, message, need, have, tasksPlaceable, tasksNeeded, reasons,
    nodes, holders [{kind, name, amounts}], suggestion, change, otherwise, wouldRunAfter, spared, pluginsOff, task,
    queue``; empty ones are left out. Amounts are in engine units (CPU in milli-cores, memory in bytes, other resources
    in thousandths). ``change`` is one of `unisono.engine.verdicts.changes` with its name as ``kind``, ``otherwise`` a
    list of further ones.
    """
    value = {
        "job": verdict.job,
        "cause": verdict.cause.value,
        "message": _cut(verdict.message),
        "need": dict(verdict.need),
        "have": dict(verdict.have),
        "tasksPlaceable": verdict.tasks_placeable,
        "tasksNeeded": verdict.tasks_needed,
        "reasons": _largest(verdict.reasons),
        "nodes": verdict.nodes,
        "holders": [
            {"kind": holder.kind, "name": holder.name, "amounts": dict(holder.amounts)}
            for holder in verdict.holders[:_MAX_HOLDERS]
        ],
        "suggestion": _cut(verdict.suggestion),
        "change": _change(verdict.changes[0]) if verdict.changes else {},
        "otherwise": [_change(change) for change in verdict.changes[1:]],
        "wouldRunAfter": list(verdict.would_run_after[:_MAX_PODS]),
        "wouldRunAfterCount": len(verdict.would_run_after) if len(verdict.would_run_after) > _MAX_PODS else "",
        "spared": _cut(verdict.spared),
        "pluginsOff": list(verdict.plugins_off[:_MAX_ENTRIES]),
        "task": verdict.task,
        "queue": verdict.queue,
    }
    value = {key: item for key, item in value.items() if item not in ("", {}, [])}
    # The parts that can grow are given up one by one, the least needed first.
    for expendable in ("otherwise", "holders", "wouldRunAfter", "reasons", "change", "have", "need"):
        if len(text := _encode(value)) <= _MAX_BYTES:
            return text
        value.pop(expendable, None)
    return _encode(value)


def material(text: str | None) -> tuple[Any, ...]:
    """What of a published verdict counts as a change that must be shown at once; numbers may wobble."""
    if not text:
        return ()
    try:
        value = msgspec.json.decode(text)
        return (value.get("cause"), value.get("queue"), tuple(sorted(value.get("reasons") or ())))
    except (msgspec.DecodeError, AttributeError, TypeError):
        # Someone else wrote the annotation; ours replaces it.
        return ("unreadable",)


class VerdictBook:
    """Latest verdict of every job that waits."""

    def __init__(self) -> None:
        self._verdicts: dict[str, Verdict] = {}

    def replace(self, verdicts: Mapping[str, Verdict]) -> None:
        """Take over the verdicts of a cycle; jobs without one do not wait any more."""
        self._verdicts = dict(verdicts)

    def get(self, job: str) -> Verdict | None:
        """Verdict of a PodGroup (``namespace/name``)."""
        return self._verdicts.get(job)

    def text(self, job: str) -> str | None:
        """The annotation's value for a PodGroup, None when it does not wait."""
        verdict = self._verdicts.get(job)
        return None if verdict is None else render(verdict)

    def jobs(self) -> list[str]:
        """Keys of the jobs that wait."""
        return list(self._verdicts)

    def __len__(self) -> int:
        """Number of jobs that wait."""
        return len(self._verdicts)


def _encode(value: Mapping[str, Any]) -> str:
    return msgspec.json.encode(value, order="deterministic").decode()


def _change(change: Change) -> dict[str, Any]:
    """``{"kind": "AddNodes", "like": "n1", "count": 2}``."""
    fields = {one.name: getattr(change, one.name) for one in dataclasses.fields(change)}
    return {"kind": type(change).__name__} | {
        name: dict(value) if isinstance(value, Mapping) else list(value) if isinstance(value, tuple) else value
        for name, value in fields.items()
    }


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 3] + "..."


def _largest(reasons: Mapping[str, int]) -> dict[str, int]:
    ordered = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    return dict(ordered[:_MAX_ENTRIES])
