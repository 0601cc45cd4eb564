"""What to do about a hyper job: the jobs that it is made of, its next step, and its status (pure)."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from unisono.api.annotations import SPLIT
from unisono.api.base import Condition
from unisono.api.conditions import find_condition
from unisono.api.groups import batch
from unisono.api.kind_families import HYPER_JOBS
from unisono.api.resources import pod_requests
from unisono.api.times import rfc3339
from unisono.controllers.job import view
from unisono.controllers.job_making import has_ended, make_job, phase_of
from unisono.controllers.objects import SLICE, contains, to_json
from unisono.controllers.owners import inherited_annotations
from unisono.controllers.recorder import Notice
from unisono.errors import UnisonoError

# Which jobs a hyper job is made of, and how their sizes follow from its split policies (pure).
#
# Within one cluster there is one place to run at: ``auto``, which asks for as few places as can take the whole, makes
# one job of everything, and as many as the hub of a fleet says where there is one. ``static`` shares the accelerators
# over ``replicas`` jobs as evenly as pods allow.

# Resources other than CPU and memory are counted in thousandths.
_UNITS = 1000
MOST_PARTS = 1000
"""Jobs into which a hub may split one replicated job."""


class SplitError(UnisonoError):
    """A split policy and its template do not go together; the message says what to change."""


@dataclass(frozen=True, slots=True)
class WantedJob:
    """A job that there should be.

    Attributes:
        name: ``<hyper job>-<replicated job>-<number>``.
        replicated: what it is a replica of.
        spec: the template, with this job's share of the accelerators.
    """

    name: str
    replicated: batch.ReplicatedJob
    spec: batch.JobSpec


def wanted_jobs(hyper_job: batch.HyperJob) -> list[WantedJob]:
    """Each job that there should be.

    Raises:
        SplitError: a split policy cannot be followed.
    """
    parts = split_of(hyper_job)
    return [
        WantedJob(f"{hyper_job.metadata.name}-{replicated.name}-{number}", replicated, spec)
        for replicated in hyper_job.spec.replicated_jobs or ()
        for number, spec in enumerate(_specs(replicated, parts.get(replicated.name, 1)))
    ]


class Share(msgspec.Struct, frozen=True):
    """What one of the jobs into which a hub splits a replicated job has of its pods.

    Attributes:
        cluster: member for which it was measured.
        pods: by task; a task that is absent is as the template says.
        least: the same of the smallest gang.
    """

    cluster: str
    pods: dict[str, Annotated[int, Meta(ge=0, lt=2**31)]]
    least: dict[str, Annotated[int, Meta(ge=0, lt=2**31)]]


Split = int | list[Share]
"""Jobs of equal size, or the share of each."""


def split_of(hyper_job: batch.HyperJob) -> dict[str, Split]:
    """Into what the hub has split each replicated job; empty where no hub has, or that cannot be read."""
    try:
        splits = msgspec.json.decode((hyper_job.metadata.annotations or {}).get(SPLIT) or "{}", type=dict[str, Split])
    except (msgspec.MsgspecError, RecursionError):
        return {}
    return {
        name: split
        for name, split in splits.items()
        if 1 <= (split if isinstance(split, int) else len(split)) <= MOST_PARTS
    }


@dataclass(frozen=True, slots=True)
class Divisible:
    """What ``auto`` may share over several jobs.

    Attributes:
        spec: the whole as one job.
        tasks: names of the tasks whose pods are shared; each job has the others as the template says.
        equal: the jobs may be of one size: a single task is shared.
    """

    spec: batch.JobSpec
    tasks: tuple[str, ...]
    equal: bool


def divisible(replicated: batch.ReplicatedJob) -> Divisible | None:
    """What of a replicated job ``auto`` may share over several jobs; None where it may not.

    Raises:
        SplitError: the split policy cannot be followed.
    """
    policy = replicated.split_policy
    tasks = replicated.template_spec.tasks or ()
    if policy is None or policy.mode != batch.AUTO or any(task.partition_policy is not None for task in tasks):
        return None
    whole = _specs(replicated, 1)[0]
    names = tuple(task.name for task in view.JobView(batch.Job(spec=whole)).tasks)
    users = _users(replicated, policy) if policy.accelerators else ()
    if len(users) == 1:
        return Divisible(whole, (names[users[0]],), equal=True)
    return Divisible(whole, names, equal=False)


def _specs(replicated: batch.ReplicatedJob, split: Split) -> list[batch.JobSpec]:
    policy, template = replicated.split_policy, replicated.template_spec
    count = 1 if replicated.replicas is None else replicated.replicas
    if policy is None:
        return [template] * count
    if policy.mode == batch.AUTO:
        if not isinstance(split, int):
            whole = divisible(replicated)
            return [_shared(whole.spec, share) for share in split] if whole is not None else []
        count = split if policy.accelerators else 1
        if policy.accelerators and len(_users(replicated, policy)) > 1:
            _check_total(replicated, policy)
            return [template]
    if not policy.accelerators or not count:
        return [template] * count
    index, pods = _share(replicated, policy)
    least, surplus = divmod(pods, count)
    if not least:
        raise SplitError(
            f"replicated job {replicated.name}: {policy.accelerators} {policy.accelerator_type} are {pods} pods, "
            f"too few for {count} replicas; lower replicas or ask for more accelerators."
        )
    return [_resized(template, index, least + (number < surplus)) for number in range(count)]


def _share(replicated: batch.ReplicatedJob, policy: batch.SplitPolicy) -> tuple[int, int]:
    """Place of the task that uses the accelerators, and the number of its pods in all jobs together."""
    name, kind = replicated.name, policy.accelerator_type
    users = _users(replicated, policy)
    each = _amounts(replicated, policy)
    if len(users) != 1:
        raise SplitError(
            f"replicated job {name}: splitPolicy needs exactly one task whose pods request {kind}, and here are "
            f"{len(users)}."
        )
    pods, rest = divmod(policy.accelerators or 0, each[users[0]])
    if rest:
        raise SplitError(
            f"replicated job {name}: {policy.accelerators} {kind} cannot be shared over pods of {each[users[0]]}; "
            "make splitPolicy.accelerators a multiple of that."
        )
    return users[0], pods


def _amounts(replicated: batch.ReplicatedJob, policy: batch.SplitPolicy) -> list[int]:
    """Accelerators of a pod of each task."""
    kind = policy.accelerator_type
    if not kind:
        text = f"replicated job {replicated.name}: splitPolicy.acceleratorType is missing: name the resource."
        raise SplitError(text)
    return [pod_requests(task.template.spec).get(kind, 0) // _UNITS for task in replicated.template_spec.tasks or ()]


def _users(replicated: batch.ReplicatedJob, policy: batch.SplitPolicy) -> list[int]:
    """Places of the tasks that use the accelerators."""
    return [index for index, amount in enumerate(_amounts(replicated, policy)) if amount]


def _check_total(replicated: batch.ReplicatedJob, policy: batch.SplitPolicy) -> None:
    """Several tasks use the accelerators: their sizes are the template's."""
    tasks = replicated.template_spec.tasks or ()
    total = sum(map(operator.mul, map(_pods, tasks), _amounts(replicated, policy)))
    if total != policy.accelerators:
        raise SplitError(
            f"replicated job {replicated.name}: splitPolicy.accelerators is {policy.accelerators}, and the tasks of "
            f"its template ask for {total} {policy.accelerator_type} together: of several tasks both are the same."
        )


