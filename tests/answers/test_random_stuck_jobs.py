"""Random small clusters through the real API: every fix that is offered starts the job, and the numbers are true.

The cluster of `benchmarks.answers` has real admission, controllers, scheduler and nodes on virtual time.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import pytest
from benchmarks.answers import case, judge
from hypothesis import given, settings
from hypothesis import strategies as st

from support.examples import examples
from unisono.api.resources import to_units

_CPUS = (2, 4, 8)
_OF = re.compile(r"(?:only )?(\d+) of (\d+) pods (?:fit|find room)")


def _job(name: str, random: Random, queue: str, **pods: Any) -> dict[str, Any]:
    replicas = random.randint(1, 3)
    resources: dict[str, Any] = {"requests": {"cpu": str(random.choice(_CPUS)), "memory": "1Gi"}}
    if random.random() < 0.3:
        resources["requests"]["nvidia.com/gpu"] = resources.setdefault("limits", {})["nvidia.com/gpu"] = "1"
    container = {"name": "main", "image": "train:1", "resources": resources}
    spec = {"restartPolicy": "Never", "schedulerName": "volcano", "containers": [container], **pods}
    task = {"name": "worker", "replicas": replicas, "template": {"spec": spec}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"minAvailable": replicas, "schedulerName": "volcano", "queue": queue, "tasks": [task]},
    }


def _case(seed: int) -> Any:
    """A crowded cluster with one job in question; it may be stuck for several reasons at once, or for none."""
    random = Random(seed)
    nodes, steps = [], []
    for at in range(random.randint(1, 3)):
        capacity: dict[str, Any] = {"cpu": random.choice(_CPUS), "memory": "16Gi"}
        if random.random() < 0.4:
            capacity["nvidia.com/gpu"] = random.randint(1, 2)
        node: dict[str, Any] = {"name": f"n{at}", "count": 1, "capacity": capacity, "labels": {"pool": f"p{at % 2}"}}
        if random.random() < 0.2:
            node["taints"] = [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]
        nodes.append(node)
        if random.random() < 0.2:
            steps.append({"patch": f"node/n{at}", "merge": {"spec": {"unschedulable": True}}})
    queue: dict[str, Any] = {"weight": 1}
    if random.random() < 0.4:
        queue["capability"] = {"cpu": random.choice(_CPUS)}
    objects = [
        {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "q"}, "spec": queue},
        *(_job(f"hog{at}", random, random.choice(("default", "q"))) for at in range(random.randint(0, 2))),
    ]
    wishes: dict[str, Any] = {}
    if random.random() < 0.4:
        wishes["nodeSelector"] = random.choice(({"pool": "p0"}, {"pol": "p1"}, {"disk": "ssd"}))
    steps.append({"create": _job("train", random, "q", **wishes)})
    return case.Case(f"seed-{seed}", "", "job/train", [], [], objects, nodes, "", steps, [], [], 0, 0.0)


def _examine(seed: int) -> None:
    made = _case(seed)
    with tempfile.TemporaryDirectory() as folder:
        result = judge.judge(made, Path(folder))
    if result.unsound == "the job is not stuck":
        return
    told = "\n".join(result.lines)
    assert not result.fails, f"{result.fails}\n{told}"
    _numbers_are_true(made, told)


def _numbers_are_true(made: Any, told: str) -> None:
    """Amounts against what the case says, but for those of a cluster to which a chain has added nodes."""
    whole = sum(to_units("cpu", str(node["capacity"]["cpu"])) for node in made.nodes)
    as_it_is = "\n".join(line for line in told.splitlines() if not line.strip().startswith("then:"))
    for free, there in re.findall(r"cpu (\d+) of (\d+) is free", as_it_is):
        assert int(free) <= int(there) <= whole // 1000, told
    gang = made.steps[-1]["create"]["spec"]["minAvailable"]
    for fit, wanted in _OF.findall(told.splitlines()[0]):
        assert int(wanted) == gang and int(fit) < gang, told


@pytest.mark.parametrize("seed", range(4))
def test_offered_fixes_start_the_job(seed: int) -> None:
    _examine(seed)


@pytest.mark.more
@settings(max_examples=examples(40), deadline=None)
@given(st.integers(4, 10_000))
def test_offered_fixes_start_the_job_in_any_cluster(seed: int) -> None:
    _examine(seed)
