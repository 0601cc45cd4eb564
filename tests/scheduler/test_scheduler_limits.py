"""Quotas and disruption budgets on their way from the API to the engine."""

from __future__ import annotations

import msgspec
from scheduler_world import fill, world

from support.memory import MemoryClient
from unisono.api.core import PodDisruptionBudget, ResourceQuota
from unisono.api.kinds import POD_DISRUPTION_BUDGETS, RESOURCE_QUOTAS
from unisono.cluster.snapshot import Snapshot
from unisono.engine.decisions import Decisions

META = {"name": "x", "namespace": "ns"}


async def test_limits_reach_the_engine_and_start_a_cycle() -> None:
    client = MemoryClient()
    fill(client, gangs={"a": 2})
    seen: list[tuple[list[str], list[str]]] = []

    def look(snapshot: Snapshot, _: Decisions) -> None:
        seen.append((list(snapshot.quotas), list(snapshot.budgets)))

    async with world(client) as it:
        it.engine.extra = look
        await it.run()
        assert seen[-1] == ([], [])
        client.put(RESOURCE_QUOTAS, msgspec.convert({"metadata": META, "spec": {"hard": {"cpu": "1"}}}, ResourceQuota))
        await it.run()
        assert seen[-1] == (["ns"], [])
        client.put(POD_DISRUPTION_BUDGETS, msgspec.convert({"metadata": META}, PodDisruptionBudget))
        await it.run()
        assert seen[-1] == (["ns"], ["ns"])
