"""The kinds of training frameworks, as constants; ``api.kinds`` lists them with all others."""

from __future__ import annotations

from typing import Any

from unisono.api import kubeflow
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

KUBEFLOW_KINDS: tuple[Kind[Any], ...] = (PYTORCH_JOBS, TF_JOBS, MPI_JOBS, XGBOOST_JOBS, PADDLE_JOBS, JAX_JOBS)
TRAINING_KINDS: tuple[Kind[Any], ...] = KUBEFLOW_KINDS
