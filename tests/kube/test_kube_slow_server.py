"""Writes that can wait are written less often while the API server is slow."""

from __future__ import annotations

import asyncio

import pytest

from support.memory import MemoryClient
from support.virtual_clock import VirtualClock, settle
from unisono.api.base import ObjectMeta
from unisono.api.core import Pod
from unisono.api.kinds import EVENTS
from unisono.kube.events import EventRecorder
from unisono.kube.pace import WritePace


async def answered(pace: WritePace, clock: VirtualClock, seconds: float, writes: int = 100) -> None:
    for _ in range(writes):
        with pace.write():
            await clock.advance(seconds)


@pytest.mark.parametrize(("seconds", "stretch"), [(0.001, 1.0), (0.05, 1.0), (0.1, 2.0), (0.2, 4.0), (30.0, 4.0)])
async def test_the_stretch_follows_the_answers(seconds: float, stretch: float) -> None:
    clock = VirtualClock()
    pace = WritePace(clock)
    assert pace.stretch == 1.0
    await answered(pace, clock, seconds)
    assert pace.stretch == pytest.approx(stretch, rel=0.01)


async def test_one_slow_answer_changes_little_and_a_calm_server_is_trusted_again() -> None:
    clock = VirtualClock()
    pace = WritePace(clock)
    await answered(pace, clock, 0.4, writes=1)
    assert pace.stretch == 1.0
    await answered(pace, clock, 0.4)
    assert pace.stretch == 4.0
    await answered(pace, clock, 0.01)
    assert pace.stretch == 1.0


async def test_good_news_get_rarer_while_the_server_is_slow() -> None:
    async def told(client: MemoryClient) -> int:
        events = EventRecorder(client, "unisono", clock=client.clock, normal_burst=100, normal_per_second=10.0)
        for number in range(100):
            pod = Pod(metadata=ObjectMeta(name=f"p{number}", namespace="ns", uid=f"u{number}"))
            events.event(pod, "Normal", "Scheduled", "on n1")
            await client.clock.advance(0.1)
            await settle(20)
        await client.clock.advance(5)
        await settle(200)
        closing = asyncio.ensure_future(events.close())
        await client.clock.advance(5)
        await closing
        return len(client.objects(EVENTS))

    assert await told(MemoryClient()) == 100
    slow = MemoryClient()
    slow.latency = 0.2
    assert 40 <= await told(slow) <= 80
