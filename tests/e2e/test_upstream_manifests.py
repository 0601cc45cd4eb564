"""Manifests in the forms of the guides and samples of Volcano, Kubeflow, KubeRay and others, with a real kubectl."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.plane import RunningPlane, wait_until

pytestmark = [pytest.mark.kubectl, pytest.mark.processes]

UPSTREAM = Path(__file__).parent / "manifests" / "upstream"
# One node has the label of the third switch, and too little for a gang that must stay within one.
NODES = """
- {name: cpu, count: 4, capacity: {cpu: 32, memory: 128Gi}}
- {name: rack, count: 1, capacity: {cpu: 4, memory: 16Gi}, labels: {topology-rack: rack-2}}
"""
VOLCANO, KUBEFLOW, TRAINER = "jobs.batch.volcano.sh", "kubeflow.org", "trainjobs.trainer.kubeflow.org"

# By file: what its objects come to. Of kinds with conditions the newest true one counts, of others their phase.
ENDS: dict[str, dict[str, str]] = {
    "volcano-job-plugins": {
        f"{VOLCANO}/lm-mpi-job": "Completed",
        f"{VOLCANO}/tensorflow-dist-mnist": "Completed",
        f"{VOLCANO}/pytorch-job": "Completed",
        f"{VOLCANO}/mpi-plugin": "Completed",
        f"{VOLCANO}/ray-cluster-job": "Running",
        f"{VOLCANO}/hccl-job": "Completed",
    },
    "volcano-job-policies": {
        f"{VOLCANO}/events-and-codes": "Completed",
        f"{VOLCANO}/min-success": "Completed",
        f"{VOLCANO}/short-lived": "gone",
        f"{VOLCANO}/in-order": "Completed",
        f"{VOLCANO}/with-budget": "Completed",
    },
    "volcano-topology": {
        f"{VOLCANO}/within-a-switch": "Running",
        f"{VOLCANO}/partitions": "Running",
        f"{VOLCANO}/numa-job": "Completed",
    },
    "volcano-queues": {
        f"{VOLCANO}/job-of-team-1": "Completed",
        "podgroups.scheduling.volcano.sh/own-group": "Running",
        "queues.scheduling.volcano.sh/team-1": "Open",
    },
    "volcano-flows": {
        "jobflows.flow.volcano.sh/two-steps": "Succeed",
        "hyperjobs.training.volcano.sh/llm-training": "Completed",
        f"{VOLCANO}/two-steps-step-b": "Completed",
    },
    "kubeflow-v1": {
        f"tfjobs.{KUBEFLOW}/dist-mnist-for-e2e": "Succeeded",
        f"pytorchjobs.{KUBEFLOW}/elastic-example-imagenet-c10d": "Succeeded",
        f"xgboostjobs.{KUBEFLOW}/xgboost-dist-iris-test-train": "Succeeded",
        f"paddlejobs.{KUBEFLOW}/paddle-simple-cpu": "Succeeded",
        f"jaxjobs.{KUBEFLOW}/jaxjob-simple": "Succeeded",
        f"mpijobs.{KUBEFLOW}/tensorflow-mnist": "Succeeded",
    },
    "mpi-operator-v2beta1": {f"mpijobs.v2beta1.{KUBEFLOW}/pi": "Succeeded"},
    "kubeflow-v2": {f"{TRAINER}/torch-2-nodes": "Complete", f"{TRAINER}/with-dataset": "Complete"},
    "kuberay": {
        "rayclusters.ray.io/test-cluster-0": "ready",
        "rayjobs.ray.io/rayjob-sample": "Running",
        "podgroups.scheduling.volcano.sh/ray-test-cluster-0-pg": "Running",
    },
    "other-operators": {
        "podgroups.scheduling.volcano.sh/spark-pi-podgroup": "Completed",
        "deployments.apps/gang-deployment": "Available",
        "jobs.batch/indexed": "Complete",
        "jobsets.jobset.x-k8s.io/pytorch": "Completed",
    },
}  # fmt: skip


def state_of(plane: RunningPlane, name: str) -> str:
    """Phase or newest true condition of an object; ``gone`` where there is none."""
    done = plane.try_kubectl("get", name, "-o", "json")
    if done.returncode:
        return "gone"
    status: dict[str, Any] = json.loads(done.stdout).get("status") or {}
    state = status.get("state")
    phase = state.get("phase") if isinstance(state, dict) else state
    found = phase or status.get("phase") or status.get("jobDeploymentStatus") or status.get("terminalState")
    if found:
        return str(found)
    true = [one["type"] for one in status.get("conditions") or () if one["status"] == "True"]
    return next((each for each in ("Available", "Complete") if each in true), true[-1] if true else "")


@pytest.mark.more
def test_what_guides_and_samples_show_is_taken_and_does_what_they_say(
    start_plane: Callable[..., RunningPlane],
) -> None:
    assert {file.stem for file in UPSTREAM.glob("*.yaml")} == ENDS.keys()
    plane = start_plane("--no-agent", "--no-dashboard", nodes=NODES)
    for file in ENDS:
        plane.apply(UPSTREAM / f"{file}.yaml")
    for file, ends in ENDS.items():
        for name, end in ends.items():
            wait_until(
                f"{name} of {file} is {end}", lambda name=name, end=end: state_of(plane, name) == end, patience=300
            )
    places = [
        {pod["spec"]["nodeName"] for pod in plane.pods(**{"volcano.sh/job-name": "within-a-switch"})},
        {pod["spec"]["nodeName"] for pod in plane.pods(**{"volcano.sh/job-name": "partitions"})},
    ]
    switches = [{"cpu-0", "cpu-1"}, {"cpu-2", "cpu-3"}]
    assert any(places[0] <= switch for switch in switches), "the gang is within one switch"
    assert all(pod["spec"].get("nodeName") for pod in plane.pods()), "every pod has a node"
