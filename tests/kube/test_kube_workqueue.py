from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.examples import examples
from support.virtual_clock import VirtualClock, settle
from unisono.kube.pace import Backoff
from unisono.kube.workqueue import QueueClosed, WorkQueue


def queue_on(clock: VirtualClock) -> WorkQueue:
    return WorkQueue(clock, Backoff(base=1.0, cap=8.0, jitter=0.0))


async def test_a_key_waits_once() -> None:
    queue = queue_on(VirtualClock())
    for key in ("a", "b", "a"):
        queue.add(key)
    assert [await queue.get(), await queue.get()] == ["a", "b"]
    assert len(queue) == 0


async def test_a_key_added_in_work_comes_again_after_done() -> None:
    queue = queue_on(VirtualClock())
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    queue.add("a")
    assert len(queue) == 0
    queue.done("a")
    assert await queue.get() == "a"
    queue.done("a")
    assert len(queue) == 0


async def test_of_two_delays_the_shorter_counts() -> None:
    clock = VirtualClock()
    queue = queue_on(clock)
    queue.add_after("a", 10)
    queue.add_after("a", 3)
    queue.add_after("a", 5)
    await clock.advance(2.9)
    assert len(queue) == 0
    await clock.advance(0.1)
    assert await queue.get() == "a"
    queue.done("a")
    await clock.advance(20)
    assert len(queue) == 0


async def test_a_namespace_with_many_keys_does_not_delay_the_first_key_of_another() -> None:
    queue = queue_on(VirtualClock())
    for number in range(10_000):
        queue.add(f"a/job-{number}")
    assert [await queue.get() for _ in range(3)] == ["a/job-0", "a/job-1", "a/job-2"]
    queue.add("b/first")
    queue.add("cluster-scoped")
    assert {await queue.get() for _ in range(3)} == {"a/job-3", "b/first", "cluster-scoped"}
    assert [await queue.get(), await queue.get()] == ["a/job-4", "a/job-5"]
    assert len(queue) == queue.statistics().ready == 10_000 - 6


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 20)), max_size=60))
def test_a_key_waits_for_its_own_namespace_and_one_key_of_each_other(adds: list[tuple[str, int]]) -> None:
    async def scenario() -> None:
        queue = queue_on(VirtualClock())
        own: dict[str, list[str]] = {}
        for namespace, number in adds:
            key = f"{namespace}/{number}"
            queue.add(key)
            if key not in own.setdefault(namespace, []):
                own[namespace].append(key)
        taken = [await queue.get() for _ in range(len(queue))]
        for keys in own.values():
            assert [key for key in taken if key in keys] == keys
            for before, key in enumerate(keys):
                assert taken.index(key) < (before + 1) * len(own)

    asyncio.run(scenario())


async def test_back_off_doubles_up_to_its_cap_and_is_forgotten() -> None:
    queue = queue_on(VirtualClock())
    assert [queue.add_rate_limited("a") for _ in range(6)] == [1, 2, 4, 8, 8, 8]
    assert queue.statistics().worst_failures == 6
    queue.forget("a")
    assert queue.add_rate_limited("a") == 1
    assert queue.add_rate_limited("b", at_least=30.0) == 30.0


async def test_jitter_never_exceeds_the_full_delay() -> None:
    backoff = Backoff(base=1.0, cap=100.0, jitter=0.5, rng=random.Random(1))
    for failures in range(1, 200):
        assert 0.5 * min(100, 2 ** (failures - 1)) <= backoff.delay(failures) <= min(100, 2 ** (failures - 1))


async def test_close_ends_waiting_getters() -> None:
    queue = queue_on(VirtualClock())
    getters = [asyncio.create_task(queue.get()) for _ in range(3)]
    await settle()
    queue.close()
    for getter in getters:
        with pytest.raises(QueueClosed):
            await getter
    queue.add("late")
    assert len(queue) == 0


async def test_a_cancelled_getter_passes_its_wake_up_on() -> None:
    queue = queue_on(VirtualClock())
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await settle()
    queue.add("a")
    first.cancel()
    await settle()
    assert second.done() and second.result() == "a"


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abcd"), st.floats(0, 3)), max_size=60), st.integers(1, 4))
def test_one_key_is_never_in_work_twice_and_no_add_is_lost(adds: list[tuple[str, float]], workers: int) -> None:
    async def scenario() -> None:
        clock = VirtualClock()
        queue = queue_on(clock)
        working: set[str] = set()
        seen: list[tuple[float, str]] = []

        async def work() -> None:
            while True:
                key = await queue.get()
                assert key not in working
                working.add(key)
                started = clock.monotonic()
                await clock.sleep(0.7)
                working.discard(key)
                seen.append((started, key))
                queue.done(key)

        tasks = [asyncio.create_task(work()) for _ in range(workers)]
        last: dict[str, float] = {}
        for key, gap in adds:
            queue.add(key)
            last[key] = clock.monotonic()
            await clock.advance(gap)
        await clock.advance(100)
        for key, when in last.items():
            assert any(name == key and started >= when for started, name in seen)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(scenario())
