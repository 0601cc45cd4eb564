"""The pace of a client's writes: intervals stretch on a slow API server, and writes that make pods run go first."""

from __future__ import annotations

import asyncio

import pytest

from support.virtual_clock import VirtualClock
from unisono.kube.pace import WritePace


async def rush(pace: WritePace, clock: VirtualClock, writes: int, seconds: float) -> None:
    """So many writes one after the other, each of which takes so long."""
    for _ in range(writes):
        with pace.urgent(), pace.write():
            await clock.advance(seconds)


@pytest.mark.parametrize(("seconds", "yields"), [(0.01, False), (0.05, False), (0.4, True)])
async def test_others_give_way_only_where_answers_take_long(seconds: float, yields: bool) -> None:
    clock = VirtualClock()
    pace = WritePace(clock)
    await rush(pace, clock, 30, seconds)
    assert pace.rush is yields
    ended = clock.monotonic()
    assert pace.urgent_until == ended
    await clock.advance(2.5)
    assert pace.urgent_until == ended
    with pace.urgent():
        await clock.advance(3.0)
        assert pace.urgent_until == clock.monotonic(), "one is still under way"


async def test_the_rush_ends_when_nothing_was_first_for_a_moment() -> None:
    clock = VirtualClock()
    pace, ends = WritePace(clock), list[tuple[str, float]]()

    def resume(key: str) -> None:
        ends.append((key, clock.monotonic()))

    for key in ("first", "second", "first", "third"):
        pace.park(key, resume)
    pace.leave("second", resume)
    pace.leave("nobody", resume)
    await rush(pace, clock, 30, 0.4)
    over = clock.monotonic()
    await clock.advance(0.9)
    assert pace.rush and not ends, "a pause between two batches is no end"
    await clock.advance(0.1)
    assert not pace.rush
    assert ends == [("first", pytest.approx(over + 1.0)), ("third", pytest.approx(over + 1.0))]
    await rush(pace, clock, 30, 0.4)
    await clock.advance(1.0)
    assert len(ends) == 2, "who was called once is not called again"


async def test_a_write_that_is_still_under_way_keeps_the_rush() -> None:
    clock = VirtualClock()
    pace = WritePace(clock)
    await rush(pace, clock, 30, 0.4)
    with pace.urgent(), pace.write():
        await clock.advance(20)
        assert pace.rush


async def test_a_write_that_fails_counts_as_done() -> None:
    clock = VirtualClock()
    pace = WritePace(clock)
    await rush(pace, clock, 30, 0.4)
    with pytest.raises(OSError, match="gone"), pace.urgent():
        raise OSError("gone")
    await clock.advance(1.0)
    assert not pace.rush


async def test_after_the_close_nobody_is_called() -> None:
    clock = VirtualClock()
    pace, called = WritePace(clock), list[str]()
    pace.park("key", called.append)
    await rush(pace, clock, 1, 0.4)
    pace.close()
    await clock.advance(5.0)
    await asyncio.sleep(0)
    assert not called
