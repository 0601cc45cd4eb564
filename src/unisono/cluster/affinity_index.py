"""Which pods stand where, for those who look at pods: counts per selector, held term and node.

Only pods that some selector selects, or that hold terms of their own, are counted; in a cluster without affinity and
spread this costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TypeVar

from unisono.api.keys import GROUP_NAME
from unisono.cluster.records import Task
from unisono.cluster.selectors import Held, Match, Selector, SelectorBook
from unisono.cluster.status import ON_NODE_STATES, TaskStatus

K = TypeVar("K", bound=Hashable)
L = TypeVar("L", bound=Hashable)
PerNode = dict[str, int]


class AffinityIndex:
    """Counts of pods on nodes, and an index of pods by the labels that selectors ask for.

    Attributes:
        selectors: all interned selectors.
        selected: by selector id and node name: pods there, terminating ones included.
        leaving: the terminating ones of them.
        holders: by held term and node name: pods that hold it there.
        held_by: by selector id: terms of that selector that pods hold, placed or pending, and how many pods.
        volume_users: by node name and volume claim: pods there that mount it.
    """

    def __init__(self, selectors: SelectorBook) -> None:
        self.selectors = selectors
        self.selected: dict[int, PerNode] = {}
        self.leaving: dict[int, PerNode] = {}
        self.holders: dict[Held, PerNode] = {}
        self.held_by: dict[int, dict[Held, int]] = {}
        self.volume_users: dict[str, dict[str, int]] = {}
        self._watched: dict[str, dict[str, dict[str, Task]]] = {}

    # ---- pods come and go

    def add(self, task: Task) -> None:
        """A pod is known now."""
        if self._watched:
            self._index(task, present=True)
        if task.pod_class.base is task.pod_class:  # nothing ties it to others
            return
        self._count(task, 1)
        for held in task.pod_class.terms.held:
            _move(self.held_by, held.term.selector, held, 1)

    def remove(self, task: Task) -> None:
        """A pod is gone, or about to change."""
        if self._watched:
            self._index(task, present=False)
        if task.pod_class.base is task.pod_class:
            return
        self._count(task, -1)
        for held in task.pod_class.terms.held:
            _move(self.held_by, held.term.selector, held, -1)

    def clear_pods(self) -> None:
        """Forget all pods; selectors stay."""
        for counts in (self.selected, self.leaving, self.holders, self.held_by, self.volume_users):
            counts.clear()
        for by_value in self._watched.values():
            by_value.clear()

    def _count(self, task: Task, sign: int) -> None:
        pod_class = task.pod_class
        if pod_class.base is pod_class or not task.node or task.status not in ON_NODE_STATES:
            return
        leaving = task.status is TaskStatus.RELEASING
        for selector in pod_class.matched:
            _move(self.selected, selector, task.node, sign)
            if leaving:
                _move(self.leaving, selector, task.node, sign)
        for held in pod_class.terms.held:
            _move(self.holders, held, task.node, sign)
        for claim in pod_class.volumes:
            _move(self.volume_users, task.node, claim, sign)

    # ---- pods by label

    def _index(self, task: Task, *, present: bool) -> None:
        labels = task.seen if GROUP_NAME in self._watched else task.labels
        for key in self._watched.keys() & labels.keys():
            by_value, value = self._watched[key], labels[key]
            if present:
                by_value.setdefault(value, {})[task.key] = task
                continue
            tasks = by_value.get(value, {})
            tasks.pop(task.key, None)
            if not tasks:
                by_value.pop(value, None)

    def _watch(self, key: str, tasks: Mapping[str, Task]) -> dict[str, dict[str, Task]]:
        by_value = self._watched.get(key)
        if by_value is None:
            by_value = self._watched[key] = {}
            for task in tasks.values():
                labels = task.seen if key == GROUP_NAME else task.labels
                if key in labels:
                    by_value.setdefault(labels[key], {})[task.key] = task
        return by_value

    def candidates(self, selectors: Iterable[Selector], tasks: Mapping[str, Task]) -> list[Task]:
        """Pods that one of ``selectors`` may select."""
        pods_by_key: dict[str, Task] = {}
        for selector in selectors:
            anchor = selector.anchor
            if anchor is None:
                return list(tasks.values())
            if isinstance(anchor, str):
                for held in self._watch(anchor, tasks).values():
                    pods_by_key.update(held)
                continue
            for key, value in anchor:
                pods_by_key.update(self._watch(key, tasks).get(value, {}))
        return list(pods_by_key.values())

    def settle(self, tasks: Mapping[str, Task], reclass: Callable[[Task, Match], None]) -> None:
        """Tell ``reclass`` of every pod that is selected by selectors that came after the pod, and by which in all."""
        fresh = self.selectors.take_fresh()
        if not fresh:
            return
        matches: dict[tuple[str, frozenset[tuple[str, str]]], Match] = {}
        seen: dict[str, bool] = {}
        for task in self.candidates(fresh, tasks):
            near = seen.get(task.namespace)
            if near is None:
                near = seen[task.namespace] = any(one.sees(task.namespace, self.selectors.labels_of) for one in fresh)
            if not near:
                continue
            labels = task.seen if self.selectors.by_gang else task.labels
            alike = task.namespace, frozenset(labels.items())
            match = matches.get(alike)
            if match is None:
                match = matches[alike] = self.selectors.matching(task.namespace, labels)
            if match is not task.pod_class.matched and match != task.pod_class.matched:
                reclass(task, match)

    def forget(self, selectors: Iterable[int]) -> None:
        """These selectors were freed: no pod holds a term of theirs, and no pod is counted for them any more."""
        for number in selectors:
            self.selected.pop(number, None)
            self.leaving.pop(number, None)
        for key in self._watched.keys() - self.selectors.label_keys():
            del self._watched[key]


def rematched(task: Task, selectors: SelectorBook) -> frozenset[int] | None:
    """The selectors that select a pod now; None when its class knows them already."""
    matched = selectors.matching(task.namespace, task.seen if selectors.by_gang else task.labels)
    return None if matched == task.pod_class.matched else matched


def _move(book: dict[K, dict[L, int]], key: K, what: L, sign: int) -> None:
    counts = book.setdefault(key, {})
    number = counts.get(what, 0) + sign
    if number:
        counts[what] = number
    else:
        del counts[what]
        if not counts:
            del book[key]
