"""The status of a Job: where it moves on by itself, what is written, and when a change is worth a write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from unisono.api.groups.batch import JobCondition, JobState, JobStatus, TaskState
from unisono.api.keys import JOB_NAME, TASK_SPEC
from unisono.api.times import format_duration, parse_time, rfc3339
from unisono.controllers.job import view as phases
from unisono.controllers.job.observed import Tally
from unisono.controllers.job.sync import unreachable
from unisono.controllers.job.view import JobView, TaskView
from unisono.kube.pace import LONGEST_COUNT_SECONDS, Resume, WritePace

# When a job moves on by itself: rules over the counts of its pods.

Outcome = tuple[str, str]


def pending_rule(view: JobView, counts: Tally) -> Outcome:
    """Running as soon as the gang is there: running, or through already. Failed if it never will be."""
    arrived = counts.running + counts.succeeded + counts.failed
    if view.total and view.min_available <= arrived:
        return phases.RUNNING, ""
    blocked = unreachable(view, counts)
    if blocked and not counts.alive:
        return phases.FAILED, _blocked(blocked)
    return phases.PENDING, ""


def running_rule(view: JobView, counts: Tally) -> Outcome:
    """Completed, Failed, or back to Pending when too few pods are left."""
    total = view.total
    if total == 0:
        return phases.RUNNING, ""
    min_success = view.spec.min_success
    if min_success is not None and counts.succeeded >= min_success:
        return phases.COMPLETED, f"{counts.succeeded} pods succeeded; minSuccess is {min_success}"
    blocked = unreachable(view, counts)
    never = sum(task.replicas for task in blocked)
    if counts.succeeded + counts.failed >= total - never and not counts.terminating:
        if blocked:
            return phases.FAILED, _blocked(blocked)
        return _verdict(view, counts)
    if counts.pending > total - view.min_available:
        return phases.PENDING, f"{counts.pending} of {total} pods are pending; {view.min_available} must run"
    return phases.RUNNING, ""


def restarting_rule(view: JobView, counts: Tally, retry_count: int, unfinished_kills: int) -> Outcome:
    """Failed when no retry is left; Pending again once enough of the old pods are gone."""
    if retry_count >= view.max_retry:
        return phases.FAILED, f"restarted {retry_count} times; maxRetry is {view.max_retry}"
    if not unfinished_kills and view.total - counts.terminating >= view.min_available:
        return phases.PENDING, ""
    return phases.RESTARTING, ""


def _blocked(tasks: list[TaskView]) -> str:
    names = ", ".join(task.name for task in tasks)
    return f"task {names} can never start: a task that it depends on failed"


def _verdict(view: JobView, counts: Tally) -> Outcome:
    """All pods have ended: was it a success."""
    if view.min_available >= view.total_min_available:
        for task in view.tasks:
            done = counts.of(task.name, "Succeeded")
            if done < task.min_available:
                need = task.min_available
                return phases.FAILED, f"{done} pods of task {task.name} succeeded; {need} are needed"
    min_success = view.spec.min_success
    if min_success is not None:
        return phases.FAILED, f"{counts.succeeded} pods succeeded; minSuccess is {min_success}"
    if counts.succeeded >= view.min_available:
        return phases.COMPLETED, f"{counts.succeeded} of {view.total} pods succeeded"
    need = view.min_available
    return phases.FAILED, f"{counts.succeeded} of {view.total} pods succeeded; {need} are needed"


# The status of a Job after a decision.


@dataclass(frozen=True, slots=True)
class TargetState:
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


def current_target(view: JobView) -> TargetState:
    """The state in which the job is."""
    state = view.status.state
    return TargetState(view.phase, view.version, view.retry_count, state.reason or "", state.message or "")


def next_status(
    view: JobView, target: TargetState, counts: Tally, controlled: Mapping[str, str], now: float
) -> JobStatus:
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
            phase=target.phase, reason=target.reason or None, message=target.message or None, last_transition_time=time
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


def _duration(view: JobView, target: TargetState, now: float) -> str | None:
    """From creation to the end, once the job has stopped."""
    created = view.job.metadata.creation_timestamp
    if target.phase not in phases.STOPPED or not created:
        return None
    return format_duration(now - parse_time(created))


# When a changed status of a job is worth a write.
#
# Counts that move all the time are written now and then, and that a job runs is told when the rush of pods is over.
# That a new job waits goes without saying for a moment: most are told together with what they have come to by then.

# Fields that follow the pods one by one; every other field of a status is news.
_COUNTS = ("pending", "running", "succeeded", "failed", "terminating", "unknown", "task_status_count", "replicas")
_NO_COUNTS = dict.fromkeys(_COUNTS)
# Times are kept for so many jobs before those that say nothing any more are dropped.
_REMEMBERED = 4096


class CountPacing:
    """Lets a status that differs in counts alone wait until some time after the job's last write."""

    def __init__(self, interval: float, settle: float) -> None:
        """Make one for all jobs of a controller.

        Args:
            interval: shortest time in seconds between two writes of one job, as long as only counts change; a new job
                gets as long before its first write.
            settle: time in seconds that counts which begin to change get to come to rest.
        """
        self._interval, self._settle = interval, min(settle, interval)
        self._written: dict[str, float] = {}
        self._noticed: dict[str, float] = {}
        self._met: dict[str, float] = {}

    def wait(self, uid: str, old: JobStatus, new: JobStatus, now: float, stretch: float = 1.0) -> float:
        """Seconds that the write of ``new`` waits; 0 for now.

        ``now`` is monotonic seconds; ``stretch`` multiplies the times while the API server is slow.
        """
        if _but_counts(old) != _but_counts(new):
            return 0.0
        due = self._noticed.setdefault(uid, now) + self._settle * stretch if old != new else now
        if uid in self._written:
            due = max(due, self._written[uid] + self._interval * stretch)
        if uid in self._met:
            due = max(due, self._met[uid] + self._interval * stretch)
        return max(0.0, due - now)

    def met(self, uid: str, now: float) -> None:
        """The job has no status yet."""
        self._met.setdefault(uid, now)

    def written(self, uid: str, now: float) -> None:
        """The job's status was written."""
        self.settled(uid)
        self._written[uid] = now
        if len(self._written) > _REMEMBERED:
            self._written = {key: when for key, when in self._written.items() if when > now - self._interval}

    def settled(self, uid: str) -> None:
        """The stored status is right."""
        self._noticed.pop(uid, None)
        self._met.pop(uid, None)

    def forget(self, uid: str) -> None:
        """The job is gone."""
        self._written.pop(uid, None)
        self.settled(uid)


