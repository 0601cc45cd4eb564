"""What makes long queues cheap changes no decision: simulations with and without it are the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.examples import examples
from unisono.cluster.jobs import JobBook
from unisono.cluster.podclass import PodClass
from unisono.cluster.snapshot import Snapshot
from unisono.cluster.state import ClusterState
from unisono.engine.candidates.table import Roomless
from unisono.engine.config_file.reader import load_config
from unisono.engine.eviction.search import Evictions
from unisono.engine.placement.first_gangs import EquivalenceBatches
from unisono.engine.plugin_host.orders import Heap
from unisono.engine.plugins.eviction_guard import EvictionGuardPlugin
from unisono.engine.plugins.reservation import plan
from unisono.engine.plugins.reservation.plan import Endings, KnownEnds, found_in_full
from unisono.simulator.clusters import Cluster, make_node, make_queue
from unisono.simulator.workload.job import Job, Role
from unisono.simulator.world.outcome import Run
from unisono.simulator.world.settings import Settings
from unisono.simulator.world.world import Cycles, World

EASY = {"name": "reservation", "arguments": {"reservation.after": "0s", "reservation.gangs": 2}}
LEARNING = {"name": "reservation", "arguments": {"reservation.after": "60s", "reservation.learnRunTimes": True}}
WHOLE = {"name": "gang", "enablePreemptable": False}
TIERS: dict[str, tuple[str, list[list[dict[str, Any]]]]] = {
    "easy": ("enqueue, allocate", [[EASY, {"name": "gang"}], [{"name": "predicates"}, {"name": "binpack"}]]),
    "queues": ("enqueue, allocate", [[EASY, {"name": "gang"}], [{"name": "predicates"}, {"name": "proportion"}]]),
    "gated": (
        "enqueue, allocate",
        [[EASY, {"name": "gang"}], [{"name": "predicates"}, {"name": "overcommit"}, {"name": "drf"}]],
    ),
    "unadmitted": ("allocate, backfill", [[EASY, {"name": "gang"}], [{"name": "predicates"}]]),
    "drf": ("enqueue, allocate", [[{"name": "gang"}], [{"name": "predicates"}, {"name": "drf"}]]),
    "learning": (
        "enqueue, allocate, backfill",
        [[{"name": "service-order", "arguments": {"service-order.by": "time"}}, LEARNING, {"name": "gang"}]],
    ),
    **{
        name: (
            "enqueue, allocate, preempt",
            [[{"name": "service-order", "arguments": given}, WHOLE], [{"name": "predicates"}, {"name": "binpack"}]],
        )
        for name, given in {
            "remaining": {"service-order.by": "remaining-service"},
            "attained": {"service-order.levels": [600.0, 7200.0], "service-order.wideLevel": 1},
            "line": {"service-order.levels": [600.0, 7200.0], "service-order.inLevel": "line"},
        }.items()
    },
    "evicting": (
        "enqueue, allocate, preempt",
        [[{"name": "priority"}, WHOLE, {"name": "eviction-guard"}], [{"name": "predicates"}, {"name": "binpack"}]],
    ),
}


def _forgetting(refresh: Callable[[JobBook], None]) -> Callable[[JobBook], None]:
    def forget(book: JobBook) -> None:
        refresh(book)
        for job in book.jobs.values():
            job.derived = {}

    return forget


def _telling_nothing(snapshot: Callable[[ClusterState], Snapshot]) -> Callable[[ClusterState], Snapshot]:
    def plain(state: ClusterState) -> Snapshot:
        for held in state.tasks_on.values():
            held.derived.clear()
        return replace(snapshot(state), waiting=None)

    return plain


@contextmanager
def plainly() -> Iterator[None]:
    """Nothing is kept from cycle to cycle, and each job is looked at by itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JobBook, "refresh", _forgetting(JobBook.refresh))
        patch.setattr(ClusterState, "snapshot", _telling_nothing(ClusterState.snapshot))
        patch.setattr(EquivalenceBatches, "skip", lambda *_: False)
        patch.setattr(EquivalenceBatches, "fail", lambda *_: False)
        patch.setattr(Evictions, "known_to_fail", lambda *_: False)
        patch.setattr(EvictionGuardPlugin, "moved_by_evictions", False)
        patch.setattr(plan, "_earliest", plan._earliest_of_any)
        patch.setattr(KnownEnds, "at", lambda _, *given: found_in_full(*given))
        patch.setattr(Roomless, "covers", lambda *_, **__: False)
        patch.setattr(Cycles, "_is_vain", lambda _: False)
        yield


