"""The examples for Ray and elastic PyTorch, as a newcomer runs them; that of MPI is in test_frameworks_mpi.py."""

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


@pytest.mark.torch
def test_an_elastic_pytorch_job_trains_to_its_end() -> None:
    need("torch", always=False)
    told = run("pytorchjob-elastic.yaml")
    assert float(re.findall(r"test accuracy (0\.\d+)", told)[0]) > 0.9
    assert re.search(r"pytorchjob/digits-elastic (completed|succeeded)", told)
