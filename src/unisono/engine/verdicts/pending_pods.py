"""What the pods of one gang that wait have in common, found in one pass and kept with its record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Job, Task

MOST_SAMPLES = 4
"""Kinds of pods of one job that are looked at one by one."""
_MOST_GROUPS = 8


@dataclass(frozen=True, slots=True)
class PodsAlike:
    """Pods of one class and role; ``first`` is the name of the first of them, empty where they do not exist yet."""

    pod_class: PodClass
    role: str
    first: str
    count: int


@dataclass(frozen=True, slots=True)
class PendingPods:
    """The pending pods of a job, by name.

    Attributes:
        gated: how many have scheduling gates.
        samples: the first one of each kin, then of each class, which differ in amounts; at most `MOST_SAMPLES`.
        groups: those that this scheduler places, by class and role; empty where they are too mixed.
    """

    gated: int
    samples: tuple[Task, ...]
    groups: tuple[PodsAlike, ...]


def in_order(tasks: Mapping[str, Task]) -> list[Task]:
    """By name, so that a verdict reads the same in whatever order its pods became known."""
    return [tasks[key] for key in sorted(tasks)]


def pending_pods(record: Job) -> PendingPods:
    """All pending pods of a job, whether or not the session has placed some."""
    cached: PendingPods | None = record.derived.get(PendingPods)
    if cached is None:
        cached = record.derived[PendingPods] = look_at(in_order(record.pending))
    return cached


def look_at(tasks: list[Task]) -> PendingPods:
    """The same of some pods in order."""
    gated, samples, classes = 0, dict[int, Task](), dict[int, Task]()
    groups: dict[tuple[int, str], list[Task]] = {}
    for task in tasks:
        gated += task.gated
        pod_class = task.pod_class
        if len(samples) < MOST_SAMPLES:
            samples.setdefault(pod_class.kin, task)
        if len(classes) < MOST_SAMPLES:
            classes.setdefault(pod_class.id, task)
        if task.owned and len(groups) <= _MOST_GROUPS:
            groups.setdefault((pod_class.id, task.role), []).append(task)
    pods_alike = [PodsAlike(alike[0].pod_class, role, alike[0].name, len(alike)) for (_, role), alike in groups.items()]
    each = tuple(({one.pod_class.id: one for one in samples.values()} | classes).values())[:MOST_SAMPLES]
    return PendingPods(gated, each, tuple(pods_alike) if len(groups) <= _MOST_GROUPS else ())
