"""Nodes that an answer adds in a copy of the cluster have passed their NodeChecks, and are as many as are needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.answers import judge
from benchmarks.answers.case import Case
from benchmarks.answers.plane import Plane

from unisono.cli.explaining import explanation_lines


def _job(name: str, pods: int) -> dict[str, Any]:
    amounts = {"cpu": "1", "nvidia.com/gpu": "8"}
    container = {"name": "main", "image": "train:1", "resources": {"requests": amounts, "limits": amounts}}
    template = {"spec": {"schedulerName": "volcano", "restartPolicy": "Never", "containers": [container]}}
    tasks = [{"name": "worker", "replicas": pods, "template": template}]
    spec = {"schedulerName": "volcano", "minAvailable": pods, "tasks": tasks}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def test_nodes_that_are_added_have_passed_their_checks_and_are_never_named(tmp_path: Path) -> None:
    check = {
        "apiVersion": "health.unisono.io/v1alpha1",
        "kind": "NodeCheck",
        "metadata": {"name": "gpus"},
        "spec": {"nodes": ["gpu-*"], "maxConcurrent": "100%", "command": ["true"]},
    }
    nodes = [{"name": "gpu", "count": 4, "capacity": {"cpu": 32, "memory": "64Gi", "nvidia.com/gpu": 8}}]
    case = Case(
        name="checked",
        about="a full cluster whose nodes are checked",
        question="job/u2",
        root=[],
        starts_with=[],
        objects=[check, _job("other", 4), _job("u2", 2)],
        nodes=nodes,
        scheduler="",
        steps=[],
        never=[],
        fixes=[],
        gang=2,
        wait=120.0,
    )
    told: list[str] = []

    async def work(made: Plane) -> str:
        told.extend(explanation_lines(await made.explain(case.question)))
        return ""

    assert judge.run(judge.stuck(case, tmp_path, work)) == ""
    text = "\n".join(told)
    assert "add 2 nodes like gpu-" in text, text
    assert "-added-" not in text and "wait for NodeCheck" not in text, text
    then = [line for line in told if line.lstrip().startswith("then:")]
    assert len(then) == len(set(then)), text
