"""Lifecycle policies: which action an event asks for, now or after a while."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from unisono.api.groups.batch import LifecyclePolicy
from unisono.api.times import parse_duration
from unisono.controllers.job import phases
from unisono.controllers.job.occurrences import POD_FAILED, POD_PENDING, Occurrence
from unisono.controllers.job.view import JobView

ANY_EVENT = "*"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A policy that answers an occurrence.

    Attributes:
        occurrence: what happened.
        action: what to do.
        due: when, seconds since 1970.

    """

    occurrence: Occurrence
    action: str
    due: float


@dataclass(slots=True)
class Verdicts:
    """What the policies say.

    Attributes:
        now: actions that are due: at most one on the whole job, or any number on parts of it.
        waiting: actions whose time has not come.

    """

    now: list[Verdict] = field(default_factory=list)
    waiting: list[Verdict] = field(default_factory=list)

    @property
    def next_due(self) -> float | None:
        """When the next waiting action is due."""
        return min((verdict.due for verdict in self.waiting), default=None)


def judge(view: JobView, occurrences: Iterable[Occurrence], now: float) -> Verdicts:
    """Ask the policies about each occurrence, oldest first.

    An action on the whole job makes everything after it void. Actions on parts of the job add up until then.
    """
    verdicts = Verdicts()
    for occurrence in occurrences:
        policy = _policy_for(view, occurrence)
        if policy is None:
            continue
        action = policy.action or phases.SYNC_JOB
        change = phases.transition(view.phase, action)
        if change is None or not _has_target(action, occurrence):
            continue
        verdict = Verdict(occurrence, action, occurrence.since + _delay(policy))
        if verdict.due > now:
            verdicts.waiting.append(verdict)
        elif not change.whole:
            verdicts.now.append(verdict)
        elif not verdicts.now:
            verdicts.now.append(verdict)
            return verdicts
        else:
            # The parts go first; the phase that follows looks again.
            return verdicts
    return verdicts


def _has_target(action: str, occurrence: Occurrence) -> bool:
    """Actions on a part of the job need an event that names that part."""
    if action == phases.RESTART_PARTITION:
        return occurrence.partition is not None
    return action not in phases.TARGETED or bool(occurrence.task)


def _policy_for(view: JobView, occurrence: Occurrence) -> LifecyclePolicy | None:
    """The first policy of the task that matches, or else the first of the job."""
    task = view.task(occurrence.task)
    lists: list[Sequence[LifecyclePolicy]] = [task.policies] if task else []
    lists.append(view.spec.policies or ())
    for policies in lists:
        for policy in policies:
            if _matches(policy, occurrence):
                return policy
    return None


def _matches(policy: LifecyclePolicy, occurrence: Occurrence) -> bool:
    events = [*(policy.events or ()), *([policy.event] if policy.event else ())]
    if occurrence.event == POD_PENDING and not policy.timeout:
        # Every pod is pending at first: without a time-out the policy would never let one start.
        return False
    if occurrence.event in events or ANY_EVENT in events:
        return True
    if policy.exit_code is None or occurrence.event != POD_FAILED:
        return False
    return policy.exit_code in occurrence.exit_codes


def _delay(policy: LifecyclePolicy) -> float:
    if not policy.timeout:
        return 0.0
    try:
        return max(0.0, parse_duration(policy.timeout))
    except ValueError:
        # The API refuses such a text; one that came in another way must not hold up the whole job.
        return 0.0
