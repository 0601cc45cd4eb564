"""Training that gives way when a server scales up, and comes back when it scales down, on a whole control plane."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from benchmarks import elastic
from benchmarks.answers import plane as planes

from unisono.api.kinds import EVENTS, PODS

GPU = "nvidia.com/gpu"
NODES = 6
LEAST = 2


def template(priority: str, **more: Any) -> dict[str, Any]:
    resources = {"requests": {"cpu": "1", GPU: "1"}, "limits": {GPU: "1"}}
    containers = [{"name": "main", "image": "main:1", "resources": resources}]
    return {
        "metadata": {"labels": {"app": priority}},
        "spec": {"schedulerName": "volcano", "priorityClassName": priority, "containers": containers, **more},
    }


def training() -> dict[str, Any]:
    """A job that can use from 2 to 6 nodes."""
    notes = {"unisono.io/elastic": "true", "unisono.io/max-replicas": "6", "unisono.io/elastic-cool-down": "1m"}
    task = {"name": "worker", "replicas": LEAST, "template": template("training", restartPolicy="OnFailure")}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "default", "annotations": notes},
        "spec": {"schedulerName": "volcano", "minAvailable": LEAST, "tasks": [task]},
    }


def server() -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "llm", "namespace": "default"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "serving"}},
            "template": template("serving"),
        },
    }


class Life:
    """The cluster, and what has been seen of it."""

    def __init__(self, plane: Any) -> None:
        self.plane = plane
        self.fewest = NODES

    async def running(self, seconds: int) -> tuple[int, int]:
        """Pods that run after so long: of training, of the server; training is looked at all the time."""
        count = Counter[str]()
        for _ in range(seconds // 5):
            await asyncio.sleep(5)
            pods = (await self.plane.client.list(PODS)).items
            alive = [pod for pod in pods if pod.status.phase == "Running" and not pod.metadata.deletion_timestamp]
            count = Counter((pod.metadata.labels or {})["app"] for pod in alive)
            self.fewest = min(self.fewest, count["training"])
        return count["training"], count["serving"]

    async def scale(self, replicas: int) -> None:
        await self.plane.patch("deployment/llm", {"spec": {"replicas": replicas}})

    async def told(self) -> Counter[str]:
        """Events of the elastic job by reason."""
        found = Counter[str]()
        for event in (await self.plane.client.list(EVENTS)).items:
            found[event.reason or ""] += event.count or 1
        return found


def live(tmp_path: Path, serving: int, story: Callable[[Life], Awaitable[None]]) -> None:
    """A server of that priority beside training of priority 100 that has filled the cluster."""

    async def run() -> None:
        spec = {"name": "n", "count": NODES, "capacity": {"cpu": 8, "memory": "64Gi", "pods": 20, GPU: 1}}
        case = elastic.Case("gives-way", "", "job/none", [], [], [], [spec], "", [], [], [], 0, 0.0)
        async with planes.plane(case, tmp_path, planes.unadvised) as it:
            for name, value in (("training", 100), ("serving", serving)):
                body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
                await it.create(body | {"value": value})
            await it.create(server())
            await asyncio.sleep(10)
            await it.create(training())
            await asyncio.sleep(120)
            life = Life(it)
            assert await life.running(30) == (NODES - 1, 1), "training has filled what the server leaves"
            await story(life)

    with asyncio.Runner(loop_factory=elastic.VirtualLoop) as runner:
        runner.run(run())


def test_training_gives_way_when_a_server_scales_up_and_comes_back(tmp_path: Path) -> None:
    async def story(life: Life) -> None:
        await life.scale(4)
        assert await life.running(60) == (2, 4)
        assert await life.running(300) == (2, 4), "it stays so"
        await life.scale(1)
        assert await life.running(120) == (5, 1)
        assert await life.running(300) == (5, 1), "it stays so"
        assert life.fewest >= LEAST
        told = await life.told()
        assert (told["ElasticGrown"], told["ElasticShrunk"], told["Evict"]) == (2, 1, 0)

    live(tmp_path, 1000, story)


def test_training_keeps_its_minimum_and_grows_only_into_what_nobody_waits_for(tmp_path: Path) -> None:
    async def story(life: Life) -> None:
        await life.scale(NODES)
        assert await life.running(300) == (LEAST, NODES - LEAST)
        await life.scale(3)
        assert await life.running(120) == (3, 3)
        assert life.fewest >= LEAST

    live(tmp_path, 1000, story)


@pytest.mark.parametrize("priority", [100, 10])
def test_training_gives_nothing_to_servers_that_are_not_more_important(tmp_path: Path, priority: int) -> None:
    async def story(life: Life) -> None:
        await life.scale(4)
        assert await life.running(300) == (NODES - 1, 1)

    live(tmp_path, priority, story)
