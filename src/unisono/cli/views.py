"""What ``unisono run`` tells of a job as it changes; the views themselves are the SDK's."""

from __future__ import annotations

from collections.abc import Sequence

from unisono.api.job_state import ENDED, SUCCEEDED
from unisono.api.pod_states import PodEnd, pod_end
from unisono.api.words import counted
from unisono.jobkinds.registry import FLOWS
from unisono.sdk.views import JobView, TaskView, end_text, job_view, pod_view

# Of pods that fail at once, lines for the first ones.
_MOST_FAILURES = 3
# Phases in which a job's pods are ended, and the exit codes that they have then: SIGTERM and SIGKILL.
_ENDING = frozenset({"Aborting", "Aborted", "Terminating", "Terminated", "Restarting", "Completing", "Completed"})
_ENDED_BY_SIGNAL = frozenset({143, 137})

__all__ = [
    "ENDED",
    "FLOWS",
    "SUCCEEDED",
    "JobView",
    "PodEnd",
    "TaskView",
    "changes",
    "end_text",
    "job_view",
    "pod_end",
    "pod_view",
]


def changes(old: JobView | None, new: JobView) -> list[str]:
    """What happened between two views, one line each, as plain progress."""
    if new.kind in FLOWS:
        return _flow_changes(old, new)
    lines = []
    if old is None:
        size = sum(task.wanted for task in new.tasks)
        pods = "1 pod" if size == 1 else f"{size} pods, {new.gang} of them start together or not at all"
        lines.append(f"submitted to queue {new.queue}: {pods}")
    if new.admitted and not (old and old.admitted) and new.kind != "Pod":
        lines.append(f"admitted by queue {new.queue}")
    if new.waiting and new.waiting != (old.waiting if old else ""):
        lines.append(f"waiting: {new.waiting}")
    before = old.placed if old else 0
    # Binds of a gang arrive one after the other: it is told of when it is whole.
    if new.placed > before and new.placed >= new.gang:
        total = sum(task.wanted for task in new.tasks)
        lines.append(f"gang placed: {new.placed}/{total} pods on {_few(new.nodes)}")
    return lines + _phase_and_failures(old, new)


def _flow_changes(old: JobView | None, new: JobView) -> list[str]:
    """Of a job that is made of jobs: which of them begin and have run; each has a gang of its own."""
    before = {task.name: task for task in old.tasks} if old else {}
    # A flow that has succeeded has run all its jobs, and may have taken them away before anybody looked at their ends.
    told, over = (view is not None and (view.kind, view.phase) == ("JobFlow", SUCCEEDED) for view in (old, new))
    lines = []
    for name, task in {**before, **{task.name: task for task in new.tasks}}.items():
        known = before.get(name)
        if known is None:
            lines.append(f"job {name} begins: {counted(task.wanted, 'pod')}")
        if (over or _has_run(task)) and not (told or _has_run(known)):
            lines.append(f"job {name} has run")
    if new.waiting and new.waiting != (old.waiting if old else ""):
        lines.append(f"waiting: {new.waiting}")
    return lines + _phase_and_failures(old, new)


def _has_run(task: TaskView | None) -> bool:
    return task is not None and 0 < task.wanted == task.count("Succeeded")


def _phase_and_failures(old: JobView | None, new: JobView) -> list[str]:
    lines = []
    if new.phase != (old.phase if old else "Pending"):
        lines.append(f"{new.phase}{f': {new.message}' if new.message and new.ended else ''}")
    known = {end.name for end in old.ends} if old else set()
    failed = [end for end in new.ends if end.name not in known and end.phase == "Failed" and not _was_ended(new, end)]
    lines += [f"pod {end.name} failed: {end_text(end)}" for end in failed[:_MOST_FAILURES]]
    if len(failed) > _MOST_FAILURES:
        lines.append(f"{len(failed) - _MOST_FAILURES} more pods failed")
    return lines


def _was_ended(view: JobView, end: PodEnd) -> bool:
    """Whether a pod was ended by the end of its job, and did not fail."""
    return end.exit_code in _ENDED_BY_SIGNAL and view.phase in _ENDING and end.reason in ("", "Error")


def _few(names: Sequence[str], most: int = 3) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more nodes"