def _shared(whole: batch.JobSpec, share: Share) -> batch.JobSpec:
    """The template with one job's share of the pods."""
    tasks, gang = [], 0
    for task, given in zip(view.JobView(batch.Job(spec=whole)).tasks, whole.tasks or (), strict=True):
        pods, least = share.pods.get(task.name, task.replicas), share.least.get(task.name, task.min_available)
        tasks.append(msgspec.structs.replace(given, replicas=pods, min_available=min(least, pods)))
        gang += min(least, pods)
    return msgspec.structs.replace(whole, tasks=tasks, min_available=gang)


def _resized(template: batch.JobSpec, index: int, pods: int) -> batch.JobSpec:
    """The template with so many pods in one task; what was a gang of all pods stays one."""
    tasks = list(template.tasks or ())
    old = tasks[index]
    before = 1 if old.replicas is None else old.replicas
    tasks[index] = msgspec.structs.replace(old, replicas=pods, min_available=_gang(old.min_available, before, pods))
    total = sum(map(_pods, template.tasks or ()))
    gang = _gang(template.min_available, total, total - before + pods)
    return msgspec.structs.replace(template, tasks=tasks, min_available=gang)


def _gang(given: int | None, before: int, after: int) -> int | None:
    if given is None:
        return None
    return after if given == before else min(given, after)


def _pods(task: batch.TaskSpec) -> int:
    return 1 if task.replicas is None else task.replicas


# The status of a hyper job: its jobs and their pods in sum, and how it ended (pure).

COMPLETED, FAILED = "Completed", "Failed"
LOST = frozenset({view.FAILED, view.TERMINATED})
_COUNTERS = ("pending", "running", "succeeded", "failed", "terminating", "unknown")


def ended_states(status: batch.HyperJobStatus) -> dict[str, str]:
    """Last phase of jobs that have ended, as the status remembers them."""
    return {
        name: state.phase
        for each in status.replicated_jobs_status or ()
        for name, state in (each.job_states or {}).items()
        if state.phase in view.FINISHED and state.phase
    }


