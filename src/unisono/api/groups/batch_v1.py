"""``batch/v1``: Kubernetes' own Job and CronJob."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from unisono.api.base import Base, Int32, LabelSelector, Object, ObjectMeta, Required, Time
from unisono.api.core.pod import PodTemplateSpec
from unisono.api.core.refs import ObjectReference
from unisono.api.groups.workload import JobSchedulingConfiguration


class PodFailurePolicyOnExitCodesRequirement(Base):
    """Exit codes of one container (of any when none is named) that are In, or NotIn, the values."""

    container_name: str | None = None
    operator: Required = ""
    values: list[Int32] | None = None


class PodFailurePolicyOnPodConditionsPattern(Base):
    """A condition of the failed pod; its status is True when absent."""

    type: Required = ""
    status: str | None = None


class PodFailurePolicyRule(Base):
    """FailJob, FailIndex, Ignore or Count a failed pod that fits; the first rule that fits counts."""

    action: Required = ""
    on_exit_codes: PodFailurePolicyOnExitCodesRequirement | None = None
    on_pod_conditions: list[PodFailurePolicyOnPodConditionsPattern] | None = None


class PodFailurePolicy(Base):
    """What failed pods mean."""

    rules: list[PodFailurePolicyRule] | None = None


class SuccessPolicyRule(Base):
    """Enough when these indexes have succeeded, or so many of them."""

    succeeded_indexes: str | None = None
    succeeded_count: Int32 | None = None


class SuccessPolicy(Base):
    """When an Indexed Job is done before all indexes are; one rule is enough."""

    rules: list[SuccessPolicyRule] | None = None


class BatchJobSpec(Base):
    """Pods that run to their end.

    Attributes:
        parallelism: pods at once.
        completions: pods that must succeed; when absent, one success ends the Job.
        active_deadline_seconds: fail the Job when it has been active for so long.
        pod_failure_policy: what failed pods mean.
        success_policy: when an Indexed Job is done before all indexes are.
        backoff_limit: failed pods after which the Job fails.
        backoff_limit_per_index: failed pods of one index after which that index fails.
        max_failed_indexes: failed indexes after which the Job fails.
        selector: which pods belong to the Job; made by the server.
        manual_selector: the selector is the user's own.
        template: the pod.
        ttl_seconds_after_finished: delete the Job so long after its end.
        completion_mode: NonIndexed, or Indexed: every pod has a number from 0 to completions - 1.
        suspend: take all pods away until it is false again.
        pod_replacement_policy: replace a pod when it is TerminatingOrFailed, or only when it has Failed.
        managed_by: who runs the Job.
        scheduling: of the PodGroup of ``scheduling.k8s.io`` that is made for it.
    """

    parallelism: Int32 | None = None
    completions: Int32 | None = None
    active_deadline_seconds: int | None = None
    pod_failure_policy: PodFailurePolicy | None = None
    success_policy: SuccessPolicy | None = None
    backoff_limit: Int32 | None = None
    backoff_limit_per_index: Int32 | None = None
    max_failed_indexes: Int32 | None = None
    selector: LabelSelector | None = None
    manual_selector: bool | None = None
    template: PodTemplateSpec = msgspec.field(default_factory=PodTemplateSpec)
    ttl_seconds_after_finished: Int32 | None = None
    completion_mode: str | None = None
    suspend: bool | None = None
    pod_replacement_policy: str | None = None
    managed_by: str | None = None
    scheduling: JobSchedulingConfiguration | None = None


class BatchJobCondition(Base):
    """Types are Complete, Failed, Suspended, FailureTarget and SuccessCriteriaMet."""

    type: Required = ""
    status: Required = ""
    last_probe_time: Time | None = None
    last_transition_time: Time | None = None
    reason: str | None = None
    message: str | None = None


class UncountedTerminatedPods(Base):
    """Pods that have ended and are not yet in the counts."""

    succeeded: list[str] | None = None
    failed: list[str] | None = None


class BatchJobStatus(Base):
    """State of a Job; index lists look like ``0,2-5``."""

    conditions: list[BatchJobCondition] | None = None
    start_time: Time | None = None
    completion_time: Time | None = None
    active: Int32 | None = None
    succeeded: Int32 | None = None
    failed: Int32 | None = None
    terminating: Int32 | None = None
    completed_indexes: str | None = None
    failed_indexes: str | None = None
    uncounted_terminated_pods: UncountedTerminatedPods | None = None
    ready: Int32 | None = None


class BatchJob(Object):
    """Pods that run to their end."""

    spec: BatchJobSpec = msgspec.field(default_factory=BatchJobSpec)
    status: BatchJobStatus = msgspec.field(default_factory=BatchJobStatus)


class BatchJobTemplateSpec(Base):
    """A Job that is made again and again."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: BatchJobSpec = msgspec.field(default_factory=BatchJobSpec)


