"""What the server refused is tried again when what it waits for has changed, and not only after its delay."""

from __future__ import annotations

import asyncio
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from unisono.standalone.shadow import VirtualLoop

sys.path.append(str(Path(__file__).parents[2]))
case: Any = import_module("benchmarks.answers.case")
planes: Any = import_module("benchmarks.answers.plane")

LONG, SOON = 300.0, 2.0
"""After so long a delay is a minute; so soon whatever was woken has its pods."""
Object = dict[str, Any]


def spec(pods: int = 1, **pod: Any) -> Object:
    """Of a Job with pods of two cpus."""
    container = {"name": "main", "image": "work:1", "resources": {"requests": {"cpu": "2"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container], **pod}}
    tasks = [{"name": "work", "replicas": pods, "template": template}]
    return {"schedulerName": "volcano", "queue": "q", "minAvailable": 1, "tasks": tasks}


def a(version: str, kind: str, name: str, **fields: Any) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **fields}


def job(name: str, pods: int = 1, **pod: Any) -> Object:
    return a("batch.volcano.sh/v1alpha1", "Job", name, spec=spec(pods, **pod))


QUOTA = a("v1", "ResourceQuota", "quota", spec={"hard": {"requests.cpu": "3"}})
FLOW = [
    a("flow.volcano.sh/v1alpha1", "JobTemplate", "part", spec=spec()),
    a("flow.volcano.sh/v1alpha1", "JobFlow", "flow", spec={"flows": [{"name": "part"}]}),
]


async def _open(live: Any) -> None:
    await live.patch("queue/q", {"status": {"state": "Open"}}, subresource="status")


async def _raise_quota(live: Any) -> None:
    await live.patch("resourcequota/quota", {"spec": {"hard": {"requests.cpu": "9"}}})


async def _delete_quota(live: Any) -> None:
    await live.delete("resourcequota/quota")


async def _end_another(live: Any) -> None:
    await live.delete("job.batch.volcano.sh/other")


async def _make_account(live: Any) -> None:
    await live.create(a("v1", "ServiceAccount", "robot"))


async def _make_class(live: Any) -> None:
    await live.create(a("scheduling.k8s.io/v1", "PriorityClass", "urgent", value=10))


@pytest.mark.parametrize(
    ("things", "change", "pods"),
    [
        pytest.param([QUOTA, job("j", 2)], _raise_quota, 2, id="a quota is raised"),
        pytest.param([QUOTA, job("j", 2)], _delete_quota, 2, id="a quota is deleted"),
        pytest.param([QUOTA, job("other"), job("j")], _end_another, 1, id="something of a quota is left"),
        pytest.param([job("j", serviceAccountName="robot")], _make_account, 1, id="an account comes"),
        pytest.param([job("j", priorityClassName="urgent")], _make_class, 1, id="a class comes"),
        pytest.param(FLOW, _open, 1, id="a queue is opened"),
    ],
)
def test_what_was_refused_is_tried_again_at_once(things: list[Object], change: Any, pods: int, tmp_path: Path) -> None:
    async def go() -> tuple[int, int]:
        nodes = [{"name": "n", "count": 2, "capacity": {"cpu": 8, "memory": "8Gi"}}]
        before = [a("scheduling.volcano.sh/v1beta1", "Queue", "q", spec={"weight": 1})]
        given = case.Case("refused", "", "queue/q", [], [], before, nodes, "", [], [], [], 0, 0.0)
        async with planes.plane(given, tmp_path, planes.unadvised) as live:
            if change is _open:
                await live.patch("queue/q", {"status": {"state": "Closed"}}, subresource="status")
            for body in things:
                await live.create(body)
                await asyncio.sleep(5)
            await asyncio.sleep(LONG)
            waiting = await _pods(live)
            await change(live)
            await asyncio.sleep(SOON)
            return waiting, await _pods(live)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        waiting, there = runner.run(go())
    assert waiting < there or change is _end_another
    assert there == pods


async def _pods(live: Any) -> int:
    found = (await planes.request_json(live.client, "GET", "/api/v1/pods"))["items"]
    return sum("other" not in pod["metadata"]["name"] for pod in found)
