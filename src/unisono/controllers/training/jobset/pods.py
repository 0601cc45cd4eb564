"""Pods of a JobSet, and the objects that all of them share."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeVar

import msgspec

from unisono.api import core, keys
from unisono.api.annotations import WORKING_DIRECTORY
from unisono.api.base import LabelSelector, LabelSelectorRequirement, ObjectMeta
from unisono.api.conditions import is_true
from unisono.api.groups.batch_v1 import PodFailurePolicy, SuccessPolicy
from unisono.api.groups.job_set import JobSet, ReplicatedJob, ReplicatedJobStatus
from unisono.api.kind_families import JOB_SETS
from unisono.api.kinds import PERSISTENT_VOLUME_CLAIMS, SERVICES
from unisono.api.pod_states import has_ended, is_disrupted
from unisono.api.selecting import DEFAULT_QUEUE
from unisono.api.times import parse_time
from unisono.controllers import owners, pod_facts
from unisono.controllers.owners import owned_by, whole_number
from unisono.controllers.plan import Resource
from unisono.controllers.pod_facts import COUNT, fulfilled_rule, has_failed, has_succeeded, is_deleting, judge
from unisono.jobkinds.registry import queue_of
from unisono.jobkinds.workloads import at_once

# A JobSet as its controller reads it: its Jobs, and what became of their pods.

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
    pods: list[core.Pod] = field(default_factory=list)
    former: list[core.Pod] = field(default_factory=list)

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
        return at_once(self.replicated.template.spec)

    def succeeded(self) -> set[int]:
        """Completion indexes that are done."""
        return {completion_index(pod) for pod in self.pods if has_succeeded(pod)}

    def failed_pods(self) -> list[core.Pod]:
        """Pods that failed and are kept, so that they can be counted."""
        return [pod for pod in self.pods if has_failed(pod)]

    def living(self) -> list[core.Pod]:
        """Pods that have not ended."""
        return [pod for pod in self.pods if not has_ended(pod)]

    def failures_by_index(self) -> dict[int, list[str]]:
        """By completion index, what the Job's policy says of each pod that failed and counts."""
        failures: dict[int, list[str]] = {}
        for pod in self.failed_pods():
            action = judge(self.policies.pod_failure, pod)[0]
            # A pod that lost its node is replaced without being counted, whatever else the policy says.
            if action != "Ignore" and (action != COUNT or not (is_deleting(pod) or is_disrupted(pod))):
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

    def __init__(self, job_set: JobSet, pods: Iterable[core.Pod]) -> None:
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

    def _sort_in(self, pods: Iterable[core.Pod]) -> list[core.Pod]:
        """Give pods to their Jobs; answers those that belong to none."""
        strays = []
        by_place = {(child.replicated.name, str(child.index)): child for child in self.children}
        for pod in pods:
            marks = pod.metadata.labels or {}
            child = by_place.get((marks.get(keys.JOBSET_REPLICATED_JOB_NAME, ""), marks.get(JOB_INDEX, "")))
            if child is None:
                strays.append(pod)
            elif (pod.metadata.annotations or {}).get(ATTEMPT) == child.attempt:
                child.pods.append(pod)
            else:
                child.former.append(pod)
        return strays


def completion_index(pod: core.Pod) -> int:
    """The pod's number in its Job."""
    return whole_number((pod.metadata.labels or {}).get(keys.COMPLETION_INDEX)) or 0


def _read(value: Any, struct: type[S]) -> S | None:
    """A policy out of its JSON; None for one that cannot be read, which then says nothing."""
    if value is None:
        return None
    try:
        return msgspec.convert(value, struct)
    except msgspec.ValidationError:
        return None


def pod_name(view: JobSetView, child: ChildJob, index: int) -> str:
    """Name of pod ``index`` of a Job in its present try."""
    return f"{view.host(child, index)}-{_suffix(view, child, index)}"


