"""What may be held under one limit, such as the ``spec.capability`` of a queue, and how much of it is left."""

from __future__ import annotations

from collections.abc import Mapping

from unisono.cluster.podclass import PodClass
from unisono.cluster.resources import PODS, ResourceRegistry, Vector
from unisono.cluster.status import TaskStatus
from unisono.engine.answers import Refusal
from unisono.engine.session.amounts import UNLIMITED, exceeded, listed, named, text
from unisono.engine.verdict import Cause


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
        return Refusal(
            f"queue {self.name} may hold {text(registry, most, short)} and holds {text(registry, held, short)}{going}; "
            f"{text(registry, request, short)} more is asked for",
            Cause.OVER_CAPABILITY,
            need=named(registry, request, short),
            have=named(registry, held, short),
            limit=named(registry, most, short),
            owner=self.name,
        )
