"""Processes of TensorFlow, JAX, Paddle and XGBoost jobs find each other by what their environment says."""

from __future__ import annotations

import re
from typing import Any

import pytest
from framework_jobs import SCRIPTS, SMALL, Jobs, need

pytestmark = [pytest.mark.frameworks, pytest.mark.processes, pytest.mark.xdist_group("processes")]


def template(name: str, *command: str) -> dict[str, Any]:
    container = {"name": name, "image": name, "command": list(command), "resources": SMALL}
    return {"spec": {"restartPolicy": "Never", "containers": [container]}}


def volcano(name: str, plugin: str, tasks: dict[str, int], *command: str) -> dict[str, Any]:
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "minAvailable": sum(tasks.values()),
            "plugins": {plugin: []},
            "policies": [{"event": "PodFailed", "action": "AbortJob"}],
            "tasks": [
                {"name": task, "replicas": count, "template": template("main", *command)}
                for task, count in tasks.items()
            ],
        },
    }


def kubeflow(kind: str, field: str, container: str, roles: dict[str, int], *command: str) -> dict[str, Any]:
    replicas = {role: {"replicas": count, "template": template(container, *command)} for role, count in roles.items()}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": kind,
        "metadata": {"name": "meets"},
        "spec": {"runPolicy": {"cleanPodPolicy": "None"}, field: replicas},
    }


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
        kubeflow("TFJob", "tfReplicaSpecs", "tensorflow", TF, *script("tensorflow")),
        ["chief-0 at meets-chief-0.default.svc:2222", "ps-0 at meets-ps-0.default.svc:2222",
         "worker-0 at meets-worker-0.default.svc:2222", "worker-1 at meets-worker-1.default.svc:2222"],
    ),
    "JAXJob": (
        kubeflow("JAXJob", "jaxReplicaSpecs", "jax", {"Worker": 3}, *script("jax")),
        ["process 0", "process 1", "process 2"],
    ),
    "PaddleJob": (
        kubeflow("PaddleJob", "paddleReplicaSpecs", "paddle", {"Worker": 3}, *script("paddle")),
        ["meets-worker-0", "meets-worker-1", "meets-worker-2"],
    ),
    "XGBoostJob": (
        kubeflow("XGBoostJob", "xgbReplicaSpecs", "xgboost", {"Master": 1, "Worker": 2}, *script("xgboost")),
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
    finish(jobs, kubeflow("XGBoostJob", "xgbReplicaSpecs", "xgboost", {"Master": 1, "Worker": 2}, *command))
    logs = "\n".join(jobs.log(name) for name in jobs.pods("meets"))
    found = re.findall(r"rank (\d) of 3: sum 6, error (\d\.\d+)", logs)
    assert {rank for rank, _ in found} >= {"0"}, logs
    assert len({error for _, error in found}) == 1, "the ranks learnt different models"
    assert float(found[0][1]) < 0.1


def test_jax_forms_its_group(jobs: Jobs) -> None:
    need("jax", always=False)
    program = (
        "import os, jax; jax.distributed.initialize(f\"{os.environ['COORDINATOR_ADDRESS']}:"
        "{os.environ['COORDINATOR_PORT']}\", int(os.environ['NUM_PROCESSES']), int(os.environ['PROCESS_ID'])); "
        "print('processes:', jax.process_count(), flush=True)"
    )
    finish(jobs, kubeflow("JAXJob", "jaxReplicaSpecs", "jax", {"Worker": 2}, "python", "-c", program))
    for name in jobs.pods("meets"):
        jobs.wait_for_log(name, "processes: 2", patience=20)
