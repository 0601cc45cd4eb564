"""Whom a job waits for that has places on resources not yet free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from unisono.cluster.records import Task
from unisono.cluster.status import TaskStatus
from unisono.engine.cycle.context import Cycle
from unisono.engine.session.job_state import JobState
from unisono.engine.verdict import Holder, reference

_NAMED = 3


@dataclass(slots=True)
class _Victims:
    """Victims by beneficiary and key, and of how many evictions these are."""

    number: int = -1
    by_job: dict[str, dict[str, Task]] = field(default_factory=dict)


def leaving(cycle: Cycle, job: JobState) -> list[Task]:
    """Pods evicted for the job in this cycle, and those that are ending on the nodes of its pipelined tasks."""
    found = dict(_victims(cycle).get(job.key, {}))
    columns = {column for status, column in job.places.values() if status is TaskStatus.PIPELINED}
    names, tasks_on = cycle.session.snapshot.nodes.names, cycle.session.snapshot.tasks_on
    for column in columns:
        for key, task in tasks_on.get(names[column], {}).items():
            if task.status is TaskStatus.RELEASING:
                found[key] = task
    return [found[key] for key in sorted(found)]


def _victims(cycle: Cycle) -> dict[str, dict[str, Task]]:
    """Victims by beneficiary and key; sorted out once."""
    known = cycle.session.shared.of(_Victims, _Victims)
    if known.number != len(cycle.evicted):
        known.number, known.by_job = len(cycle.evicted), {}
        for placement, beneficiary in cycle.evicted:
            known.by_job.setdefault(beneficiary, {}).update((task.key, task) for task in placement.tasks)
    return known.by_job


def names_text(tasks: Sequence[Task]) -> str:
    """``ns/a, ns/b, ns/c and 2 more``."""
    text = ", ".join(reference(task.key) for task in tasks[:_NAMED])
    return text if len(tasks) <= _NAMED else f"{text} and {len(tasks) - _NAMED} more"


def pods_as_holders(tasks: Sequence[Task]) -> tuple[Holder, ...]:
    """The first few pods and what they request."""
    return tuple(Holder("Pod", task.key, dict(task.pod_class.requests)) for task in tasks[:_NAMED])
