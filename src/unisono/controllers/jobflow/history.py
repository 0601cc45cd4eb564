"""The status of a job flow: its jobs by phase, and what each of them went through (pure)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from unisono.api.groups.batch import Job
from unisono.api.groups.flow import FlowCondition, FlowJobStatus, FlowState, JobFlowStatus, RunningHistory
from unisono.api.times import rfc3339
from unisono.controllers.job import phases
from unisono.controllers.job_making import has_ended, phase_of

# Where the names of jobs in a phase are listed; in every other phase they are under ``unKnowJobs``.
_LISTS: Mapping[str, str] = {
    phases.PENDING: "pending_jobs",
    phases.RUNNING: "running_jobs",
    # They still have pods.
    phases.COMPLETING: "running_jobs",
    phases.TERMINATING: "running_jobs",
    phases.COMPLETED: "completed_jobs",
    phases.FAILED: "failed_jobs",
    phases.TERMINATED: "terminated_jobs",
}


def ended_states(status: JobFlowStatus) -> dict[str, str]:
    """Last phase of jobs that have ended, as the status remembers them."""
    return {
        each.name: each.state
        for each in status.job_status_list or ()
        if each.name and each.state and each.state in phases.FINISHED
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
    known = {each.name: each for each in old.job_status_list or ()}
    entries = [
        _entry(known.get(name), jobs[name], now) if name in jobs else known[name]
        for name, state in states.items()
        if name in jobs or (state is not None and name in known)
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
