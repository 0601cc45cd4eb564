"""Writes that make pods run go first while the API server is strained; on a calm server nobody waits."""

from __future__ import annotations

import asyncio

import pytest

from support.virtual_clock import VirtualClock
from unisono.kube.right_of_way import RightOfWay


async def rush(way: RightOfWay, clock: VirtualClock, writes: int, seconds: float) -> None:
    """So many writes one after the other, each of which takes so long."""
    for _ in range(writes):
        with way.first():
            await clock.advance(seconds)


@pytest.mark.parametrize(("seconds", "taken"), [(0.01, False), (0.05, False), (0.4, True)])
async def test_others_give_way_only_where_answers_take_long(seconds: float, taken: bool) -> None:
    clock = VirtualClock()
    way = RightOfWay(clock)
    await rush(way, clock, 30, seconds)
    assert way.taken is taken


async def test_the_rush_ends_when_nothing_was_first_for_a_moment() -> None:
    clock = VirtualClock()
    way, ends = RightOfWay(clock), list[tuple[str, float]]()

    def resume(key: str) -> None:
        ends.append((key, clock.monotonic()))

    for key in ("first", "second", "first", "third"):
        way.park(key, resume)
    way.leave("second", resume)
    way.leave("nobody", resume)
    await rush(way, clock, 30, 0.4)
    over = clock.monotonic()
    await clock.advance(0.9)
    assert way.taken and not ends, "a pause between two batches is no end"
    await clock.advance(0.1)
    assert not way.taken
    assert ends == [("first", pytest.approx(over + 1.0)), ("third", pytest.approx(over + 1.0))]
    await rush(way, clock, 30, 0.4)
    await clock.advance(1.0)
    assert len(ends) == 2, "who was called once is not called again"


async def test_a_write_that_is_still_under_way_keeps_the_rush() -> None:
    clock = VirtualClock()
    way = RightOfWay(clock)
    await rush(way, clock, 30, 0.4)
    with way.first():
        await clock.advance(20)
        assert way.taken


async def test_a_write_that_fails_counts_as_done() -> None:
    clock = VirtualClock()
    way = RightOfWay(clock)
    await rush(way, clock, 30, 0.4)
    with pytest.raises(OSError, match="gone"), way.first():
        raise OSError("gone")
    await clock.advance(1.0)
    assert not way.taken


async def test_after_the_close_nobody_is_called() -> None:
    clock = VirtualClock()
    way, called = RightOfWay(clock), list[str]()
    way.park("key", called.append)
    await rush(way, clock, 1, 0.4)
    way.close()
    await clock.advance(5.0)
    await asyncio.sleep(0)
    assert not called
