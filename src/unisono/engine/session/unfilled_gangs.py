"""Admitted gangs that cannot start: what they were promised lapses, so that others can be admitted.

A quota, a missing account or a webhook may refuse the pods of a gang for ever, and pods may ask for what no node has.
Its minResources would stay promised in an idle cluster. The gang itself stays admitted, and is placed as soon as it has
its pods and nodes that take them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from unisono.cluster.records import Job
from unisono.cluster.resources import Vector, fitted
from unisono.cluster.snapshot import Snapshot
from unisono.cluster.status import READY_STATES, count

PATIENCE_SECONDS: Final = 60.0
"""How long an admitted gang may get no further pod before its promise lapses."""
HOMELESS_SECONDS: Final = 5.0
"""How long no nodes may be there that could take a gang before its promise lapses."""


class UnfilledGangs:
    """What is remembered from cycle to cycle.

    Attributes:
        seen: admitted PodGroups with fewer pods than their minimum: since when, and how many they had.
        homeless: admitted PodGroups whose pods would not start even if all nodes were empty (`closing.homeless_gangs`),
            and since when.

    """

    def __init__(self) -> None:
        self.seen: dict[str, tuple[float, int]] = {}
        self.homeless: dict[str, float] = {}


def note_unfilled(snapshot: Snapshot, now: float) -> None:
    """Follow which gangs get no pods, from cycle to cycle."""
    book = snapshot.memo.of(UnfilledGangs, UnfilledGangs)
    found: dict[str, tuple[float, int]] = {}
    jobs = snapshot.jobs
    keys: Iterable[str] = snapshot.active
    if snapshot.waiting is not None:
        keys = snapshot.waiting.but_shapes(lambda key: _unfilled(snapshot, key) is None)
    for key in keys:
        job = jobs.get(key)
        if job is None or len(job.tasks) >= job.min_member:
            continue  # nearly all
        number = _unfilled(snapshot, key)
        if number is not None:
            since, before = book.seen.get(key, (now, number))
            found[key] = (since, number) if before == number else (now, number)
    book.seen = found


def comes_later(snapshot: Snapshot, key: str, now: float) -> bool:
    """Whether an admitted gang has too few pods, and is still waited for."""
    since, number = snapshot.memo.of(UnfilledGangs, UnfilledGangs).seen.get(key, (now, -1))
    return number >= 0 and now - since < PATIENCE_SECONDS and _unfilled(snapshot, key) == number


def lapsed(snapshot: Snapshot, now: float, rows: int) -> dict[str, Vector]:
    """``[R]`` by queue: what gangs were promised for pods that have not come for too long, or that fit nowhere."""
    amounts: dict[str, Vector] = {}
    book = snapshot.memo.of(UnfilledGangs, UnfilledGangs)
    for key, (since, number) in book.seen.items():
        if now - since >= PATIENCE_SECONDS and _unfilled(snapshot, key) == number:
            job = snapshot.jobs[key]
            missing = fitted(job.min_resources, rows) - fitted(job.request, rows)  # type: ignore[arg-type]
            _add(amounts, job.queue, missing - fitted(job.elsewhere, rows))
    for key, since in book.homeless.items():
        found = snapshot.jobs.get(key)
        if now - since >= HOMELESS_SECONDS and found is not None and awaits_places(found):
            _add(amounts, found.queue, _promise_of(found, rows))
    return amounts


def awaits_places(job: Job) -> bool:
    """Whether the job is admitted, states minResources and holds nothing."""
    if not job.known or job.phase != "Inqueue" or job.min_resources is None:
        return False
    return not count(job.counts, READY_STATES)


def _promise_of(job: Job, rows: int) -> Vector:
    rest: Vector = np.maximum(fitted(job.min_resources, rows) - fitted(job.allocated, rows), 0)  # type: ignore[arg-type]
    return rest - fitted(job.gated_request, rows)


def _add(amounts: dict[str, Vector], queue: str, more: Vector) -> None:
    amounts[queue] = amounts.get(queue, np.zeros(len(more), dtype=np.int64)) + np.maximum(more, 0)


def _unfilled(snapshot: Snapshot, key: str) -> int | None:
    """How many pods an admitted gang has that has too few; None for all others."""
    job = snapshot.jobs.get(key)
    if job is None or not job.known or job.phase != "Inqueue" or job.min_resources is None:
        return None
    return len(job.tasks) if len(job.tasks) < job.min_member else None
