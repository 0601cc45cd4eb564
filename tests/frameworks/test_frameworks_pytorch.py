"""Real PyTorch trainings as PyTorchJobs, with workers that are lost, added and taken away while they run."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from framework_jobs import SMALL, Jobs, need

from support.plane import REPOSITORY

pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.torch,
    pytest.mark.processes,
    pytest.mark.xdist_group("processes"),
]
DIGITS = REPOSITORY / "examples" / "digits"
FEWEST = 2


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


def elastic(jobs: Jobs, folder: Path, pause: float, fewest: int = FEWEST) -> None:
    """A job that trains until it is deleted."""
    words = ("torchrun", "train_elastic.py", "--epochs=10000", f"--pause={pause}", f"--checkpoint={checkpoint(folder)}")
    policy = {
        "minReplicas": fewest,
        "maxReplicas": 4,
        "rdzvBackend": "c10d",
        "maxRestarts": 10,
        "rdzvConf": [{"key": "last_call_timeout", "value": "2"}, {"key": "keep_alive_interval", "value": "1"}],
    }
    jobs.submit(training("elastic", elasticPolicy=policy, pytorchReplicaSpecs={"Worker": replica(2, *words)}))


def checkpoint(folder: Path) -> Path:
    return folder / "digits.pt"


def trained(jobs: Jobs, size: int, after: int = 0) -> int:
    """Wait for an epoch that so many workers train, later than ``after``; its number."""
    return _latest(jobs, rf"epoch (\d+) with {size} workers", after + 1)


def went_on(jobs: Jobs, size: int, learnt: int) -> int:
    """Wait until so many workers go on with what had been learnt after an epoch, or later; the epoch that they knew."""
    return _latest(jobs, rf"of {size} begins after epoch (\d+)", learnt)


def _latest(jobs: Jobs, words: str, least: int) -> int:
    def told() -> int:
        return max(
            (epoch for text in re.findall(words, jobs.logs("elastic")) if (epoch := int(text)) >= least), default=0
        )

    return int(jobs.patiently(f"a worker says {words!r} with {least} or more", told, "elastic"))


def process_of(host: str, folder: Path) -> int:
    """The process that trains in a pod: the one started by torchrun, which has a rank."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words, variables = (process / "cmdline").read_text(), (process / "environ").read_text()
        except OSError:
            continue
        own = f"HOSTNAME={host}" in variables.split("\0") and "LOCAL_RANK=0" in variables.split("\0")
        if own and f"--checkpoint={checkpoint(folder)}" in words.split("\0"):
            return int(process.name)
    raise AssertionError(f"no process trains in {host}")


def test_a_master_and_a_worker_train_with_ddp(jobs: Jobs) -> None:
    need("torch", always=False)
    command = ("python", "train_ddp.py", "--epochs=5")
    jobs.submit(training("ddp", pytorchReplicaSpecs={"Master": replica(1, *command), "Worker": replica(1, *command)}))
    job = jobs.wait_for_condition("pytorchjobs.kubeflow.org/ddp", "Succeeded")
    assert job["status"]["replicaStatuses"]["Master"]["succeeded"] == 1
    log = jobs.log("ddp-master-0")
    assert "rank 0 of 2 is ready" in log
    assert float(re.findall(r"test accuracy (\d\.\d+)", log)[0]) > 0.9


def test_training_outlives_a_process_and_whole_pods(jobs: Jobs, tmp_path: Path) -> None:
    """Worker 0 keeps the store of the rendezvous: when it goes, the other's container begins again too."""
    need("torch", always=False)
    elastic(jobs, tmp_path, pause=0.1)
    losses: tuple[Callable[[], object], ...] = (
        lambda: os.kill(process_of("elastic-worker-1", tmp_path), signal.SIGKILL),
        lambda: jobs.plane.kubectl("delete", "pod", "elastic-worker-1"),
        lambda: jobs.plane.kubectl("delete", "pod", "elastic-worker-0"),
    )
    begun = trained(jobs, 2)
    first = jobs.pods("elastic")
    for lose in losses:
        learnt = trained(jobs, 2, begun)
        lose()
        begun = went_on(jobs, 2, learnt)
    trained(jobs, 2, begun)
    now = jobs.pods("elastic")
    assert set(now) == set(first)
    assert all(now[name]["metadata"]["uid"] != first[name]["metadata"]["uid"] for name in first)
    job = jobs.reader.get("pytorchjobs.kubeflow.org", "elastic")
    assert job["status"]["conditions"][-1]["type"] == "Running"


def test_workers_are_added_and_taken_away_while_the_training_runs(jobs: Jobs, tmp_path: Path) -> None:
    need("torch", always=False)
    elastic(jobs, tmp_path, pause=0.1, fewest=1)
    learnt = trained(jobs, 2, 1)
    uid = jobs.pods("elastic")["elastic-worker-0"]["metadata"]["uid"]
    for size in (4, 1, 3):
        jobs.plane.kubectl("scale", "pytorchjobs.kubeflow.org/elastic", f"--replicas={size}")
        learnt = trained(jobs, size, went_on(jobs, size, learnt))
    told = jobs.pods("elastic")["elastic-worker-0"]
    assert told["metadata"]["uid"] == uid
    assert told["status"]["containerStatuses"][0]["restartCount"] == 0, "the rendezvous began again"
    members = jobs.reader.get("podgroups.scheduling.volcano.sh", "elastic")
    assert members["spec"]["minMember"] == 1
