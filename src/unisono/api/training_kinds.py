"""The kinds of training frameworks, as constants; ``api.kinds`` lists them with all others."""

from __future__ import annotations

from typing import Any

from unisono.api import job_set, kubeflow, ray, trainer
from unisono.api.kind import Kind, Scale

KUBEFLOW = "kubeflow.org"


def _scale(field: str) -> Scale:
    return Scale(
        f".spec.{field}.Worker.replicas",
        ".status.replicaStatuses.Worker.active",
        ".status.replicaStatuses.Worker.selector",
    )


PYTORCH_JOBS: Kind[kubeflow.PyTorchJob] = Kind(
    KUBEFLOW,
    "v1",
    "PyTorchJob",
    "pytorchjobs",
    kubeflow.PyTorchJob,
    status_subresource=True,
    scale=_scale("pytorchReplicaSpecs"),
)
TF_JOBS: Kind[kubeflow.TFJob] = Kind(KUBEFLOW, "v1", "TFJob", "tfjobs", kubeflow.TFJob, status_subresource=True)
# Both operators define mpijobs.kubeflow.org, each with a version of its own: here one kind has the fields of both.
MPI_JOBS: Kind[kubeflow.MPIJob] = Kind(
    KUBEFLOW,
    "v1",
    "MPIJob",
    "mpijobs",
    kubeflow.MPIJob,
    status_subresource=True,
    alias_versions=("v2beta1",),
)
XGBOOST_JOBS: Kind[kubeflow.XGBoostJob] = Kind(
    KUBEFLOW, "v1", "XGBoostJob", "xgboostjobs", kubeflow.XGBoostJob, status_subresource=True
)
PADDLE_JOBS: Kind[kubeflow.PaddleJob] = Kind(
    KUBEFLOW,
    "v1",
    "PaddleJob",
    "paddlejobs",
    kubeflow.PaddleJob,
    status_subresource=True,
    scale=_scale("paddleReplicaSpecs"),
)
JAX_JOBS: Kind[kubeflow.JAXJob] = Kind(
    KUBEFLOW,
    "v1",
    "JAXJob",
    "jaxjobs",
    kubeflow.JAXJob,
    status_subresource=True,
    scale=_scale("jaxReplicaSpecs"),
)

JOB_SETS: Kind[job_set.JobSet] = Kind(
    "jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets", job_set.JobSet, status_subresource=True
)
TRAIN_JOBS: Kind[trainer.TrainJob] = Kind(
    "trainer.kubeflow.org", "v1alpha1", "TrainJob", "trainjobs", trainer.TrainJob, status_subresource=True
)
TRAINING_RUNTIMES: Kind[trainer.TrainingRuntime] = Kind(
    "trainer.kubeflow.org", "v1alpha1", "TrainingRuntime", "trainingruntimes", trainer.TrainingRuntime
)
CLUSTER_TRAINING_RUNTIMES: Kind[trainer.ClusterTrainingRuntime] = Kind(
    "trainer.kubeflow.org",
    "v1alpha1",
    "ClusterTrainingRuntime",
    "clustertrainingruntimes",
    trainer.ClusterTrainingRuntime,
    False,
)
RAY_CLUSTERS: Kind[ray.RayCluster] = Kind(
    "ray.io", "v1", "RayCluster", "rayclusters", ray.RayCluster, categories=("all",), status_subresource=True
)
RAY_JOBS: Kind[ray.RayJob] = Kind(
    "ray.io", "v1", "RayJob", "rayjobs", ray.RayJob, categories=("all",), status_subresource=True
)
RAY_SERVICES: Kind[ray.RayService] = Kind(
    "ray.io", "v1", "RayService", "rayservices", ray.RayService, categories=("all",), status_subresource=True
)

KUBEFLOW_KINDS: tuple[Kind[Any], ...] = (PYTORCH_JOBS, TF_JOBS, MPI_JOBS, XGBOOST_JOBS, PADDLE_JOBS, JAX_JOBS)
TRAINING_KINDS: tuple[Kind[Any], ...] = (
    *KUBEFLOW_KINDS,
    TRAIN_JOBS,
    TRAINING_RUNTIMES,
    CLUSTER_TRAINING_RUNTIMES,
    JOB_SETS,
    RAY_CLUSTERS,
    RAY_JOBS,
    RAY_SERVICES,
)
RUN_KINDS: tuple[Kind[Any], ...] = tuple(kind for kind in TRAINING_KINDS if kind.status_subresource)
"""Those that have a controller; the others are templates."""
