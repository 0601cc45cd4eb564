"""Admitted gangs whose pods do not come: what they were promised lapses, so that others can be admitted.

A quota, a missing account or a webhook may refuse the pods of a gang for ever. Its minResources would stay promised in
an idle cluster. The gang itself stays admitted, and is placed as soon as it has its pods.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from unisono.cluster.resources import Vector, fitted
from unisono.cluster.snapshot import Snapshot

PATIENCE_SECONDS: Final = 60.0
"""How long an admitted gang may get no further pod before its promise lapses."""


class UnfilledGangs:
    """Admitted PodGroups with fewer pods than their minimum: since when, and how many they had."""

    def __init__(self) -> None:
        self.seen: dict[str, tuple[float, int]] = {}


def note_unfilled(snapshot: Snapshot, now: float) -> None:
    """Follow which gangs get no pods, from cycle to cycle."""
    book = snapshot.memo.of(UnfilledGangs, UnfilledGangs)
    found: dict[str, tuple[float, int]] = {}
    for key in snapshot.active:
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
    """``[R]`` by queue: what gangs were promised for pods that have not come for too long."""
    amounts: dict[str, Vector] = {}
    for key, (since, number) in snapshot.memo.of(UnfilledGangs, UnfilledGangs).seen.items():
        if now - since < PATIENCE_SECONDS or _unfilled(snapshot, key) != number:
            continue
        job = snapshot.jobs[key]
        missing = np.maximum(fitted(job.min_resources, rows) - fitted(job.request, rows), 0)  # type: ignore[arg-type]
        amounts[job.queue] = amounts.get(job.queue, np.zeros(rows, dtype=np.int64)) + missing
    return amounts


def _unfilled(snapshot: Snapshot, key: str) -> int | None:
    """How many pods an admitted gang has that has too few; None for all others."""
    job = snapshot.jobs.get(key)
    if job is None or not job.known or job.phase != "Inqueue" or job.min_resources is None:
        return None
    return len(job.tasks) if len(job.tasks) < job.min_member else None
