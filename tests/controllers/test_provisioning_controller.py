"""Gangs that name a provisioning class ask for all their nodes at once, and again when that failed."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from controller_world import Recorder

from support.memory import MemoryClient
from support.virtual_clock import settle
from unisono.api.annotations import VERDICT
from unisono.api.core import Pod
from unisono.api.groups.autoscaling import CLASS_OF_GROUP, POD_TEMPLATES, PROVISIONING_REQUESTS, ProvisioningRequest
from unisono.api.groups.scheduling import PodGroup
from unisono.api.keys import GROUP_NAME
from unisono.api.kinds import POD_GROUPS, PODS
from unisono.controllers.node_scaling.controller import NodeScalingController
from unisono.controllers.node_scaling.provisioning import ProvisioningController
from unisono.errors import NotFound
from unisono.kube.controller import Manager

ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
CONSUMES = "autoscaling.x-k8s.io/consume-provisioning-request"


class World:
    def __init__(self) -> None:
        self.client = MemoryClient(seed=0)
        self.recorder = Recorder()

    async def gang(self, name: str = "g", cpus: tuple[str, ...] = ("2", "2", "1"), **notes: str) -> None:
        text = json.dumps({"cause": notes.pop("cause", "NodesFull")})
        group = {
            "metadata": {
                "name": name,
                "namespace": "default",
                "annotations": {VERDICT: text, CLASS_OF_GROUP: ATOMIC} | notes,
            },
            "spec": {"minMember": len(cpus)},
            "status": {"phase": "Inqueue"},
        }
        await self.client.create(POD_GROUPS, msgspec.convert(group, PodGroup))
        for number, cpu in enumerate(cpus):
            container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
            value = {
                "metadata": {"name": f"{name}-{number}", "namespace": "default", "annotations": {GROUP_NAME: name}},
                "spec": {"containers": [container], "hostname": f"{name}-{number}", "schedulerName": "volcano"},
                "status": {"phase": "Pending"},
            }
            await self.client.create(PODS, msgspec.convert(value, Pod))
        await self.advance(30)

    async def advance(self, seconds: float) -> None:
        await settle(60)
        await self.client.clock.advance(seconds)
        await settle(60)

    async def requests(self) -> list[ProvisioningRequest]:
        return sorted((await self.client.list(PROVISIONING_REQUESTS)).items, key=lambda each: each.metadata.name)

    async def fail(self, name: str) -> None:
        status = {"conditions": [{"type": "Failed", "status": "True", "reason": "NoCapacity"}]}
        patch = {"status": status}
        await self.client.patch(PROVISIONING_REQUESTS, name, patch, namespace="default", subresource="status")
        await self.advance(1)

    async def consumers(self) -> set[str]:
        pods = (await self.client.list(PODS)).items
        return {(pod.metadata.annotations or {}).get(CONSUMES, "") for pod in pods}


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    made = World()
    manager = Manager(made.client, clock=made.client.clock)
    controllers: list[Any] = [ProvisioningController(made.recorder), NodeScalingController(made.recorder)]
    running = asyncio.create_task(manager.run(controllers))
    await settle(60)
    try:
        yield made
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


async def test_a_gang_asks_once_with_a_set_for_each_kind_of_pod() -> None:
    async with world() as made:
        await made.gang()
        (request,) = await made.requests()
        assert request.spec.provisioning_class_name == ATOMIC
        counts = {each.pod_template_ref.name: each.count for each in request.spec.pod_sets or ()}
        assert sorted(counts.values()) == [1, 2]
        for name in counts:
            template = await made.client.get(POD_TEMPLATES, name, "default")
            assert template.template.spec.hostname is None
            assert (template.metadata.owner_references or [])[0].name == "g"
        assert await made.consumers() == {request.metadata.name}
        await made.advance(600)
        assert len(await made.requests()) == 1


async def test_a_failed_request_is_followed_by_another_three_times_in_all() -> None:
    async with world() as made:
        await made.gang()
        for number in (1, 2, 3):
            assert [each.metadata.name for each in await made.requests()][-1] == f"g-{number}"
            await made.fail(f"g-{number}")
        assert len(await made.requests()) == 3
        assert await made.consumers() == {"g-3"}


async def test_gangs_that_nodes_do_not_help_ask_for_none() -> None:
    async with world() as made:
        await made.gang("full", cause="OverCapability")
        await made.gang("none", **{CLASS_OF_GROUP: ""})
        assert not await made.requests()


async def test_a_cluster_without_such_requests_is_told_of() -> None:
    async with world() as made:

        def refuse(operation: str, plural: str, key: str, subresource: str) -> None:
            if plural == "provisioningrequests" and operation == "create":
                raise NotFound("the server could not find the requested resource")

        made.client.interceptor = refuse
        await made.gang()
        assert made.recorder.of("ProvisioningUnknown")
