"""A Ray cluster as its controller reads it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from unisono.api.core import PodTemplateSpec
from unisono.api.ray import RayCluster, RayWorkerGroupSpec
from unisono.controllers.training.ray import labels


@dataclass(frozen=True, slots=True)
class Place:
    """One pod that the cluster wants: the head has group ``headgroup`` and index 0."""

    group: str
    index: int
    name: str
    template: PodTemplateSpec
    params: dict[str, str]

    @property
    def is_head(self) -> bool:
        """Whether this is the head."""
        return self.group == labels.HEAD_GROUP


class RayClusterView:
    """One cluster; cheap to make, never changes it."""

    def __init__(self, cluster: RayCluster) -> None:
        self.cluster, self.spec, self.status = cluster, cluster.spec, cluster.status
        meta = cluster.metadata
        self.name, self.namespace, self.uid = meta.name, meta.namespace or "", meta.uid or ""
        self.marks = meta.labels or {}

    @property
    def workers(self) -> list[RayWorkerGroupSpec]:
        """Worker groups that are not suspended."""
        return [group for group in self.spec.worker_group_specs or () if not group.suspend]

    def places(self) -> Iterator[Place]:
        """Every pod that the cluster wants, the head first."""
        head = self.spec.head_group_spec
        name = labels.pod_name(f"{self.name}-head", self.uid, labels.HEAD_GROUP, 0)
        yield Place(labels.HEAD_GROUP, 0, name, head.template, head.ray_start_params or {})
        for group in self.workers:
            for index in range(desired(group)):
                prefix = f"{self.name}-{group.group_name}-worker"
                name = labels.pod_name(prefix, self.uid, group.group_name, index)
                yield Place(group.group_name, index, name, group.template, group.ray_start_params or {})

    @property
    def group_name(self) -> str:
        """Name of the pod group: after the job that the cluster was made for, else after the cluster."""
        made_for_job = self.marks.get(labels.ORIGIN_KIND) == "RayJob"
        return f"ray-{self.marks.get(labels.ORIGIN_NAME, self.name) if made_for_job else self.name}-pg"

    @property
    def queue(self) -> str:
        """Where the gang waits."""
        return self.marks.get(labels.QUEUE) or "default"


def desired(group: RayWorkerGroupSpec) -> int:
    """Pods of a worker group: replicas within their limits, times hosts."""
    return _within(group, group.replicas if group.replicas is not None else least(group)) * hosts(group)


def fewest(group: RayWorkerGroupSpec) -> int:
    """Pods that the group needs at least."""
    return least(group) * hosts(group)


def most(group: RayWorkerGroupSpec) -> int:
    """Pods that the group may have."""
    return (2**31 - 1 if group.max_replicas is None else group.max_replicas) * hosts(group)


def least(group: RayWorkerGroupSpec) -> int:
    """Fewest replicas."""
    return group.min_replicas or 0


def hosts(group: RayWorkerGroupSpec) -> int:
    """Pods of each replica."""
    return group.num_of_hosts or 1


def _within(group: RayWorkerGroupSpec, replicas: int) -> int:
    high = replicas if group.max_replicas is None else min(replicas, group.max_replicas)
    return max(high, least(group))
