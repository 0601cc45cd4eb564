"""The controllers of training frameworks, each of which can be left to an operator of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

from unisono.api import kind_families
from unisono.api.core import Pod
from unisono.api.groups.job_set import JobSet
from unisono.api.groups.kubeflow import AnyTrainingJob
from unisono.api.groups.ray import RayCluster, RayJob, RayService
from unisono.api.groups.trainer import TrainingRuntimeSpec, TrainJob
from unisono.api.keys import RAY_CLUSTER
from unisono.api.kinds import PODS
from unisono.controllers import owners
from unisono.controllers.execution import Offload
from unisono.controllers.owners import index
from unisono.controllers.recorder import Recorder
from unisono.controllers.training.controller import OWNER_INDEX, Seen, TrainingController
from unisono.controllers.training.jobset.decide import decide as decide_job_set
from unisono.controllers.training.kubeflow.decide import decide as decide_kubeflow
from unisono.controllers.training.kubeflow.framework import Framework
from unisono.controllers.training.kubeflow.frameworks import Jax, Paddle, PyTorch, TensorFlow, XGBoost
from unisono.controllers.training.kubeflow.mpi import Mpi
from unisono.controllers.training.plan import TrainingPlan
from unisono.controllers.training.ray import cluster, job, service
from unisono.controllers.training.ray import pods as view
from unisono.controllers.training.ray.pods import RayClusterView
from unisono.controllers.training.trainjob import built_in_runtimes
from unisono.controllers.training.trainjob import decide as decide_train_job
from unisono.errors import AlreadyExists, ConfigError, NotFound
from unisono.jobkinds.registry import ALL
from unisono.kube.controller import Context, Controller


class JobSetController(TrainingController[JobSet]):
    """Makes the pods of JobSets."""

    name = "jobset-controller"
    kind = kind_families.JOB_SETS

    def decide(self, seen: Seen[JobSet], now: float) -> TrainingPlan:
        """The next step for the JobSet."""
        return decide_job_set(seen, now)


# Controllers of the training jobs of ``kubeflow.org``: one class, one instance per kind.

FRAMEWORKS: tuple[type[Framework], ...] = (PyTorch, TensorFlow, Mpi, XGBoost, Paddle, Jax)


class KubeflowController(TrainingController[AnyTrainingJob]):
    """Runs the jobs of one kind."""

    def __init__(self, framework: Framework, recorder: Recorder, offload: Offload = asyncio.to_thread) -> None:
        """``framework`` says what is the kind's own."""
        super().__init__(recorder, offload)
        self.framework, self.kind = framework, framework.kind
        self.name, self.with_services = framework.operator, framework.pod_services

    def setup(self, context: Context) -> None:
        """Watch autoscalers, too, for kinds that may have one."""
        super().setup(context)
        if self.framework.autoscales:
            self._autoscalers = context.watch(kind_families.HORIZONTAL_POD_AUTOSCALERS, self._owner_keys, optional=True)

    def decide(self, seen: Seen[AnyTrainingJob], now: float) -> TrainingPlan:
        """The next step for the job."""
        if self.framework.autoscales:
            seen.autoscaler = self._autoscalers.get(seen.job.key)
        return decide_kubeflow(seen, self.framework, now)


# The controllers of RayClusters, RayJobs and RayServices.


class RayClusterController(TrainingController[RayCluster]):
    """Makes the pods of Ray clusters."""

    name = "raycluster-controller"
    kind = kind_families.RAY_CLUSTERS

    def group_name(self, job: RayCluster) -> str:
        """Name of the cluster's pod group."""
        return RayClusterView(job).group_name

    def decide(self, seen: Seen[RayCluster], now: float) -> TrainingPlan:
        """The next step for the cluster."""
        return cluster.decide(seen, now)


class RayJobController(TrainingController[RayJob]):
    """Makes Ray clusters for RayJobs and submits the jobs."""

    name = "rayjob-controller"
    kind = kind_families.RAY_JOBS

    def setup(self, context: Context) -> None:
        """Watch Ray clusters, too."""
        super().setup(context)
        # In SidecarMode the head's pod tells how the job is doing.
        context.watch(PODS, _origin)
        self._clusters = context.watch(kind_families.RAY_CLUSTERS, self._owner_keys, optional=True)

    def decide(self, seen: Seen[RayJob], now: float) -> TrainingPlan:
        """The next step for the job."""
        own = seen.job
        chosen = (own.spec.cluster_selector or {}).get(RAY_CLUSTER) or own.status.ray_cluster_name
        ray_cluster = self._clusters.get(f"{own.metadata.namespace}/{chosen}") if chosen else None
        return job.decide(seen, ray_cluster, now, self._head(ray_cluster))

    def _head(self, cluster: RayCluster | None) -> Pod | None:
        """The pod of a cluster's head."""
        if cluster is None:
            return None
        pods = self._pods.by_index(OWNER_INDEX, owners.family(cluster))
        return next((pod for pod in pods if (pod.metadata.labels or {}).get(view.NODE_TYPE) == "head"), None)


