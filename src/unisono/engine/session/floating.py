"""Limits on floating resources, such as licences: one for each over all jobs, and what jobs hold of them as a whole.

What pods request of a floating resource is part of their vector, so its limit is followed as the capability of a queue
is. What a job asks for as a whole comes once, with the first of its pods that gets a place, and goes with the last.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from unisono.api.licenses import short
from unisono.api.resources import amounts_text
from unisono.cluster.floating import NO_FLOATING, Floating
from unisono.cluster.job_licenses import leave_together
from unisono.cluster.podclass import PodClass
from unisono.cluster.resources import Vector, fitted
from unisono.cluster.snapshot import Snapshot
from unisono.cluster.status import CLAIMS, HOLDS, TaskStatus
from unisono.engine.answers import Refusal
from unisono.engine.session.limit import UNLIMITED, Excess, Limit, exceeded, listed
from unisono.engine.verdict import Cause

if TYPE_CHECKING:
    from unisono.cluster.resources import ResourceRegistry
    from unisono.engine.session.job_state import JobState


class FloatingLimit(Limit):
    """How much of a floating resource all jobs together may hold.

    Attributes:
        row: of the resource.
        floating: its record as it counts at the time of the session.
    """

    __slots__ = ("floating", "row")

    def __init__(self, row: int, floating: Floating, registry: ResourceRegistry) -> None:
        super().__init__(registry.names[row], {row: floating.most}, registry)
        self.row = row
        self.floating = floating

    def refusal(self, pod_class: PodClass, *, now: bool) -> Refusal:
        """That it has too few left for one more task of the class."""
        need = int(pod_class.vector[self.row]) if self.row < len(pod_class.vector) else 0
        return self.short_of(need, now=now)

    def short_of(self, need: int, *, now: bool) -> Refusal:
        """That it has less than ``need`` (engine units) left."""
        held = int(self.held[self.row]) + (int(self.leaving[self.row]) if now else 0)
        most, name = self.most[self.row], self.name
        return Refusal(
            shortage_text(self.floating, name, need, held), Cause.LICENSES, {name: need}, {name: held}, {name: most}
        )


def shortage_text(floating: Floating, name: str, need: int, held: int) -> str:
    """``needs 2 of matlab; of 10 there are 9 held and 0 elsewhere``."""
    short_name = short(name)
    if floating.problem:
        return f"needs {_number(need)} of {short_name}, and nothing starts with it: {floating.problem}"
    where = f", {_number(floating.elsewhere)} outside of this cluster" if floating.elsewhere else ""
    there = f"there are {_number(floating.amount)}, and {_number(held)} are held{where}"
    return f"needs {_number(need)} of {short_name}: {there}"


def _number(amount: int) -> str:
    return amounts_text({"": amount}).strip()


def floating_limits(snapshot: Snapshot, now: float, queues: Collection[str]) -> tuple[FloatingLimit, ...]:
    """A limit for each floating resource that anybody asks for, with what is held."""
    registry, nodes, limits = snapshot.registry, snapshot.nodes, list[FloatingLimit]()
    for row in registry.floating:
        floating = nodes.floating.get(row, NO_FLOATING).at(now)
        limit = FloatingLimit(row, floating, registry)
        limit.family = list(queues)
        leaving = int(nodes.releasing[row].sum())
        limit.held[row] = int(nodes.used[row].sum()) - leaving + floating.by_jobs
        limit.leaving[row] = leaving
        limits.append(limit)
    for key in snapshot.licensed:
        job = snapshot.jobs[key]
        if job.license_vector is not None and leave_together(job):
            for limit in limits:
                held = int(job.license_vector[limit.row])
                limit.held[limit.row] -= held
                limit.leaving[limit.row] += held
    return tuple(limits)


_KEEPS = [bool(CLAIMS[status]) or status is TaskStatus.UNKNOWN for status in TaskStatus]
"""By status: whether a pod keeps, or will keep, what its job holds as a whole."""


class GangLicenses(Limit):
    """What one job asks for as a whole, followed through a session.

    It is a limit of that job alone: it has room for any number of pods once one has its place, and for none where
    the limits behind it have too little left for what the job asks for.

    Attributes:
        job: whose.
        vector: ``[R]`` what it asks for once.
        moved: 1 where the last pods that moved brought it, -1 where they took it away, else 0.
    """

    __slots__ = ("_here", "job", "moved", "vector")

    def __init__(self, job: JobState, vector: Vector, registry: ResourceRegistry) -> None:
        super().__init__(job.key, {}, registry)
        self.family = []
        self.job = job
        self.vector = fitted(vector, len(registry))
        self.moved = 0
        self._here = self._claims()

    def _claims(self) -> tuple[bool, bool]:
        """Whether a pod of the job has or was promised a place, and whether one has."""
        kept, held = (
            any(number and counts for number, counts in zip(self.job.counts, by_status, strict=True))
            for by_status in (_KEEPS, HOLDS)
        )
        return kept, held

    def move(self, amounts: Vector, old: TaskStatus, new: TaskStatus) -> None:
        """Pods of the job came, left or are back; with the first and the last of them its licences do."""
        del amounts
        before, self._here = self._here, self._claims()
        claimed, held = (after - earlier for after, earlier in zip(self._here, before, strict=True))
        self.moved = claimed
        if not claimed and not held:
            return
        queue = self.job.queue
        queue.claimed += self.vector * np.int64(claimed)
        queue.allocated += self.vector * np.int64(held)
        self.job.hold(self, claimed=claimed, allocated=held)
        for limit in self._behind() if claimed else ():
            limit.move(self.vector * np.int64(claimed), old, new)

    def _behind(self) -> list[Limit]:
        return [limit for limit in self.job.limits if limit is not self]

    def room(self, pod_class: PodClass, *, now: bool) -> int:
        """As many as there is room for beside what comes with the first of them; any number once it is held.

        What was promised to a pod of the job for later is not there for another one that starts now.
        """
        if self._is_settled(now=now):
            return UNLIMITED
        if self._is_unheard_of():
            return 0
        parts = (self._room_in(limit, pod_class, now=now) for limit in self._behind())
        return min(parts, default=UNLIMITED)

    def _room_in(self, limit: Limit, pod_class: PodClass, *, now: bool) -> int:
        least, size, lacks = UNLIMITED, len(pod_class.vector), self.lacks()
        for row, most in limit.most.items():
            once = int(self.vector[row])
            if not once:
                continue
            free = most - int(limit.held[row]) - (int(limit.leaving[row]) if now else 0) - (once if lacks else 0)
            each = int(pod_class.vector[row]) if row < size else 0
            least = min(least, -1 if free < 0 else free // each if each else UNLIMITED)
        return max(least, 0)

    def refusal(self, pod_class: PodClass, *, now: bool) -> Refusal:
        """Which limit has too little left for one pod and what comes with it."""
        limit, registry = self.lacking(pod_class, now=now)[0], self.registry
        request = listed(self.vector + fitted(pod_class.vector, len(self.vector)), registry)
        if isinstance(limit, FloatingLimit):
            return limit.short_of(request[limit.row], now=now)
        held = listed(limit.held + limit.leaving if now else limit.held, registry)
        most = [limit.most.get(row, UNLIMITED) for row in range(len(held))]
        excess = Excess(registry, exceeded(held, request, most), request, held, most)
        return excess.full(limit.name, owner=limit.name)

    def lacks(self) -> bool:
        """Whether the job does not hold it, and was not promised it."""
        return not self._here[0]

    def _is_settled(self, *, now: bool) -> bool:
        """Whether the limits behind it need not be asked: it is held, or promised where it is for later."""
        counts = self.job.counts
        holds = any(number and held for number, held in zip(counts, HOLDS, strict=True))
        return holds or bool(counts[TaskStatus.UNKNOWN]) or (self._here[0] and not now)

    def _is_unheard_of(self) -> bool:
        unlisted = self.registry.unlisted
        return unlisted is not None and bool(self.vector[unlisted])

    def lacking(self, pod_class: PodClass, *, now: bool) -> list[Limit]:
        """The limits that have too little left for it and one pod; none once the job holds it."""
        if self._is_settled(now=now):
            return []
        if self._is_unheard_of() and self.registry.unlisted is not None:
            return [FloatingLimit(self.registry.unlisted, NO_FLOATING, self.registry)]
        return [limit for limit in self._behind() if not self._room_in(limit, pod_class, now=now)]


def held_as_whole(job: JobState) -> list[int]:
    """Rows of floating resources that a job holds as a whole."""
    for limit in job.account_limits:
        if isinstance(limit, GangLicenses):
            return [int(row) for row in np.flatnonzero(limit.vector)]
    return []
