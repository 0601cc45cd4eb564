"""The status of a hyper job: its jobs and their pods in sum, and how it ended (pure)."""

from __future__ import annotations

from collections.abc import Mapping

from unisono.api.base import Condition
from unisono.api.conditions import find_condition
from unisono.api.groups.batch import HyperJob, HyperJobStatus, Job, JobState, ReplicatedJob, ReplicatedJobStatus
from unisono.api.times import rfc3339
from unisono.controllers.job import phases

COMPLETED, FAILED = "Completed", "Failed"
LOST = frozenset({phases.FAILED, phases.TERMINATED})
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


def is_lost(hyper_job: HyperJob, states: Mapping[str, str | None]) -> bool:
    """Whether ``minAvailable`` jobs can no longer complete; never where the hyper job does not set it."""
    if hyper_job.spec.min_available is None:
        return False
    lost = sum(state in LOST for state in states.values())
    return len(states) - lost < _needed(hyper_job, states)


def _needed(hyper_job: HyperJob, states: Mapping[str, str | None]) -> int:
    """Jobs that must complete: all of them unless ``minAvailable`` says less."""
    given = hyper_job.spec.min_available
    return len(states) if given is None else min(given, len(states))


def _replicated(
    hyper_job: HyperJob, replicated: ReplicatedJob, jobs: Mapping[str, Job], states: Mapping[str, str | None]
) -> ReplicatedJobStatus:
    before = {each.name: each.job_states or {} for each in hyper_job.status.replicated_jobs_status or ()}
    status = ReplicatedJobStatus(name=replicated.name)
    found: dict[str, JobState] = {}
    prefix = f"{hyper_job.metadata.name}-{replicated.name}-"
    for name in states:
        if name.rpartition("-")[0] != prefix[:-1]:
            continue
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
    # Jobs that were never made are not made any more once too many are lost.
    ends = [state for state in states.values() if state is not None or not is_lost(hyper_job, states)]
    if not ends or not all(state in phases.FINISHED for state in ends):
        return None
    completed, failed, terminated = (
        ends.count(phase) for phase in (phases.COMPLETED, phases.FAILED, phases.TERMINATED)
    )
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
