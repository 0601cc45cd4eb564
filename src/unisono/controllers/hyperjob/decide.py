"""What to do about a hyper job: a pure function from the hyper job and its jobs to a plan."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from unisono.api.groups.batch import HyperJob, HyperJobStatus, Job, JobSpec, ReplicatedJob
from unisono.api.kind_families import HYPER_JOBS
from unisono.controllers.hyperjob.split import SplitError, WantedJob, wanted_jobs
from unisono.controllers.hyperjob.status import LOST, ended_states, is_lost, next_status
from unisono.controllers.job import phases
from unisono.controllers.job_making import has_ended, make_job, phase_of
from unisono.controllers.notices import Notice
from unisono.controllers.parallel import SLICE
from unisono.controllers.patching import contains, to_json

BY_HYPER_JOB = "volcano.sh/hyperjob-name"
BY_REPLICATED_JOB = "volcano.sh/replicatedjob-name"
TEMPLATE_HASH = "volcano.sh/vcjob-template-spec-hash"
_OVER = phases.FINISHED | {phases.TERMINATING}


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

    status: HyperJobStatus
    create: list[Job] = field(default_factory=list)
    patch: list[tuple[Job, dict[str, Any]]] = field(default_factory=list)
    delete: list[Job] = field(default_factory=list)
    terminate: list[Job] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    more: bool = False


def decide(hyper_job: HyperJob, jobs: Mapping[str, Job], now: float) -> HyperPlan:
    """The next step for a hyper job.

    Args:
        hyper_job: the hyper job; nothing is made for one that is being deleted.
        jobs: the jobs that it controls, by name.
        now: seconds since 1970.

    """
    try:
        wanted = {each.name: each for each in wanted_jobs(hyper_job)}
    except SplitError as error:
        # Jobs that run are left alone until the policy can be followed.
        return HyperPlan(hyper_job.status, notices=[Notice("Warning", "FailedSplit", str(error), once=str(error))])
    states = {name: _state(hyper_job, name, each.replicated, jobs) for name, each in wanted.items()}
    plan = HyperPlan(next_status(hyper_job, jobs, states, now))
    if hyper_job.metadata.deletion_timestamp:
        return plan
    if is_lost(hyper_job, states):
        plan.terminate = [job for name, job in jobs.items() if name in wanted and phase_of(job) not in _OVER]
        return plan
    for name, each in wanted.items():
        job = jobs.get(name)
        if states[name] is None:
            if len(plan.create) < SLICE:
                plan.create.append(_job(hyper_job, each))
            else:
                plan.more = True
        elif job is not None and not has_ended(job):
            _follow(plan, job, each.spec)
    surplus = [job for name, job in jobs.items() if name not in wanted]
    plan.delete = [job for job in surplus if not job.metadata.deletion_timestamp]
    return plan


def template_hash(spec: JobSpec) -> str:
    """Digest of a template, short enough for a label."""
    return hashlib.sha256(msgspec.json.encode(spec, order="deterministic")).hexdigest()[:16]


def _state(hyper_job: HyperJob, name: str, replicated: ReplicatedJob, jobs: Mapping[str, Job]) -> str | None:
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


def _job(hyper_job: HyperJob, wanted: WantedJob) -> Job:
    labels = {
        BY_HYPER_JOB: hyper_job.metadata.name,
        BY_REPLICATED_JOB: wanted.replicated.name,
        TEMPLATE_HASH: template_hash(wanted.spec),
    }
    return make_job(HYPER_JOBS, hyper_job, wanted.name, wanted.spec, labels=labels)


def _follow(plan: HyperPlan, job: Job, template: JobSpec) -> None:
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


def _fixed(spec: JobSpec) -> dict[str, Any]:
    """A job's spec without what an update may change."""
    tasks = [msgspec.structs.replace(task, replicas=None, min_available=None) for task in spec.tasks or ()]
    return to_json(msgspec.structs.replace(spec, tasks=tasks, min_available=None, priority_class_name=None))