def next_status(
    hyper_job: batch.HyperJob, jobs: Mapping[str, batch.Job], states: Mapping[str, str | None], now: float
) -> batch.HyperJobStatus:
    """The whole status.

    Args:
        hyper_job: the hyper job with its stored status.
        jobs: the jobs that exist, by name.
        states: phase of every job that there should be, None for those that are yet to be made.
        now: seconds since 1970.
    """
    replicated = hyper_job.spec.replicated_jobs or ()
    return batch.HyperJobStatus(
        conditions=_conditions(hyper_job, states, now),
        replicated_jobs_status=[_replicated(hyper_job, each, jobs, states) for each in replicated] or None,
        split_count=len(states) or None,
        observed_generation=hyper_job.metadata.generation,
    )


def is_lost(hyper_job: batch.HyperJob, states: Mapping[str, str | None]) -> bool:
    """Whether ``minAvailable`` jobs can no longer complete; never where the hyper job does not set it."""
    if hyper_job.spec.min_available is None:
        return False
    lost = sum(state in LOST for state in states.values())
    return len(states) - lost < _needed(hyper_job, states)


def _needed(hyper_job: batch.HyperJob, states: Mapping[str, str | None]) -> int:
    """Jobs that must complete: all of them unless ``minAvailable`` says less."""
    given = hyper_job.spec.min_available
    return len(states) if given is None else min(given, len(states))


def _replicated(
    hyper_job: batch.HyperJob,
    replicated: batch.ReplicatedJob,
    jobs: Mapping[str, batch.Job],
    states: Mapping[str, str | None],
) -> batch.ReplicatedJobStatus:
    before = {each.name: each.job_states or {} for each in hyper_job.status.replicated_jobs_status or ()}
    status = batch.ReplicatedJobStatus(name=replicated.name)
    statuses: dict[str, batch.JobState] = {}
    prefix = f"{hyper_job.metadata.name}-{replicated.name}-"
    for name in states:
        if name.rpartition("-")[0] != prefix[:-1]:
            continue
        job = jobs.get(name)
        if job is not None:
            statuses[name] = job.status.state
            for counter in _COUNTERS:
                count = (getattr(status, counter) or 0) + (getattr(job.status, counter) or 0)
                setattr(status, counter, count or None)
        elif states.get(name) is not None and name in before.get(replicated.name, {}):
            statuses[name] = before[replicated.name][name]
    status.job_states = statuses or None
    return status


def _conditions(hyper_job: batch.HyperJob, states: Mapping[str, str | None], now: float) -> list[Condition] | None:
    """None before every job has ended. A suspended job can be resumed, so it has not."""
    # Jobs that were never made are not made any more once too many are lost.
    ends = [state for state in states.values() if state is not None or not is_lost(hyper_job, states)]
    if not ends or not all(state in view.FINISHED for state in ends):
        return None
    completed, failed, terminated = (ends.count(phase) for phase in (view.COMPLETED, view.FAILED, view.TERMINATED))
    counts = f"{completed} completed, {failed} failed, 0 aborted, {terminated} terminated"
    if completed == len(ends):
        kind, reason, message = COMPLETED, "AllChildVCJobsCompleted", f"HyperJob completed: {completed} completed"
    elif completed >= _needed(hyper_job, states):
        kind, reason, message = COMPLETED, "MinAvailableVCJobsCompleted", f"HyperJob completed: {counts}"
    else:
        kind, reason, message = FAILED, "SomeChildVCJobsUnsuccessful", f"HyperJob failed: {counts}"
    before = find_condition(hyper_job.status.conditions, kind)
    since = before.last_transition_time if before is not None else rfc3339(now)
    return [Condition(type=kind, status="True", last_transition_time=since, reason=reason, message=message)]


BY_HYPER_JOB = "volcano.sh/hyperjob-name"
BY_REPLICATED_JOB = "volcano.sh/replicatedjob-name"
TEMPLATE_HASH = "volcano.sh/vcjob-template-spec-hash"
_OVER = view.FINISHED | {view.TERMINATING}


@dataclass(slots=True)
class HyperPlan:
    """Steps in order: write the status, make, patch and delete jobs.

    Attributes:
        status: the new status.
        create: jobs that are missing.
        patch: merge patches for jobs whose template has changed in what a job may change.
        delete: jobs beyond the number of replicas.
        terminate: jobs that cannot succeed any more: too many others are lost.
        notices: events to record.
        more: further jobs are to be made at the next look.
    """

    status: batch.HyperJobStatus
    create: list[batch.Job] = field(default_factory=list)
    patch: list[tuple[batch.Job, dict[str, Any]]] = field(default_factory=list)
    delete: list[batch.Job] = field(default_factory=list)
    terminate: list[batch.Job] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    more: bool = False


