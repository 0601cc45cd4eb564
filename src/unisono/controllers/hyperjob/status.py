"""The status of a hyper job: its jobs and their pods in sum, and how it ended (pure)."""

from __future__ import annotations

from collections.abc import Mapping

from unisono.api.batch import Job, JobState
from unisono.api.hyper_job import HyperJob, HyperJobStatus, ReplicatedJob, ReplicatedJobStatus
from unisono.api.meta import Condition
from unisono.api.times import rfc3339
from unisono.controllers.job import phases

COMPLETED, FAILED = "Completed", "Failed"
_COUNTERS = ("pending", "running", "succeeded", "failed", "terminating", "unknown")


def ended_states(status: HyperJobStatus) -> dict[str, str]:
    """Last phase of jobs that have ended, as the status remembers them."""
    return {
        name: state.phase
        for each in status.replicated_jobs_status or ()
        for name, state in (each.job_states or {}).items()
        if state.phase in phases.FINISHED and state.phase
    }


def next_status(
    hyper_job: HyperJob, jobs: Mapping[str, Job], states: Mapping[str, str | None], now: float
) -> HyperJobStatus:
    """The whole status.

    Args:
        hyper_job: the hyper job with its stored status.
        jobs: the jobs that exist, by name.
        states: phase of every job that there should be, None for those that are yet to be made.
        now: seconds since 1970.

    """
    replicated = hyper_job.spec.replicated_jobs or ()
    return HyperJobStatus(
        conditions=_conditions(hyper_job, states, now),
        replicated_jobs_status=[_replicated(hyper_job, each, jobs, states) for each in replicated] or None,
        split_count=len(states) or None,
        observed_generation=hyper_job.metadata.generation,
    )


def _replicated(
    hyper_job: HyperJob, replicated: ReplicatedJob, jobs: Mapping[str, Job], states: Mapping[str, str | None]
) -> ReplicatedJobStatus:
    before = {each.name: each.job_states or {} for each in hyper_job.status.replicated_jobs_status or ()}
    status = ReplicatedJobStatus(name=replicated.name)
    found: dict[str, JobState] = {}
    for number in range(1 if replicated.replicas is None else replicated.replicas):
        name = f"{hyper_job.metadata.name}-{replicated.name}-{number}"
        job = jobs.get(name)
        if job is not None:
            found[name] = job.status.state
            for counter in _COUNTERS:
                count = (getattr(status, counter) or 0) + (getattr(job.status, counter) or 0)
                setattr(status, counter, count or None)
        elif states.get(name) is not None and name in before.get(replicated.name, {}):
            found[name] = before[replicated.name][name]
    status.job_states = found or None
    return status


def _conditions(hyper_job: HyperJob, states: Mapping[str, str | None], now: float) -> list[Condition] | None:
    """None before every job has ended. A suspended job can be resumed, so it has not."""
    ends = list(states.values())
    if not ends or not all(state in phases.FINISHED for state in ends):
        return None
    completed, failed, terminated = (
        ends.count(phase) for phase in (phases.COMPLETED, phases.FAILED, phases.TERMINATED)
    )
    if completed == len(ends):
        kind, reason = COMPLETED, "AllChildVCJobsCompleted"
        message = f"HyperJob completed: {completed} completed"
    else:
        kind, reason = FAILED, "SomeChildVCJobsUnsuccessful"
        message = f"HyperJob failed: {completed} completed, {failed} failed, 0 aborted, {terminated} terminated"
    before = next((each for each in hyper_job.status.conditions or () if each.type == kind), None)
    since = before.last_transition_time if before is not None else rfc3339(now)
    return [Condition(type=kind, status="True", last_transition_time=since, reason=reason, message=message)]
