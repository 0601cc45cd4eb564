"""Sums over hostile amounts say the truth or their ceiling, and never wrap."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.build import cluster, gang, group, node, nodes, pod, queue
from unisono.api import kinds
from unisono.api.resources import LARGEST
from unisono.cluster.resources import CEILING, LargeSums, WideSum, total
from unisono.cluster.state import ClusterState

INT64 = "9223372036854775807"
MEMORY = 1
MANY = 300  # as many amounts at the bound wrap an int64 more than once


def crowd(number: int, **given: Any) -> list[Any]:
    return [pod(f"j-w-{index}", "j", mem=INT64, **given) for index in range(number)]


@pytest.mark.parametrize("number", [1, 16, 128, MANY])
def test_what_pending_pods_ask_for_does_not_wrap(number: int) -> None:
    state = cluster(nodes(1), queue("q"), group("j", 1, queue="q", phase="Inqueue"), crowd(number))
    snapshot = state.snapshot()
    expected = min(number * LARGEST, CEILING)
    assert snapshot.jobs["ns/j"].request[MEMORY] == expected
    assert snapshot.queues["q"].request[MEMORY] == expected


@pytest.mark.parametrize("state_of", ["before", "after"])
def test_what_a_node_holds_does_not_wrap(state_of: str) -> None:
    pods = crowd(MANY, node="n000")
    state = cluster(*((pods, nodes(1)) if state_of == "after" else (nodes(1), pods)))
    table = state.snapshot().nodes
    assert table.used[MEMORY, 0] == CEILING
    assert table.nonzero[1, 0] == CEILING


def test_what_queues_are_promised_does_not_wrap() -> None:
    groups = [group(f"g{index}", 1, queue="q", phase="Inqueue", resources={"mem": INT64}) for index in range(MANY)]
    found = cluster(nodes(1), queue("q"), groups).snapshot().queues["q"]
    assert found.inqueue[MEMORY] == found.promised[MEMORY] == CEILING


def test_sums_are_exact_again_when_the_hostile_pods_are_gone() -> None:
    honest = [*gang("h", 2, queue="q", node="n000", mem="3Gi"), *gang("w", 2, queue="q", mem="1Gi")]
    state = cluster(nodes(2), queue("q"), honest, group("j", 1, queue="q"))
    hostile = [*crowd(MANY), *[pod(f"r-{index}", "j", mem=INT64, node="n000") for index in range(MANY)]]
    for obj in hostile:
        state.apply("ADDED", kinds.PODS, obj)
    state.snapshot()
    for obj in hostile:
        state.apply("DELETED", kinds.PODS, obj)
    snapshot = state.snapshot()
    assert snapshot.nodes.used[MEMORY].tolist() == [6 * 2**30, 0]
    assert snapshot.queues["q"].allocated[MEMORY] == 6 * 2**30
    assert snapshot.queues["q"].request[MEMORY] == 8 * 2**30
    assert snapshot.jobs["ns/j"].request[MEMORY] == 0


def test_sums_over_nodes_do_not_wrap() -> None:
    sums = cluster([node(f"n{index:03}", mem=INT64) for index in range(MANY)]).snapshot().nodes.sums()
    assert sums.allocatable[MEMORY] == sums.usable[MEMORY] == sums.sharable[MEMORY] == CEILING


def test_a_pod_of_many_huge_containers_is_read() -> None:
    state = ClusterState()
    huge = pod("p", mem=INT64)
    huge.spec.containers = [*huge.spec.containers, *huge.spec.containers]
    state.apply("ADDED", kinds.PODS, huge)
    assert not state.rejected
    assert state.tasks["ns/p"].pod_class.vector[MEMORY] == LARGEST


AMOUNTS = st.lists(st.one_of(st.integers(0, LARGEST), st.integers(0, 10)), max_size=600)


@given(AMOUNTS)
def test_wide_sums_are_exact_or_at_the_ceiling(amounts: list[int]) -> None:
    wide = WideSum((1,))
    for amount in amounts:
        wide.add(np.array([amount]))
    assert wide.value().tolist() == [min(sum(amounts), CEILING)]
    if amounts:
        assert total(np.array([amounts]), 1).tolist() == [min(sum(amounts), CEILING)]
    for amount in amounts:
        wide.add(np.array([amount]), -1)
    assert wide.empty


@given(AMOUNTS, st.randoms())
def test_large_sums_tell_by_how_much_a_holder_moves(amounts: list[int], random: Any) -> None:
    sums, value = LargeSums[str](), 0
    for amount in amounts:
        value += int(sums.move("n", np.array([amount]), 1)[0])
    assert value == min(sum(amounts), CEILING)
    random.shuffle(amounts)
    for amount in amounts:
        value += int(sums.move("n", np.array([amount]), -1)[0])
    assert value == 0
    assert not len(sums)
