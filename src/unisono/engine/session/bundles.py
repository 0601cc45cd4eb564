"""Victims in bundles: tasks that their gangs can spare, and gangs' cores that only go whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from unisono.cluster.records import Task
from unisono.cluster.resources import Vector, fitted
from unisono.cluster.status import READY_STATES, count
from unisono.engine.session.job_state import JobState
from unisono.engine.session.session import Session
from unisono.engine.session.sub_groups import groups_of

_READY = frozenset(READY_STATES)


@dataclass(slots=True)
class Bundle:
    """Tasks of one job that go together.

    Attributes:
        safe: the job goes on without them; else they are all that its gang needs.
        tasks: with their node columns.
        elsewhere: tasks that go with them without making room where it is wanted.

    """

    job: JobState
    safe: bool
    tasks: list[tuple[Task, int]]
    elsewhere: list[tuple[Task, int]] = field(default_factory=list)

    @property
    def every(self) -> list[tuple[Task, int]]:
        """All tasks that go."""
        return self.tasks + self.elsewhere

    def amounts(self, rows: int) -> Vector:
        """``[R]`` what those hold that make room where it is wanted."""
        held = np.zeros(rows, dtype=np.int64)
        for task, _ in self.tasks:
            held += fitted(task.pod_class.vector, rows)
        return held

    def efficiency(self, need: Vector) -> float:
        """Share of the need that it meets, by the share of the need that the whole gang holds; larger is better.

        Over resources that are needed (Volcano's measure): a gang that holds much elsewhere is a dear victim. What a
        gang can spare costs nothing.
        """
        if self.safe:
            return float("inf")
        wanted = need > 0
        local = np.minimum(self.amounts(len(need))[wanted], need[wanted]) / need[wanted]
        whole = fitted(self.job.allocated, len(need))[wanted] / need[wanted]
        total = float(whole.sum())
        return float(local.sum()) / total if total > 0 else float("inf")


class Surplus:
    """How many tasks of one job can still go without breaking it: of the gang, its roles and its sub-groups."""

    def __init__(self, session: Session, job: JobState) -> None:
        self.job = job
        self.broken = job.ready_count < job.min_member
        self.total = job.ready_count - job.min_member
        self.roles: dict[str, int] = {}
        if job.roles_apply:
            for role, need in job.min_task_member.items():
                self.roles[role] = count(job.role_counts(role), READY_STATES) - need
        self.group_of: dict[str, str] = {}
        self.groups: dict[str, int] = {}
        if job.record.sub_groups:
            for group in groups_of(session, job):
                self.groups[group.key] = group.count(_READY) - group.minimum
                self.group_of |= {task.key: group.key for task in group.tasks}

    def copy(self) -> Surplus:
        """The same, to try something."""
        found = copy(self)
        found.roles, found.groups = dict(self.roles), dict(self.groups)
        return found

    def take(self, task: Task) -> bool:
        """Whether the task can go; then it is counted as gone."""
        if self.broken:
            return True
        group = self.group_of.get(task.key, "")
        if self.total <= 0 or self.roles.get(task.role, 1) <= 0 or self.groups.get(group, 1) <= 0:
            return False
        self.total -= 1
        if task.role in self.roles:
            self.roles[task.role] -= 1
        if group in self.groups:
            self.groups[group] -= 1
        return True


def bundles_of(session: Session, candidates: Iterable[tuple[Task, int, JobState]]) -> list[Bundle]:
    """Candidates in bundles: per job what it can spare, least important tasks first, and what it cannot.

    A gang that is broken can spare all it has, together: none of it is of use.
    """
    by_job: dict[str, list[tuple[Task, int, JobState]]] = {}
    for item in candidates:
        by_job.setdefault(item[2].key, []).append(item)
    bundles: list[Bundle] = []
    for key in sorted(by_job):
        items = sorted(by_job[key], key=lambda item: (item[0].priority, item[0].uid, item[0].key))
        job = items[0][2]
        surplus = Surplus(session, job)
        safe: list[tuple[Task, int]] = []
        core: list[tuple[Task, int]] = []
        for task, column, _ in items:
            (safe if surplus.take(task) else core).append((task, column))
        bundles += [Bundle(job, True, safe)] if surplus.broken else [Bundle(job, True, [each]) for each in safe]
        if core:
            bundles.append(Bundle(job, False, core))
    return bundles


def in_order(bundles: Sequence[Bundle], rank: Callable[[JobState], Any], need: Vector) -> list[Bundle]:
    """What gangs can spare first, then by ``rank`` of the job (lowest loses first), then by efficiency and youth."""
    ranks = {bundle.job.key: rank(bundle.job) for bundle in bundles}
    return sorted(
        bundles,
        key=lambda bundle: (
            not bundle.safe,
            ranks[bundle.job.key],
            -bundle.efficiency(need),
            -bundle.job.created,
            bundle.job.key,
            bundle.tasks[0][0].priority,
            bundle.tasks[0][0].uid,
        ),
    )
