"""What limits refuse: whether they are the cluster itself, and what is left of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from unisono.engine.answers import Refusal
from unisono.engine.session.job_state import JobState
from unisono.engine.session.session import Session
from unisono.engine.verdict import Cause

LIMITS: Final = frozenset((Cause.CLUSTER_OVERCOMMITTED, Cause.OVER_CAPABILITY, Cause.OVER_SHARE))
"""Causes that speak of amounts, not of nodes."""


def is_whole_cluster(session: Session, refusal: Refusal) -> bool:
    """Whether the limit of the queue is all that the cluster has."""
    if refusal.user or refusal.cause not in (Cause.OVER_SHARE, Cause.OVER_CAPABILITY):
        return False
    short, there = shortened(refusal), session.sharable_total
    return bool(short) and all(refusal.limit[name] >= there[session.registry.requested(name)] for name in short)


def shortened(refusal: Refusal) -> list[str]:
    """Resources that are asked for and limited."""
    return [name for name in refusal.need if name in refusal.limit]


def left(refusal: Refusal) -> dict[str, int]:
    """What is left of the limit."""
    return {name: max(limit - refusal.have.get(name, 0), 0) for name, limit in refusal.limit.items()}


def binding_queue(session: Session, job: JobState, refusal: Refusal) -> str:
    """The queue whose own capability is the limit: a queue without one has that of the queues above it.

    What is guaranteed to other queues below it is not for this one.
    """
    first = refusal.owner or job.queue.name
    short, below = shortened(refusal), ""
    for name in chain(session, first):
        capability = session.queues[name].record.capability or {}
        kept = _guaranteed(session, name, below) if below else {}
        rest = {each: capability[each] - kept.get(each, 0) for each in short if each in capability}
        if short and len(rest) == len(short) and all(rest[each] <= refusal.limit[each] for each in short):
            return name
        below = name
    return first


def _guaranteed(session: Session, parent: str, but: str) -> dict[str, int]:
    """What is guaranteed to the queues right below one, without ``but``."""
    kept: dict[str, int] = {}
    for queue in session.queues.values():
        if queue.record.parent == parent and queue.name != but:
            for name, amount in (queue.record.guarantee or {}).items():
                kept[name] = kept.get(name, 0) + amount
    return kept


def guarantees_of_others(session: Session, job: JobState, names: Iterable[str]) -> list[tuple[str, dict[str, int]]]:
    """Queues beside the job's own and those above it, with what is guaranteed to them of these resources."""
    names, own, guarantees = list(names), set(chain(session, job.queue.name)), []
    for queue in session.queues.values():
        kept = {each: amount for each in names if (amount := (queue.record.guarantee or {}).get(each, 0))}
        if kept and queue.name not in own and job.queue.name not in chain(session, queue.name):
            guarantees.append((queue.name, kept))
    return guarantees


def chain(session: Session, name: str) -> Iterable[str]:
    """A queue that exists and those above it."""
    seen: set[str] = set()
    while name in session.queues and name not in seen:
        seen.add(name)
        yield name
        name = session.queues[name].record.parent
