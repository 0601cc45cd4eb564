"""The scheduler against the embedded API server: in process, and over HTTPS with the kubeconfig that it writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from scheduler_world import group, node, pod

from support.virtual_clock import VirtualClock
from unisono.api.annotations import VERDICT
from unisono.api.base import ObjectMeta
from unisono.api.core import Namespace
from unisono.api.kinds import NAMESPACES, NODES, POD_GROUPS, PODS, QUEUES
from unisono.apiserver.backend import Backend
from unisono.apiserver.server import ApiServer
from unisono.kube.client import Client
from unisono.kube.http import HttpClient
from unisono.kube.informer import Informer
from unisono.kube.kubeconfig import load
from unisono.kube.leader import LeaderElector
from unisono.scheduler.scheduler import Scheduler

PATIENCE = 300.0


@asynccontextmanager
async def connected(folder: Path, how: str) -> AsyncIterator[Client]:
    backend = await Backend.open(folder / "state.db")
    server = ApiServer(backend.service, data_dir=folder)
    await server.start()
    http = HttpClient(load(server.kubeconfig_path))
    try:
        yield http if how == "https" else backend.client()
    finally:
        await http.close()
        await server.stop()
        await backend.close()


async def furnish(client: Client, nodes: int) -> None:
    await client.create(NAMESPACES, Namespace(metadata=ObjectMeta(name="team")))
    await client.patch(QUEUES, "default", {"status": {"state": "Open"}}, subresource="status")
    for index in range(nodes):
        made = node(f"n{index}")
        await client.create(NODES, made)
        status = {"allocatable": made.status.allocatable, "capacity": made.status.capacity}
        await client.patch(NODES, f"n{index}", {"status": status}, subresource="status")
        await client.patch(NODES, f"n{index}", {"spec": {"taints": None}})


async def submit(client: Client, name: str, members: int) -> None:
    await client.create(POD_GROUPS, group(name, members, phase="Pending"))
    for index in range(members):
        await client.create(PODS, pod(f"{name}-{index}", name))


@pytest.mark.parametrize("how", ["local", "https"])
async def test_gangs_are_bound_whole_and_the_one_too_large_is_explained(tmp_path: Path, how: str) -> None:
    async with connected(tmp_path, how) as client:
        await furnish(client, nodes=3)
        pods, groups = Informer(client, PODS), Informer(client, POD_GROUPS)
        bound, explained = asyncio.Event(), asyncio.Event()

        def look(*_: object) -> None:
            placed = [item for item in pods.items() if item.spec.node_name]
            if len(placed) >= 8:
                bound.set()
            if any(VERDICT in (item.metadata.annotations or {}) for item in groups.items()):
                explained.set()

        pods.on_change(look)
        groups.on_change(look)
        # Time that stands still: a machine that is busy for longer than the lease must not cost the lead.
        elector = LeaderElector(client, "unisono-scheduler", "team", "test", clock=VirtualClock())

        async def work(fenced: Client) -> None:
            await Scheduler(fenced).run()

        running = [asyncio.create_task(c) for c in (pods.run(), groups.run(), elector.run(work))]
        try:
            await submit(client, "a", 4)
            await submit(client, "b", 4)
            await submit(client, "huge", 40)
            async with asyncio.timeout(PATIENCE):
                await bound.wait()
                await explained.wait()
            names = {item.metadata.name for item in pods.items() if item.spec.node_name}
            assert names == {f"{gang}-{index}" for gang in "ab" for index in range(4)}
            huge = await client.get(POD_GROUPS, "huge", "team")
            assert VERDICT in (huge.metadata.annotations or {})
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
