"""What a Job makes: its pods, task by task, and its PodGroup (pure)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from unisono.api import core, keys
from unisono.api.annotations import GANG_PARTS, GOT, RUN_SECONDS, WORKING_DIRECTORY
from unisono.api.base import LabelSelector, ObjectMeta
from unisono.api.gang_parts import Part, encode_parts
from unisono.api.groups.batch import PartitionPolicySpec, VolumeSpec
from unisono.api.groups.scheduling import PodGroup, PodGroupSpec, SubGroupPolicySpec
from unisono.api.groups.topology import NetworkTopologySpec
from unisono.api.kinds import JOBS, PERSISTENT_VOLUME_CLAIMS
from unisono.api.times import duration_or_none
from unisono.controllers import owners
from unisono.controllers.job.plugins.base import JobPlugin
from unisono.controllers.job.view import JobView, TaskView
from unisono.controllers.owners import owned_by
from unisono.controllers.plan import Resource
from unisono.controllers.pod_groups import pod_group_of_job, sum_usage

# The PodGroup of a Job, and the resources of the smallest gang.

Priorities = Callable[[str | None], int]


def pod_group_for(view: JobView, version: int, priority: Priorities) -> PodGroup:
    """The pod group of the job at ``version``; ``priority`` gives the value of a priority class, 0 when unknown.

    While tasks wait for others, the job is seen without them (`JobView.only`): their pods are made when what they
    depend on is ready, and a gang that waited for them would wait for ever.
    """
    spec, marks = (
        pod_group_spec(view, priority),
        {keys.JOB_VERSION: str(version), GANG_PARTS: encode_parts(_parts(view, priority))},
    )
    runs = duration_or_none(view.job.spec.running_estimate)
    if runs and RUN_SECONDS not in (view.job.metadata.annotations or {}):
        marks[RUN_SECONDS] = f"{runs:g}"
    labels = view.job.metadata.labels
    return pod_group_of_job(JOBS, view.job, view.pod_group_name, spec, labels=labels, annotations=marks)


def pod_group_spec(view: JobView, priority: Priorities) -> PodGroupSpec:
    """What the gang of the job needs."""
    return PodGroupSpec(
        min_member=view.min_available,
        min_task_member={task.name: task.min_available for task in view.tasks},
        queue=view.queue,
        priority_class_name=view.spec.priority_class_name,
        min_resources={**min_resources(view, priority)},
        network_topology=_topology(view.spec.network_topology),
        sub_group_policy=[
            _sub_group(task, task.spec.partition_policy) for task in view.tasks if task.spec.partition_policy
        ]
        or None,
    )


def min_resources(view: JobView, priority: Priorities) -> dict[str, str]:
    """Quota usage of the pods that make up the smallest gang.

    Tasks of higher priority come first, equal ones in the order of the spec. If the gang is smaller than what the
    tasks need together, tasks are filled up one after the other; otherwise each task first gives what it needs, and
    what is missing then comes from the remaining replicas in the same order.
    """
    taken = smallest_gang(view, priority)
    return sum_usage((task.template.spec, taken[task.name]) for task in _by_priority(view, priority))


def smallest_gang(view: JobView, priority: Priorities) -> dict[str, int]:
    """How many pods of each task the smallest gang has, see `min_resources`."""
    order = _by_priority(view, priority)
    left = view.min_available
    taken = dict.fromkeys((task.name for task in order), 0)
    if view.min_available >= view.total_min_available:
        for task in order:
            taken[task.name] = min(left, task.min_available)
            left -= taken[task.name]
    for task in order:
        more = min(left, task.replicas - taken[task.name])
        taken[task.name] += max(0, more)
        left -= max(0, more)
    return taken


def _by_priority(view: JobView, priority: Priorities) -> list[TaskView]:
    return sorted(view.tasks, key=lambda task: -priority(_priority_class(view, task)))


def _parts(view: JobView, priority: Priorities) -> list[Part]:
    taken = smallest_gang(view, priority)
    return [Part(task.name, taken[task.name], task.replicas, spec=task.template.spec) for task in view.tasks]


def _priority_class(view: JobView, task: TaskView) -> str | None:
    return task.template.spec.priority_class_name or view.spec.priority_class_name


def _sub_group(task: TaskView, partition: PartitionPolicySpec) -> SubGroupPolicySpec:
    return SubGroupPolicySpec(
        name=task.name,
        label_selector=LabelSelector(match_labels={keys.TASK_SPEC: task.name}),
        match_label_keys=[keys.PARTITION_ID],
        sub_group_size=partition.partition_size,
        min_sub_groups=partition.min_partitions,
        network_topology=_topology(partition.network_topology),
    )


def _topology(given: NetworkTopologySpec | None) -> NetworkTopologySpec | None:
    """A copy in which a tier number excludes a tier name."""
    if given is None:
        return None
    by_number = given.highest_tier_allowed is not None
    return msgspec.structs.replace(given, highest_tier_name=None if by_number else given.highest_tier_name)


# Job-wide volumes: the claims they need and how they get into every container.


@dataclass(frozen=True, slots=True)
class JobVolume:
    """One volume of the job.

    Attributes:
        name: name of the volume in the pods.
        claim: name of its claim.
        mount_path: where containers see it.
        spec: the claim to make, None when it must exist already.
    """

    name: str
    claim: str
    mount_path: str
    spec: core.PersistentVolumeClaimSpec | None


def job_volumes(view: JobView) -> list[JobVolume]:
    """The job's volumes; a second entry with the same claim is skipped.

    Names are derived from the job's UID and the entry's place, so every pod and every retry gets the same ones.
    """
    volumes: dict[str, JobVolume] = {}
    for position, given in enumerate(view.spec.volumes or ()):
        digest = _digest(view, position)
        claim = given.volume_claim_name or _claim_name(view, position)
        if claim not in volumes:
            volumes[claim] = JobVolume(f"job-volume-{digest}", claim, given.mount_path, given.volume_claim)
    return list(volumes.values())


def named_volumes(view: JobView) -> list[VolumeSpec]:
    """The volumes with the names of the claims that are made for them; empty where the spec has them all.

    The name belongs into the spec: that is where people and other controllers look for it.
    """
    given = view.job.spec.volumes or []
    if all(each.volume_claim is None or each.volume_claim_name for each in given):
        return []
    return [
        each
        if each.volume_claim is None or each.volume_claim_name
        else msgspec.structs.replace(each, volume_claim_name=_claim_name(view, position))
        for position, each in enumerate(given)
    ]


def claims_to_make(view: JobView) -> list[Resource]:
    """Claims that the job makes for itself; they go with the job and not before."""
    return [
        Resource(
            PERSISTENT_VOLUME_CLAIMS,
            core.PersistentVolumeClaim(
                metadata=ObjectMeta(
                    name=volume.claim, namespace=view.namespace, owner_references=[owned_by(JOBS, view.job)]
                ),
                spec=volume.spec,
            ),
            permanent=True,
            what="volume",
            warning="PVCError",
        )
        for volume in job_volumes(view)
        if volume.spec is not None
    ]


def _claim_name(view: JobView, position: int) -> str:
    return f"{view.name}-pvc-{_digest(view, position)}"


def _digest(view: JobView, position: int) -> str:
    return hashlib.sha256(f"{view.uid}/{position}".encode()).hexdigest()[:12]


def mount(view: JobView, pod: core.Pod) -> None:
    """Put the job's volumes into the pod and mount them in every container; init containers go without."""
    for volume in job_volumes(view):
        source = core.PersistentVolumeClaimVolumeSource(claim_name=volume.claim)
        pod.spec.volumes = [*(pod.spec.volumes or ()), core.Volume(name=volume.name, persistent_volume_claim=source)]
        for container in pod.spec.containers or ():
            mounts = container.volume_mounts or []
            container.volume_mounts = [*mounts, core.VolumeMount(name=volume.name, mount_path=volume.mount_path)]


