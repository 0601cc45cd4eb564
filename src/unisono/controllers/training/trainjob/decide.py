"""What to do about a TrainJob: a pure function from observed objects and the time to a plan."""

from __future__ import annotations

import msgspec

from unisono.api.conditions import is_true
from unisono.api.documents.merge import merge_diff
from unisono.api.groups.job_set import JobSet
from unisono.api.groups.trainer import TrainingRuntimeSpec, TrainJob, TrainJobReplicatedStatus, TrainJobStatus
from unisono.api.keys import TRAINJOB_CONTROLLER
from unisono.api.kind_families import JOB_SETS
from unisono.api.times import parse_time, rfc3339
from unisono.api.validation.training import validate_train_job
from unisono.controllers.keys import TooManyHosts
from unisono.controllers.objects import owner_uid, to_json
from unisono.controllers.plan import Resource
from unisono.controllers.training.plan import TrainingPlan, set_condition
from unisono.controllers.training.trainjob.build import build_job_set, mpi_objects, strange_targets

COMPLETE, FAILED, SUSPENDED = "Complete", "Failed", "Suspended"
# Seconds until a runtime that was not there is looked for again.
_RUNTIME_RETRY = 10.0


def decide(job: TrainJob, runtime: TrainingRuntimeSpec | None, job_set: JobSet | None, now: float) -> TrainingPlan:
    """The next step for the job.

    Args:
        job: the job.
        runtime: the runtime that it refers to; None when there is none.
        job_set: the JobSet of the job's name, if it is there.
        now: seconds since 1970.

    """
    plan = TrainingPlan()
    if job.spec.managed_by not in (None, "", TRAINJOB_CONTROLLER):
        return plan
    status = msgspec.convert(msgspec.to_builtins(job.status), TrainJobStatus)
    if is_true(status.conditions, COMPLETE) or is_true(status.conditions, FAILED):
        _wind_down(plan, status, job_set)
        return plan
    if not status.conditions and job_set is None:
        errors = [error.message() for error in validate_train_job(job, None)]
        if errors:
            plan.warn("FailedValidation", "; ".join(errors), once="validation")
            return plan
    time = rfc3339(now)
    if job.spec.suspend:
        _set(plan, status, SUSPENDED, "True", SUSPENDED, "TrainJob is suspended", time)
    elif is_true(status.conditions, SUSPENDED):
        _set(plan, status, SUSPENDED, "False", "Resumed", "TrainJob is resumed", time)
    if job_set is not None and owner_uid(job_set) == job.metadata.uid:
        _follow(plan, status, job_set, time)
    _expire(plan, job, status, time, now)
    ended = is_true(status.conditions, COMPLETE) or is_true(status.conditions, FAILED)
    if not ended:
        _make(plan, job, runtime, job_set)
    if status != job.status:
        plan.status = status
    return plan


def _make(plan: TrainingPlan, job: TrainJob, runtime: TrainingRuntimeSpec | None, job_set: JobSet | None) -> None:
    """The JobSet: made once; changed only while it is suspended, but suspended and resumed at any time."""
    if runtime is None:
        kind = job.spec.runtime_ref.kind or "ClusterTrainingRuntime"
        text = f"{kind} {job.spec.runtime_ref.name} does not exist; create it, or refer to another one in a new job"
        plan.warn("TrainingRuntimeNotFound", text, once=text)
        plan.again_within(_RUNTIME_RETRY)
        return
    if job_set is None and (strange := strange_targets(job, runtime)):
        plan.warn("UnknownTargetJob", strange, once=strange)
        return
    built = build_job_set(job, runtime)
    if runtime.ml_policy is not None and runtime.ml_policy.mpi is not None:
        try:
            plan.ensure.extend(mpi_objects(job, runtime.ml_policy.mpi, built.spec))
        except TooManyHosts as error:
            plan.warn(TooManyHosts.__name__, str(error), once=str(error))
            return
    if job_set is None or owner_uid(job_set) != job.metadata.uid:
        plan.ensure.append(Resource(JOB_SETS, built, permanent=True, warning="FailedCreateJobSet"))
        return
    patch = {}
    if bool(job_set.spec.suspend) != bool(built.spec.suspend):
        patch["suspend"] = bool(built.spec.suspend)
    if job_set.spec.suspend and to_json(job_set.spec).get("replicatedJobs") != to_json(built.spec).get(
        "replicatedJobs"
    ):
        change = merge_diff(to_json(job_set.spec), to_json(built.spec))
        patch |= {key: value for key, value in change.items() if key == "replicatedJobs"}
    if patch:
        plan.patches.append((JOB_SETS, job_set.metadata.name, {"spec": patch}))


def _follow(plan: TrainingPlan, status: TrainJobStatus, job_set: JobSet, time: str) -> None:
    """Take over what the JobSet says."""
    status.jobs_status = [
        TrainJobReplicatedStatus(
            name=each.name,
            ready=each.ready,
            succeeded=each.succeeded,
            failed=each.failed,
            active=each.active,
            suspended=each.suspended,
        )
        for each in job_set.status.replicated_jobs_status or ()
    ] or None
    for theirs, ours in (("Completed", COMPLETE), ("Failed", FAILED)):
        for each in job_set.status.conditions or ():
            if each.type == theirs and each.status == "True":
                _set(plan, status, ours, "True", each.reason or theirs, each.message or "", time)


def _expire(plan: TrainingPlan, job: TrainJob, status: TrainJobStatus, time: str, now: float) -> None:
    limit = job.spec.active_deadline_seconds
    if limit is None or job.spec.suspend or is_true(status.conditions, COMPLETE):
        return
    resumed = [each.last_transition_time for each in status.conditions or () if each.type == SUSPENDED]
    since = (resumed[0] if resumed else None) or job.metadata.creation_timestamp or time
    left = parse_time(since) + limit - now
    if left > 0:
        plan.again_within(left)
    else:
        text = "TrainJob exceeded its active deadline"
        _set(plan, status, FAILED, "True", "DeadlineExceeded", text, time)


def _wind_down(plan: TrainingPlan, status: TrainJobStatus, job_set: JobSet | None) -> None:
    """A job that is out of time takes its JobSet with it, and so its pods."""
    late = any(each.type == FAILED and each.reason == "DeadlineExceeded" for each in status.conditions or ())
    if late and job_set is not None and not job_set.metadata.deletion_timestamp:
        plan.remove.append((JOB_SETS, job_set))


def _set(
    plan: TrainingPlan, status: TrainJobStatus, type: str, value: str, reason: str, message: str, time: str
) -> None:
    before = list(status.conditions or ())
    after = set_condition(before, type, value, reason, message, time)
    if after != before:
        record = plan.warn if type == FAILED else plan.tell
        record(reason, message)
        status.conditions = after
