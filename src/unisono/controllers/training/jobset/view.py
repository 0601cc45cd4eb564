"""A JobSet as its controller reads it: its Jobs, and what became of their pods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeVar

import msgspec

from unisono.api.conditions import is_true
from unisono.api.core import Pod
from unisono.api.groups.batch_v1 import PodFailurePolicy, SuccessPolicy
from unisono.api.groups.job_set import JobSet, ReplicatedJob, ReplicatedJobStatus
from unisono.api.keys import COMPLETION_INDEX, JOBSET_REPLICATED_JOB_NAME
from unisono.api.membership import DEFAULT_QUEUE
from unisono.api.pod_states import has_ended
from unisono.api.times import parse_time
from unisono.controllers import pod_facts
from unisono.controllers.keys import whole_number
from unisono.controllers.pod_facts import COUNT, fulfilled_rule, has_failed, has_succeeded, is_deleting, judge
from unisono.jobkinds.registry import queue_of

# Labels and annotations of a JobSet's pods.

JOBSET_UID: Final = "jobset.sigs.k8s.io/jobset-uid"
REPLICATED_JOB_REPLICAS: Final = "jobset.sigs.k8s.io/replicatedjob-replicas"
GLOBAL_REPLICAS: Final = "jobset.sigs.k8s.io/global-replicas"
JOB_INDEX: Final = "jobset.sigs.k8s.io/job-index"
JOB_GLOBAL_INDEX: Final = "jobset.sigs.k8s.io/job-global-index"
GROUP: Final = "jobset.sigs.k8s.io/group-name"
GROUP_REPLICAS: Final = "jobset.sigs.k8s.io/group-replicas"
JOB_GROUP_INDEX: Final = "jobset.sigs.k8s.io/job-group-index"
RESTART_ATTEMPT: Final = "jobset.sigs.k8s.io/restart-attempt"
COORDINATOR: Final = "jobset.sigs.k8s.io/coordinator"


ATTEMPT: Final = "unisono.io/attempt"
"""Annotation of a pod: restarts of the JobSet and of its Job when it was made, as ``2.1``."""


S = TypeVar("S", bound=msgspec.Struct)
_BACKOFF_LIMIT = 6
DEFAULT_GROUP = "default"


@dataclass(frozen=True, slots=True)
class Policies:
    """Policies of a Job; None without one."""

    pod_failure: PodFailurePolicy | None
    success: SuccessPolicy | None


@dataclass
class ChildJob:
    """One Job of a replicated job.

    Attributes:
        replicated: the replicated job.
        index: its number in there.
        global_index: its number in the JobSet.
        attempt: restarts of the JobSet and of this Job.
        pods: its pods of this attempt.
        former: its pods of earlier attempts.

    """

    replicated: ReplicatedJob
    index: int
    global_index: int
    attempt: str
    pods: list[Pod] = field(default_factory=list)
    former: list[Pod] = field(default_factory=list)

    @property
    def parallelism(self) -> int:
        """Pods that run at once."""
        given = self.replicated.template.spec.parallelism
        return 1 if given is None else given

    @property
    def completions(self) -> int:
        """Pods that must succeed."""
        given = self.replicated.template.spec.completions
        return self.parallelism if given is None else given

    @property
    def expected(self) -> int:
        """Pods that are there when all goes well."""
        return min(self.parallelism, self.completions)

    def succeeded(self) -> set[int]:
        """Completion indexes that are done."""
        return {completion_index(pod) for pod in self.pods if has_succeeded(pod)}

    def failed_pods(self) -> list[Pod]:
        """Pods that failed and are kept, so that they can be counted."""
        return [pod for pod in self.pods if has_failed(pod)]

    def living(self) -> list[Pod]:
        """Pods that have not ended."""
        return [pod for pod in self.pods if not has_ended(pod)]

    def failures_by_index(self) -> dict[int, list[str]]:
        """By completion index, what the Job's policy says of each pod that failed and counts."""
        failures: dict[int, list[str]] = {}
        for pod in self.failed_pods():
            action = judge(self.policies.pod_failure, pod)[0]
            # A pod that lost its node is replaced without being counted, whatever else the policy says.
            if action != "Ignore" and (action != COUNT or not _is_disrupted(pod)):
                failures.setdefault(completion_index(pod), []).append(action)
        return failures

    @cached_property
    def failed_indexes(self) -> set[int]:
        """Indexes that have failed for good, where each index has its own limit."""
        limit = self.replicated.template.spec.backoff_limit_per_index
        if limit is None:
            return set()
        done = self.succeeded()
        return {
            index
            for index, actions in self.failures_by_index().items()
            if index not in done and ("FailIndex" in actions or len(actions) > limit)
        }

    @cached_property
    def policies(self) -> Policies:
        """The Job's policies, as far as they can be read."""
        spec = self.replicated.template.spec
        return Policies(_read(spec.pod_failure_policy, PodFailurePolicy), _read(spec.success_policy, SuccessPolicy))

    @property
    def complete(self) -> bool:
        """Whether the Job is complete."""
        done = self.succeeded()
        return len(done) >= self.completions or fulfilled_rule(self.policies.success, done) is not None

    @property
    def ready(self) -> bool:
        """Whether its pods are all ready or have succeeded."""
        ready = sum(1 for pod in self.living() if pod_facts.is_ready(pod) and not is_deleting(pod))
        return ready + len(self.succeeded()) >= self.expected

    @property
    def active(self) -> bool:
        """Whether it has pods that are to stay."""
        return any(not is_deleting(pod) for pod in self.living())

    def failure(self, now: float) -> tuple[str, str] | None:
        """Reason and message of the Job's failure, as a ``batch/v1`` Job has them; None while it has not failed."""
        if self.complete:
            return None
        return self._judged() or self._limited() or self._overdue(now)

    def _judged(self) -> tuple[str, str] | None:
        for pod in self.failed_pods():
            action, message = judge(self.policies.pod_failure, pod)
            if action == "FailJob":
                return "PodFailurePolicy", message
        return None

    def _limited(self) -> tuple[str, str] | None:
        spec = self.replicated.template.spec
        most = spec.max_failed_indexes
        if most is not None and len(self.failed_indexes) > most:
            return "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes"
        if self.failed_indexes and len(self.failed_indexes | self.succeeded()) >= self.completions:
            return "FailedIndexes", "Job has failed indexes"
        limit = spec.backoff_limit
        if limit is None:
            if spec.backoff_limit_per_index is not None:
                return None
            limit = _BACKOFF_LIMIT
        crashed = sum(len(actions) for actions in self.failures_by_index().values())
        in_place = sum(pod_facts.restarts(pod) for pod in self.living())
        if crashed + in_place > limit:
            return "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        return None

    def _overdue(self, now: float) -> tuple[str, str] | None:
        left = self.seconds_left(now)
        if left is not None and left <= 0:
            return "DeadlineExceeded", "Job was active longer than specified deadline"
        return None

    def seconds_left(self, now: float) -> float | None:
        """Seconds until the Job's deadline; None without one, or before it has pods."""
        limit = self.replicated.template.spec.active_deadline_seconds
        begun = [parse_time(pod.metadata.creation_timestamp) for pod in self.pods if pod.metadata.creation_timestamp]
        return min(begun) + limit - now if limit is not None and begun else None


