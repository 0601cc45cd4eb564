"""What to do about a job flow: a pure function from the flow, its jobs and their templates to a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from unisono.api.documents.merge import merge_named
from unisono.api.groups.batch import Job, JobSpec
from unisono.api.groups.flow import DELETE, Flow, FlowState, JobFlow, JobFlowStatus, JobTemplate
from unisono.api.kind_families import JOB_FLOWS
from unisono.controllers.job import phases
from unisono.controllers.job_making import make_job, phase_of
from unisono.controllers.jobflow.history import ended_states, next_lists, next_status
from unisono.controllers.jobflow.keys import made_for
from unisono.controllers.jobflow.probes import PodsOf, questions, statuses_hold, unknown_tasks
from unisono.controllers.notices import Notice
from unisono.controllers.patching import to_json
from unisono.controllers.probing import Probe

# Seconds between two looks at probes that do not hold yet.
PROBE_PERIOD = 5.0

PENDING, RUNNING, SUCCEED, FAILED, TERMINATING = "Pending", "Running", "Succeed", "Failed", "Terminating"
_LOST = frozenset({phases.FAILED, phases.TERMINATED})
# Phases of a target in which its pods can be asked.
_ALIVE = frozenset({phases.PENDING, phases.RUNNING, phases.RESTARTING, phases.COMPLETING})


@dataclass(frozen=True, slots=True)
class Observed:
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


def decide(seen: Observed, now: float) -> FlowPlan:
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


def wanted_probes(seen: Observed) -> list[Probe]:
    """Probes whose answers the decision depends on."""
    states = job_states(seen)
    wanted: dict[Probe, None] = {}
    for each in flows_of(seen.flow):
        depends = each.depends_on
        if states[job_name(seen.flow, each)] is not None or depends is None or depends.probe is None:
            continue
        open_targets = _open_targets(seen, each, states)
        if open_targets:
            for question in questions(depends.probe, open_targets, seen.pods_of):
                wanted |= dict.fromkeys(question.probes)
    return list(wanted)


def flows_of(flow: JobFlow) -> list[Flow]:
    """The flows, each name once: the last of that name counts, as in validation."""
    return list({each.name: each for each in flow.spec.flows or ()}.values())


def job_name(flow: JobFlow, each: Flow) -> str:
    """``<job flow>-<flow>``."""
    return f"{flow.metadata.name}-{each.name}"


def job_states(seen: Observed) -> dict[str, str | None]:
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


def _expires(seen: Observed, each: Flow) -> bool:
    template = seen.templates.get(each.name)
    return template is not None and job_spec(template.spec, each).ttl_seconds_after_finished is not None


def _phase(states: Mapping[str, str | None]) -> str:
    present = [state for state in states.values() if state is not None]
    if all(state == phases.COMPLETED for state in states.values()):
        return SUCCEED
    if any(state in _LOST for state in present):
        return FAILED
    return RUNNING if any(state != phases.PENDING for state in present) else PENDING


def _open_targets(seen: Observed, each: Flow, states: Mapping[str, str | None]) -> Sequence[Job] | None:
    """Targets that have not completed; None when one of them is not there, or has come to a bad end."""
    open_targets: list[Job] = []
    for target in (each.depends_on.targets if each.depends_on is not None else None) or ():
        name = f"{seen.flow.metadata.name}-{target}"
        if states.get(name) == phases.COMPLETED:
            continue
        job = seen.jobs.get(name)
        if job is None or phase_of(job) not in _ALIVE:
            return None
        open_targets.append(job)
    return open_targets


def _may_start(plan: FlowPlan, seen: Observed, each: Flow, states: Mapping[str, str | None]) -> bool:
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


def _create(plan: FlowPlan, seen: Observed, each: Flow) -> None:
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
