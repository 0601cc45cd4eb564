"""Real PyTorch trainings as PyTorchJobs, with workers that are lost and added while they run."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml
from framework_jobs import SMALL, Jobs, need

from support.plane import REPOSITORY

pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.torch,
    pytest.mark.processes,
    pytest.mark.xdist_group("processes"),
]
DIGITS = REPOSITORY / "examples" / "digits"


def replica(count: int, *command: str) -> dict[str, Any]:
    container = {
        "name": "pytorch",
        "image": "pytorch",
        "command": list(command),
        "workingDir": str(DIGITS),
        "resources": SMALL,
        "env": [{"name": "OMP_NUM_THREADS", "value": "1"}],
    }
    return {"replicas": count, "restartPolicy": "OnFailure", "template": {"spec": {"containers": [container]}}}


def training(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name},
        "spec": {"nprocPerNode": "1", "runPolicy": {"cleanPodPolicy": "None"}, **spec},
    }


def elastic(jobs: Jobs, folder: Path, epochs: int, pause: float) -> None:
    worker = replica(
        2,
        "torchrun",
        "train_elastic.py",
        f"--epochs={epochs}",
        f"--pause={pause}",
        f"--checkpoint={folder / 'digits.pt'}",
    )
    policy = {
        "minReplicas": 1,
        "maxReplicas": 4,
        "rdzvBackend": "c10d",
        "maxRestarts": 10,
        "rdzvConf": [{"key": "last_call_timeout", "value": "5"}, {"key": "keep_alive_interval", "value": "1"}],
    }
    jobs.submit(training("elastic", elasticPolicy=policy, pytorchReplicaSpecs={"Worker": worker}))


def epochs_by_size(log: str) -> dict[int, int]:
    """Number of workers by epoch."""
    return {int(epoch): int(size) for epoch, size in re.findall(r"epoch (\d+) with (\d) workers", log)}


def process_of(host: str, checkpoint: str) -> int:
    """The process that trains in a pod: the one started by torchrun, which has a rank."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words, variables = (folder / "cmdline").read_text(), (folder / "environ").read_text()
        except OSError:
            continue
        own = f"HOSTNAME={host}" in variables.split("\0") and "LOCAL_RANK=0" in variables.split("\0")
        if own and f"--checkpoint={checkpoint}" in words.split("\0"):
            return int(folder.name)
    raise AssertionError(f"no process trains in {host}")


def all_logs(jobs: Jobs) -> str:
    return "\n".join(jobs.log(name) for name in jobs.pods("elastic"))


def test_a_master_and_a_worker_train_with_ddp(jobs: Jobs) -> None:
    need("torch", always=False)
    command = ("python", "train_ddp.py", "--epochs=5")
    jobs.submit(training("ddp", pytorchReplicaSpecs={"Master": replica(1, *command), "Worker": replica(1, *command)}))
    job = jobs.wait_for_condition("pytorchjobs.kubeflow.org/ddp", "Succeeded")
    assert job["status"]["replicaStatuses"]["Master"]["succeeded"] == 1
    log = jobs.log("ddp-master-0")
    assert "rank 0 of 2 is ready" in log
    assert float(re.findall(r"test accuracy (\d\.\d+)", log)[0]) > 0.9


def test_training_goes_on_when_a_process_is_killed(jobs: Jobs, tmp_path: Path) -> None:
    need("torch", always=False)
    elastic(jobs, tmp_path, epochs=20, pause=0.3)
    jobs.wait_for_log("elastic-worker-0", "epoch 2 with 2 workers")
    os.kill(process_of("elastic-worker-1", str(tmp_path / "digits.pt")), signal.SIGKILL)
    job = jobs.wait_for_condition("pytorchjobs.kubeflow.org/elastic", "Succeeded", patience=180)
    log = all_logs(jobs)
    begins = sorted(int(epoch) for epoch in re.findall(r"of 2 begins after epoch (\d+)", log))
    assert begins[0] == 0
    assert begins[-1] >= 2, "what had been learnt was lost"
    assert max(epochs_by_size(log)) == 20
    assert float(re.findall(r"test accuracy (\d\.\d+)", log)[0]) > 0.9
    assert not any(each["type"] == "Failed" for each in job["status"]["conditions"])


def test_workers_are_added_while_the_training_runs(jobs: Jobs, tmp_path: Path) -> None:
    need("torch", always=False)
    elastic(jobs, tmp_path, epochs=400, pause=0.3)
    jobs.wait_for_log("elastic-worker-0", "epoch 2 with 2 workers")
    jobs.plane.kubectl("scale", "pytorchjobs.kubeflow.org/elastic", "--replicas=4")
    log = jobs.wait_for_log("elastic-worker-0", "with 4 workers", patience=180)
    assert int(re.findall(r"of 4 begins after epoch (\d+)", log)[0]) >= 2, "what had been learnt was lost"
    assert min(epoch for epoch, size in epochs_by_size(log).items() if size == 4) > 2
    members = yaml.safe_load(jobs.plane.kubectl("get", "podgroup", "elastic", "-o", "yaml"))
    assert members["spec"]["minMember"] == 1
