"""The status of a Job after a decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from unisono.api.groups.batch import JobCondition, JobState, JobStatus, TaskState
from unisono.api.keys import JOB_NAME, TASK_SPEC
from unisono.api.times import format_duration, parse_time, rfc3339
from unisono.controllers.job import phases
from unisono.controllers.job.observed import Tally
from unisono.controllers.job.view import JobView


@dataclass(frozen=True, slots=True)
class Target:
    """The state that a decision leads to.

    Attributes:
        phase: phase of the job.
        version: version of the job.
        retry_count: restarts so far.
        reason: for machines: the action that led here, or what the job waits for.
        message: the same for people.

    """

    phase: str
    version: int
    retry_count: int
    reason: str = ""
    message: str = ""


def current_target(view: JobView) -> Target:
    """The state in which the job is."""
    state = view.status.state
    return Target(view.phase, view.version, view.retry_count, state.reason or "", state.message or "")


def next_status(view: JobView, target: Target, counts: Tally, controlled: Mapping[str, str], now: float) -> JobStatus:
    """The whole status to write.

    ``lastTransitionTime`` and the list of conditions move with the phase and with nothing else. Zero counts are
    absent, as on every Volcano job.
    """
    old = view.status
    moved = target.phase != view.phase
    last = view.tasks[-1].name if view.tasks else ""
    time = rfc3339(now) if moved else old.state.last_transition_time
    return JobStatus(
        state=JobState(
            phase=target.phase,
            reason=target.reason or None,
            message=target.message or None,
            last_transition_time=time,
        ),
        min_available=view.min_available or None,
        task_status_count={
            task: TaskState(phase=dict(sorted(states.items()))) for task, states in sorted(counts.tasks.items())
        }
        or None,
        pending=counts.pending or None,
        running=counts.running or None,
        succeeded=counts.succeeded or None,
        failed=counts.failed or None,
        terminating=counts.terminating or None,
        unknown=counts.unknown or None,
        version=target.version or None,
        retry_count=target.retry_count or None,
        running_duration=_duration(view, target, now) if moved else old.running_duration,
        controlled_resources=dict(controlled) or None,
        conditions=_conditions(old, target.phase, time) if moved else old.conditions,
        replicas=sum(counts.of(last, phase) for phase in ("Pending", "Running", "Unknown")) or None,
        selector=f"{JOB_NAME}={view.name},{TASK_SPEC}={last}" if moved and last else old.selector,
    )


def _conditions(old: JobStatus, phase: str, time: str | None) -> list[JobCondition]:
    """One entry per phase, the newest last."""
    others = [condition for condition in old.conditions or () if condition.status != phase]
    return [*others, JobCondition(status=phase, last_transition_time=time)]


def _duration(view: JobView, target: Target, now: float) -> str | None:
    """From creation to the end, once the job has stopped."""
    created = view.job.metadata.creation_timestamp
    if target.phase not in phases.STOPPED or not created:
        return None
    return format_duration(now - parse_time(created))
