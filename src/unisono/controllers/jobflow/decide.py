"""What to do about a job flow: a pure function from the flow, its jobs and their templates to a plan."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from unisono.api.base import Object
from unisono.api.core import Pod
from unisono.api.documents import merge_named
from unisono.api.groups.batch import Job, JobSpec
from unisono.api.groups.flow import (
    DELETE,
    Flow,
    FlowCondition,
    FlowJobStatus,
    FlowProbe,
    FlowState,
    HttpGet,
    JobFlow,
    JobFlowStatus,
    JobTemplate,
    RunningHistory,
    TaskStatus,
    TcpSocket,
)
from unisono.api.keys import TASK_SPEC
from unisono.api.kind_families import JOB_FLOWS
from unisono.api.times import rfc3339
from unisono.controllers.job import view
from unisono.controllers.job.view import JobView, TaskView
from unisono.controllers.job_making import has_ended, make_job, phase_of
from unisono.controllers.metrics import Probe
from unisono.controllers.objects import to_json
from unisono.controllers.pod_facts import is_deleting, is_running
from unisono.controllers.recorder import Notice

# Labels and annotations of jobs that a flow made: from which template, and for which flow.

BY_TEMPLATE: Final = "volcano.sh/createdByJobTemplate"
BY_FLOW: Final = "volcano.sh/createdByJobFlow"
# Longest value of a label.
_LONGEST = 63
_DIGEST = 10


def made_for(namespace: str, flow: str, template: str) -> tuple[dict[str, str], dict[str, str]]:
    """Labels and annotations: ``<namespace>.<name>`` of the flow and of the template.

    A label has room for 63 characters; a longer value is cut there and told apart by a digest. Annotations have all.
    """
    annotations = {BY_FLOW: f"{namespace}.{flow}", BY_TEMPLATE: f"{namespace}.{template}"}
    return {key: label_value(value) for key, value in annotations.items()}, annotations


def label_value(text: str) -> str:
    """The text as the value of a label."""
    if len(text) <= _LONGEST:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGEST]
    return f"{text[: _LONGEST - _DIGEST - 1]}-{digest}"


def template_keys(job: Object) -> list[str]:
    """Key of the template from which the job was made, ``namespace/name``; names may contain dots."""
    value = (job.metadata.annotations or {}).get(BY_TEMPLATE, "")
    namespace = job.metadata.namespace or ""
    name = value.removeprefix(f"{namespace}.")
    return [f"{namespace}/{name}"] if name and name != value else []


# The status of a job flow: its jobs by phase, and what each of them went through (pure).

# Where the names of jobs in a phase are listed; in every other phase they are under ``unKnowJobs``.
_LISTS: Mapping[str, str] = {
    view.PENDING: "pending_jobs",
    view.RUNNING: "running_jobs",
    # They still have pods.
    view.COMPLETING: "running_jobs",
    view.TERMINATING: "running_jobs",
    view.COMPLETED: "completed_jobs",
    view.FAILED: "failed_jobs",
    view.TERMINATED: "terminated_jobs",
}


def ended_states(status: JobFlowStatus) -> dict[str, str]:
    """Last phase of jobs that have ended, as the status remembers them."""
    return {
        each.name: each.state
        for each in status.job_status_list or ()
        if each.name and each.state and each.state in view.FINISHED
    }


def next_lists(
    old: JobFlowStatus, jobs: Mapping[str, Job], states: Mapping[str, str | None], now: float
) -> JobFlowStatus:
    """The status but for the phase of the whole.

    Args:
        old: the stored status.
        jobs: the jobs that exist, by name.
        states: phase of each job of the flow, None for those that are yet to be made.
        now: seconds since 1970.
    """
    lists: dict[str, list[str]] = {}
    for name, state in states.items():
        if state is not None:
            lists.setdefault(_LISTS.get(state, "un_know_jobs"), []).append(name)
    previous = {each.name: each for each in old.job_status_list or ()}
    entries = [
        _entry(previous.get(name), jobs[name], now) if name in jobs else previous[name]
        for name, state in states.items()
        if name in jobs or (state is not None and name in previous)
    ]
    conditions = {
        name: _condition(jobs[name]) if name in jobs else (old.conditions or {})[name]
        for name, state in states.items()
        if name in jobs or (state is not None and name in (old.conditions or {}))
    }
    status = JobFlowStatus(job_status_list=entries or None, conditions=conditions or None)
    for attribute, names in lists.items():
        setattr(status, attribute, names)
    return status


def next_status(lists: JobFlowStatus, phase: str) -> JobFlowStatus:
    """The lists with the phase of the whole."""
    return msgspec.structs.replace(lists, state=FlowState(phase=phase))


def _entry(old: FlowJobStatus | None, job: Job, now: float) -> FlowJobStatus:
    phase, state = phase_of(job), job.status.state
    started = job.metadata.creation_timestamp
    # A new job of that name has a history of its own.
    histories = list(old.running_histories or ()) if old is not None and old.start_timestamp == started else []
    if not histories or histories[-1].state != phase:
        time = rfc3339(now)
        if histories:
            histories[-1] = msgspec.structs.replace(histories[-1], end_timestamp=time)
        histories.append(RunningHistory(start_timestamp=time, state=phase))
    return FlowJobStatus(
        name=job.metadata.name,
        state=phase,
        start_timestamp=started,
        end_timestamp=state.last_transition_time if has_ended(job) else None,
        restart_count=job.status.retry_count,
        running_histories=histories,
    )


def _condition(job: Job) -> FlowCondition:
    return FlowCondition(
        phase=phase_of(job),
        create_time=job.metadata.creation_timestamp,
        running_duration=job.status.running_duration,
        task_status_count=job.status.task_status_count,
    )


# Probes of a flow's targets: what has to be asked, and whether the answers are enough (pure).

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
class ProbeQuestion:
    """The pods of one task of one target, and how many of them have to answer."""

    probes: tuple[Probe, ...]
    need: int

    def holds(self, answered: frozenset[Probe]) -> bool:
        """Whether enough of them did."""
        return sum(1 for probe in self.probes if probe in answered) >= self.need


def questions(probe: FlowProbe, targets: Sequence[Job], pods_of: PodsOf) -> list[ProbeQuestion]:
    """What has to be asked of the targets' pods over the network."""
    return [
        _question(each, task, pods_of(job))
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


def _question(each: HttpGet | TcpSocket, task: TaskView, pods: Iterable[Pod]) -> ProbeQuestion:
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
    return ProbeQuestion(tuple(sorted(probes, key=lambda probe: probe.host)), _need(task))


def _need(task: TaskView) -> int:
    """As many as the task needs to run, and one at least."""
    return max(1, task.min_available)


def _count(job: Job, task: TaskView, phase: str) -> int:
    state = (job.status.task_status_count or {}).get(task.name)
    pods = (state.phase if state is not None else None) or {}
    return sum(pods.get(each, 0) for each in _COUNTED.get(phase, (phase,)))


# Seconds between two looks at probes that do not hold yet.
PROBE_PERIOD = 5.0

PENDING, RUNNING, SUCCEED, FAILED, TERMINATING = "Pending", "Running", "Succeed", "Failed", "Terminating"
_LOST = frozenset({view.FAILED, view.TERMINATED})
# Phases of a target in which its pods can be asked.
_ALIVE = frozenset({view.PENDING, view.RUNNING, view.RESTARTING, view.COMPLETING})


@dataclass(frozen=True, slots=True)
class ObservedFlow:
    """Everything that a decision may look at.

    Attributes:
        flow: the job flow.
        jobs: the jobs that it controls, by name.
        templates: templates of its namespace, by name.
        pods_of: pods of a job.
        answered: the probes that hold.
    """

    flow: JobFlow
    jobs: Mapping[str, Job]
    templates: Mapping[str, JobTemplate]
    pods_of: PodsOf = lambda _job: ()
    answered: frozenset[Probe] = frozenset()


@dataclass(slots=True)
class FlowPlan:
    """Steps in order: write the status, make jobs, delete jobs.

    Attributes:
        status: the new status.
        create: jobs whose dependencies are met.
        delete: jobs that are not kept.
        notices: events to record.
        requeue_after: seconds until probes are asked again.
    """

    status: JobFlowStatus
    create: list[Job] = field(default_factory=list)
    delete: list[Job] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    requeue_after: float | None = None


def decide(seen: ObservedFlow, now: float) -> FlowPlan:
    """The next step for a flow; ``now`` in seconds since 1970."""
    flow = seen.flow
    states = job_states(seen)
    lists = next_lists(flow.status, seen.jobs, states, now)
    if flow.metadata.deletion_timestamp:
        return FlowPlan(next_status(lists, TERMINATING))
    plan = FlowPlan(next_status(lists, _phase(states)))
    if plan.status.state == FlowState(phase=SUCCEED):
        # The record is written first: without it the jobs would be made again.
        if flow.spec.job_retain_policy == DELETE and flow.status.state.phase == SUCCEED:
            plan.delete = [job for job in seen.jobs.values() if not job.metadata.deletion_timestamp]
        return plan
    for each in flows_of(flow):
        if states[job_name(flow, each)] is None and _may_start(plan, seen, each, states):
            _create(plan, seen, each)
    return plan


def wanted_probes(seen: ObservedFlow) -> list[Probe]:
    """Probes whose answers the decision depends on."""
    states = job_states(seen)
    needed: dict[Probe, None] = {}
    for each in flows_of(seen.flow):
        depends = each.depends_on
        if states[job_name(seen.flow, each)] is not None or depends is None or depends.probe is None:
            continue
        open_targets = _open_targets(seen, each, states)
        if open_targets:
            for question in questions(depends.probe, open_targets, seen.pods_of):
                needed |= dict.fromkeys(question.probes)
    return list(needed)


def flows_of(flow: JobFlow) -> list[Flow]:
    """The flows, each name once: the last of that name counts, as in validation."""
    return list({each.name: each for each in flow.spec.flows or ()}.values())


def job_name(flow: JobFlow, each: Flow) -> str:
    """``<job flow>-<flow>``."""
    return f"{flow.metadata.name}-{each.name}"


def job_states(seen: ObservedFlow) -> dict[str, str | None]:
    """Phase of every job of the flow, None for those that are to be made.

    A job that ended and is gone keeps its phase: a time to live or a user took it away after its work. One that failed
    is made again when it is deleted, unless a time to live is what deletes it.
    """
    ended = ended_states(seen.flow.status)
    states: dict[str, str | None] = {}
    for each in flows_of(seen.flow):
        name = job_name(seen.flow, each)
        job = seen.jobs.get(name)
        if job is not None:
            states[name] = phase_of(job)
            continue
        state = ended.get(name)
        again = state in _LOST and not _expires(seen, each)
        states[name] = None if again else state
    return states


def _expires(seen: ObservedFlow, each: Flow) -> bool:
    template = seen.templates.get(each.name)
    return template is not None and job_spec(template.spec, each).ttl_seconds_after_finished is not None


def _phase(states: Mapping[str, str | None]) -> str:
    present = [state for state in states.values() if state is not None]
    if all(state == view.COMPLETED for state in states.values()):
        return SUCCEED
    if any(state in _LOST for state in present):
        return FAILED
    return RUNNING if any(state != view.PENDING for state in present) else PENDING


def _open_targets(seen: ObservedFlow, each: Flow, states: Mapping[str, str | None]) -> Sequence[Job] | None:
    """Targets that have not completed; None when one of them is not there, or has come to a bad end."""
    open_targets: list[Job] = []
    for target in (each.depends_on.targets if each.depends_on is not None else None) or ():
        name = f"{seen.flow.metadata.name}-{target}"
        if states.get(name) == view.COMPLETED:
            continue
        job = seen.jobs.get(name)
        if job is None or phase_of(job) not in _ALIVE:
            return None
        open_targets.append(job)
    return open_targets


def _may_start(plan: FlowPlan, seen: ObservedFlow, each: Flow, states: Mapping[str, str | None]) -> bool:
    open_targets = _open_targets(seen, each, states)
    if open_targets is None:
        return False
    if not open_targets:
        return True
    probe = each.depends_on.probe if each.depends_on is not None else None
    if probe is None:
        return False
    unknown = unknown_tasks(probe, open_targets)
    if unknown:
        text = f"flow {each.name} waits for its targets to complete: none of them has a task {', '.join(unknown)}"
        plan.notices.append(Notice("Warning", "ProbeWithoutTask", text, once=text))
        return False
    asked = questions(probe, open_targets, seen.pods_of)
    if statuses_hold(probe, open_targets) and all(question.holds(seen.answered) for question in asked):
        return True
    if asked:
        plan.requeue_after = PROBE_PERIOD
    return False


def _create(plan: FlowPlan, seen: ObservedFlow, each: Flow) -> None:
    flow, name = seen.flow, job_name(seen.flow, each)
    template = seen.templates.get(each.name)
    if template is None:
        where = f"{flow.metadata.namespace}/{each.name}"
        text = f"job template {where} is not there; job {name} is made as soon as it is"
        plan.notices.append(Notice("Warning", "MissingTemplate", text, once=text))
        return
    labels, annotations = made_for(flow.metadata.namespace or "", flow.metadata.name, each.name)
    spec = job_spec(template.spec, each)
    plan.create.append(make_job(JOB_FLOWS, flow, name, spec, labels=labels, annotations=annotations))


def job_spec(template: JobSpec, flow: Flow) -> JobSpec:
    """The spec of the flow's job: the template's, with the flow's patch over it."""
    patch = flow.patch.job_spec if flow.patch is not None else None
    return msgspec.convert(merge_named(to_json(template), to_json(patch)), JobSpec)
