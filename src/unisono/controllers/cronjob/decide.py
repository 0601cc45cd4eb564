"""What to do about a cron job: a pure function from the cron job, its jobs and the time to a plan."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from typing import Any

import msgspec

from unisono.api.annotations import handed_down
from unisono.api.base import ObjectMeta
from unisono.api.core import ObjectReference
from unisono.api.cron import Schedule, parse_schedule, parse_zone
from unisono.api.defaulting.kubeflow import FAILED_KEPT, SUCCESSFUL_KEPT
from unisono.api.groups.batch import CronJob, CronJobStatus, Job
from unisono.api.groups.batch_v1 import BatchCronJob, BatchCronJobStatus, BatchJob, BatchJobSpec
from unisono.api.kind import Kind
from unisono.api.kind_families import BATCH_CRON_JOBS, BATCH_JOBS, CRON_JOBS
from unisono.api.kinds import JOBS
from unisono.api.times import rfc3339, time_or
from unisono.controllers.job import view
from unisono.controllers.job_making import make_job, phase_of
from unisono.controllers.owners import owned_by
from unisono.controllers.recorder import Notice

# The two families of cron jobs: Volcano's, and Kubernetes' own.

AnyCronJob = CronJob | BatchCronJob
AnyJob = Job | BatchJob

COMPLETED = "completed"
FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Family:
    """What differs between the families.

    Attributes:
        name: of the controller.
        cron_jobs: kind of the cron jobs.
        jobs: kind of the jobs that they make.
        scheduled: annotation of a job with the time for which it was due.
        outcome: completed or failed, empty while the job goes on.
        ended: when a job that completed did so.
        make: makes a job from the cron job, a name and annotations.
    """

    name: str
    cron_jobs: Kind[Any]
    jobs: Kind[Any]
    scheduled: str
    outcome: Callable[[Any], str]
    ended: Callable[[Any], str | None]
    make: Callable[[Any, str, Mapping[str, str]], Any]


def _outcome(job: Job) -> str:
    phase = phase_of(job)
    if phase == view.COMPLETED:
        return COMPLETED
    return FAILED if phase in view.FINISHED else ""


def _ended(job: Job) -> str | None:
    return job.status.state.last_transition_time


def _make(cron_job: CronJob, name: str, annotations: Mapping[str, str]) -> Job:
    template = cron_job.spec.job_template
    return make_job(
        CRON_JOBS,
        cron_job,
        name,
        template.spec,
        labels=template.metadata.labels,
        annotations={**(template.metadata.annotations or {}), **annotations},
        finalizers=template.metadata.finalizers,
    )


def _batch_outcome(job: BatchJob) -> str:
    true = {each.type for each in job.status.conditions or () if each.status == "True"}
    return COMPLETED if "Complete" in true else FAILED if "Failed" in true else ""


def _batch_ended(job: BatchJob) -> str | None:
    return job.status.completion_time


def _batch_make(cron_job: BatchCronJob, name: str, annotations: Mapping[str, str]) -> BatchJob:
    template = cron_job.spec.job_template
    return BatchJob(
        metadata=ObjectMeta(
            name=name,
            namespace=cron_job.metadata.namespace,
            labels=dict(template.metadata.labels or {}) or None,
            annotations=handed_down(
                cron_job.metadata.annotations, {**(template.metadata.annotations or {}), **annotations}
            ),
            owner_references=[owned_by(BATCH_CRON_JOBS, cron_job)],
        ),
        spec=msgspec.json.decode(msgspec.json.encode(template.spec), type=BatchJobSpec),
    )


VOLCANO = Family(
    "cronjob-controller", CRON_JOBS, JOBS, "volcano.sh/cronjob-scheduled-timestamp", _outcome, _ended, _make
)
KUBERNETES = Family(
    "batch-cronjob-controller",
    BATCH_CRON_JOBS,
    BATCH_JOBS,
    "batch.kubernetes.io/cronjob-scheduled-timestamp",
    _batch_outcome,
    _batch_ended,
    _batch_make,
)

SCHEDULED = VOLCANO.scheduled
# A little after the full second, so that the clock does not wake us a moment too early.
_MARGIN = 0.1
# So many missed starts point to a wrong clock or a pause, which users should know of.
_MANY_MISSED = 100


@dataclass(slots=True)
class CronPlan:
    """Steps in order: delete jobs, make the job, write the status.

    Attributes:
        delete: jobs that are replaced, or too many to keep.
        create: the job that is due.
        status: the status without that job.
        scheduled: the time for which it is due, as it stands in the status.
        notices: events to record.
        requeue_after: seconds until something may be due again.
    """

    delete: list[AnyJob] = field(default_factory=list)
    create: AnyJob | None = None
    status: CronJobStatus | BatchCronJobStatus = field(default_factory=CronJobStatus)
    scheduled: str = ""
    notices: list[Notice] = field(default_factory=list)
    requeue_after: float | None = None

    def tell(self, reason: str, message: str, once: str = "") -> None:
        """Record a normal event."""
        self.notices.append(Notice("Normal", reason, message, once))

    def warn(self, reason: str, message: str, once: str = "") -> None:
        """Record a warning."""
        self.notices.append(Notice("Warning", reason, message, once))


def decide(cron_job: AnyCronJob, jobs: Sequence[AnyJob], now: float, family: Family = VOLCANO) -> CronPlan:
    """The next step for a cron job.

    Args:
        cron_job: the cron job; one that is being deleted gets an empty plan.
        jobs: the jobs that it controls.
        now: seconds since 1970.
        family: whose cron job it is.
    """
    plan = CronPlan(status=cron_job.status)
    if cron_job.metadata.deletion_timestamp:
        return plan
    active = [job for job in jobs if not family.outcome(job)]
    plan.status = _status(plan, cron_job, jobs, active, family)
    plan.delete = _too_many(cron_job, jobs, family)
    if cron_job.spec.suspend:
        return plan
    try:
        zone: tzinfo = parse_zone(cron_job.spec.time_zone) if cron_job.spec.time_zone else UTC
        schedule = parse_schedule(cron_job.spec.schedule)
    except ValueError as error:
        # The API refuses such objects; one that came another way waits for its change.
        plan.warn("InvalidSchedule", f"cannot tell when to start jobs: {error}", once=str(error))
        return plan
    _start(plan, cron_job, active, schedule, zone, now, family)
    return plan


def reference_to(job: AnyJob, family: Family = VOLCANO) -> ObjectReference:
    """How the status names an active job."""
    meta, kind = job.metadata, family.jobs
    return ObjectReference(
        api_version=kind.api_version, kind=kind.kind, namespace=meta.namespace, name=meta.name, uid=meta.uid
    )


def job_name(cron_job: str, time: float) -> str:
    """``<cron job>-<minutes since 1970>``, or the seconds where the time is no full minute."""
    seconds = int(time)
    return f"{cron_job}-{seconds if seconds % 60 else seconds // 60}"


def _status(
    plan: CronPlan, cron_job: AnyCronJob, jobs: Sequence[AnyJob], active: Sequence[AnyJob], family: Family
) -> CronJobStatus | BatchCronJobStatus:
    old = cron_job.status
    jobs_by_uid = {job.metadata.uid: job for job in jobs}
    for reference in old.active or ():
        job = jobs_by_uid.get(reference.uid)
        if job is None:
            plan.tell("MissingJob", f"Active job went missing: {reference.name}", once=f"missing/{reference.uid}")
        elif family.outcome(job):
            message = f"Saw completed job: {reference.name} in active, remove"
            plan.tell("SawCompletedJob", message, once=f"ended/{reference.uid}")
    ends = [family.ended(job) for job in jobs if family.outcome(job) == COMPLETED]
    starts = [_scheduled_time(job, family) for job in jobs]
    return type(old)(
        active=[reference_to(job, family) for job in sorted(active, key=_age)] or None,
        last_schedule_time=_latest(old.last_schedule_time, *starts),
        last_successful_time=_latest(old.last_successful_time, *ends),
    )


def _too_many(cron_job: AnyCronJob, jobs: Sequence[AnyJob], family: Family) -> list[AnyJob]:
    """Ended jobs beyond the limits, the oldest ones."""
    spec = cron_job.spec
    groups = [
        (COMPLETED, spec.successful_jobs_history_limit, SUCCESSFUL_KEPT),
        (FAILED, spec.failed_jobs_history_limit, FAILED_KEPT),
    ]
    surplus: list[AnyJob] = []
    for result, given, default in groups:
        limit = default if given is None else given
        ended = sorted((job for job in jobs if family.outcome(job) == result), key=_age)
        surplus += ended[: max(0, len(ended) - limit)]
    return [job for job in surplus if not job.metadata.deletion_timestamp]


def _start(
    plan: CronPlan,
    cron_job: AnyCronJob,
    active: Sequence[AnyJob],
    schedule: Schedule,
    zone: tzinfo,
    now: float,
    family: Family,
) -> None:
    since = time_or(plan.status.last_schedule_time) or time_or(cron_job.metadata.creation_timestamp) or now
    upcoming = schedule.upcoming(since, now, zone)
    if upcoming is not None:
        plan.requeue_after = upcoming - now + _MARGIN
    deadline = cron_job.spec.starting_deadline_seconds
    due = schedule.latest(since, now, zone)
    if due is None:
        return
    if deadline is not None and due < now - deadline:
        message = f"Missed scheduled time to start a job: {rfc3339(due)}"
        plan.warn("MissSchedule", message, once=f"missed/{due}")
        return
    if schedule.missed(since if deadline is None else max(since, now - deadline), now, zone) > _MANY_MISSED:
        message = (
            "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew; "
            "starting the latest one only"
        )
        plan.warn("TooManyMissedTimes", message, once=f"many/{due}")
    policy = cron_job.spec.concurrency_policy
    if policy == "Forbid" and active:
        message = "Skipping job creation because another job is already running"
        plan.tell("ForbidConcurrent", message, once=f"forbid/{due}")
        return
    if policy == "Replace" and active:
        plan.tell("ReplaceConcurrent", "Replacing active job for CronJob", once=f"replace/{due}")
        plan.delete += [job for job in active if not job.metadata.deletion_timestamp]
    plan.scheduled = rfc3339(due)
    plan.create = _job(cron_job, due, zone, family)


def _job(cron_job: AnyCronJob, due: float, zone: tzinfo, family: Family) -> AnyJob:
    moment = datetime.fromtimestamp(math.floor(due), UTC).astimezone(zone).isoformat().replace("+00:00", "Z")
    made: AnyJob = family.make(cron_job, job_name(cron_job.metadata.name, due), {family.scheduled: moment})
    return made


def _scheduled_time(job: AnyJob, family: Family) -> str | None:
    """For when the job was due: found again from the job when the status was not written."""
    seconds = time_or((job.metadata.annotations or {}).get(family.scheduled))
    return rfc3339(seconds) if seconds else None


def _latest(*times: str | None) -> str | None:
    return max((time for time in times if time), key=time_or, default=None)


def _age(job: AnyJob) -> tuple[float, str]:
    return time_or(job.metadata.creation_timestamp), job.metadata.name
