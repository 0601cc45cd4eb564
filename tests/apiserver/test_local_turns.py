"""Many writers in the process of the store leave room for requests, and nobody loses a turn."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.backends import opened
from unisono.api.base import ObjectMeta
from unisono.api.core import ConfigMap
from unisono.api.kinds import CONFIG_MAPS
from unisono.apiserver.flow_control.fair_turns import Rhythm, Shares, Turns


async def test_a_reader_comes_in_between_many_writers() -> None:
    async with opened() as backend:
        client = backend.client()
        maps = [ConfigMap(metadata=ObjectMeta(name=f"m-{index:03}", namespace="default")) for index in range(200)]
        writers = [asyncio.create_task(client.create(CONFIG_MAPS, each)) for each in maps]
        begun = []
        for _ in range(3):
            await asyncio.sleep(0)
            begun.append(sum(1 for _ in backend.store.scan_latest("configmaps", "default")))
        assert begun[-1] < 50, "a request that comes now would wait for all of them"
        await asyncio.gather(*writers)
        assert len((await client.list(CONFIG_MAPS, "default")).items) >= 200


@given(each=st.integers(1, 5), gives_up=st.lists(st.booleans(), min_size=1, max_size=40))
async def test_everybody_gets_a_turn_in_order_and_few_at_once(each: int, gives_up: list[bool]) -> None:
    turns, now, came = Turns(each), 0, list[tuple[int, int]]()

    async def worker(index: int) -> None:
        await turns.take()
        came.append((index, now))

    tasks = [asyncio.create_task(worker(index)) for index in range(len(gives_up))]
    await asyncio.sleep(0)  # all have asked
    for task, leaves in zip(tasks, gives_up, strict=True):
        if leaves:
            task.cancel()
    done = asyncio.gather(*tasks, return_exceptions=True)
    while not done.done():
        now += 1
        await asyncio.sleep(0)
    indices = [index for index, _ in came]
    assert indices == sorted(indices)
    assert set(indices) >= {index for index, leaves in enumerate(gives_up) if not leaves}
    for turn in {turn for _, turn in came}:
        assert sum(1 for _, when in came if when == turn) <= each


@pytest.mark.parametrize("writers", [1, 4])
async def test_few_writers_do_not_wait(writers: int) -> None:
    turns = Turns(4)
    for _ in range(writers):
        taking = turns.take()
        with pytest.raises(StopIteration):
            taking.send(None)


async def test_all_portions_begin_together_and_the_loop_is_free_in_between() -> None:
    shares, now, came = Shares(), 0, list[tuple[str, int]]()

    async def worker(name: str, turns: Turns) -> None:
        await turns.take()
        came.append((name, now))

    kinds = {"component": shares.components, "request": shares.requests, "event": shares.events}
    done = asyncio.gather(*(worker(name, turns) for name, turns in kinds.items() for _ in range(40)))
    while not done.done():
        now += 1
        await asyncio.sleep(0)
    busy = sorted({turn for _, turn in came})
    for name in kinds:
        turns = {turn for one, turn in came if one == name}
        assert turns <= set(busy[: len(turns)]), "each kind goes on with every beat until nobody is left"
    assert {later - earlier for earlier, later in itertools.pairwise(busy[1:])} == {3}


async def test_a_rhythm_rests_when_nobody_needs_it() -> None:
    rhythm, beats = Rhythm(free=1), list[str]()

    def member() -> bool:
        beats.append("beat")
        return False

    rhythm.join(member)
    rhythm.at_next(lambda: beats.append("once"))
    for _ in range(20):
        await asyncio.sleep(0)
    assert beats == ["once", "beat"]
