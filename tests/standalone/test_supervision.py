"""Parts that fail start again."""

from __future__ import annotations

import asyncio
import random
from itertools import pairwise

import pytest
import structlog
from prometheus_client import CollectorRegistry, Counter, generate_latest

from support.virtual_clock import VirtualClock
from unisono.kube.leader import LeadershipLost
from unisono.kube.pace import Backoff
from unisono.standalone.component import PartMetrics, keep_running


async def test_a_failing_part_starts_anew_after_growing_pauses() -> None:
    clock = VirtualClock()
    starts: list[float] = []
    enough = asyncio.Event()

    async def part() -> None:
        starts.append(clock.monotonic())
        if len(starts) == 4:
            enough.set()
            await asyncio.get_running_loop().create_future()
        if len(starts) == 2:
            return
        raise ValueError("broken")

    backoff = Backoff(base=1.0, cap=8.0, jitter=0.0, rng=random.Random(1))
    task = asyncio.create_task(keep_running("part", part, clock, backoff, lambda: False))
    while not enough.is_set():
        await clock.advance(0.5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [round(b - a) for a, b in pairwise(starts)] == [1, 2, 4]


async def test_a_lost_lease_is_a_reason_and_no_traceback() -> None:
    async def part() -> None:
        if not again:
            again.append(1)
            raise LeadershipLost("the lease a/b could not be renewed in time")
        await asyncio.get_running_loop().create_future()

    again: list[int] = []
    with structlog.testing.capture_logs() as logs:
        task = asyncio.create_task(keep_running("part", part, VirtualClock(), Backoff(), lambda: False))
        while not logs:
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert [(line["event"], line["reason"], "exc_info" in line) for line in logs] == [
        ("part.restarts", "the lease a/b could not be renewed in time", False)
    ]


async def test_a_part_that_ends_when_it_should_is_left_alone() -> None:
    async def part() -> None:
        starts.append(1)

    starts: list[int] = []
    await keep_running("part", part, VirtualClock(), Backoff(), lambda: True)
    assert starts == [1]


def test_metrics_are_those_of_the_latest_start() -> None:
    registry, parts = CollectorRegistry(), PartMetrics()
    registry.register(parts)
    for total in (3, 1):
        Counter("binds", "Binds.", registry=parts.renew()).inc(total)
    assert b"binds_total 1.0" in generate_latest(registry)


def test_parts_that_start_anew_leave_the_metrics_of_others_alone() -> None:
    registry, parts = CollectorRegistry(), PartMetrics()
    registry.register(parts)
    Counter("binds", "Binds.", registry=parts.renew("scheduler")).inc(3)
    for total in (3, 1):
        Counter("pods", "Pods.", registry=parts.renew("controllers")).inc(total)
    shown = generate_latest(registry)
    assert b"binds_total 3.0" in shown and b"pods_total 1.0" in shown
