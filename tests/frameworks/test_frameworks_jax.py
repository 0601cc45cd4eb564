"""Real JAX: processes on several pods add up numbers with its own collective."""

from __future__ import annotations

import re
from typing import Any

import pytest
from framework_jobs import SCRIPTS, Jobs, need
from framework_manifests import kubeflow, train_job, volcano

pytestmark = [pytest.mark.frameworks, pytest.mark.processes, pytest.mark.xdist_group("processes")]

PROGRAM = ("python", str(SCRIPTS / "psum.py"))
CASES: dict[str, tuple[dict[str, Any], str, str]] = {
    "JAXJob": (
        kubeflow("sums", "JAXJob", "jaxReplicaSpecs", "jax", {"Worker": 2}, *PROGRAM),
        "jaxjobs.kubeflow.org/sums",
        "Succeeded",
    ),
    "TrainJob": (
        train_job("sums", "jax-distributed", 2, *PROGRAM),
        "trainjobs.trainer.kubeflow.org/sums",
        "Complete",
    ),
    "plug-in": (volcano("sums", "jax", {"worker": 2}, *PROGRAM), "", "Completed"),
}


@pytest.mark.parametrize("case", CASES)
def test_two_processes_add_up(jobs: Jobs, case: str) -> None:
    need("jax")
    manifest, resource, end = CASES[case]
    jobs.submit(manifest)
    if resource:
        jobs.wait_for_condition(resource, end)
    else:
        jobs.wait_for_state("sums", end)
    told = re.findall(r"process (\d) of 2: the sum is (\d+)", jobs.logs("sums"))
    assert sorted(told) == [("0", "3"), ("1", "3")]
