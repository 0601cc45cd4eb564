"""How many pods of a Job have succeeded and failed: every pod counts once, also after a crash (pure).

A pod carries a finalizer until its end is in the status. First its uid is written to
``status.uncountedTerminatedPods``, then the finalizer goes, and only when it has gone does the uid become a count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from unisono.api.core import Pod
from unisono.api.finalizers import has_finalizer
from unisono.api.groups.batch_v1 import BatchJob, UncountedTerminatedPods
from unisono.api.index_lists import format_indexes, parse_indexes
from unisono.api.keys import COMPLETION_INDEX
from unisono.api.pod_states import has_ended
from unisono.controllers.keys import whole_number
from unisono.controllers.pod_facts import has_failed, has_succeeded, is_active, is_deleting, is_ready, judge

FINALIZER = "batch.kubernetes.io/job-tracking"
INDEX_FAILURES = "batch.kubernetes.io/job-index-failure-count"
# Pods whose end is written down at one look: the status must not grow without bound.
_MOST_UNCOUNTED = 500


@dataclass(slots=True)
class BatchTally:
    """Pods of a Job, counted.

    Attributes:
        active: pods that are neither over nor being deleted.
        ready: how many of them answer.
        terminating: pods that are being deleted and still run.
        succeeded: pods that succeeded (of an Indexed Job: indexes).
        failed: pods that failed, without those that the policy ignores.
        counted: the same without the pods whose uids are still in the status.
        uncounted: those uids.
        release: pods whose finalizer can go once the status is written.
        completed: indexes that have succeeded.
        failed_indexes: indexes that have failed for good.
        verdict: message of the policy's rule that fails the Job, empty when none does.

    """

    active: list[Pod] = field(default_factory=list)
    ready: int = 0
    terminating: list[Pod] = field(default_factory=list)
    succeeded: int = 0
    failed: int = 0
    counted: tuple[int, int] = (0, 0)
    uncounted: UncountedTerminatedPods | None = None
    release: list[Pod] = field(default_factory=list)
    completed: set[int] = field(default_factory=set)
    failed_indexes: set[int] = field(default_factory=set)
    verdict: str = ""

    @property
    def completed_text(self) -> str | None:
        """``completed`` on the wire."""
        return format_indexes(self.completed) or None


def is_indexed(job: BatchJob) -> bool:
    """Whether every pod of the Job has a number."""
    return job.spec.completion_mode == "Indexed"


def index_of(pod: Pod) -> int | None:
    """The pod's number."""
    return whole_number((pod.metadata.annotations or {}).get(COMPLETION_INDEX))


def index_failures(pod: Pod) -> int:
    """Failures of the pod's index before this pod."""
    return whole_number((pod.metadata.annotations or {}).get(INDEX_FAILURES)) or 0


def is_tracked(pod: Pod) -> bool:
    """Whether the pod still carries the finalizer."""
    return has_finalizer(pod, FINALIZER)


def counts_as_failed(job: BatchJob, pod: Pod) -> bool:
    """Whether a pod counts as failed: one that is being deleted does, unless only failed pods are replaced."""
    if has_failed(pod):
        return True
    if is_deleting(pod) and pod.metadata.deletion_grace_period_seconds == 0:
        # Its node has let it go: nothing of it runs any more, whatever its phase says.
        return not has_succeeded(pod)
    replaces_late = job.spec.pod_replacement_policy == "Failed" or job.spec.pod_failure_policy is not None
    return is_deleting(pod) and not has_succeeded(pod) and not replaces_late


def count(job: BatchJob, pods: Sequence[Pod]) -> BatchTally:
    """Count the pods of a Job, beginning with what its status says."""
    old = job.status
    tally = BatchTally(active=[pod for pod in pods if is_active(pod)])
    tally.ready = sum(map(is_ready, tally.active))
    tally.terminating = [pod for pod in pods if is_deleting(pod) and not has_ended(pod)]
    pods_by_uid = {pod.metadata.uid: pod for pod in pods}
    noted = old.uncounted_terminated_pods or UncountedTerminatedPods()
    waiting: list[set[str]] = [set(), set()]
    counts = [old.succeeded or 0, old.failed or 0]
    for kind, uids in enumerate((noted.succeeded, noted.failed)):
        for uid in uids or ():
            pod = pods_by_uid.get(uid)
            if pod is not None and is_tracked(pod):
                waiting[kind].add(uid)
                tally.release.append(pod)
            else:
                counts[kind] += 1
    if is_indexed(job):
        tally.completed = _indexes(old.completed_indexes, job.spec.completions)
        tally.failed_indexes = _indexes(old.failed_indexes, job.spec.completions)
    _add_ended(job, pods, tally, waiting)
    if is_indexed(job):
        counts[0] = len(tally.completed)
        tally.succeeded = len(tally.completed)
    else:
        tally.succeeded = counts[0] + len(waiting[0])
    tally.failed = counts[1] + len(waiting[1])
    tally.counted = (counts[0], counts[1])
    if waiting[0] or waiting[1]:
        tally.uncounted = UncountedTerminatedPods(
            succeeded=sorted(waiting[0]) or None, failed=sorted(waiting[1]) or None
        )
    return tally


def _add_ended(job: BatchJob, pods: Sequence[Pod], tally: BatchTally, waiting: list[set[str]]) -> None:
    indexed, most = is_indexed(job), job.spec.completions or 0
    for pod in pods:
        uid = pod.metadata.uid or ""
        if not is_tracked(pod) or uid in waiting[0] or uid in waiting[1]:
            continue
        if len(waiting[0]) + len(waiting[1]) >= _MOST_UNCOUNTED:
            return
        index = index_of(pod) if indexed else None
        strange = indexed and (index is None or index >= most)
        if has_succeeded(pod):
            if indexed and not strange and index is not None:
                tally.completed.add(index)
            elif not indexed:
                waiting[0].add(uid)
        elif counts_as_failed(job, pod):
            action = "Ignore" if strange else _judge(job, pod, tally)
            if action != "Ignore":
                waiting[1].add(uid)
            if index is not None and not strange:
                _count_index(job, pod, index, action, tally)
        else:
            continue
        tally.release.append(pod)


def _count_index(job: BatchJob, pod: Pod, index: int, action: str, tally: BatchTally) -> None:
    limit = job.spec.backoff_limit_per_index
    if limit is None or index in tally.completed or action == "Ignore":
        return
    if action == "FailIndex" or index_failures(pod) >= limit:
        tally.failed_indexes.add(index)


def _judge(job: BatchJob, pod: Pod, tally: BatchTally) -> str:
    """What the policy says about a failed pod; Count without one."""
    action, message = judge(job.spec.pod_failure_policy, pod)
    if action == "FailJob" and not tally.verdict:
        tally.verdict = message
    return action


def _indexes(text: str | None, completions: int | None) -> set[int]:
    try:
        return {index for index in parse_indexes(text or "") if completions is None or index < completions}
    except ValueError:
        return set()
