"""A whole control plane on virtual time: nobody is evicted for a job that a limit keeps from the room."""

from __future__ import annotations

import asyncio
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from unisono.kube.discovery import request_json

sys.path.append(str(Path(__file__).parents[2]))
case: Any = import_module("benchmarks.answers.case")
plane: Any = import_module("benchmarks.answers.plane")
virtual: Any = import_module("unisono.standalone.shadow")

_GPU = "nvidia.com/gpu"
_SECONDS = 180
_TENANTS = """
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins:
  - name: priority
  - name: fair-share
    arguments: {fair-share.by: user, fair-share.halfLife: 168h}
  - name: gang
    enablePreemptable: false
  - name: conformance
  - name: user-limits
- plugins:
  - name: predicates
  - name: capacity
    enableHierarchy: true
  - name: nodeorder
  - name: binpack
"""


def _queue(name: str, limits: str = "", **spec: Any) -> dict[str, Any]:
    meta = {"name": name, "annotations": {"unisono.io/user-limits": limits} if limits else {}}
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": meta, "spec": spec}


def _job(name: str, queue: str, replicas: int, gpus: int) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {_GPU: gpus}, "limits": {_GPU: gpus}}}
    task = {"name": "w", "replicas": replicas, "template": {"spec": {"containers": [container]}}}
    meta = {"name": name, "namespace": "default"}
    spec = {"queue": queue, "minAvailable": 1, "tasks": [task]}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": meta, "spec": spec}


async def _running(limit: int, folder: Path) -> dict[str, int]:
    """Pods with a node by job, some minutes after two jobs of 8 GPUs came for the share that another queue borrows."""
    nodes = [
        {"name": f"n{at}", "capacity": {"cpu": "64", "memory": "512Gi", "pods": "110", _GPU: "8"}} for at in range(4)
    ]
    given = case.Case("futile", "", "namespace/default", [], [], [], nodes, _TENANTS, [], [], [], 0, 0.0)
    async with plane.plane(given, folder, plane.unadvised) as made:
        await made.create(_queue("org", capability={_GPU: "32"}, deserved={_GPU: "32"}))
        for name, limits in (("team-a", ""), ("team-b", f"jobs=2,{_GPU}={limit}")):
            await made.create(_queue(name, limits, parent="org", deserved={_GPU: "16"}, reclaimable=True))
        await made.create(_job("borrows", "team-a", 4, 8))
        await made.settle()
        await asyncio.sleep(60)
        for name in ("one", "two"):
            await made.create(_job(name, "team-b", 1, 8))
        await asyncio.sleep(_SECONDS)
        pods = (await request_json(made.client, "GET", "/api/v1/namespaces/default/pods"))["items"]
        placed = [pod["metadata"]["name"].split("-")[0] for pod in pods if pod["spec"].get("nodeName")]
        return {name: placed.count(name) for name in ("borrows", "one", "two")}


@pytest.mark.parametrize(("limit", "borrowed", "served"), [(12, 3, 1), (16, 2, 2)], ids=["one fits", "both fit"])
def test_only_what_fits_every_limit_evicts(limit: int, borrowed: int, served: int, tmp_path: Path) -> None:
    with asyncio.Runner(loop_factory=virtual.VirtualLoop) as runner:
        found = runner.run(_running(limit, tmp_path))
    assert (found["borrows"], found["one"] + found["two"]) == (borrowed, served)