def build_pod(view: JobSetView, child: ChildJob, index: int) -> core.Pod:
    """Pod ``index`` of a Job; its name changes with every try, its host name does not."""
    template = msgspec.json.decode(
        msgspec.json.encode(child.replicated.template.spec.template), type=core.PodTemplateSpec
    )
    job_meta, meta = child.replicated.template.metadata, template.metadata
    given = view.job_set.metadata.annotations or {}
    marks = _marks(view, child)
    pod = core.Pod(
        metadata=ObjectMeta(
            name=pod_name(view, child, index),
            namespace=view.namespace,
            labels={**(meta.labels or {}), **marks, keys.COMPLETION_INDEX: str(index)},
            annotations={
                **{key: given[key] for key in (WORKING_DIRECTORY,) if key in given},
                **owners.inherited_annotations(given),
                **(job_meta.annotations or {}),
                **(meta.annotations or {}),
                **marks,
                keys.COMPLETION_INDEX: str(index),
                ATTEMPT: child.attempt,
                keys.GROUP_NAME: view.name,
                keys.QUEUE_NAME: view.queue,
                keys.TASK_SPEC: child.replicated.name,
                keys.TASK_INDEX: str(index),
            },
            owner_references=[owned_by(JOB_SETS, view.job_set)],
            finalizers=meta.finalizers,
        ),
        spec=template.spec,
    )
    spec = pod.spec
    spec.restart_policy = spec.restart_policy or "OnFailure"
    spec.scheduler_name = spec.scheduler_name or "volcano"
    if view.dns:
        spec.hostname, spec.subdomain = view.host(child, index), view.subdomain
    for container in (*(spec.init_containers or ()), *(spec.containers or ())):
        if not any(each.name == "JOB_COMPLETION_INDEX" for each in container.env or ()):
            container.env = [*(container.env or ()), core.EnvVar(name="JOB_COMPLETION_INDEX", value=str(index))]
    owners.tell_kind_of_nodes(pod)
    _mount_claims(view, pod)
    topology = _exclusive(view, child)
    if topology:
        _keep_apart(pod, topology, marks[keys.JOBSET_JOB_KEY])
    return pod


def shared_objects(view: JobSetView) -> Iterator[Resource]:
    """The headless Service, and claims that pods share."""
    if view.dns:
        network = view.spec.network
        publish = network.publish_not_ready_addresses if network is not None else None
        yield Resource(
            SERVICES,
            core.Service(
                metadata=ObjectMeta(
                    name=view.subdomain, namespace=view.namespace, owner_references=[owned_by(JOB_SETS, view.job_set)]
                ),
                spec=core.ServiceSpec(
                    cluster_ip="None",
                    selector={keys.JOBSET_NAME: view.name},
                    publish_not_ready_addresses=publish is not False or None,
                ),
            ),
            warning="HeadlessServiceCreationFailed",
        )
    for policy in view.spec.volume_claim_policies or ():
        kept = policy.retention_policy is not None and policy.retention_policy.when_deleted == "Retain"
        for claim in policy.templates or ():
            claim_of_job = msgspec.structs.replace(
                claim,
                metadata=ObjectMeta(
                    name=f"{claim.metadata.name}-{view.name}",
                    namespace=view.namespace,
                    labels=claim.metadata.labels,
                    annotations=claim.metadata.annotations,
                    owner_references=None if kept else [owned_by(JOB_SETS, view.job_set)],
                ),
            )
            yield Resource(PERSISTENT_VOLUME_CLAIMS, claim_of_job, permanent=True, warning="FailedCreateClaim")


