"""What may be held under one limit, and helpers on amounts that quota plug-ins share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from unisono.api.resources import readable
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Job
from unisono.cluster.resources import PODS, Matrix, ResourceRegistry, Vector, fitted
from unisono.cluster.status import TaskStatus
from unisono.engine.answers import Refusal
from unisono.engine.verdict import Cause

# Helpers on resource amounts that quota plug-ins share.
#
# Clusters have a handful of resources, and quota is asked about once per job: plain lists of whole numbers by resource
# row are several times faster here than arrays.

Amounts = list[int]
"""Engine units by resource row, one entry per row of the registry."""

UNLIMITED = 2**62
"""Stands for "no limit"."""


def aligned(vector: Vector, registry: ResourceRegistry) -> Vector:
    """``vector`` with as many rows as the registry has."""
    return fitted(vector, len(registry))


def listed(vector: Vector, registry: ResourceRegistry) -> Amounts:
    """A vector as a list with one entry per row of the registry."""
    amounts: Amounts = vector.tolist()
    return amounts + [0] * (len(registry) - len(amounts))


def by_row(amounts: Mapping[str, int] | None, registry: ResourceRegistry, default: int = 0) -> Amounts:
    """Amounts by name as a list, ``default`` for what is not named; names without a row are left out."""
    result = [default] * len(registry)
    for name, amount in (amounts or {}).items():
        row = registry.find(name)
        if row is not None:
            result[row] = amount
    return result


def tasks_fitting(free: Matrix, pod_class: PodClass) -> Vector:
    """``[M]`` how many tasks of the class fit into each column of ``free`` (``[R, M]``)."""
    each = np.maximum(free[pod_class.rows], 0) // pod_class.amounts[:, None]
    return np.asarray(each.min(axis=0), dtype=np.int64)


def exceeded(taken: Sequence[int], request: Sequence[int], limit: Sequence[int]) -> list[int]:
    """Rows that are asked for and in which ``taken`` plus ``request`` is above ``limit``; ``pods`` never counts."""
    return [
        row
        for row, (held, more, most) in enumerate(zip(taken, request, limit, strict=True))
        if more > 0 and held + more > most and row != PODS
    ]


def dominant_share(held: Sequence[int], total: Sequence[int]) -> float:
    """Largest ``held / total`` over the resources of which there is any."""
    return max([mine / whole for mine, whole in zip(held, total, strict=True) if whole > 0], default=0.0)


def share_asked_for(job: Job, registry: ResourceRegistry, total: Sequence[int]) -> float:
    """The dominant share of what a job asks for and does not hold; of minResources where it has no pods yet."""
    asked = aligned(job.request, registry)
    if job.min_resources is not None:
        asked = np.maximum(asked, aligned(job.min_resources, registry))
    return dominant_share(np.maximum(asked - aligned(job.allocated, registry), 0).tolist(), total)


def named(registry: ResourceRegistry, amounts: Sequence[int], rows: Sequence[int]) -> dict[str, int]:
    """Amounts of ``rows`` by resource name, zeros included."""
    return {registry.names[row]: amounts[row] for row in rows}


def text(registry: ResourceRegistry, amounts: Sequence[int], rows: Sequence[int]) -> str:
    """``cpu 4, memory 8Gi``."""
    return ", ".join(f"{name} {amount}" for name, amount in readable(named(registry, amounts, rows)).items())


@dataclass(frozen=True, slots=True)
class Excess:
    """Rows in which a request does not fit beside what is held under a limit; amounts are by row.

    Attributes:
        registry: names the rows.
        rows: those in which it does not fit.
        request: what is asked for.
        held: what is taken already.
        most: the limit.
    """

    registry: ResourceRegistry
    rows: Sequence[int]
    request: Amounts
    held: Amounts
    most: Amounts

    def names(self, how: str) -> str:
        """``insufficient cpu, insufficient memory``."""
        return ", ".join(f"{how} {self.registry.names[row]}" for row in self.rows)

    def refusal(self, message: str, cause: Cause, *, owner: str = "", event: bool = False) -> Refusal:
        """A refusal with the amounts of these rows."""
        need, have, limit = (named(self.registry, each, self.rows) for each in (self.request, self.held, self.most))
        return Refusal(message, cause, need, have, limit, event, owner)

    def full(self, name: str, cause: Cause = Cause.OVER_CAPABILITY, *, owner: str = "", going: str = "") -> Refusal:
        """That queue ``name`` holds too much for the request."""
        asked, held, most = (text(self.registry, each, self.rows) for each in (self.request, self.held, self.most))
        message = f"queue {name} may hold {most} and holds {held}{going}; {asked} more is asked for"
        return self.refusal(message, cause, owner=owner)


# What may be held under one limit, such as the ``spec.capability`` of a queue, and how much of it is left.


class Limit:
    """The capability of one queue, followed through a session; plug-ins limit other accounts in the same way.

    Attributes:
        name: of the queue.
        family: the queue and all below it; empty where the promises of no queue as a whole count.
        most: engine units by resource row, for the resources that are limited.
        held: ``[R]`` what it will hold once those that leave are gone.
        leaving: ``[R]`` what pods hold that terminate, or that this session evicts.
    """

    __slots__ = ("family", "held", "leaving", "most", "name", "registry")

    def __init__(self, name: str, most: Mapping[int, int], registry: ResourceRegistry) -> None:
        self.name = name
        self.family: list[str] = [name]
        self.most = most
        self.registry = registry
        self.held: Vector = registry.zeros()
        self.leaving: Vector = registry.zeros()

    def move(self, amounts: Vector, old: TaskStatus, new: TaskStatus) -> None:
        """Pods came, left or are back; ``amounts`` is below 0 when they left."""
        self.held += amounts
        if TaskStatus.RELEASING in (old, new):
            self.leaving -= amounts

    def room(self, pod_class: PodClass, *, now: bool) -> int:
        """How many more tasks of the class; ``now`` without what is leaving."""
        least = UNLIMITED
        for row, need in zip(pod_class.rows.tolist(), pod_class.amounts.tolist(), strict=True):
            if row in self.most and need:
                free = self.most[row] - int(self.held[row]) - (int(self.leaving[row]) if now else 0)
                least = min(least, max(free, 0) // need)
        return least

    def refusal(self, pod_class: PodClass, *, now: bool) -> Refusal:
        """That it has no room for one more task of the class, in words and amounts."""
        registry = self.registry
        most = [self.most.get(row, UNLIMITED) for row in range(len(self.held))]
        held = listed(self.held + self.leaving if now else self.held, registry)
        request = listed(pod_class.vector, registry)
        short = exceeded(held, request, most)
        if request[PODS] and held[PODS] + request[PODS] > most[PODS]:  # of which only capabilities speak
            short.append(PODS)
        going = ", terminating pods included" if now else ""
        return Excess(registry, short, request, held, most).full(self.name, owner=self.name, going=going)


@dataclass(frozen=True, slots=True, eq=False)
class Allowance:
    """What may still be made and let in for an account, such as a namespace with a ResourceQuota.

    Pods that are there already are not bound by it, which is what tells it from a `Limit`.

    Attributes:
        left: engine units by resource row, of what jobs ask for beyond the pods that they have.
        jobs: how many more jobs may be admitted; None: any number.
    """

    left: Mapping[int, int]
    jobs: int | None = None
