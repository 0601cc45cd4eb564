"""The state machine of a Job, as tables.

Every action that is not in a phase's table means: bring the pods to what the spec asks for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

PENDING = "Pending"
RUNNING = "Running"
RESTARTING = "Restarting"
COMPLETING = "Completing"
COMPLETED = "Completed"
TERMINATING = "Terminating"
TERMINATED = "Terminated"
ABORTING = "Aborting"
ABORTED = "Aborted"
FAILED = "Failed"

# Pods are wanted.
ACTIVE = frozenset({PENDING, RUNNING, RESTARTING})
# Every living pod is killed; the phase that follows once none is alive.
KILLING: Mapping[str, str] = {ABORTING: ABORTED, TERMINATING: TERMINATED, COMPLETING: COMPLETED}
# The job is over and no action changes its phase again.
FINISHED = frozenset({COMPLETED, TERMINATED, FAILED})
# No pod runs and none is wanted.
STOPPED = FINISHED | {ABORTED}

RESTART_JOB = "RestartJob"
RESTART_TASK = "RestartTask"
RESTART_POD = "RestartPod"
RESTART_PARTITION = "RestartPartition"
ABORT_JOB = "AbortJob"
TERMINATE_JOB = "TerminateJob"
COMPLETE_JOB = "CompleteJob"
RESUME_JOB = "ResumeJob"
SYNC_JOB = "SyncJob"

# Actions on a part of the job; they need an event that names a task or a pod.
TARGETED = frozenset({RESTART_TASK, RESTART_POD, RESTART_PARTITION})


@dataclass(frozen=True, slots=True)
class Transition:
    """What an action does in a phase.

    Attributes:
        to: the phase that follows.
        whole: the job's version grows, which makes every pod of today outdated; otherwise only marked pods go.
        retry: the action counts against ``maxRetry``.

    """

    to: str
    whole: bool = True
    retry: bool = False


_STOP: Mapping[str, Transition] = {
    ABORT_JOB: Transition(ABORTING),
    TERMINATE_JOB: Transition(TERMINATING),
    COMPLETE_JOB: Transition(COMPLETING),
}
_RUN: Mapping[str, Transition] = {
    RESTART_JOB: Transition(RESTARTING, retry=True),
    RESTART_TASK: Transition(RESTARTING, whole=False, retry=True),
    RESTART_POD: Transition(RESTARTING, whole=False, retry=True),
    RESTART_PARTITION: Transition(RESTARTING, whole=False, retry=True),
    **_STOP,
}
# Within one restart further pods may have to go: that is still the same retry.
_AGAIN: Mapping[str, Transition] = {
    RESTART_JOB: Transition(RESTARTING),
    RESTART_TASK: Transition(RESTARTING, whole=False),
    RESTART_POD: Transition(RESTARTING, whole=False),
    RESTART_PARTITION: Transition(RESTARTING, whole=False),
    **_STOP,
}
# A resumed job has not failed, so resuming is no retry.
_RESUME: Mapping[str, Transition] = {RESUME_JOB: Transition(RESTARTING)}

TRANSITIONS: Mapping[str, Mapping[str, Transition]] = {
    PENDING: _RUN,
    RUNNING: _RUN,
    RESTARTING: _AGAIN,
    ABORTING: _RESUME,
    ABORTED: _RESUME,
    TERMINATING: {},
    COMPLETING: {},
    COMPLETED: {},
    TERMINATED: {},
    FAILED: {},
}


def transition(phase: str, action: str) -> Transition | None:
    """What ``action`` does in ``phase``; None when it changes nothing there."""
    return TRANSITIONS.get(phase, {}).get(action)