def workload(seed: int, count: int) -> list[Job]:
    """Jobs of a few sizes that come faster than they end, some with pods of two kinds, or with a smaller gang."""
    draw, at = Random(seed), 0.0
    jobs: list[Job] = []
    for number in range(count):
        at += draw.choice((0, 0, 10, 200))
        run = float(draw.choice((30, 300, 3_000, 20_000)))
        pods = draw.choice((1, 1, 1, 2, 3))
        roles = [Role(name="w", count=pods, gpus=draw.choice((1, 1, 2, 4)), cpu_milli=1000)]
        if not draw.randrange(5):
            roles.append(Role(name="h", count=1, cpu_milli=2000))
        jobs.append(
            Job(
                name=f"j{number:03}",
                submit=at,
                run_seconds=run,
                estimate=draw.choice((None, run, 2 * run)),
                roles=tuple(roles),
                gang=draw.choice((None, None, None, 1)),
                queue=draw.choice(("a", "b")),
                priority=draw.choice((0, 0, 0, 100)),
            )
        )
    return jobs


def simulated(jobs: list[Job], policy: str) -> Run:
    actions, tiers = TIERS[policy]
    config = load_config(json.dumps({"actions": actions, "tiers": [{"plugins": tier} for tier in tiers]}))
    nodes = tuple(make_node(f"n{at}", cpu=8, memory="100Gi", gpus=4) for at in range(3))
    queues = (make_queue("a", 2), make_queue("b", 1))
    return World(Cluster(nodes, queues), jobs, config, Settings(run_times="estimate", until=400_000.0)).run()


@pytest.mark.parametrize("policy", TIERS)
@pytest.mark.parametrize(("seed", "count"), [(0, 12), (1, 40)])
def test_simulations_are_the_same_when_nothing_is_kept(policy: str, seed: int, count: int) -> None:
    # Where each cycle looks for victims without what is kept, forty jobs take as long as all other policies together.
    are_the_same(policy, seed, min(count, 20) if policy == "evicting" else count)


def test_jobs_that_come_while_there_is_no_room_get_their_phase() -> None:
    """Without *enqueue*, a later cycle serves jobs in another order where an earlier one gave them no phase."""
    are_the_same("unadmitted", seed=243, count=9)


@pytest.mark.more
@pytest.mark.parametrize("policy", TIERS)
@settings(max_examples=examples(10), deadline=None)
@given(seed=st.integers(0, 10**6), count=st.integers(5, 60))
def test_any_simulations_are_the_same_when_nothing_is_kept(policy: str, seed: int, count: int) -> None:
    are_the_same(policy, seed, count)


def are_the_same(policy: str, seed: int, count: int) -> None:
    """A workload has the same end with all that is kept from cycle to cycle, and without."""
    jobs = workload(seed, count)
    fast = simulated(jobs, policy)
    with plainly():
        plain = simulated(jobs, policy)
    assert fast.violations == plain.violations == []
    assert fast.evictions == plain.evictions
    assert fast.outcomes == plain.outcomes
    assert fast.cycles <= plain.cycles


@settings(max_examples=examples(50), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=12),
    st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=4),
)
def test_items_that_pass_are_taken_out_as_if_popped_one_by_one(
    first: list[tuple[int, bool]], pushed: list[tuple[int, bool]]
) -> None:
    items = [(key, number, passes) for number, (key, passes) in enumerate([*first, *pushed])]

    def heap() -> Heap[tuple[int, int, bool]]:
        made = Heap[tuple[int, int, bool]](lambda item: item[:2], items[: len(first)])
        for item in items[len(first) :]:
            made.push(item)
        return made

    fast, plain, left = heap(), heap(), sorted(items)
    passing = next((at for at, item in enumerate(left) if not item[2]), len(left))
    assert fast.take_while(lambda item: item[2]) == passing
    assert [fast.pop() for _ in range(len(fast))] == left[passing:]
    assert [plain.pop() for _ in range(len(plain))] == left


def test_items_whose_keys_may_change_are_not_taken_together() -> None:
    heap = Heap[int](lambda item: (item,), [1, 2, 3], volatile=True)
    assert heap.take_while(lambda _: True) == 0
    assert len(heap) == 3


@settings(max_examples=examples(50), deadline=None)
@given(seed=st.integers(0, 10**6), count=st.integers(0, 30))
def test_what_endings_free_is_the_sum_of_what_the_pods_hold(seed: int, count: int) -> None:
    draw = Random(seed)
    classes: list[Any] = []
    for number in range(3):
        one = object.__new__(PodClass)
        one.id, one.vector = number, np.array([draw.randrange(5) for _ in range(draw.choice((2, 3)))], dtype=np.int64)
        classes.append(one)
    endings = [(float(at), draw.randrange(4), draw.choice(classes)) for at in range(count)]
    idle = np.array([[draw.randrange(9) for _ in range(4)] for _ in range(3)], dtype=np.int64)
    taken = draw.randrange(count + 1)
    free = idle.copy()
    for _, column, pod_class in endings[:taken]:
        free[: len(pod_class.vector), column] += pod_class.vector
    assert (Endings.of(endings, len(idle)).free(idle, taken) == free).all()
