"""Pods that keep off each other's cards: rules over labels, each of which lets one of its pods use a card."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.cluster.status import TaskStatus
from unisono.engine.session.job_state import JobState

Rules = tuple[frozenset[tuple[str, str]], ...]
"""Per rule the labels that a pod must have, all of them, to be one of its pods."""
Numbers = frozenset[int]
"""Rules by their position in the configuration."""

NONE: Numbers = frozenset()


def read_rules(given: Iterable[object]) -> Rules:
    """Rules as the configuration lists them: maps of labels.

    Raises:
        ValueError: an entry is no map of texts, or is empty (it would keep all pods apart); the message says which.

    """
    rules = []
    for number, entry in enumerate(given):
        if not isinstance(entry, Mapping) or not entry:
            raise ValueError(f"entry {number} must be a map with at least one label, such as {{team: a}}")
        if not all(isinstance(key, str) and isinstance(value, str) for key, value in entry.items()):
            raise ValueError(f"entry {number}: labels and their values must be texts; put quotes around numbers")
        rules.append(frozenset(entry.items()))
    return tuple(rules)


class Exclusive:
    """Which cards pods of each rule use, for one family in one session."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._cards: dict[int, Counter[tuple[int, int]]] = {}

    def of_pod(self, task: Task) -> Numbers:
        """The rules that a pod falls under."""
        if not self._rules:
            return NONE
        labels = task.labels.items()
        return frozenset(number for number, rule in enumerate(self._rules) if rule <= labels)

    def of_class(self, job: JobState | None, pod_class: PodClass) -> Numbers:
        """The rules that any waiting pod of a class in a job falls under; pods of one role have the same labels."""
        if not self._rules or job is None:
            return NONE
        found: set[int] = set()
        for task in job.record.pending.values():
            if task.pod_class is pod_class and job.status(task) is TaskStatus.PENDING:
                found |= self.of_pod(task)
        return frozenset(found)

    def hold(self, task: Task, cards: Iterable[tuple[int, int]], sign: int) -> None:
        """A pod takes cards (row and number), or gives them back."""
        rules = self.of_pod(task)
        for card in cards if rules else ():
            for number in rules:
                self._cards.setdefault(number, Counter())[card] += sign

    def taken(self, rules: Numbers) -> set[tuple[int, int]]:
        """Cards that pods of any of ``rules`` use."""
        return {card for number in rules for card, users in self._cards.get(number, {}).items() if users > 0}
