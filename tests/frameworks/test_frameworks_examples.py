"""The examples for frameworks, as a newcomer runs them; that of MPI is in test_frameworks_mpi.py."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from framework_jobs import need

from support.plane import REPOSITORY, unisono

pytestmark = [pytest.mark.frameworks, pytest.mark.processes, pytest.mark.xdist_group("processes")]


@pytest.fixture(autouse=True)
def own_data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A control plane that the developer runs must not take part."""
    monkeypatch.setenv("UNISONO_DATA_DIR", str(tmp_path / "none"))


def run(example: str) -> str:
    file = REPOSITORY / "examples" / example
    return unisono("run", str(file), "--timeout", "600", patience=700).stdout


def test_ray_computes_on_a_cluster_of_its_own_and_the_workers_go_with_the_head() -> None:
    need("ray")
    told = run("ray.yaml")
    assert "head-0 | the cluster has 3 nodes" in told
    assert f"head-0 | the sum is {sum(number * number for number in range(1_000_000))}, computed on " in told
    assert "job/ray-squares completed" in told


def test_mindspore_trains_on_two_workers_that_its_scheduler_brings_together() -> None:
    need("mindspore", always=False)
    told = run("mindspore.yaml")
    assert sorted(re.findall(r"rank ([01]) of 2; ranks add up to 1", told)) == ["0", "1"]
    assert float(re.findall(r"test accuracy (0\.\d+)", told)[0]) > 0.8
    assert "job/mindspore completed" in told


@pytest.mark.torch
@pytest.mark.parametrize(
    ("example", "programs"),
    [("deepspeed-pytorchjob", ()), ("deepspeed-mpi", ("mpirun", "sshd", "ssh"))],
)
def test_deepspeed_trains_on_two_ranks(example: str, programs: tuple[str, ...]) -> None:
    need(*programs)
    need("torch", "deepspeed", always=False)
    told = run(f"{example}.yaml")
    assert sorted(re.findall(r"rank ([01]) of 2; ranks add up to 1", told)) == ["0", "1"]
    assert float(re.findall(r"test accuracy (0\.\d+)", told)[0]) > 0.9
    assert re.search(r"(pytorchjob/deepspeed|mpijob/deepspeed-mpi) (completed|succeeded)", told)


@pytest.mark.torch
def test_an_elastic_pytorch_job_trains_to_its_end() -> None:
    need("torch", always=False)
    told = run("pytorchjob-elastic.yaml")
    assert float(re.findall(r"test accuracy (0\.\d+)", told)[0]) > 0.9
    assert re.search(r"pytorchjob/digits-elastic (completed|succeeded)", told)