_DECODER = msgspec.json.Decoder(core.PodTemplateSpec)


class PodBuilder:
    """Makes the pods of one job at its present version."""

    def __init__(self, view: JobView, plugins: Sequence[JobPlugin]) -> None:
        self._view, self._plugins = view, plugins
        # Each pod is decoded from the template's bytes: plug-ins may then change all of it.
        self._templates = {task.name: msgspec.json.encode(task.template) for task in view.tasks}

    def build(self, task: TaskView, index: int) -> core.Pod:
        """Pod ``index`` of the task. Raises PluginError when a plug-in cannot serve it."""
        view = self._view
        template = _DECODER.decode(self._templates[task.name])
        pod = core.Pod(
            metadata=ObjectMeta(
                name=task.pod_name(index),
                namespace=view.namespace,
                labels=(template.metadata.labels or {}) | self._labels(task, index),
                annotations=self._taken_over() | (template.metadata.annotations or {}) | self._annotations(task, index),
                owner_references=[owned_by(JOBS, view.job)],
                finalizers=template.metadata.finalizers,
            ),
            spec=template.spec,
        )
        spec = pod.spec
        spec.scheduler_name = spec.scheduler_name or view.scheduler_name
        spec.priority_class_name = spec.priority_class_name or view.spec.priority_class_name
        mount(view, pod)
        for plugin in self._plugins:
            plugin.prepare(pod, task, index)
        owners.tell_kind_of_nodes(pod)
        return pod

    def _labels(self, task: TaskView, index: int) -> dict[str, str]:
        view = self._view
        labels = {
            keys.TASK_SPEC: task.name,
            keys.TASK_INDEX: str(index),
            keys.JOB_NAME: view.name,
            keys.JOB_NAMESPACE: view.namespace,
            keys.QUEUE_NAME: view.queue,
        }
        partition = task.partition_of(index)
        if partition is not None:
            labels[keys.PARTITION_ID] = partition
        return labels | owners.inherited_labels(view.job.metadata.labels or {})

    def _annotations(self, task: TaskView, index: int) -> dict[str, str]:
        view = self._view
        annotations = {
            keys.TASK_SPEC: task.name,
            keys.TASK_INDEX: str(index),
            keys.JOB_NAME: view.name,
            keys.QUEUE_NAME: view.queue,
            keys.JOB_VERSION: str(view.version),
            keys.JOB_RETRY_COUNT: str(view.retry_count),
            keys.TEMPLATE_UID: f"{view.name}-{task.name}",
            keys.GROUP_NAME: view.pod_group_name,
        }
        if task.amounts_differ and task.kind is not None:
            annotations[GOT] = task.kind.name
        if task.spec.topology_policy:
            annotations[keys.NUMA_TOPOLOGY_POLICY] = task.spec.topology_policy
        return annotations | owners.inherited_annotations(view.job.metadata.annotations or {})

    def _taken_over(self) -> dict[str, str]:
        """Annotations of the job that stand for its pods unless their template says otherwise."""
        given = self._view.job.metadata.annotations or {}
        return {key: given[key] for key in (WORKING_DIRECTORY,) if key in given}
