"""Status writes of the scheduler while binds are under way on a slow API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.virtual_clock import VirtualClock, settle
from unisono.errors import Conflict
from unisono.kube.pace import LONGEST_COUNT_SECONDS, LONGEST_SECONDS, WritePace
from unisono.scheduler.metrics import Metrics
from unisono.scheduler.outbox import Outbox


class Desk:
    """An outbox whose writes are noted with their time."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.pace = WritePace(self.clock)
        self.written: list[tuple[str, str, float]] = []
        self.conflicts, self.meanwhile = 0, ""
        self.outbox: Outbox[str] = Outbox("test", self._write, self.clock, Metrics(None), interval=0.0, pace=self.pace)

    async def _write(self, key: str, wish: str) -> bool:
        if self.conflicts:
            self.conflicts -= 1
            if self.meanwhile:
                self.outbox.put(key, self.meanwhile, urgent=False)
            raise Conflict("it has changed", code=409)
        self.written.append((key, wish, self.clock.monotonic()))
        return True

    async def wait(self, seconds: float) -> None:
        await self.clock.advance(seconds)
        await settle(20)

    @asynccontextmanager
    async def open(self, *, slow: bool = True) -> AsyncIterator[Desk]:
        """With a bind that is under way, on a server that has been slow for a while or not."""
        for _ in range(30):
            with self.pace.urgent(), self.pace.write():
                await self.clock.advance(0.4 if slow else 0.001)
        running = asyncio.create_task(self.outbox.run())
        await settle(5)
        try:
            yield self
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def test_what_only_tells_waits_for_the_end_of_the_rush_and_is_written_once() -> None:
    async with Desk().open() as desk:
        with desk.pace.urgent():
            desk.outbox.put("ns/a", "1 runs", urgent=False)
            await desk.wait(2.0)
            desk.outbox.put("ns/a", "8 run", urgent=False)
            await desk.wait(2.0)
            assert not desk.written
        await desk.wait(1.0)
        assert [(key, wish) for key, wish, _ in desk.written] == [("ns/a", "8 run")]


async def test_what_is_urgent_does_not_wait() -> None:
    async with Desk().open() as desk:
        with desk.pace.urgent():
            desk.outbox.put("ns/a", "runs", urgent=False)
            await desk.wait(0.1)
            desk.outbox.put("ns/a", "admitted", urgent=True)
            await desk.wait(0.1)
            assert [wish for _, wish, _ in desk.written] == ["admitted"]


async def test_what_is_urgent_does_not_wait_after_a_conflict_either() -> None:
    async with Desk().open() as desk:
        desk.conflicts = 1
        with desk.pace.urgent():
            desk.outbox.put("ns/a", "admitted", urgent=True)
            await desk.wait(0.1)
            assert not desk.written
            await desk.wait(1.0)
            assert [wish for _, wish, _ in desk.written] == ["admitted"]


async def test_what_is_said_meanwhile_takes_the_place_of_what_is_tried_again() -> None:
    async with Desk().open() as desk:
        desk.conflicts, desk.meanwhile = 1, "8 run"
        with desk.pace.urgent():
            desk.outbox.put("ns/a", "admitted", urgent=True)
            await desk.wait(2.0)
            assert not desk.written
        await desk.wait(2.0)
        assert [wish for _, wish, _ in desk.written] == ["8 run"]


async def test_on_a_calm_server_nothing_waits() -> None:
    async with Desk().open(slow=False) as desk:
        with desk.pace.urgent():
            desk.outbox.put("ns/a", "8 run", urgent=False)
            await desk.wait(0.1)
            assert len(desk.written) == 1


@pytest.mark.parametrize("longest", [LONGEST_SECONDS, LONGEST_COUNT_SECONDS])
async def test_a_rush_without_end_does_not_hide_it_for_ever(longest: float) -> None:
    async with Desk().open() as desk:
        with desk.pace.urgent():
            desk.outbox.put("ns/a", "waits", urgent=False, longest=longest)
            await desk.wait(longest - 0.5)
            assert not desk.written
            await desk.wait(0.6)
            assert len(desk.written) == 1


async def test_after_a_rush_a_wish_may_still_pass_by_itself() -> None:
    async with Desk().open() as desk:
        with desk.pace.urgent():
            desk.outbox.put("ns/a", "has its places", urgent=False, settle=5.0, longest=LONGEST_COUNT_SECONDS)
            await desk.wait(8.0)
        await desk.wait(3.0)
        assert not desk.written
        desk.outbox.put("ns/a", "8 run", urgent=False, settle=1.0)
        await desk.wait(4.1)  # stretched four times, because binds were slow
        assert [wish for _, wish, _ in desk.written] == ["8 run"]


async def test_a_wish_that_follows_a_write_has_all_of_its_time() -> None:
    async with Desk().open(slow=False) as desk:
        desk.outbox.put("ns/a", "no pods", urgent=False, settle=5.0)
        await desk.wait(4.0)
        desk.outbox.put("ns/a", "admitted", urgent=True)
        await desk.wait(0.1)
        desk.outbox.put("ns/a", "no pods", urgent=False, settle=5.0)
        await desk.wait(4.8)
        assert [wish for _, wish, _ in desk.written] == ["admitted"]
        await desk.wait(0.3)
        assert [wish for _, wish, _ in desk.written] == ["admitted", "no pods"]


async def test_bad_news_shorten_the_wait() -> None:
    async with Desk().open() as desk:
        with desk.pace.urgent():
            desk.outbox.put("ns/a", "1 runs", urgent=False, longest=LONGEST_COUNT_SECONDS)
            await desk.wait(1.0)
            desk.outbox.put("ns/a", "does not fit", urgent=False)
            await desk.wait(LONGEST_SECONDS + 0.1)
            assert [wish for _, wish, _ in desk.written] == ["does not fit"]


async def test_a_wish_that_is_taken_back_is_not_written() -> None:
    async with Desk().open() as desk:
        with desk.pace.urgent():
            desk.outbox.put("ns/a", "waits", urgent=False)
            await desk.wait(0.1)
            desk.outbox.discard("ns/a")
        await desk.wait(20.0)
        assert not desk.written


@pytest.mark.more
@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.floats(0.0, 4.0)), min_size=1, max_size=20))
def test_the_last_wish_for_every_object_is_written(puts: list[tuple[str, bool, float]]) -> None:
    async def story() -> None:
        async with Desk().open() as desk:
            last: dict[str, str] = {}
            with desk.pace.urgent():
                for number, (key, urgent, gap) in enumerate(puts):
                    last[key] = str(number)
                    desk.outbox.put(key, last[key], urgent=urgent)
                    await desk.wait(gap)
            await desk.wait(LONGEST_SECONDS + 1)
            assert {key: wish for key, wish, _ in desk.written} == last
            assert not desk.outbox.keys()

    asyncio.run(story())


async def test_a_rest_too_small_to_move_the_clock_is_over() -> None:
    """10 - ((7.65 + 10) - 7.65) is more than nothing, and nothing beside 17.65."""
    desk = Desk()
    await desk.clock.advance(7.65)
    with desk.pace.urgent():
        pass
    running = asyncio.create_task(desk.outbox.run())
    try:
        desk.outbox.put("ns/a", "8 run", urgent=False, settle=10.0, longest=60.0, patient=True)
        async with asyncio.timeout(20):
            await desk.wait(10.0)
        assert [wish for _, wish, _ in desk.written] == ["8 run"]
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
