"""``unisono run`` follows jobs of other kinds than Volcano's to their end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.plane import unisono

pytestmark = [pytest.mark.processes]

FILE = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: pair}
spec:
  runPolicy: {cleanPodPolicy: None}
  pytorchReplicaSpecs:
    Master: &role
      template:
        spec:
          containers:
            - name: pytorch
              image: local
              # The job is over when its master is, which waits for the other here.
              command: [sh, -c, 'echo rank $RANK of $WORLD_SIZE; >met-$RANK; until [ -e met-1 ]; do sleep 0.05; done']
    Worker: *role
---
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: broken}
spec:
  pytorchReplicaSpecs:
    Master:
      restartPolicy: Never
      template: {spec: {containers: [{name: pytorch, image: local, command: [sh, -c, 'exit 3']}]}}
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: trained}
spec:
  runtimeRef: {name: torch-distributed}
  trainer: {numNodes: 2, command: [sh, -c, 'echo a node trains']}
---
apiVersion: flow.volcano.sh/v1alpha1
kind: JobTemplate
metadata: {name: prepare}
spec:
  minAvailable: 1
  tasks:
    - name: t
      replicas: 1
      template:
        spec: {restartPolicy: Never, containers: [{name: c, image: local, command: [ls, jobs.yaml]}]}
---
apiVersion: flow.volcano.sh/v1alpha1
kind: JobFlow
metadata: {name: steps}
spec:
  jobRetainPolicy: delete
  flows: [{name: prepare}]
---
apiVersion: training.volcano.sh/v1alpha1
kind: HyperJob
metadata: {name: hyper}
spec:
  replicatedJobs:
    - name: a
      replicas: 2
      templateSpec:
        minAvailable: 1
        tasks:
          - name: t
            replicas: 1
            template:
              spec: {restartPolicy: Never, containers: [{name: c, image: local, command: [echo, a part]}]}
"""


def test_jobs_end_as_their_conditions_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNISONO_DATA_DIR", str(tmp_path / "none"))
    file = tmp_path / "jobs.yaml"
    file.write_text(FILE)
    done = unisono("run", str(file), "--output", "json", "--timeout", "300", patience=400, check=False)
    assert done.returncode == 1, done.stderr
    assert done.stdout, done.stderr
    jobs = {job["name"]: job for job in json.loads(done.stdout)["jobs"]}
    assert {name: job["phase"] for name, job in jobs.items()} == {
        "pair": "Completed",
        "broken": "Failed",
        "trained": "Completed",
        "steps": "Completed",
        "hyper": "Completed",
    }
    assert [pod["exitCode"] for pod in jobs["broken"]["pods"]] == [3]
    assert "rank 0 of 2" in done.stderr
    assert "rank 1 of 2" in done.stderr
    assert done.stderr.count("| a node trains") == 2
    assert "prepare-t-0 | jobs.yaml" in done.stderr
    assert done.stderr.count("| a part") == 2
    assert "==> jobflow/steps: job steps-prepare has run" in done.stderr