class JobSetView:
    """One JobSet; cheap to make, never changes it."""

    def __init__(self, job_set: JobSet, pods: Iterable[Pod]) -> None:
        self.job_set, self.spec, self.status = job_set, job_set.spec, job_set.status
        meta = job_set.metadata
        self.name, self.namespace, self.uid = meta.name, meta.namespace or "", meta.uid or ""
        self.strays = self._sort_in(pods)

    @cached_property
    def children(self) -> list[ChildJob]:
        """All Jobs, in order."""
        return list(self._children())

    def of(self, replicated: ReplicatedJob) -> list[ChildJob]:
        """The Jobs of one replicated job."""
        return [child for child in self.children if child.replicated.name == replicated.name]

    @property
    def replicated_jobs(self) -> list[ReplicatedJob]:
        """Replicated jobs in the order of the spec."""
        return self.spec.replicated_jobs or []

    def status_of(self, name: str) -> ReplicatedJobStatus | None:
        """What is known of a replicated job."""
        return next((each for each in self.status.replicated_jobs_status or () if each.name == name), None)

    @property
    def restarts_towards_max(self) -> int:
        """Restarts that count against the limit."""
        single = sum(
            sum(each.job_restarts_count_towards_max or ()) for each in self.status.replicated_jobs_status or ()
        )
        return (self.status.restarts_count_towards_max or 0) + single

    @property
    def subdomain(self) -> str:
        """Second part of the pods' names."""
        return (self.spec.network.subdomain if self.spec.network else None) or self.name

    @property
    def dns(self) -> bool:
        """Whether pods are reached by name."""
        network = self.spec.network
        return network is None or network.enable_dns_hostnames is not False

    def host(self, child: ChildJob, index: int) -> str:
        """Host name of a pod."""
        return f"{self.name}-{child.replicated.name}-{child.index}-{index}"

    @property
    def queue(self) -> str:
        """Where the gang waits."""
        return queue_of(self.job_set) or DEFAULT_QUEUE

    def is_true(self, type: str) -> bool:
        """Whether the condition is true."""
        return is_true(self.status.conditions, type)

    @property
    def finished(self) -> bool:
        """Whether the JobSet is over for good."""
        return self.is_true("Completed") or self.is_true("Failed")

    def _children(self) -> Iterator[ChildJob]:
        number = 0
        for replicated in self.replicated_jobs:
            status = self.status_of(replicated.name)
            single = (status.job_restarts if status is not None else None) or []
            for index in range(1 if replicated.replicas is None else replicated.replicas):
                own = single[index] if index < len(single) else 0
                yield ChildJob(replicated, index, number, f"{self.status.restarts or 0}.{own}")
                number += 1

    def _sort_in(self, pods: Iterable[Pod]) -> list[Pod]:
        """Give pods to their Jobs; answers those that belong to none."""
        strays = []
        by_place = {(child.replicated.name, str(child.index)): child for child in self.children}
        for pod in pods:
            marks = pod.metadata.labels or {}
            child = by_place.get((marks.get(JOBSET_REPLICATED_JOB_NAME, ""), marks.get(JOB_INDEX, "")))
            if child is None:
                strays.append(pod)
            elif (pod.metadata.annotations or {}).get(ATTEMPT) == child.attempt:
                child.pods.append(pod)
            else:
                child.former.append(pod)
        return strays


def completion_index(pod: Pod) -> int:
    """The pod's number in its Job."""
    return whole_number((pod.metadata.labels or {}).get(COMPLETION_INDEX)) or 0


def _read(value: Any, struct: type[S]) -> S | None:
    """A policy out of its JSON; None for one that cannot be read, which then says nothing."""
    if value is None:
        return None
    try:
        return msgspec.convert(value, struct)
    except msgspec.ValidationError:
        return None


def _is_disrupted(pod: Pod) -> bool:
    return is_deleting(pod) or pod_facts.is_disrupted(pod)