class BatchCronJobSpec(Base):
    """When a Job is made, and what becomes of it.

    Attributes:
        schedule: five fields of cron, or ``@daily``.
        time_zone: in which the schedule counts, such as ``Europe/Berlin``; UTC when absent.
        starting_deadline_seconds: a start that is missed by more than this is left out.
        concurrency_policy: Allow, Forbid or Replace a Job that still runs.
        suspend: start nothing.
        job_template: the Job.
        successful_jobs_history_limit: complete Jobs that are kept.
        failed_jobs_history_limit: failed Jobs that are kept.
    """

    schedule: Required = ""
    time_zone: str | None = None
    starting_deadline_seconds: int | None = None
    concurrency_policy: str | None = None
    suspend: bool | None = None
    job_template: BatchJobTemplateSpec = msgspec.field(default_factory=BatchJobTemplateSpec)
    successful_jobs_history_limit: Int32 | None = None
    failed_jobs_history_limit: Int32 | None = None


class BatchCronJobStatus(Base):
    """Jobs that run, and when one was last started and last went well."""

    active: list[ObjectReference] | None = None
    last_schedule_time: Time | None = None
    last_successful_time: Time | None = None


class BatchCronJob(Object):
    """A Job that starts by the clock."""

    spec: BatchCronJobSpec = msgspec.field(default_factory=BatchCronJobSpec)
    status: BatchCronJobStatus = msgspec.field(default_factory=BatchCronJobStatus)


# Lists of indexes on the wire: ``0,2-5`` (``completedIndexes`` and the like).


# Indexes are 32-bit numbers: more digits are a mistake, and arithmetic with them is work.
_MOST_DIGITS = 10


@dataclass(frozen=True, slots=True)
class Indexes:
    """Indexes as ranges: ``0-2147483647`` is eleven characters and must not become as many numbers.

    Attributes:
        firsts: first index of each range, ascending.
        lasts: last index of each range.
    """

    firsts: tuple[int, ...]
    lasts: tuple[int, ...]

    @property
    def total(self) -> int:
        """How many there are."""
        return sum(self.lasts) - sum(self.firsts) + len(self.firsts)

    def __contains__(self, index: int) -> bool:
        """Whether the list has the index."""
        place = bisect_right(self.firsts, index) - 1
        return place >= 0 and index <= self.lasts[place]

    def __iter__(self) -> Iterator[int]:
        """Each index, ascending, one at a time."""
        for first, last in zip(self.firsts, self.lasts, strict=True):
            yield from range(first, last + 1)


def parse_indexes(text: str, below: int | None = None) -> Indexes:
    """The indexes of a list.

    Args:
        text: ascending numbers and ranges, joined by commas; empty for none.
        below: every index must be smaller; None for any.

    Raises:
        ValueError: the list is malformed, out of order or out of range.
    """
    firsts: list[int] = []
    lasts: list[int] = []
    last = -1
    for part in text.split(",") if text else ():
        first_text, dash, end_text = part.partition("-")
        if not first_text.isdecimal() or (dash and not end_text.isdecimal()):
            raise ValueError(f'cannot convert string to integer for index: "{part}"')
        if max(len(first_text), len(end_text)) > _MOST_DIGITS:
            raise ValueError(f'too large index: "{part[:40]}"')
        first, end = int(first_text), int(end_text or first_text)
        if below is not None and end >= below:
            raise ValueError(f'too large index: "{end}"')
        if first <= last:
            raise ValueError(f"non-increasing order, previous: {last}, current: {first}")
        if dash and first >= end:
            raise ValueError(f"non-increasing order, previous: {first}, current: {end}")
        firsts.append(first)
        lasts.append(end)
        last = end
    return Indexes(tuple(firsts), tuple(lasts))


def format_indexes(indexes: Iterable[int]) -> str:
    """The list as Kubernetes writes it: three or more in a row become a range."""
    parts: list[list[int]] = []
    for index in sorted(set(indexes)):
        if parts and parts[-1][1] == index - 1:
            parts[-1][1] = index
        else:
            parts.append([index, index])
    return ",".join(
        f"{first}" if first == last else f"{first},{last}" if last == first + 1 else f"{first}-{last}"
        for first, last in parts
    )
