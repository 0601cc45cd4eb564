"""``unisono logs`` reads all pods of an object of any kind, from the outside."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.plane import RunningPlane

pytestmark = [pytest.mark.kubectl, pytest.mark.processes]

# A worker begins once it has found its master's name, which it looks for every 2 s and which ends with the master.
TRAINING = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: pair}
spec:
  pytorchReplicaSpecs:
    Master: &role
      template:
        spec:
          containers:
            - {name: pytorch, image: local, command: [sh, -c, 'sleep 8; echo rank $RANK; echo bye']}
            - {name: side, image: local, command: [echo, beside]}
    Worker: *role
"""
TEMPLATE = """
apiVersion: flow.volcano.sh/v1alpha1
kind: JobTemplate
metadata: {name: FIRST}
spec:
  minAvailable: 1
  tasks:
    - name: t
      replicas: 1
      template:
        spec: {restartPolicy: Never, containers: [{name: c, image: local, command: [sh, -c, 'echo I am $(hostname)']}]}
"""
FLOW = """
apiVersion: flow.volcano.sh/v1alpha1
kind: JobFlow
metadata: {name: flow}
spec:
  jobRetainPolicy: retain
  flows: [{name: first}, {name: second, dependsOn: {targets: [first]}}]
"""


def test_all_pods_of_an_object_whatever_its_kind(start_plane: Callable[..., RunningPlane]) -> None:
    plane = start_plane()
    plane.apply(TRAINING, TEMPLATE.replace("FIRST", "first"), TEMPLATE.replace("FIRST", "second"), FLOW)

    def logs(*words: str) -> list[str]:
        return plane.unisono("logs", *words).stdout.splitlines()

    # Following begins before there is a pod. The job ends with its master, often before its worker. The
    # flow's second job starts after the first.
    pair = ["master-0 | bye", "master-0 | rank 0", "worker-0 | bye", "worker-0 | rank 1"]
    assert sorted(logs("-f", "pytorchjob/pair")) == pair
    flow = logs("-f", "jobflow/flow")
    assert [line.partition(" | ")[0] for line in flow] == ["first-t-0", "second-t-0"]
    assert logs("flow-first") == logs("job/flow-first") != []
    assert sorted(logs("pytorchjob", "pair")) == pair
    assert sorted(logs("--tail", "1", "pytorchjob/pair")) == ["master-0 | bye", "worker-0 | bye"]
    assert sorted(logs("-c", "side", "pytorchjob/pair")) == ["master-0 | beside", "worker-0 | beside"]