def _marks(view: JobSetView, child: ChildJob) -> dict[str, str]:
    """What labels and annotations both say."""
    name, replicated = f"{view.name}-{child.replicated.name}-{child.index}", child.replicated
    group = replicated.group_name or DEFAULT_GROUP
    peers = [each for each in view.children if (each.replicated.group_name or DEFAULT_GROUP) == group]
    marks = {
        keys.JOBSET_NAME: view.name,
        JOBSET_UID: view.uid,
        keys.JOBSET_REPLICATED_JOB_NAME: replicated.name,
        REPLICATED_JOB_REPLICAS: str(len(view.of(replicated))),
        GLOBAL_REPLICAS: str(len(view.children)),
        JOB_INDEX: str(child.index),
        JOB_GLOBAL_INDEX: str(child.global_index),
        keys.JOBSET_JOB_KEY: hashlib.sha256(f"{view.namespace}/{name}".encode()).hexdigest()[:40],
        GROUP: group,
        GROUP_REPLICAS: str(len(peers)),
        JOB_GROUP_INDEX: str(peers.index(child)),
        RESTART_ATTEMPT: str(view.status.restarts or 0),
        keys.BATCH_JOB_NAME: name,
    }
    coordinator = view.spec.coordinator
    if coordinator is not None:
        host = f"{view.name}-{coordinator.replicated_job}-{coordinator.job_index or 0}-{coordinator.pod_index or 0}"
        marks[COORDINATOR] = f"{host}.{view.subdomain}"
    return marks


def _suffix(view: JobSetView, child: ChildJob, index: int) -> str:
    """Five letters that differ for every try of a pod, and are the same however often a try is asked for."""
    tries = sum(1 for pod in child.failed_pods() if completion_index(pod) == index)
    digest = hashlib.sha256(f"{view.uid}/{child.attempt}/{index}/{tries}".encode()).digest()
    return base64.b32encode(digest).decode().lower()[:5]


def _mount_claims(view: JobSetView, pod: core.Pod) -> None:
    """Volumes for the shared claims that the pod's containers mount."""
    containers = (*(pod.spec.init_containers or ()), *(pod.spec.containers or ()))
    mounted = {mount.name for container in containers for mount in container.volume_mounts or ()}
    for policy in view.spec.volume_claim_policies or ():
        for claim in policy.templates or ():
            name = claim.metadata.name
            if name in mounted and not any(volume.name == name for volume in pod.spec.volumes or ()):
                source = core.PersistentVolumeClaimVolumeSource(claim_name=f"{name}-{view.name}")
                pod.spec.volumes = [*(pod.spec.volumes or ()), core.Volume(name=name, persistent_volume_claim=source)]


def _exclusive(view: JobSetView, child: ChildJob) -> str:
    own = (child.replicated.template.metadata.annotations or {}).get(keys.EXCLUSIVE_TOPOLOGY)
    return own or (view.job_set.metadata.annotations or {}).get(keys.EXCLUSIVE_TOPOLOGY) or ""


def _keep_apart(pod: core.Pod, topology: str, key: str) -> None:
    """One Job per domain of the topology: its pods keep together, and away from those of other Jobs."""
    affinity = pod.spec.affinity = pod.spec.affinity or core.Affinity()
    together, apart = affinity.pod_affinity or core.PodAffinity(), affinity.pod_anti_affinity or core.PodAntiAffinity()
    mine = LabelSelectorRequirement(key=keys.JOBSET_JOB_KEY, operator="In", values=[key])
    others = [
        LabelSelectorRequirement(key=keys.JOBSET_JOB_KEY, operator="Exists"),
        LabelSelectorRequirement(key=keys.JOBSET_JOB_KEY, operator="NotIn", values=[key]),
    ]
    together.required_during_scheduling_ignored_during_execution = [
        *(together.required_during_scheduling_ignored_during_execution or ()),
        core.PodAffinityTerm(label_selector=LabelSelector(match_expressions=[mine]), topology_key=topology),
    ]
    apart.required_during_scheduling_ignored_during_execution = [
        *(apart.required_during_scheduling_ignored_during_execution or ()),
        core.PodAffinityTerm(
            label_selector=LabelSelector(match_expressions=others),
            topology_key=topology,
            namespace_selector=LabelSelector(),
        ),
    ]
    affinity.pod_affinity, affinity.pod_anti_affinity = together, apart
