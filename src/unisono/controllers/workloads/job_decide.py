"""The next step of a ``batch/v1`` Job: a pure function from the Job, its pods and the time to a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from unisono.api.conditions import has_finalizer
from unisono.api.core import Pod
from unisono.api.groups.batch_v1 import (
    BatchJob,
    BatchJobCondition,
    BatchJobStatus,
    UncountedTerminatedPods,
    format_indexes,
    parse_indexes,
)
from unisono.api.keys import COMPLETION_INDEX
from unisono.api.pod_states import has_ended
from unisono.api.times import parse_time, rfc3339
from unisono.controllers import pod_facts
from unisono.controllers.owners import whole_number
from unisono.controllers.recorder import Notice
from unisono.kube.controller import sooner

# How many pods of a Job have succeeded and failed: every pod counts once, also after a crash (pure).
#
# A pod carries a finalizer until its end is in the status. First its uid is written to
# ``status.uncountedTerminatedPods``, then the finalizer goes, and only when it has gone does the uid become a count.

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
    if pod_facts.has_failed(pod):
        return True
    if pod_facts.is_deleting(pod) and pod.metadata.deletion_grace_period_seconds == 0:
        # Its node has let it go: nothing of it runs any more, whatever its phase says.
        return not pod_facts.has_succeeded(pod)
    replaces_late = job.spec.pod_replacement_policy == "Failed" or job.spec.pod_failure_policy is not None
    return pod_facts.is_deleting(pod) and not pod_facts.has_succeeded(pod) and not replaces_late


def count(job: BatchJob, pods: Sequence[Pod]) -> BatchTally:
    """Count the pods of a Job, beginning with what its status says."""
    old = job.status
    tally = BatchTally(active=[pod for pod in pods if pod_facts.is_active(pod)])
    tally.ready = sum(map(pod_facts.is_ready, tally.active))
    tally.terminating = [pod for pod in pods if pod_facts.is_deleting(pod) and not has_ended(pod)]
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
        if pod_facts.has_succeeded(pod):
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
    action, message = pod_facts.judge(job.spec.pod_failure_policy, pod)
    if action == "FailJob" and not tally.verdict:
        tally.verdict = message
    return action


def _indexes(text: str | None, completions: int | None) -> set[int]:
    try:
        return {index for index in parse_indexes(text or "") if completions is None or index < completions}
    except ValueError:
        return set()


# The pause after a failed pod: it doubles with every one in a row.
BACKOFF_SECONDS = 10.0
LONGEST_BACKOFF = 600.0
# Pods that are made or deleted at one look.
BURST = 500
_ENDINGS = {"FailureTarget": "Failed", "SuccessCriteriaMet": "Complete"}


@dataclass(frozen=True, slots=True)
class Slot:
    """A pod to make: its index, and how often that index has failed; None for a Job without indexes."""

    index: int | None = None
    failures: int | None = None


@dataclass(slots=True)
class JobPlan:
    """Steps in order: make and delete pods, write the status, take finalizers away, delete the Job.

    Attributes:
        create: pods to make.
        delete: pods to delete whose end counts as a failure.
        withdraw: pods to delete whose end does not count.
        status: the status after that.
        release: pods whose finalizer goes when the status is written.
        expired: the Job has been over for long enough to be deleted.
        requeue_after: seconds until something is due without a change.
        notices: events to record.
    """

    create: list[Slot] = field(default_factory=list)
    delete: list[Pod] = field(default_factory=list)
    withdraw: list[Pod] = field(default_factory=list)
    status: BatchJobStatus = field(default_factory=BatchJobStatus)
    release: list[Pod] = field(default_factory=list)
    expired: bool = False
    requeue_after: float | None = None
    notices: list[Notice] = field(default_factory=list)


def finished(job: BatchJob) -> BatchJobCondition | None:
    """The condition with which the Job has ended."""
    return next((each for name in ("Complete", "Failed") if (each := _true(job.status, name)) is not None), None)


def decide(job: BatchJob, pods: Sequence[Pod], now: float, *, settled: bool = True) -> JobPlan:
    """The next step for a Job.

    Args:
        job: the Job; of one that has ended, or is being deleted, pods are only let go.
        pods: its pods.
        now: seconds since 1970.
        settled: whether the pods are as the last step left them; if not, none is made or deleted.
    """
    plan = JobPlan(status=job.status)
    end = finished(job)
    if end is not None or job.metadata.deletion_timestamp:
        plan.release = list(pods)
        if end is not None:
            _expire(plan, job, end, now)
        return plan
    tally = count(job, pods)
    plan.release = tally.release
    plan.status = _counts(job, tally)
    _start_and_suspend(plan, job, now)
    goal = _goal(plan, job, pods, tally, now)
    if goal is None and not job.spec.suspend:
        _manage(plan, job, pods, tally, now, settled=settled)
    elif settled:
        surplus = tally.active if goal is not None or job.spec.suspend else []
        (plan.delete if goal == "FailureTarget" else plan.withdraw).extend(surplus)
    if goal is not None:
        _end(plan, job, tally, goal, now)
    _shift_active(plan, tally)
    return plan


def _counts(job: BatchJob, tally: BatchTally) -> BatchJobStatus:
    return msgspec.structs.replace(
        job.status,
        conditions=list(job.status.conditions or ()),
        active=len(tally.active) or None,
        ready=tally.ready,
        terminating=len(tally.terminating),
        succeeded=tally.counted[0] or None,
        failed=tally.counted[1] or None,
        uncounted_terminated_pods=tally.uncounted,
        completed_indexes=tally.completed_text if is_indexed(job) else None,
        failed_indexes=format_indexes(tally.failed_indexes) if job.spec.backoff_limit_per_index is not None else None,
    )


def _shift_active(plan: JobPlan, tally: BatchTally) -> None:
    """Pods that this plan makes and takes away are in its status."""
    going = len(plan.delete) + len(plan.withdraw)
    plan.status.active = len(tally.active) + len(plan.create) - going or None
    if going:
        gone = {pod.metadata.uid for pod in (*plan.delete, *plan.withdraw)}
        left = [pod for pod in tally.active if pod.metadata.uid not in gone]
        plan.status.ready = min(plan.status.ready or 0, len(left))


def _start_and_suspend(plan: JobPlan, job: BatchJob, now: float) -> None:
    status, stamp = plan.status, rfc3339(now)
    suspended = _true(status, "Suspended") is not None
    if job.spec.suspend:
        if not suspended:
            _set(status, "Suspended", ("True", "JobSuspended", "Job suspended"), now)
            plan.notices.append(Notice("Normal", "Suspended", "Job suspended"))
        status.start_time = None
        return
    if suspended:
        _set(status, "Suspended", ("False", "JobResumed", "Job resumed"), now)
        plan.notices.append(Notice("Normal", "Resumed", "Job resumed"))
        status.start_time = stamp
    status.start_time = status.start_time or stamp


def _goal(plan: JobPlan, job: BatchJob, pods: Sequence[Pod], tally: BatchTally, now: float) -> str | None:
    """The condition that says how the Job is going to end, now or since an earlier look; None while it goes on."""
    status = plan.status
    for name in _ENDINGS:
        if _true(status, name) is not None:
            return name
    failure = _failure(plan, job, pods, tally, now)
    if failure is not None:
        _set(status, "FailureTarget", ("True", *failure), now)
        return "FailureTarget"
    success = _success(job, tally)
    if success is not None:
        _set(status, "SuccessCriteriaMet", ("True", *success), now)
        return "SuccessCriteriaMet"
    return None


def _failure(
    plan: JobPlan, job: BatchJob, pods: Sequence[Pod], tally: BatchTally, now: float
) -> tuple[str, str] | None:
    spec = job.spec
    if tally.verdict:
        return "PodFailurePolicy", tally.verdict
    limit = spec.backoff_limit if spec.backoff_limit is not None else 6
    in_place = spec.template.spec.restart_policy == "OnFailure"
    restarted = (
        sum(pod_facts.restarts(pod) for pod in pods if pod.status.phase in ("Pending", "Running")) if in_place else 0
    )
    # With a limit of 0 the first restart is too much; else that many are allowed.
    if tally.failed > limit or (in_place and restarted > 0 and restarted >= max(limit, 1)):
        return "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    if spec.active_deadline_seconds is not None and plan.status.start_time and not spec.suspend:
        left = parse_time(plan.status.start_time) + spec.active_deadline_seconds - now
        if left <= 0:
            return "DeadlineExceeded", "Job was active longer than specified deadline"
        plan.requeue_after = sooner(plan.requeue_after, left)
    if not is_indexed(job) or spec.backoff_limit_per_index is None:
        return None
    if spec.max_failed_indexes is not None and len(tally.failed_indexes) > spec.max_failed_indexes:
        return "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes"
    if tally.failed_indexes and len(tally.failed_indexes | tally.completed) >= (spec.completions or 0):
        return "FailedIndexes", "Job has failed indexes"
    return None


def _success(job: BatchJob, tally: BatchTally) -> tuple[str, str] | None:
    spec = job.spec
    rule = pod_facts.fulfilled_rule(spec.success_policy, tally.completed)
    if rule is not None:
        return "SuccessPolicy", f"Matched rules at index {rule}"
    if spec.completions is None:
        reached = tally.succeeded > 0 and not tally.active and not tally.terminating
    else:
        reached = tally.succeeded >= spec.completions
    return ("CompletionsReached", "Reached expected number of succeeded pods") if reached else None


def _manage(plan: JobPlan, job: BatchJob, pods: Sequence[Pod], tally: BatchTally, now: float, *, settled: bool) -> None:
    """Make pods that are missing, and take those away that are too many."""
    spec, active = job.spec, len(tally.active)
    parallelism = spec.parallelism if spec.parallelism is not None else 1
    if spec.completions is None:
        desired = min(active, parallelism) if tally.succeeded else parallelism
    else:
        desired = min(parallelism, max(0, spec.completions - tally.succeeded - len(tally.failed_indexes)))
    surplus = _misplaced(job, tally) if is_indexed(job) else []
    left = [pod for pod in tally.active if pod not in surplus]
    surplus += pod_facts.cheapest_first(left)[: max(0, len(left) - desired)]
    if surplus:
        if settled:
            plan.withdraw = surplus[:BURST]
        return
    late = spec.pod_replacement_policy == "Failed"
    missing = min(desired - active - (len(tally.terminating) if late else 0), BURST)
    if missing <= 0 or not settled:
        return
    if is_indexed(job):
        _fill_indexes(plan, job, pods, tally, now, missing, late=late)
        return
    pause = _pause(job, pods, now)
    if pause > 0:
        plan.requeue_after = sooner(plan.requeue_after, pause)
        return
    plan.create = [Slot()] * missing


def _misplaced(job: BatchJob, tally: BatchTally) -> list[Pod]:
    """Active pods whose index is none, done, failed for good, or taken by an older pod."""
    seen: set[int] = set()
    misplaced = []
    for pod in sorted(tally.active, key=lambda each: (pod_facts.finished_at(each), each.metadata.name)):
        index = index_of(pod)
        over = tally.completed | tally.failed_indexes | seen
        if index is None or index >= (job.spec.completions or 0) or index in over:
            misplaced.append(pod)
        else:
            seen.add(index)
    return misplaced


def _fill_indexes(
    plan: JobPlan, job: BatchJob, pods: Sequence[Pod], tally: BatchTally, now: float, missing: int, *, late: bool
) -> None:
    taken = {index_of(pod) for pod in tally.active} | tally.completed | tally.failed_indexes
    if late:
        taken |= {index_of(pod) for pod in tally.terminating}
    by_index: dict[int | None, list[Pod]] = {}
    for pod in pods:
        by_index.setdefault(index_of(pod), []).append(pod)
    apart = job.spec.backoff_limit_per_index is not None
    common = 0.0 if apart else _pause(job, pods, now)
    if common > 0:
        plan.requeue_after = sooner(plan.requeue_after, common)
        return
    for index in range(job.spec.completions or 0):
        if missing <= 0:
            return
        if index in taken:
            continue
        before = by_index.get(index, [])
        failed = [pod for pod in before if counts_as_failed(job, pod)]
        pause = _pause(job, before, now) if apart else 0.0
        if pause > 0:
            plan.requeue_after = sooner(plan.requeue_after, pause)
            continue
        failures = max((index_failures(pod) + 1 for pod in failed), default=0) if apart else None
        plan.create.append(Slot(index, failures))
        missing -= 1


def _pause(job: BatchJob, pods: Sequence[Pod], now: float) -> float:
    """Seconds until the next pod may be made: longer with every failure since the last success."""
    success = max((pod_facts.finished_at(pod) for pod in pods if pod_facts.has_succeeded(pod)), default=0.0)
    failures = [at for pod in pods if counts_as_failed(job, pod) and (at := pod_facts.finished_at(pod)) > success]
    if not failures:
        return 0.0
    delay = min(LONGEST_BACKOFF, BACKOFF_SECONDS * float(1 << min(len(failures) - 1, 16)))
    return max(failures) + delay - now


def _end(plan: JobPlan, job: BatchJob, tally: BatchTally, goal: str, now: float) -> None:
    """The last condition is set when no pod runs any more and every one is counted."""
    if tally.active or tally.terminating or tally.uncounted is not None or plan.release:
        return
    reason = _true(plan.status, goal)
    if reason is None:
        return
    name = _ENDINGS[goal]
    _set(plan.status, name, ("True", reason.reason or "", reason.message or ""), now)
    plan.status.start_time = plan.status.start_time or rfc3339(now)
    plan.status.ready = 0
    if name == "Complete":
        plan.status.completion_time = rfc3339(now)
        plan.notices.append(Notice("Normal", "Completed", "Job completed"))
    else:
        plan.notices.append(Notice("Warning", reason.reason or "Failed", reason.message or ""))
    ttl = job.spec.ttl_seconds_after_finished
    if ttl is not None:
        plan.requeue_after = float(ttl)


def _expire(plan: JobPlan, job: BatchJob, end: BatchJobCondition, now: float) -> None:
    ttl = job.spec.ttl_seconds_after_finished
    if ttl is None or job.metadata.deletion_timestamp or not end.last_transition_time:
        return
    left = parse_time(end.last_transition_time) + ttl - now
    plan.expired = left <= 0
    plan.requeue_after = left if left > 0 else None


def _true(status: BatchJobStatus, name: str) -> BatchJobCondition | None:
    return next((each for each in status.conditions or () if each.type == name and each.status == "True"), None)


def _set(status: BatchJobStatus, name: str, value: tuple[str, str, str], now: float) -> None:
    stamp = rfc3339(now)
    condition = BatchJobCondition(
        type=name, status=value[0], reason=value[1], message=value[2], last_probe_time=stamp, last_transition_time=stamp
    )
    status.conditions = [*(each for each in status.conditions or () if each.type != name), condition]
