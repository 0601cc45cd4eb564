"""kubectl with apps/v1 and batch/v1, and the controllers that one machine runs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from support.kubectl import Plane
from unisono.agent.simulated.nodes import SimulatedNodes
from unisono.agent.simulated.specs import parse_specs
from unisono.api.core import Pod
from unisono.api.kinds import PODS
from unisono.controllers.builtin import builtin_controllers
from unisono.kube.client import Client
from unisono.kube.clock import SYSTEM_CLOCK
from unisono.kube.controller import Manager
from unisono.kube.events import EventRecorder
from unisono.kube.informer import Informer

pytestmark = pytest.mark.kubectl


@contextlib.asynccontextmanager
async def running(plane: Plane) -> AsyncIterator[None]:
    """The controllers, a simulated node, and a scheduler that knows only that one."""
    client: Client = plane.client
    recorder = EventRecorder(client, "test")
    nodes = SimulatedNodes(
        client,
        parse_specs([{"name": "sim", "count": 1, "capacity": {"cpu": 8, "memory": "8Gi", "pods": 50}}]),
        SYSTEM_CLOCK,
    )
    tasks: set[asyncio.Task[Any]] = set()

    def bind(event_type: str, pod: Pod, _old: Pod | None) -> None:
        if event_type == "ADDED" and not pod.spec.node_name:
            binding = client.bind(pod.metadata.namespace or "", pod.metadata.name, "sim")
            tasks.add(asyncio.get_running_loop().create_task(binding))

    pods = Informer(client, PODS)
    pods.on_change(bind)
    tasks |= {
        asyncio.create_task(work)
        for work in (Manager(client).run(builtin_controllers(recorder)), nodes.run(), pods.run())
    }
    await nodes.ready.wait()
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await recorder.close()


async def test_a_deployment_from_its_creation_to_its_end(plane: Plane) -> None:
    async with running(plane):
        await plane.ok("create", "deployment", "web", "--image=busybox:1", "--replicas=2")
        await plane.ok("rollout", "status", "deployment/web", "--timeout=300s")
        assert (await plane.ok("get", "deploy", "web")).split()[5:9] == ["web", "2/2", "2", "2"]
        await plane.ok("scale", "deployment/web", "--replicas=3")
        await plane.ok("wait", "deployment/web", "--for=jsonpath={.status.availableReplicas}=3", "--timeout=300s")
        await plane.ok("set", "image", "deployment/web", "busybox=busybox:2")
        await plane.ok("rollout", "status", "deployment/web", "--timeout=300s")
        assert "2" in (await plane.ok("rollout", "history", "deployment/web")).split()
        await plane.ok("rollout", "undo", "deployment/web")
        await plane.ok("rollout", "status", "deployment/web", "--timeout=300s")
        image = "jsonpath={.spec.template.spec.containers[0].image}"
        assert await plane.ok("get", "deploy", "web", "-o", image) == "busybox:1"
        await plane.ok("rollout", "pause", "deployment/web")
        await plane.ok("rollout", "resume", "deployment/web")
        await plane.ok("wait", "deployment/web", "--for=condition=Available", "--timeout=300s")
        await plane.ok("delete", "deployment", "web", "--cascade=foreground", "--timeout=300s")
        assert await plane.ok("get", "rs,pods") == ""


async def test_jobs_and_cron_jobs(plane: Plane) -> None:
    async with running(plane):
        await plane.ok("create", "cronjob", "tick", "--image=busybox", "--schedule=0 0 1 1 *", "--", "true")
        assert (await plane.ok("get", "cj", "tick")).splitlines()[1].split()[:2] == ["tick", "0"]
        assert await plane.ok("get", "vcjob") == ""
        await plane.ok("create", "job", "now", "--from=cronjob/tick")
        shown = await plane.ok("get", "jobs")
        assert shown.split()[:4] == ["NAME", "STATUS", "COMPLETIONS", "DURATION"]
        patch = '{"spec":{"suspend":true}}'
        await plane.ok("patch", "job", "now", "-p", patch)
        await plane.ok("wait", "job/now", "--for=condition=Suspended", "--timeout=300s")
        assert 'metadata.name: Invalid value: "UPPER"' in await plane.fails("create", "job", "UPPER", "--image=busybox")
