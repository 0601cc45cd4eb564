"""Pods that name their node themselves count only as far as the node is going to accept them."""

from __future__ import annotations

from typing import Any

import pytest

from support.build import cluster, group, kind_of, node
from support.build import pod as any_pod
from unisono.api.base import Object
from unisono.cluster.snapshot import Snapshot


def pod(name: str, where: str, phase: str = "Pending", **given: Any) -> Object:
    """A pod with a node that no scheduler gave it."""
    return any_pod(name, "g", node=where, phase=phase, **given)


def allocated(snapshot: Snapshot) -> int:
    """Thousandths of processors that the default queue holds."""
    return int(snapshot.queues["default"].allocated[0])


def look(*objects: Object) -> Snapshot:
    return cluster(node("n0", cpu=8), node("n1", cpu=8), group("g", 1), *objects).snapshot()


@pytest.mark.parametrize(
    ("pods", "millis"),
    [
        pytest.param([pod("a", "nowhere", cpu=2000)], 0, id="node does not exist"),
        pytest.param([pod("a", "n0", cpu=9)], 0, id="larger than the node"),
        pytest.param([pod("a", "n0", cpu=2**46)], 0, id="as large as can be"),
        pytest.param([pod("a", "n0", cpu=8)], 8000, id="fits"),
        pytest.param([pod("a", "n0", cpu=6, phase="Running"), pod("b", "n0", cpu=3)], 6000, id="beside one"),
        pytest.param([pod("b", "n0", cpu=6, created=1), pod("a", "n0", cpu=6, created=2)], 6000, id="oldest"),
        pytest.param([pod("a", "n0", cpu=9, phase="Running")], 9000, id="the node has spoken"),
    ],
)
def test_what_a_node_refuses_counts_for_no_queue(pods: list[Object], millis: int) -> None:
    assert allocated(look(*pods)) == millis


def test_what_a_node_refuses_does_not_fill_it() -> None:
    table = look(pod("a", "n0", cpu=9)).nodes
    assert table.used[0].tolist() == [0, 0]


def test_it_counts_when_the_node_comes_or_has_room_again() -> None:
    state = cluster(node("n0", cpu=8), group("g", 1), pod("a", "n1", cpu=4), pod("b", "n0", cpu=9))
    assert allocated(state.snapshot()) == 0
    for obj in (node("n1", cpu=8), node("n0", cpu=16)):
        state.apply("MODIFIED", kind_of(obj), obj)
    assert allocated(state.snapshot()) == 13_000
    state.apply("DELETED", kind_of(node("n1")), node("n1", cpu=8))
    assert allocated(state.snapshot()) == 9000


def test_an_evicted_one_stays_evicted() -> None:
    state = cluster(node("n0", cpu=8), group("g", 1), pod("a", "n0", cpu=4))
    state.snapshot()
    state.release("ns/a")
    shrunk = node("n0", cpu=2)
    state.apply("MODIFIED", kind_of(shrunk), shrunk)
    assert state.snapshot().tasks["ns/a"].status.label == "Releasing"
