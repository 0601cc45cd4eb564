"""Training jobs on a whole control plane with real kubectl: what the articles' readers type."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.plane import RunningPlane, wait_until

pytestmark = [pytest.mark.kubectl, pytest.mark.processes]

Start = Callable[..., RunningPlane]

PAIR = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: pair}
spec:
  pytorchReplicaSpecs:
    Master:
      template:
        spec:
          containers:
            - {name: pytorch, image: x, command: [sh, -c, "echo rank $RANK of $WORLD_SIZE"]}
    Worker:
      replicas: 2
      template:
        spec:
          containers:
            - {name: pytorch, image: x, command: [sh, -c, "getent hosts $MASTER_ADDR && echo rank $RANK"]}
"""
TUNE = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: tune}
spec:
  runtimeRef: {name: torch-distributed}
  trainer: {numNodes: 2, image: x, command: [sh, -c, "echo node $PET_NODE_RANK of $PET_NNODES"]}
"""


def test_jobs_run_as_processes_of_this_machine(start_plane: Start) -> None:
    plane = start_plane()
    plane.apply(PAIR, TUNE)
    plane.kubectl("wait", "pytorchjob/pair", "--for=condition=Succeeded", "--timeout=300s")
    plane.kubectl("wait", "trainjob/tune", "--for=condition=Complete", "--timeout=300s")
    assert plane.kubectl("logs", "-l", "training.kubeflow.org/job-role=master").strip() == "rank 0 of 3"
    logs = plane.kubectl("logs", "-l", "jobset.sigs.k8s.io/jobset-name=tune")
    assert sorted(logs.split("\n")) == ["", "node 0 of 2", "node 1 of 2"]
    assert plane.kubectl("get", "pytorchjobs").split()[:5] == ["NAME", "STATE", "AGE", "pair", "Succeeded"]
    plane.kubectl("delete", "pytorchjob/pair", "trainjob/tune")
    wait_until("the pods are gone", lambda: not plane.pods())


@pytest.mark.more
def test_the_articles_pytorch_jobs_are_placed_scaled_and_suspended(start_plane: Start, manifests: Path) -> None:
    nodes = "- {name: gpu, count: 6, capacity: {cpu: 64, memory: 512Gi, nvidia.com/gpu: 8}}"
    plane = start_plane("--no-agent", nodes=nodes)
    plane.kubectl("create", "namespace", "kubeflow")
    plane.apply(manifests / "18-pytorchjob-resnet.yaml")

    def running() -> list[str]:
        found = plane.objects("pods", "kubeflow", **{"training.kubeflow.org/job-name": "resnet-training"})
        return sorted(each["metadata"]["name"] for each in found if each["status"]["phase"] == "Running")

    master, *workers = "resnet-training-master-0", "resnet-training-worker-0", "resnet-training-worker-1"
    wait_until("the gang runs", lambda: running() == [master, *workers])
    plane.kubectl("wait", "-n", "kubeflow", "pytorchjob/resnet-training", "--for=condition=Running", "--timeout=300s")
    plane.kubectl("scale", "-n", "kubeflow", "pytorchjob/resnet-training", "--replicas=3")
    wait_until("a worker more runs", lambda: running() == [master, *workers, "resnet-training-worker-2"])
    patch = '{"spec":{"runPolicy":{"suspend":true}}}'
    plane.kubectl("patch", "-n", "kubeflow", "pytorchjob/resnet-training", "--type=merge", "-p", patch)
    wait_until("all pods are gone", lambda: not plane.objects("pods", "kubeflow"))
    plane.kubectl("wait", "-n", "kubeflow", "pytorchjob/resnet-training", "--for=condition=Suspended", "--timeout=300s")
