"""A Ray cluster as its controller reads it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Final

from unisono.api.core import Pod, PodTemplateSpec
from unisono.api.groups.ray import RayCluster, RayWorkerGroupSpec
from unisono.api.keys import RAY_GROUP, TASK_INDEX
from unisono.api.membership import DEFAULT_QUEUE
from unisono.controllers.keys import whole_number
from unisono.controllers.pod_facts import is_active
from unisono.jobkinds.ray import HEAD_GROUP, desired, hosts
from unisono.jobkinds.registry import queue_of

# Labels of Ray's pods, and names that are made from a cluster's name.

NODE_TYPE: Final = "ray.io/node-type"
IS_RAY_NODE: Final = "ray.io/is-ray-node"
IDENTIFIER: Final = "ray.io/identifier"
ORIGIN_NAME: Final = "ray.io/originated-from-cr-name"
ORIGIN_KIND: Final = "ray.io/originated-from-crd"
SERVE: Final = "ray.io/serve"

# Prefixes of pod names are cut to so many letters.
_LONGEST = 50

GCS_PORT, DASHBOARD_PORT, CLIENT_PORT, METRICS_PORT, SERVE_PORT = 6379, 8265, 10001, 8080, 8000
# Where Ray's agent on each node listens, for its own cluster only.
AGENT_PORT = 52365
PORTS: Final = {
    "client": CLIENT_PORT,
    "dashboard": DASHBOARD_PORT,
    "gcs-server": GCS_PORT,
    "metrics": METRICS_PORT,
    "serve": SERVE_PORT,
}


def head_service_name(cluster: str) -> str:
    """Name of the head's Service."""
    return f"{cluster}-head-svc"


def serve_service_name(service: str) -> str:
    """Name of the Service of a RayService's applications."""
    return f"{service}-serve-svc"


def head_address(cluster: str, namespace: str) -> str:
    """Full name of the head's Service."""
    return f"{head_service_name(cluster)}.{namespace}.svc.cluster.local"


def letters(*parts: object) -> str:
    """Five letters that are the same for the same parts."""
    digest = hashlib.sha256("/".join(str(part) for part in parts).encode()).digest()
    return base64.b32encode(digest).decode().lower()[:5]


def pod_name(prefix: str, *parts: object) -> str:
    """The prefix, cut, and letters made from ``parts``."""
    return f"{prefix[: _LONGEST - 1].rstrip('-.')}-{letters(*parts)}"


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
        return self.group == HEAD_GROUP


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

    def places(self, pods: Iterable[Pod] = ()) -> Iterator[Place]:
        """Every pod that the cluster wants, the head first.

        Workers that are there keep their places, but for those that ``workersToDelete`` names: with fewer replicas
        these go and the others stay, with as many as before new ones come in their place.

        Args:
            pods: the cluster's pods.

        """
        head = self.spec.head_group_spec
        name = pod_name(f"{self.name}-head", self.uid, HEAD_GROUP, 0)
        yield Place(HEAD_GROUP, 0, name, head.template, head.ray_start_params or {})
        living = [pod for pod in pods if is_active(pod)]
        for group in self.workers:
            for index in self._indexes(group, living):
                name = self._worker(group, index)
                yield Place(group.group_name, index, name, group.template, group.ray_start_params or {})

    def _worker(self, group: RayWorkerGroupSpec, index: int) -> str:
        return pod_name(f"{self.name}-{group.group_name}-worker", self.uid, group.group_name, index)

    def _indexes(self, group: RayWorkerGroupSpec, living: Iterable[Pod]) -> Iterator[int]:
        """Numbers of the pods that a group wants; the hosts of one replica come and go together."""
        size, wanted = hosts(group), desired(group) // hosts(group)
        unwanted = set((group.scale_strategy.workers_to_delete if group.scale_strategy else None) or ())

        def goes(replica: int) -> bool:
            return bool(unwanted) and any(
                self._worker(group, replica * size + host) in unwanted for host in range(size)
            )

        there = sorted({number // size for pod in living if (number := _number_in(group, pod)) is not None})
        chosen = [replica for replica in there if not goes(replica)][:wanted]
        taken = set(chosen)
        free = (replica for replica in count() if replica not in taken and not goes(replica))
        chosen += [next(free) for _ in range(wanted - len(chosen))]
        for replica in sorted(chosen):
            yield from range(replica * size, (replica + 1) * size)

    @property
    def group_name(self) -> str:
        """Name of the pod group: after the job that the cluster was made for, else after the cluster."""
        made_for_job = self.marks.get(ORIGIN_KIND) == "RayJob"
        return f"ray-{self.marks.get(ORIGIN_NAME, self.name) if made_for_job else self.name}-pg"

    @property
    def queue(self) -> str:
        """Where the gang waits."""
        return queue_of(self.cluster) or DEFAULT_QUEUE


def _number_in(group: RayWorkerGroupSpec, pod: Pod) -> int | None:
    """Number of a pod within a group; None for pods of other groups."""
    if (pod.metadata.labels or {}).get(RAY_GROUP) != group.group_name:
        return None
    return whole_number((pod.metadata.annotations or {}).get(TASK_INDEX))


def most(group: RayWorkerGroupSpec) -> int:
    """Pods that the group may have."""
    return (2**31 - 1 if group.max_replicas is None else group.max_replicas) * hosts(group)