def decide(hyper_job: batch.HyperJob, jobs: Mapping[str, batch.Job], now: float) -> HyperPlan:
    """The next step for a hyper job.

    Args:
        hyper_job: the hyper job; nothing is made for one that is being deleted.
        jobs: the jobs that it controls, by name.
        now: seconds since 1970.
    """
    try:
        jobs_by_name = {each.name: each for each in wanted_jobs(hyper_job)}
    except SplitError as error:
        # Jobs that run are left alone until the policy can be followed.
        return HyperPlan(hyper_job.status, notices=[Notice("Warning", "FailedSplit", str(error), once=str(error))])
    states = {name: _state(hyper_job, name, each.replicated, jobs) for name, each in jobs_by_name.items()}
    plan = HyperPlan(next_status(hyper_job, jobs, states, now))
    if hyper_job.metadata.deletion_timestamp:
        return plan
    if is_lost(hyper_job, states):
        plan.terminate = [job for name, job in jobs.items() if name in jobs_by_name and phase_of(job) not in _OVER]
        return plan
    for name, each in jobs_by_name.items():
        job = jobs.get(name)
        if states[name] is None:
            if len(plan.create) < SLICE:
                plan.create.append(_job(hyper_job, each))
            else:
                plan.more = True
        elif job is not None and not has_ended(job):
            _follow(plan, job, each.spec)
    surplus = [job for name, job in jobs.items() if name not in jobs_by_name]
    plan.delete = [job for job in surplus if not job.metadata.deletion_timestamp]
    return plan


def template_hash(spec: batch.JobSpec) -> str:
    """Digest of a template, short enough for a label."""
    return hashlib.sha256(msgspec.json.encode(spec, order="deterministic")).hexdigest()[:16]


def _state(
    hyper_job: batch.HyperJob, name: str, replicated: batch.ReplicatedJob, jobs: Mapping[str, batch.Job]
) -> str | None:
    """Phase of a job; None for one that is to be made.

    One that ended and is gone keeps its phase. One that failed is made again when it is deleted, unless a time to live
    is what deletes it.
    """
    job = jobs.get(name)
    if job is not None:
        return phase_of(job)
    state = ended_states(hyper_job.status).get(name)
    again = state in LOST and replicated.template_spec.ttl_seconds_after_finished is None
    return None if again else state


def _job(hyper_job: batch.HyperJob, wanted: WantedJob) -> batch.Job:
    labels = {
        BY_HYPER_JOB: hyper_job.metadata.name,
        BY_REPLICATED_JOB: wanted.replicated.name,
        TEMPLATE_HASH: template_hash(wanted.spec),
    }
    marks = inherited_annotations(hyper_job.metadata.annotations or {})
    return make_job(HYPER_JOBS, hyper_job, wanted.name, wanted.spec, labels=labels, annotations=marks)


def _follow(plan: HyperPlan, job: batch.Job, template: batch.JobSpec) -> None:
    """Bring a changed template to a job that exists, as far as a job may change."""
    digest = template_hash(template)
    if (job.metadata.labels or {}).get(TEMPLATE_HASH) == digest:
        return
    # Defaults that the server has filled in are not the template's: what the template says must be there.
    if len(template.tasks or ()) != len(job.spec.tasks or ()) or not contains(_fixed(job.spec), _fixed(template)):
        name = job.metadata.name
        text = (
            f"job {name} goes on with the template that it was made from: of a job only replicas, minAvailable and "
            "priorityClassName change; delete it to have it created again"
        )
        plan.notices.append(Notice("Warning", "FailedUpdateVCJob", text, once=f"{name}/{digest}"))
        return
    tasks = [_scaled(task, new) for task, new in zip(to_json(job.spec)["tasks"], template.tasks or (), strict=True)]
    spec: dict[str, Any] = {"tasks": tasks, "priorityClassName": template.priority_class_name}
    if template.min_available is not None:
        spec["minAvailable"] = template.min_available
    plan.patch.append((job, {"metadata": {"labels": {TEMPLATE_HASH: digest}}, "spec": spec}))


def _scaled(task: dict[str, Any], new: Any) -> dict[str, Any]:
    sizes = {"replicas": new.replicas, "minAvailable": new.min_available}
    if new.min_available is None:
        # What the server once filled in: all of them.
        sizes["minAvailable"] = new.replicas
    return task | {key: size for key, size in sizes.items() if size is not None}


def _fixed(spec: batch.JobSpec) -> dict[str, Any]:
    """A job's spec without what an update may change."""
    tasks = [msgspec.structs.replace(task, replicas=None, min_available=None) for task in spec.tasks or ()]
    return to_json(msgspec.structs.replace(spec, tasks=tasks, min_available=None, priority_class_name=None))
