"""Texts that users and tools know, as Volcano words them."""

from __future__ import annotations

import re
from functools import lru_cache

from unisono.api.annotations import USER_LIMITS
from unisono.cluster.status import TaskStatus
from unisono.engine.cycle.context import Cycle
from unisono.engine.cycle.reports import JobReport
from unisono.engine.session.job_state import JobState
from unisono.engine.verdict import Cause, Verdict

_NUMBERS = re.compile(r"(?<![\w-])\d[\d.]*[a-zA-Z]{0,2}(?![\w-])")
_LABELS = [status.label for status in TaskStatus]
NOT_ENFORCED = "NotEnforced"
"""Reason of the event about a bound that no configured plug-in enforces."""
SCHEDULED_REASON = "tasks in gang are ready to be scheduled"


def histogram(counts: dict[str, int]) -> str:
    """``2 Pending, 1 Running``: entries sorted as strings, zeros left out."""
    return ", ".join(sorted(f"{count} {label}" for label, count in counts.items() if count))


def job_fit_text(job: JobState, report: JobReport | None) -> str:
    """``pod group is not ready, 6 Pending, 6 minAvailable; Pending: 3 Schedulable, 3 Unschedulable. Origin ...``."""
    counts = {_LABELS[at]: number for at, number in enumerate(job.counts) if number}
    if job.min_member:
        counts["minAvailable"] = job.min_member
    head = "pod group is ready" if job.is_ready else "pod group is not ready"
    text = f"{head}, {histogram(counts)}" if counts else head
    pending = job.counts[TaskStatus.PENDING]
    if pending:
        could = min(report.schedulable(), pending) if report is not None else 0
        text += f"; Pending: {histogram({'Schedulable': could, 'Unschedulable': pending - could})}"
    if report is not None and report.fit is not None and report.task is not None:
        text += f". Origin reason is {report.task.name}: {report.fit.text}"
    return text


def condition_message(job: JobState, report: JobReport | None) -> str:
    """``3/6 tasks in gang unschedulable: ...``: how many of the gang's minimum have no place, of how many pods."""
    could = report.schedulable() if report is not None else 0
    short = max(job.min_member - job.ready_count - could, 0)
    return f"{short}/{job.size} tasks in gang unschedulable: {job_fit_text(job, report)}"


def not_enforced(cycle: Cycle, job: JobState) -> list[str]:
    """Bounds that hold for a job and that no configured plug-in enforces, one sentence each."""
    configured, record, told = {plugin.name for plugin in cycle.config.plugins}, job.record, list[str]()
    wishes = [record.topology, *(policy.wish for policy in record.sub_groups)]
    hard = any(wish is not None and wish.hard for wish in wishes) and len(cycle.session.snapshot.hyper_nodes) > 1
    if hard and "network-topology-aware" not in configured:
        told.append("networkTopology: hard is not enforced; list the plug-in network-topology-aware")
    if job.queue.record.annotations.get(USER_LIMITS) and "user-limits" not in configured:
        told.append(f"{USER_LIMITS} of queue {job.queue.name} is not enforced; list the plug-in user-limits")
    return told


def with_verdict(message: str, verdict: Verdict | None) -> str:
    """Volcano's text, and behind it the verdict, as every other place words it, and what would help."""
    if verdict is None:
        return message
    if verdict.cause is not Cause.NOT_TRIED:
        message = f"{message.rstrip('.')}: {verdict.message}"
    if verdict.spared:
        message = f"{message.rstrip('.')}; no pod is evicted for it: {verdict.spared}"
    return f"{message.rstrip('.')}; to start it: {verdict.suggestion}" if verdict.suggestion else message


def event_message(job: JobState, report: JobReport | None, verdict: Verdict | None) -> str:
    """The same with the number of pending pods, for the event, which does not say what would help."""
    text = f"{job.counts[TaskStatus.PENDING]}/{job.size} tasks in gang unschedulable: {job_fit_text(job, report)}"
    return f"{text.rstrip('.')}: {verdict.message}" if verdict is not None else text


def pod_message(own: str, verdict: Verdict | None) -> str:
    """Why a pod has no node: what the nodes say of it, and the verdict on its gang."""
    if verdict is None or verdict.cause is Cause.NOT_TRIED:
        return own
    told = own.rstrip(".")
    return verdict.message if told in verdict.message else f"{told}: {verdict.message}"


@lru_cache(maxsize=4096)
def without_numbers(message: str) -> str:
    """What stays of a message while amounts change, which are no reason to tell every pod again."""
    return _NUMBERS.sub("", message)


def pod_waits_for_gang(namespace: str, name: str, node: str) -> str:
    """The pod has a place; its gang does not."""
    return f"Pod {namespace}/{name} can possibly be assigned to {node}, once minAvailable is satisfied"


def pod_waits_for_release(namespace: str, name: str, node: str) -> str:
    """The pod's place is still being released."""
    return (
        f"Pod {namespace}/{name} can possibly be assigned to {node}, "
        "once resource is released and minAvailable is satisfied"
    )