class GivingWay:
    """Lets a status that only tells how well the pods come along wait while pods of other jobs are being made."""

    def __init__(self, pace: WritePace, resume: Resume) -> None:
        """``resume`` is called with each key that waited, at the end of the rush."""
        self._pace, self._resume = pace, resume
        self._since: dict[str, float] = {}

    def wait(self, key: str, old: JobStatus, new: JobStatus, now: float) -> float:
        """Longest time in seconds that the write of ``new`` waits; 0 for now. ``now`` is monotonic seconds."""
        if not self._pace.rush or not _good_news(old, new):
            return 0.0
        left = self._since.setdefault(key, now) + LONGEST_COUNT_SECONDS - now
        if left > 0:
            self._pace.park(key, self._resume)
        return max(0.0, left)

    def over(self, key: str) -> None:
        """The stored status of the job is right, or is being written, or the job is gone."""
        self._since.pop(key, None)
        self._pace.leave(key, self._resume)


def _good_news(old: JobStatus, new: JobStatus) -> bool:
    """Counts have moved, or the job runs now: nothing that anybody has to act upon."""
    return _but_counts(old) == _but_counts(new) or starts(old, new)


def starts(old: JobStatus, new: JobStatus) -> bool:
    """The job runs now, and nothing else is new but counts."""
    started = (old.state.phase, new.state.phase) == (phases.PENDING, phases.RUNNING)
    return started and _but_counts(old, state=None, conditions=None) == _but_counts(new, state=None, conditions=None)


def _but_counts(status: JobStatus, **others: None) -> JobStatus:
    return msgspec.structs.replace(status, **_NO_COUNTS, **others)
