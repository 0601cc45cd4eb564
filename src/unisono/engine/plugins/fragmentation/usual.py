"""Which pods are usual: those that are there, those seen so far, or those that the configuration lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from unisono.api.core import PodSpec
from unisono.cluster.podclass import PodClass
from unisono.cluster.status import COMPLETED_STATES
from unisono.engine.plugins.deviceshare.book import FamilyBook
from unisono.engine.plugins.fragmentation.workload import Item, item_of
from unisono.engine.session.session import Session

Items = Counter[Item]

_MEMORY = 20_000
"""Pods after which the counts of those seen so far are halved, so that the mix follows what users do now."""
_GROWTH = 2
"""The mix is taken again when so many times as many pods have been seen."""


def present(session: Session, resource: str, books: Sequence[FamilyBook]) -> Items:
    """The unfinished pods of the cluster, waiting and running."""
    numbers: Counter[PodClass] = Counter(
        task.pod_class for task in session.snapshot.tasks.values() if task.status not in COMPLETED_STATES
    )
    return _items(numbers, resource, books)


def _items(numbers: Mapping[PodClass, int], resource: str, books: Sequence[FamilyBook]) -> Items:
    items: Items = Counter()
    for pod_class, number in numbers.items():
        items[item_of(pod_class, resource, books)] += number
    return items


class Seen:
    """What pods asked for that this scheduler has dealt with so far, kept from cycle to cycle.

    Pods that wait in a cycle for the first time count from the next cycle on, so that a decision depends on nothing
    but what came before it. The mix stays as it is until twice as many pods have been seen, so that scores stay as
    well. A scheduler that has just started begins with the pods that are there.
    """

    def __init__(self) -> None:
        self._counts: Items = Counter()
        self._known: set[tuple[str, str]] = set()
        self._next = 0
        self._total = 0
        self.mix: Items = Counter()

    def look(self, session: Session, resource: str, books: Sequence[FamilyBook]) -> Items:
        """The mix that holds for this session; takes note of its waiting pods."""
        first = not self._total
        if not first and self._total >= self._next:
            self._take()
        tasks = session.snapshot.tasks
        fresh: Counter[PodClass] = Counter()
        waiting = (task for job in session.active for task in job.record.pending.values())
        for task in tasks.values() if first else waiting:
            pod = (task.key, task.uid)
            if pod not in self._known and task.status not in COMPLETED_STATES:
                self._known.add(pod)
                fresh[task.pod_class] += 1
        self._counts.update(_items(fresh, resource, books))
        self._total += fresh.total()
        if first:
            self._take()
        self._forget(session)
        return self.mix

    def _take(self) -> None:
        self.mix = self._counts.copy()
        self._next = _GROWTH * self._total + 1
        if self._total > _MEMORY:
            self._counts = Counter({item: number // 2 for item, number in self._counts.items() if number > 1})
            self._total = self._counts.total()
            self._next = _GROWTH * self._total + 1

    def _forget(self, session: Session) -> None:
        tasks = session.snapshot.tasks
        if len(self._known) > 1000 + 2 * len(tasks):
            self._known &= {(task.key, task.uid) for task in tasks.values()}


class GivenUsual:
    """Pods that the configuration lists, each with a number and the spec of a pod.

    Raises:
        ValueError: an entry cannot be read; the message says which.

    """

    def __init__(self, given: Sequence[Any]) -> None:
        self._entries: list[tuple[int, PodSpec]] = []
        for number, entry in enumerate(given):
            try:
                self._entries.append((int(entry["pods"]), msgspec.convert(entry["spec"], PodSpec)))
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(f"entry {number} must have pods (a number) and spec (of a pod): {error}") from error

    def items(self, session: Session, resource: str, books: Sequence[FamilyBook]) -> Items:
        """Them as items."""
        items: Items = Counter()
        for at, (number, spec) in enumerate(self._entries):
            pod_class = PodClass(-1 - at, spec, session.registry)
            items[item_of(pod_class, resource, books)] += number
        return items
