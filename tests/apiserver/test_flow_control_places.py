"""Places to work at: how many are taken, who comes next, and that none is lost."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from unisono.apiserver.flow_control import CALLER, Places, aside

WHO = st.tuples(st.sampled_from("abc"), st.sampled_from("xyz"))


@given(
    count=st.integers(1, 4),
    each=st.integers(1, 4),
    callers=st.lists(st.tuples(WHO, st.integers(0, 4), st.integers(0, 6)), max_size=30),
)
async def test_places_are_bounded_and_given_back_whoever_gives_up(
    count: int, each: int, callers: list[tuple[tuple[str, str], int, int]]
) -> None:
    places, held, most, worst = Places(count, each), Counter[str](), 0, 0

    async def work(who: tuple[str, str], turns: int) -> None:
        nonlocal most, worst
        CALLER.set(who)
        async with places.one():
            held[who[1]] += 1
            most, worst = max(most, held.total()), max(worst, held[who[1]])
            try:
                for _ in range(turns):
                    await asyncio.sleep(0)
            finally:
                held[who[1]] -= 1

    tasks = [asyncio.create_task(work(who, turns)) for who, turns, _ in callers]
    for moment in range(7):
        for task, (_, _, leaves) in zip(tasks, callers, strict=True):
            if leaves == moment:
                task.cancel()
        await asyncio.sleep(0)
    await asyncio.gather(*tasks, return_exceptions=True)
    assert most <= count
    assert worst <= each
    # All are free again.
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        together = asyncio.Barrier(count)

        async def meet(number: int) -> None:
            CALLER.set(("", str(number)))
            async with places.one():
                await together.wait()

        for number in range(count):
            group.create_task(meet(number))


async def test_the_heavy_work_of_one_tenant_does_not_queue_before_that_of_another() -> None:
    """One of each tenant at a time is worked on: a place is free for the next."""
    hold = threading.Event()

    async def work(who: tuple[str, str], name: str) -> str:
        CALLER.set(who)
        return await aside(lambda: name if name == "bob" or hold.wait(60) else "", always=True)

    crowd = [asyncio.create_task(work((str(number), "crowd"), "crowd")) for number in range(100)]
    try:
        await asyncio.sleep(0)
        async with asyncio.timeout(50):
            assert await work(("bob", "bob"), "bob") == "bob"
        assert not any(task.done() for task in crowd)
    finally:
        hold.set()
        await asyncio.gather(*crowd)
