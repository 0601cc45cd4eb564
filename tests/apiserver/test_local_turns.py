"""Many writers in the process of the store leave room for requests, and nobody loses a turn."""

from __future__ import annotations

import asyncio
import itertools
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.backends import opened, settle
from unisono.api.base import ObjectMeta
from unisono.api.core import ConfigMap
from unisono.api.kinds import CONFIG_MAPS
from unisono.apiserver.flow_control import Rhythm, Shares, Turns
from unisono.apiserver.http.query import ResourcePath
from unisono.apiserver.http.status import Form
from unisono.apiserver.http.watch import WatchHandler


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


@given(each=st.integers(1, 5), crowd=st.integers(1, 200), others=st.lists(st.sampled_from("abc"), max_size=12))
async def test_a_users_crowd_of_requests_holds_up_others_by_one_each_time(
    each: int, crowd: int, others: list[str]
) -> None:
    turns, came = Turns(each), list[str]()

    async def worker(user: str) -> None:
        await turns.take(user=user)
        came.append(user)

    tasks = [asyncio.create_task(worker(user)) for user in [*["crowd"] * crowd, *others]]
    await asyncio.gather(*tasks)
    assert sorted(came) == sorted([*["crowd"] * crowd, *others])
    for user in set(others):
        last = max(index for index, one in enumerate(came) if one == user)
        mine = sum(one == user for one in others)
        before = sum(1 for one in came[:last] if one == "crowd")
        assert before <= each + mine


@given(each=st.integers(1, 5), crowd=st.integers(1, 60), size=st.integers(1, 4), others=st.integers(1, 6))
async def test_a_crowd_of_users_of_one_tenant_holds_up_another_tenant_by_one_request_each_time(
    each: int, crowd: int, size: int, others: int
) -> None:
    turns, came = Turns(each), list[tuple[str, str]]()

    async def worker(tenant: str, user: str) -> None:
        await turns.take(user=user, tenant=tenant)
        came.append((tenant, user))

    accounts = [("crowd", str(number)) for number in range(crowd) for _ in range(size)]
    everybody = [*accounts, *[("other", "x")] * others]
    await asyncio.gather(*(worker(*who) for who in everybody))
    assert sorted(came) == sorted(everybody)
    last = max(index for index, who in enumerate(came) if who == ("other", "x"))
    assert sum(tenant == "crowd" for tenant, _ in came[:last]) <= each + others
    # And of the crowd's own users none waits for all that another one wants.
    first = {user: came.index(("crowd", user)) for user in dict(accounts).values()} if crowd > each else {}
    assert all(index <= each * size + crowd + others for index in first.values())


@given(each=st.integers(1, 5), weights=st.lists(st.integers(1, 12), min_size=1, max_size=30))
async def test_heavy_callers_take_the_turns_of_later_beats_and_all_come_in_order(each: int, weights: list[int]) -> None:
    rhythm = Rhythm()
    turns, beats, came = Turns(each, rhythm), 0, list[tuple[int, int]]()

    def beat() -> bool:
        nonlocal beats
        beats += 1
        return len(came) < len(weights)

    rhythm.join(beat)

    async def worker(index: int) -> None:
        await turns.take(weights[index])
        came.append((index, beats))

    await asyncio.gather(*(worker(index) for index in range(len(weights))))
    assert [index for index, _ in came] == list(range(len(weights)))
    for position, (_, when) in enumerate(came):
        before = sum(weights[:position])
        assert when >= (before - each) // each, "what came before has had its turns"


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


class Watcher:
    """A client that takes what it is sent at once; counts the bytes of all of its kind."""

    own, form, query = False, Form(), MappingProxyType({"resourceVersion": "0"})
    sent = 0

    async def stream(self, _: str) -> None:
        """Begin."""

    async def take(self, turns: Turns, weight: int) -> None:
        await turns.take(weight)

    async def write(self, _: object, piece: bytes) -> None:
        Watcher.sent += len(piece)


async def test_requests_come_in_between_many_watchers_of_large_objects() -> None:
    async with opened() as backend:
        handler = WatchHandler(backend.service, lambda: 0.0)
        path = ResourcePath("", "v1", "default", "configmaps")
        watchers: list[Any] = [Watcher() for _ in range(200)]
        tasks = [asyncio.create_task(handler.watch(each, CONFIG_MAPS, path)) for each in watchers]
        await settle(backend)
        await backend.client().create(CONFIG_MAPS, config_map("large", 300_000))
        Watcher.sent, most = 0, 0
        while Watcher.sent < 200 * 300_000:
            before = Watcher.sent
            await asyncio.sleep(0)
            most = max(most, Watcher.sent - before)
        assert most < 2 * 2**20, "so much is sent before the next request is read"
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def config_map(name: str, size: int) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default"), data={"x": "y" * size})
