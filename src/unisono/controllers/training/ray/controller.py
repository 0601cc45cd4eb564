"""The controllers of RayClusters, RayJobs and RayServices."""

from __future__ import annotations

from unisono.api.core import Pod
from unisono.api.groups.ray import RayCluster, RayJob, RayService
from unisono.api.keys import RAY_CLUSTER
from unisono.api.kind_families import RAY_CLUSTERS, RAY_JOBS, RAY_SERVICES
from unisono.api.kinds import PODS
from unisono.controllers import owners
from unisono.controllers.indexing import index
from unisono.controllers.training.controller import OWNER_INDEX, Seen, TrainingController
from unisono.controllers.training.plan import Plan
from unisono.controllers.training.ray import cluster, job, labels, service
from unisono.controllers.training.ray.view import RayClusterView
from unisono.kube.controller import Context


class RayClusterController(TrainingController[RayCluster]):
    """Makes the pods of Ray clusters."""

    name = "raycluster-controller"
    kind = RAY_CLUSTERS

    def group_name(self, job: RayCluster) -> str:
        """Name of the cluster's pod group."""
        return RayClusterView(job).group_name

    def decide(self, seen: Seen[RayCluster], now: float) -> Plan:
        """The next step for the cluster."""
        return cluster.decide(seen, now)


class RayJobController(TrainingController[RayJob]):
    """Makes Ray clusters for RayJobs and submits the jobs."""

    name = "rayjob-controller"
    kind = RAY_JOBS

    def setup(self, context: Context) -> None:
        """Watch Ray clusters, too."""
        super().setup(context)
        # In SidecarMode the head's pod tells how the job is doing.
        context.watch(PODS, _origin)
        self._clusters = context.watch(RAY_CLUSTERS, self._owner_keys, optional=True)

    def decide(self, seen: Seen[RayJob], now: float) -> Plan:
        """The next step for the job."""
        own = seen.job
        chosen = (own.spec.cluster_selector or {}).get(RAY_CLUSTER) or own.status.ray_cluster_name
        found = self._clusters.get(f"{own.metadata.namespace}/{chosen}") if chosen else None
        return job.decide(seen, found, now, self._head(found))

    def _head(self, cluster: RayCluster | None) -> Pod | None:
        """The pod of a cluster's head."""
        if cluster is None:
            return None
        pods = self._pods.by_index(OWNER_INDEX, owners.family(cluster))
        return next((pod for pod in pods if (pod.metadata.labels or {}).get(labels.NODE_TYPE) == "head"), None)


class RayServiceController(TrainingController[RayService]):
    """Makes Ray clusters for RayServices, has their applications deployed, and leads requests to them."""

    name = "rayservice-controller"
    kind = RAY_SERVICES

    def setup(self, context: Context) -> None:
        """Watch Ray clusters and their pods, too."""
        super().setup(context)
        context.watch(PODS, _service_of)
        self._clusters = context.watch(RAY_CLUSTERS, self._owner_keys, optional=True)
        index(self._clusters, OWNER_INDEX, owners.controller_keys)

    def decide(self, seen: Seen[RayService], now: float) -> Plan:
        """The next step for the service."""
        found = self._clusters.by_index(OWNER_INDEX, owners.family(seen.job))
        clusters = {
            each.metadata.name: service.SeenCluster(each, self._pods.by_index(OWNER_INDEX, owners.family(each)))
            for each in found
        }
        return service.decide(seen, clusters, now)


def _service_of(pod: Pod) -> list[str]:
    return _made_for(pod, RAY_SERVICES.kind)


def _origin(pod: Pod) -> list[str]:
    """Key of the RayJob that a pod's cluster was made for."""
    return _made_for(pod, RAY_JOBS.kind)


def _made_for(pod: Pod, kind: str) -> list[str]:
    marks = pod.metadata.labels or {}
    name = marks.get(labels.ORIGIN_NAME)
    return [f"{pod.metadata.namespace}/{name}"] if name and marks.get(labels.ORIGIN_KIND) == kind else []
