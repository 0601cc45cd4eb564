"""Verdicts: why a job waits, in a closed list of causes, with numbers and the cheapest change that would help."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from msgspec import Struct

from unisono.api.verdict import Cause
from unisono.engine.changes import Change

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
    found = [first]
    for part in rest:
        name, _, after = part.partition(_END)
        kind, _, key = name.rpartition(" ")
        if namespace and key.partition("/")[0] != namespace:
            name = f"a {kind or 'job'} of {ANOTHER_NAMESPACE}"
        found.append(f"{name}{after}")
    return "".join(found)


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


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds what a job waits for."""

    kind: str
    name: str
    amounts: Mapping[str, int] = field(default_factory=dict)


class Verdict(Struct, frozen=True):
    """Why one job waits.

    A struct, because each of many waiting jobs gets one that differs little from another's.

    Attributes:
        job: ``namespace/name`` of its PodGroup.
        cause: first cause.
        message: one sentence with numbers, for people.
        need, have: amounts by resource name in engine units; for gangs also ``pods``. ``have`` is what could be given.
        tasks_placeable, tasks_needed: how many tasks found a place this cycle, and how many the gang needs.
        reasons: nodes by refusal text, ``{"Insufficient nvidia.com/gpu": 5}``, for the first task that found no node.
        nodes: number of nodes looked at.
        holders: who holds it, largest first, at most a few.
        suggestion: what would start it, in words, or ``""``.
        changes: the same for programs, cheapest first; each was tried: after it, the next cycle starts the job.
        untried: further changes that should start it, or are needed to, and were not tried.
        candidates: changes that may be part of what starts it where none of ``changes`` is known to.
        position: its place in the line of its queue, 1 for the first; 0 where it stands in none.
        ahead: names of the jobs that come before it, at most a few.
        would_run_after: ``namespace/name`` of pods of lower priority, or of queues above their share, without which the
            next cycle would start it; tried as well.
        spared: why those pods are not evicted, where limits on evictions are the reason, and when they may be.
        plugins_off: plug-ins that could not be asked at all in this cycle; the job may wait because of one.
        task: ``namespace/name`` of the task that ``reasons`` speak of, or ``""``.
        queue: the job's queue.

    """

    job: str
    cause: Cause
    message: str
    need: Mapping[str, int] = {}
    have: Mapping[str, int] = {}
    tasks_placeable: int = 0
    tasks_needed: int = 0
    reasons: Mapping[str, int] = {}
    nodes: int = 0
    holders: tuple[Holder, ...] = ()
    suggestion: str = ""
    task: str = ""
    queue: str = ""
    changes: tuple[Change, ...] = ()
    untried: tuple[Change, ...] = ()
    candidates: tuple[Change, ...] = ()
    position: int = 0
    ahead: tuple[str, ...] = ()
    would_run_after: tuple[str, ...] = ()
    spared: str = ""
    plugins_off: tuple[str, ...] = ()

    @property
    def change(self) -> Change | None:
        """The cheapest change that would start the job, None where none is known."""
        return self.changes[0] if self.changes else None
