"""Budgets on a whole control plane on virtual time: who starts, who is told, who goes, and what is counted."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from benchmarks.answers.plane import unadvised
from test_calendar_live import NOW, a_job, places, until

from unisono.agent.simulated.nodes import SimulatedNodes
from unisono.agent.simulated.specs import parse_specs
from unisono.api.annotations import CHECKPOINT_BEFORE, EVICT_NOTICE
from unisono.api.base import ObjectMeta
from unisono.api.groups.budgets import Budget, BudgetSpec, BudgetStatus
from unisono.api.groups.scheduling import Queue, QueueSpec
from unisono.api.kinds import BUDGETS, EVENTS, JOBS, POD_GROUPS, PODS, QUEUES
from unisono.api.times import rfc3339
from unisono.engine.config_file.reader import default_config
from unisono.errors import ApiError
from unisono.standalone.shadow import Shadow, VirtualLoop, opened

HOUR_ENDS = 2800.0
"""The clock begins at 22:13:20."""


async def begun(shadow: Shadow) -> Any:
    client = shadow.backend.client()
    shadow.start("controllers")
    specs = [{"name": name, "capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"}} for name in ("a", "b")]
    nodes = SimulatedNodes(shadow.backend.client(), parse_specs(specs), shadow.clock)
    shadow.run("nodes", nodes.run())
    await nodes.ready.wait()
    shadow.start("scheduler", default_config())
    await client.create(QUEUES, Queue(metadata=ObjectMeta(name="team"), spec=QueueSpec(weight=1)))
    return client


def a_budget(name: str, **spec: Any) -> Budget:
    return Budget(metadata=ObjectMeta(name=name), spec=BudgetSpec(**({"queues": ["team"]} | spec)))


async def status_of(client: Any) -> BudgetStatus:
    found: BudgetStatus = (await client.get(BUDGETS, "team")).status
    return found


async def events(client: Any, reason: str) -> list[str]:
    return [one.message for one in (await client.list(EVENTS)).items if one.reason == reason]


async def _periods(folder: Path) -> None:
    async with opened(folder, now=NOW, decide=unadvised) as shadow:
        client = await begun(shadow)
        with pytest.raises(ApiError, match=r"spec.amounts.*say how many hours of what"):
            await client.create(BUDGETS, a_budget("empty"))
        made = await client.create(BUDGETS, a_budget("team", amounts={"cpu": 1}, period="Hour", warn_at=[50]))
        assert made.spec.mode == "Hard"
        await client.create(JOBS, a_job("first", "team"))
        await until(shadow, 30.0)
        assert await places(client) == {"first": "a"}

        # Six CPUs use up one CPU-hour in ten minutes: what runs goes on, and the next job waits for the next hour.
        await until(shadow, 660.0)
        await client.create(JOBS, a_job("second", "team"))
        await client.create(JOBS, a_job("others"))
        await until(shadow, 690.0)
        assert await places(client) == {"first": "a", "others": "b"}
        assert [one.status for one in (await status_of(client)).conditions or () if one.type == "UsedUp"] == ["True"]
        (group,) = [one for one in (await client.list(POD_GROUPS)).items if one.metadata.name.startswith("second")]
        (said,) = [one for one in group.status.conditions if one.type == "Unschedulable"]
        assert "budget team is used up: all 1 hours of cpu" in said.message
        assert f"there is more at {rfc3339(NOW + HOUR_ENDS)}" in said.message
        assert len(await events(client, "BudgetWarning")) == len(await events(client, "BudgetUsedUp")) == 1

        # The controllers are away for ten minutes, in which the first job goes.
        await shadow.kill("controllers")
        await until(shadow, 1000.0)
        for pod in (await client.list(PODS)).items:
            if pod.metadata.name.startswith("first"):
                await client.delete(PODS, pod.metadata.name, pod.metadata.namespace)
        await until(shadow, 1300.0)
        shadow.start("controllers")
        await client.delete(JOBS, "first", "default")
        await client.delete(JOBS, "others", "default")
        await until(shadow, 1700.0)
        used = float((await status_of(client)).used["cpu"])
        assert used == pytest.approx(6 * 1000 / 3600, abs=0.08)

        await until(shadow, HOUR_ENDS - 5.0)
        assert "second" not in {name for name, node in (await places(client)).items() if node}
        await until(shadow, HOUR_ENDS + 10.0)
        assert (await places(client))["second"] in ("a", "b")
        status = await status_of(client)
        assert status.period_start == rfc3339(NOW + HOUR_ENDS)
        assert float(status.previous["cpu"]) == pytest.approx(used, abs=0.001)


def test_the_next_job_waits_for_the_next_period(tmp_path: Path) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(_periods(tmp_path))


async def _notice(folder: Path) -> None:
    async with opened(folder, now=NOW, decide=unadvised) as shadow:
        client = await begun(shadow)
        await client.create(BUDGETS, a_budget("team", amounts={"cpu": 1}, running="Evict", notice="5m"))
        await client.create(JOBS, a_job("told", "team"))
        await client.create(JOBS, a_job("brief", "team", **{EVICT_NOTICE: "1m"}))
        # Twelve CPUs use it up after five minutes.
        await until(shadow, 295.0)
        assert await events(client, "EvictionNotice") == []
        await until(shadow, 320.0)
        told = {one.metadata.name.partition("-")[0]: one for one in (await client.list(PODS)).items}
        assert (told["told"].metadata.annotations or {})[EVICT_NOTICE] == "5m0s"
        assert CHECKPOINT_BEFORE in (told["told"].metadata.annotations or {})
        assert all("budget team, which is used up" in one for one in await events(client, "EvictionNotice"))
        await until(shadow, 400.0)
        assert {name for name, node in (await places(client)).items() if node} == {"told"}
        await until(shadow, 640.0)
        assert {name for name, node in (await places(client)).items() if node} == set()
        used = float((await status_of(client)).used["cpu"])
        assert used == pytest.approx((6 * 600 + 6 * 360) / 3600, abs=0.15)


def test_pods_are_told_and_leave_when_a_hard_budget_is_used_up(tmp_path: Path) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(_notice(tmp_path))
