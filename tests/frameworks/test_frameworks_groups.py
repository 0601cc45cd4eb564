"""Processes of TensorFlow, JAX, Paddle and XGBoost jobs find each other by what their environment says."""

from __future__ import annotations

import re
from typing import Any

import pytest
from framework_jobs import SCRIPTS, Jobs, need
from framework_manifests import kubeflow, volcano

pytestmark = [pytest.mark.frameworks, pytest.mark.processes, pytest.mark.xdist_group("processes")]


def script(way: str) -> tuple[str, ...]:
    return ("python", str(SCRIPTS / "meet.py"), way)


TF = {"PS": 1, "Worker": 2, "Chief": 1}
GROUPS = {
    "volcano-tensorflow": (
        volcano("meets", "tensorflow", {"ps": 1, "worker": 2}, *script("tensorflow")),
        ["ps-0 at meets-ps-0.meets:2222", "worker-0 at meets-worker-0.meets:2222",
         "worker-1 at meets-worker-1.meets:2222"],
    ),
    "volcano-jax": (
        volcano("meets", "jax", {"worker": 3}, *script("jax")),
        ["process 0", "process 1", "process 2"],
    ),
    "TFJob": (
        kubeflow("meets", "TFJob", "tfReplicaSpecs", "tensorflow", TF, *script("tensorflow")),
        ["chief-0 at meets-chief-0.default.svc:2222", "ps-0 at meets-ps-0.default.svc:2222",
         "worker-0 at meets-worker-0.default.svc:2222", "worker-1 at meets-worker-1.default.svc:2222"],
    ),
    "JAXJob": (
        kubeflow("meets", "JAXJob", "jaxReplicaSpecs", "jax", {"Worker": 3}, *script("jax")),
        ["process 0", "process 1", "process 2"],
    ),
    "PaddleJob": (
        kubeflow("meets", "PaddleJob", "paddleReplicaSpecs", "paddle", {"Worker": 3}, *script("paddle")),
        ["meets-worker-0", "meets-worker-1", "meets-worker-2"],
    ),
    "XGBoostJob": (
        kubeflow("meets", "XGBoostJob", "xgbReplicaSpecs", "xgboost", {"Master": 1, "Worker": 2}, *script("xgboost")),
        ["rank 0", "rank 1", "rank 2"],
    ),
}  # fmt: skip


def finish(jobs: Jobs, manifest: dict[str, Any]) -> None:
    jobs.submit(manifest)
    if manifest["kind"] == "Job":
        jobs.wait_for_state("meets", "Completed")
    else:
        jobs.wait_for_condition(f"{manifest['kind'].lower()}s.kubeflow.org/meets", "Succeeded")


@pytest.mark.parametrize("case", GROUPS)
def test_every_process_meets_every_other(jobs: Jobs, case: str) -> None:
    manifest, group = GROUPS[case]
    finish(jobs, manifest)
    told = f"group: | {' | '.join(group)}"
    names = jobs.pods("meets")
    assert len(names) == len(group)
    for name in names:
        jobs.wait_for_log(name, told, patience=20)


def test_xgboost_trains_with_its_own_collective(jobs: Jobs) -> None:
    need("xgboost")
    command = ("python", str(SCRIPTS / "boost.py"))
    finish(jobs, kubeflow("meets", "XGBoostJob", "xgbReplicaSpecs", "xgboost", {"Master": 1, "Worker": 2}, *command))
    logs = jobs.logs("meets")
    found = re.findall(r"rank (\d) of 3: sum 6, error (\d\.\d+)", logs)
    assert {rank for rank, _ in found} >= {"0"}, logs
    assert len({error for _, error in found}) == 1, "the ranks learnt different models"
    assert float(found[0][1]) < 0.1