class RayServiceController(TrainingController[RayService]):
    """Makes Ray clusters for RayServices, has their applications deployed, and leads requests to them."""

    name = "rayservice-controller"
    kind = kind_families.RAY_SERVICES

    def setup(self, context: Context) -> None:
        """Watch Ray clusters and their pods, too."""
        super().setup(context)
        context.watch(PODS, _service_of)
        self._clusters = context.watch(kind_families.RAY_CLUSTERS, self._owner_keys, optional=True)
        index(self._clusters, OWNER_INDEX, owners.controller_keys)

    def decide(self, seen: Seen[RayService], now: float) -> TrainingPlan:
        """The next step for the service."""
        owned = self._clusters.by_index(OWNER_INDEX, owners.family(seen.job))
        clusters = {
            each.metadata.name: service.SeenCluster(each, self._pods.by_index(OWNER_INDEX, owners.family(each)))
            for each in owned
        }
        return service.decide(seen, clusters, now)


def _service_of(pod: Pod) -> list[str]:
    return _made_for(pod, kind_families.RAY_SERVICES.kind)


def _origin(pod: Pod) -> list[str]:
    """Key of the RayJob that a pod's cluster was made for."""
    return _made_for(pod, kind_families.RAY_JOBS.kind)


def _made_for(pod: Pod, kind: str) -> list[str]:
    marks = pod.metadata.labels or {}
    name = marks.get(view.ORIGIN_NAME)
    return [f"{pod.metadata.namespace}/{name}"] if name and marks.get(view.ORIGIN_KIND) == kind else []


class TrainJobController(TrainingController[TrainJob]):
    """Makes JobSets of TrainJobs, and the runtimes that come with the control plane."""

    name = "trainjob-controller"
    kind = kind_families.TRAIN_JOBS

    def setup(self, context: Context) -> None:
        """Watch runtimes and JobSets, too."""
        super().setup(context)
        self._job_sets = context.watch(kind_families.JOB_SETS, self._owner_keys, optional=True)
        self._runtimes = context.informers.of(kind_families.TRAINING_RUNTIMES, optional=True)
        self._cluster_runtimes = context.informers.of(kind_families.CLUSTER_TRAINING_RUNTIMES, optional=True)

    async def start(self) -> None:
        """Make the built-in runtimes; those of the same name stay as they are."""
        for runtime in built_in_runtimes():
            if self._cluster_runtimes.get(runtime.metadata.name) is not None:
                continue
            try:
                await self._client.create(kind_families.CLUSTER_TRAINING_RUNTIMES, runtime)
            except AlreadyExists:
                continue
            except NotFound:
                # This server does not have the kind.
                return

    def decide(self, seen: Seen[TrainJob], now: float) -> TrainingPlan:
        """The next step for the job."""
        job = seen.job
        return decide_train_job(job, self._runtime(job), self._job_sets.get(job.key), now)

    def _runtime(self, job: TrainJob) -> TrainingRuntimeSpec | None:
        reference = job.spec.runtime_ref
        if reference.kind == kind_families.TRAINING_RUNTIMES.kind:
            own = self._runtimes.get(f"{job.metadata.namespace}/{reference.name}")
            return own.spec if own is not None else None
        shared = self._cluster_runtimes.get(reference.name)
        return shared.spec if shared is not None else None


_CONTROLLERS: tuple[type[TrainingController[Any]], ...] = (
    TrainJobController,
    JobSetController,
    RayClusterController,
    RayJobController,
    RayServiceController,
)
KINDS = (*(each.kind.kind for each in FRAMEWORKS), *(each.kind.kind for each in _CONTROLLERS))
MADE_BY_MEMBERS = frozenset(each.kind.kind for each in ALL if each.fleet == "whole" and each.kind.kind in KINDS)
"""Kinds whose pods the members of a fleet make; the others become objects of these kinds."""


def check_kinds(kinds: Collection[str]) -> None:
    """Raise ConfigError unless all of these are kinds that have a controller here."""
    unknown = sorted(set(kinds) - set(KINDS))
    if unknown:
        raise ConfigError(f"unknown kind {', '.join(unknown)}: the kinds to choose from are {', '.join(sorted(KINDS))}")


def training_controllers(
    recorder: Recorder, offload: Offload = asyncio.to_thread, foreign_kinds: Collection[str] = ()
) -> list[Controller]:
    """One controller per kind.

    Args:
        recorder: records events.
        offload: runs what computes for long away from the event loop.
        foreign_kinds: kinds, such as ``PyTorchJob``, that an operator of their own runs: they get no controller here.

    Raises:
        ConfigError: a foreign kind is none that could be run here.
    """
    check_kinds(foreign_kinds)
    made: dict[str, Controller] = {
        **{each.kind.kind: KubeflowController(each(), recorder, offload) for each in FRAMEWORKS},
        **{each.kind.kind: each(recorder, offload) for each in _CONTROLLERS},
    }
    return [controller for kind, controller in made.items() if kind not in foreign_kinds]
