"""Real MPI programs: mpirun logs in to its workers by ssh, with the keys and names that the job brings."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from framework_jobs import Jobs, need
from framework_manifests import train_job

from support.plane import REPOSITORY, unisono, wait_until

pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.processes,
    pytest.mark.xdist_group("processes"),
    pytest.mark.skipif(os.geteuid() != 0, reason="keys in /root/.ssh are for root"),
]
PROGRAM = REPOSITORY / "examples" / "mpi" / "allreduce.py"
MPI_RUN = "mpirun --allow-run-as-root --oversubscribe -x PATH -np 4"
MPI_JOB = """
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {{name: sums}}
spec:
  slotsPerWorker: 2
  runPolicy: {{cleanPodPolicy: Running}}
  mpiReplicaSpecs:
    Launcher:
      replicas: 1
      template:
        spec:
          containers: [{{name: launcher, image: mpi, command: [sh, -c, "{command}"]}}]
    Worker:
      replicas: 2
      template:
        spec:
          containers: [{{name: worker, image: mpi}}]
"""
SUM = re.compile(r"rank (\d) of 4 on (\S+): the sum is 10")


def test_four_ranks_on_two_workers_of_a_volcano_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need("mpirun", "sshd", "ssh", "mpi4py")
    monkeypatch.setenv("UNISONO_DATA_DIR", str(tmp_path / "none"))
    done = unisono("run", str(REPOSITORY / "examples" / "mpi.yaml"), "--timeout", "600", patience=700)
    found = SUM.findall(done.stdout)
    assert sorted(rank for rank, _ in found) == ["0", "1", "2", "3"]
    assert {host for _, host in found} == {"allreduce-worker-0", "allreduce-worker-1"}
    assert "job/allreduce completed" in done.stdout


def test_a_command_that_mpirun_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need("mpirun", "sshd", "ssh")
    monkeypatch.setenv("UNISONO_DATA_DIR", str(tmp_path / "none"))
    say = "echo rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE: $0"
    words = ["-n", "2", "--launcher", "mpi", "--name", "ranks", "--timeout", "600", "--", "sh", "-c", say, "a b"]
    done = unisono("run", *words, cwd=tmp_path, patience=700)
    assert sorted(re.findall(r"rank \d of 2: a b", done.stdout)) == ["rank 0 of 2: a b", "rank 1 of 2: a b"]
    assert "job/ranks completed" in done.stdout


def test_four_ranks_on_two_workers_of_an_mpi_job(jobs: Jobs) -> None:
    """Workers without a command serve ssh, and mpirun finds hosts and slots by itself."""
    need("mpirun", "sshd", "ssh", "mpi4py")
    jobs.submit(MPI_JOB.format(command=f"{MPI_RUN} python {PROGRAM}"))
    jobs.wait_for_condition("mpijobs.kubeflow.org/sums", "Succeeded")
    found = SUM.findall(jobs.log("sums-launcher"))
    assert sorted(found) == [
        ("0", "sums-worker-0"), ("1", "sums-worker-0"), ("2", "sums-worker-1"), ("3", "sums-worker-1")
    ]  # fmt: skip


def test_a_rank_that_fails_fails_the_job_and_frees_the_workers(jobs: Jobs) -> None:
    need("mpirun", "sshd", "ssh", "mpi4py")
    text = MPI_JOB.format(command=f"{MPI_RUN} sh -c 'exit $OMPI_COMM_WORLD_RANK'")
    jobs.submit(text.replace("runPolicy: {", "runPolicy: {backoffLimit: 0, "))
    job = jobs.wait_for_condition("mpijobs.kubeflow.org/sums", "Failed")
    (failed,) = [each for each in job["status"]["conditions"] if each["type"] == "Failed"]
    assert "has reached the specified backoff limit" in failed["message"]
    wait_until("the workers are gone", lambda: not jobs.pods("sums-worker"))


def test_a_train_job_computes_on_its_launcher_too(jobs: Jobs) -> None:
    """The launcher is one of the two nodes, so mpirun logs in to the pod in which it runs itself."""
    need("mpirun", "sshd", "ssh", "mpi4py")
    line = f"mpirun --allow-run-as-root --oversubscribe -x PATH -np 2 python {PROGRAM}"
    jobs.submit(train_job("sums", "deepspeed-distributed", 2, "sh", "-c", line, numProcPerNode=1))
    jobs.wait_for_condition("trainjobs.trainer.kubeflow.org/sums", "Complete")
    found = re.findall(r"rank (\d) of 2 on (\S+): the sum is 3", jobs.logs("sums-launcher"))
    assert sorted(found) == [("0", "sums-launcher-0-0"), ("1", "sums-node-0-0")]
