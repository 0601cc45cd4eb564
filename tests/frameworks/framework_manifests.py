"""Manifests of jobs whose pods all run one command."""

from __future__ import annotations

from typing import Any

from framework_jobs import SMALL


def template(name: str, *command: str, **container: Any) -> dict[str, Any]:
    """A pod template of one container."""
    main = {"name": name, "image": name, "command": list(command), "resources": SMALL, **container}
    return {"spec": {"restartPolicy": "Never", "containers": [main]}}


def volcano(name: str, plugin: str, tasks: dict[str, int], *command: str) -> dict[str, Any]:
    """A Volcano Job with a plug-in; it is aborted as soon as a pod fails."""
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "minAvailable": sum(tasks.values()),
            "plugins": {plugin: []},
            "policies": [{"event": "PodFailed", "action": "AbortJob"}],
            "tasks": [
                {"name": task, "replicas": count, "template": template("main", *command)}
                for task, count in tasks.items()
            ],
        },
    }


def kubeflow(name: str, kind: str, field: str, container: str, roles: dict[str, int], *command: str) -> dict[str, Any]:
    """A training job of ``kubeflow.org`` whose pods stay when it has ended."""
    replicas = {role: {"replicas": count, "template": template(container, *command)} for role, count in roles.items()}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"runPolicy": {"cleanPodPolicy": "None"}, field: replicas},
    }


def train_job(name: str, runtime: str, nodes: int, *command: str, **trainer: Any) -> dict[str, Any]:
    """A TrainJob on one of the runtimes that are there from the start."""
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name},
        "spec": {
            "runtimeRef": {"name": runtime},
            "trainer": {"numNodes": nodes, "command": list(command), "resourcesPerNode": SMALL, **trainer},
        },
    }
