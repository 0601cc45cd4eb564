"""Verdicts: why a job waits, in a closed list of causes, with numbers and the cheapest change that would help."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from unisono.api import verdict as wire
from unisono.api.verdict import Cause, Holder
from unisono.engine.changes import KINDS, Change

__all__ = ["ANOTHER_NAMESPACE", "Cause", "Holder", "Verdict"]

ANOTHER_NAMESPACE = "another namespace"
"""Stands for the names of other namespaces' objects where a job's owner may not learn them."""

_BEGIN, _END = "\ue000", "\ue001"
"""Around a reference in a text that is not yet for readers; no name and no field that the API accepts has them."""


def reference(key: str, kind: str = "") -> str:
    """An object of a namespace (``ns/name``) in a text: ``shown`` writes its name out, or hides it."""
    return f"{_BEGIN}{f'{kind} ' if kind else ''}{key}{_END}"


def has_references(text: str) -> bool:
    """Whether a text is not for readers yet."""
    return _BEGIN in text


def shown(text: str, namespace: str = "") -> str:
    """A text for readers: of objects outside of ``namespace`` only the kind is told (empty: all are named)."""
    first, *rest = text.split(_BEGIN)
    parts = [first]
    for part in rest:
        name, _, after = part.partition(_END)
        kind, _, key = name.rpartition(" ")
        if namespace and key.partition("/")[0] != namespace:
            name = f"a {kind or 'job'} of {ANOTHER_NAMESPACE}"
        parts.append(f"{name}{after}")
    return "".join(parts)


@dataclass(frozen=True, slots=True)
class Asked:
    """Jobs that are asked for, in place of all that wait.

    Attributes:
        wants: whether a job is one of them, by the key of its PodGroup.
        seconds: how long changes may be tried for them together, whatever that costs; 0: for what it costs in any
            cycle, which is little where many jobs wait.
    """

    wants: Callable[[str], bool]
    seconds: float = 0.0


class Verdict(wire.Verdict, frozen=True):
    """Why one job waits, as it is known in the engine: its changes are not yet put into JSON.

    Attributes:
        changes: what would start it, cheapest first; each was tried: after it, the next cycle starts the job.
        untried: further changes that should start it, or are needed to, and were not tried.
        candidates: changes that may be part of what starts it where none of ``changes`` is known to.
    """

    changes: tuple[Change, ...] = ()
    untried: tuple[Change, ...] = ()
    candidates: tuple[Change, ...] = ()  # type: ignore[assignment]

    def told(self) -> wire.Verdict:
        """The verdict in JSON's types, each change with its class name as ``kind``."""
        changes = [_change(change) for change in self.changes]
        changes += [{**_change(change), "tried": False} for change in self.untried]
        fields = {name: getattr(self, name) for name in wire.Verdict.__struct_fields__}
        fields |= {"cause": str(self.cause), "candidates": tuple(map(_change, self.candidates))}
        return wire.Verdict(**fields | {"change": changes[0] if changes else {}, "otherwise": tuple(changes[1:])})


def _change(change: Change) -> dict[str, Any]:
    """``{"kind": "AddNodes", "like": "n1", "count": 2}``; combined ones have theirs in ``changes``."""
    fields = {one.name: _plain(getattr(change, one.name)) for one in structs.fields(change)}
    return {"kind": type(change).__name__} | fields


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple):
        return [one if isinstance(one, str) else _change(one) for one in value]
    return value


_BY_NAME = {one.__name__: one for one in KINDS}


def change_of(told: Mapping[str, Any]) -> Change | None:
    """The change of which this is the JSON; None for a kind, or fields, that this version does not know."""
    kind = _BY_NAME.get(str(told.get("kind")))
    names = kind.__struct_fields__ if kind is not None else ()
    given = {key: _given(value) for key, value in told.items() if key in names}
    if kind is None or given.keys() != set(names) or None in (given.get("changes") or ()):
        return None
    change: Change = kind(**given)
    return change


def _given(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(change_of(one) if isinstance(one, Mapping) else one for one in value)
    return value
