"""One kind of nodes and one domain of the network at once."""

from __future__ import annotations

from typing import Any

import pytest
from topology_world import job, racks, spine, wish

from support.build import cluster, config, flatten, placed, priority_class, schedule
from unisono.api.annotations import ONE_OF
from unisono.api.core import Node
from unisono.cluster.state import ClusterState
from unisono.engine.decisions import Decisions

TIERS = ("priority", "gang"), ("predicates", "network-topology-aware", "one-of")
TEXT = "kind=fast, kind=slow"


def world(kinds: dict[str, str], *things: Any, size: int = 2) -> ClusterState:
    """Rack a of ``size`` nodes and rack b of two; ``kinds`` by node, slow where nothing is said."""
    made = flatten([racks({"a": size, "b": 2}), spine("s", "a", "b")])
    for each in made:
        if isinstance(each, Node):
            each.metadata.labels = {**(each.metadata.labels or {}), "kind": kinds.get(each.metadata.name, "slow")}
    return cluster(made, *things)


def choosing(size: int = 2, **given: Any) -> list[Any]:
    things = job("j", size, wish(1), **given)
    things[0].metadata.annotations = {ONE_OF: TEXT}
    return things


def where(decisions: Decisions) -> set[str]:
    return set(placed(decisions).values())


@pytest.mark.parametrize(
    ("fast", "expected"),
    [
        (("b-0", "b-1"), {"b-0", "b-1"}),
        (("a-0", "b-0"), set()),  # one node of each kind in each rack
        (("a-0",), {"b-0", "b-1"}),
        (("a-0", "a-1", "b-0"), {"a-0", "a-1"}),
    ],
)
def test_all_pods_in_one_domain_on_one_kind(fast: tuple[str, ...], expected: set[str]) -> None:
    state = world(dict.fromkeys(fast, "fast"), choosing())
    decisions = schedule(state, config(*TIERS))
    assert where(decisions) == expected
    if not expected:
        message = decisions.verdicts["ns/j"].message
        assert "kind=fast: 2 of 2 pods find room on 2 nodes, but not all of what they need" in message


def test_victims_are_chosen_on_nodes_of_the_kind_alone() -> None:
    """There are more victims on nodes of the other kind than are tried to be spared."""
    classes = [priority_class("low", 1), priority_class("high", 9)]
    low: list[Any] = []
    for at, name in enumerate((*(f"a-{number}" for number in range(120)), "b-0", "b-1")):
        things = job(f"low{at}", 1, minimum=0, running={0: name}, priority=1)
        things[0].spec.priority_class_name, things[0].status.phase = "low", "Running"
        low += things
    wanted = choosing(priority=9)
    wanted[0].spec.priority_class_name = "high"
    fast = {"a-0": "fast", "a-1": "fast"}
    state = world(fast, classes, low, wanted, size=120)
    decisions = schedule(state, config(*TIERS, actions="enqueue, allocate, gangpreempt"))
    assert {each.node for each in decisions.evictions} == set(fast)
    assert {each.node for each in decisions.pipelined} == set(fast)
