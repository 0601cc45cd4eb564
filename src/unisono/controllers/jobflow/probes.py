"""Probes of a flow's targets: what has to be asked, and whether the answers are enough (pure)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from unisono.api.core import Pod
from unisono.api.groups.batch import Job
from unisono.api.groups.flow import FlowProbe, HttpGet, TaskStatus, TcpSocket
from unisono.api.keys import TASK_SPEC
from unisono.controllers.job.view import JobView, TaskView
from unisono.controllers.pod_facts import is_deleting, is_running
from unisono.controllers.probing import Probe

# Pods of a job, by the job's UID.
PodsOf = Callable[[Job], Iterable[Pod]]

# Pod phases that count for a phase that a probe asks for: it was there, or has gone beyond.
_COUNTED = {
    "Pending": ("Pending", "Running", "Succeeded", "Failed"),
    "Running": ("Running", "Succeeded"),
    "Succeeded": ("Succeeded",),
    "Completed": ("Succeeded",),
    "Failed": ("Failed",),
}


@dataclass(frozen=True, slots=True)
class Question:
    """The pods of one task of one target, and how many of them have to answer."""

    probes: tuple[Probe, ...]
    need: int

    def holds(self, answered: frozenset[Probe]) -> bool:
        """Whether enough of them did."""
        return sum(1 for probe in self.probes if probe in answered) >= self.need


def questions(probe: FlowProbe, targets: Sequence[Job], pods_of: PodsOf) -> list[Question]:
    """What has to be asked of the targets' pods over the network."""
    return [
        _question(each, job, task, pods_of(job))
        for each in (*(probe.http_get_list or ()), *(probe.tcp_socket_list or ()))
        for job, task in _tasks(each, targets)
    ]


def statuses_hold(probe: FlowProbe, targets: Sequence[Job]) -> bool:
    """Whether the tasks are in the phases that the probe asks for, by the targets' own counts."""
    return all(
        _count(job, task, each.phase or "") >= _need(task)
        for each in probe.task_status_list or ()
        for job, task in _tasks(each, targets)
    )


def unknown_tasks(probe: FlowProbe, targets: Sequence[Job]) -> list[str]:
    """Names of tasks that no target has: such a probe can never hold."""
    every = (*(probe.http_get_list or ()), *(probe.tcp_socket_list or ()), *(probe.task_status_list or ()))
    return sorted({each.task_name or "" for each in every if not any(_tasks(each, targets))})


def _tasks(each: HttpGet | TcpSocket | TaskStatus, targets: Sequence[Job]) -> Iterator[tuple[Job, TaskView]]:
    for job in targets:
        task = JobView(job).task(each.task_name or "")
        if task is not None:
            yield job, task


def _question(each: HttpGet | TcpSocket, job: Job, task: TaskView, pods: Iterable[Pod]) -> Question:
    path, header = "", None
    if isinstance(each, HttpGet):
        path = each.path or "/"
        given = each.http_header
        header = (given.name, given.value) if given is not None else None
    mine = [
        pod
        for pod in pods
        if (pod.metadata.labels or {}).get(TASK_SPEC) == task.name and is_running(pod) and not is_deleting(pod)
    ]
    probes = [Probe(pod.status.pod_ip, each.port or 0, path, header) for pod in mine if pod.status.pod_ip]
    return Question(tuple(sorted(probes, key=lambda probe: probe.host)), _need(task))


def _need(task: TaskView) -> int:
    """As many as the task needs to run, and one at least."""
    return max(1, task.min_available)


def _count(job: Job, task: TaskView, phase: str) -> int:
    state = (job.status.task_status_count or {}).get(task.name)
    pods = (state.phase if state is not None else None) or {}
    return sum(pods.get(each, 0) for each in _COUNTED.get(phase, (phase,)))
