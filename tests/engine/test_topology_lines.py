"""Pods without topology among HyperNodes: chosen line by line, they go where looking at every node would send them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from topology_world import hyper, spine, world

from support.build import config, gang, node, pod, queue, schedule
from unisono.engine.plugins.domain_filling import FillingOfLines
from unisono.engine.plugins.network_topology_aware import NetworkTopologyAwarePlugin
from unisono.engine.tables import CandidateTable

CONFIG = config(
    ("priority", "gang"),
    ("overcommit", "drf", "predicates", "proportion", "nodeorder", "binpack", "network-topology-aware"),
)
RACKS = 4


@st.composite
def worlds(draw: st.DrawFn) -> list[Any]:
    things: list[Any] = [queue("default")]
    for rack in range(RACKS):
        names = [f"r{rack}-{index}" for index in range(draw(st.integers(0, 3)))]
        tainted = draw(st.booleans())
        things += [
            node(name, cpu=draw(st.sampled_from([2, 4, 8])), taints=_soft(tainted and index == 0))
            for index, name in enumerate(names)
        ]
        things.append(hyper(f"r{rack}", 1, names))
        if names and draw(st.booleans()):
            things.append(pod(f"old-{rack}", node=names[0], cpu=1, deleting=draw(st.booleans())))
    things += [node(f"lone-{index}", cpu=4) for index in range(draw(st.integers(0, 2)))]
    things += [spine("s0", "r0", "r1"), spine("s1", "r2", "r3")]
    if draw(st.booleans()):
        things.append(spine("top", "s0", "s1", tier=3))
    for number in range(draw(st.integers(1, 5))):
        size = draw(st.integers(1, 4))
        things += [
            gang(f"j{number}-{copy}", size, draw(st.integers(1, size)), cpu=draw(st.sampled_from([1, 1, 2])))
            for copy in range(draw(st.integers(1, 4)))
        ]
    return things


def _soft(yes: bool) -> list[Any]:
    return [("slow", "", "PreferNoSchedule")] if yes else []


def outcome(things: list[Any]) -> Any:
    decisions = schedule(world(things), CONFIG)
    assert not decisions.violations
    return [(bind.pod, bind.node) for bind in decisions.binds], decisions.pod_conditions, decisions.verdicts


@settings(max_examples=120, deadline=None)
@given(worlds())
def test_lines_choose_the_nodes_that_a_look_at_every_node_chooses(things: list[Any]) -> None:
    by_lines = outcome(things)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CandidateTable, "by_lines", property(lambda self: False))
        assert outcome(things) == by_lines


def rack_of_two(number: int = 4) -> list[Any]:
    things: list[Any] = [queue("default")]
    for rack in range(2):
        names = [f"r{rack}-{index}" for index in range(number)]
        things += [*(node(name, cpu=4) for name in names), hyper(f"r{rack}", 1, names)]
    return things


def test_pods_fill_one_rack_before_they_open_the_next() -> None:
    binds, _, _ = outcome([*rack_of_two(), *(gang(f"j{number}", 1, cpu=2) for number in range(8))])
    assert {name for _, name in binds} == {f"r0-{index}" for index in range(4)}


def test_a_plugin_that_fails_while_lines_are_compared_costs_no_pod_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: FillingOfLines) -> Any:
        raise RuntimeError("no")

    monkeypatch.setattr(FillingOfLines, "points", broken)
    decisions = schedule(world([*rack_of_two(), gang("j", 3, cpu=2)]), CONFIG)
    assert len(decisions.binds) == 3
    assert NetworkTopologyAwarePlugin.name in decisions.plugins_off
