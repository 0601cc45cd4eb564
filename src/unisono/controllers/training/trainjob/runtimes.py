"""The runtimes that a control plane comes with."""

from __future__ import annotations

from typing import Any

import msgspec

from unisono.api.groups.trainer import ClusterTrainingRuntime
from unisono.api.keys import TRAINJOB_ANCESTOR

_FRAMEWORK = "trainer.kubeflow.org/framework"


def built_in_runtimes() -> list[ClusterTrainingRuntime]:
    """Runtimes of the frameworks that need one step only, and of MPI."""
    return [
        _runtime(
            "torch-distributed",
            "torch",
            {"torch": {}},
            [_step("node", "pytorch/pytorch:2.7.1-cuda12.8-cudnn9-runtime")],
        ),
        _runtime("jax-distributed", "jax", {"jax": {}}, [_step("node", "nvcr.io/nvidia/jax:25.10-py3")]),
        _runtime(
            "xgboost-distributed",
            "xgboost",
            {"xgboost": {}},
            [_step("node", "ghcr.io/kubeflow/trainer/xgboost-runtime")],
        ),
        _runtime(
            "deepspeed-distributed",
            "deepspeed",
            {"mpi": {"numProcPerNode": 1, "mpiImplementation": "OpenMPI", "runLauncherAsNode": True}},
            [
                _step("launcher", "ghcr.io/kubeflow/trainer/deepspeed-runtime"),
                _step(
                    "node",
                    "ghcr.io/kubeflow/trainer/deepspeed-runtime",
                    trains=False,
                    command=["/usr/sbin/sshd", "-De"],
                ),
            ],
            successPolicy={"operator": "All", "targetReplicatedJobs": ["launcher"]},
        ),
    ]


def _step(name: str, image: str, *, trains: bool = True, **container: Any) -> dict[str, Any]:
    step: dict[str, Any] = {
        "name": name,
        "replicas": 1,
        "template": {
            "spec": {"template": {"spec": {"containers": [{"name": "node", "image": image, **container}]}}},
        },
    }
    if trains:
        step["template"]["metadata"] = {"labels": {TRAINJOB_ANCESTOR: "trainer"}}
    return step


def _runtime(
    name: str, framework: str, policy: dict[str, Any], steps: list[dict[str, Any]], **spec: Any
) -> ClusterTrainingRuntime:
    value = {
        "metadata": {"name": name, "labels": {_FRAMEWORK: framework}},
        "spec": {
            "mlPolicy": {"numNodes": 1, **policy},
            "podGroupPolicy": {"volcano": {}},
            "template": {"spec": {"replicatedJobs": steps, **spec}},
        },
    }
    return msgspec.convert(value, ClusterTrainingRuntime)
