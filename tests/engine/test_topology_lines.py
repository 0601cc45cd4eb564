"""Pods without topology among HyperNodes: chosen line by line, they go where looking at every node would send them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from topology_world import hyper, spine, world

from support.build import config, gang, node, pod, queue, schedule
from support.examples import examples
from unisono.cluster.podclass import PodClass
from unisono.engine.answers import BoolArray
from unisono.engine.candidates.ways import ByLines, Table
from unisono.engine.changes import AddNodes
from unisono.engine.plugins.network_topology_aware.fewest_domains import DomainAmounts, FillingOfLines
from unisono.engine.plugins.network_topology_aware.plugin import NetworkTopologyAwarePlugin
from unisono.engine.session.node_view import NodeView

CONFIG = config(
    ("priority", "gang"),
    ("overcommit", "drf", "predicates", "proportion", "nodeorder", "binpack", "network-topology-aware"),
)
RACKS = 4


rack_shapes = st.tuples(
    st.lists(st.sampled_from([2, 4, 8]), max_size=3),  # CPUs of its nodes
    st.booleans(),  # the first one is tainted, softly
    st.sampled_from(["", "running", "deleting"]),  # a pod on it
)
job_shapes = st.tuples(
    st.integers(1, 4),  # size
    st.integers(1, 4),  # minimum
    st.sampled_from([1, 1, 2]),  # cpu
    st.integers(1, 4),  # how many of them
)
shapes = st.tuples(
    st.lists(rack_shapes, min_size=RACKS, max_size=RACKS),
    st.integers(0, 2),  # nodes outside of HyperNodes
    st.booleans(),  # a third tier
    st.booleans(),  # the first node of a rack is in the next one as well
    st.lists(job_shapes, min_size=1, max_size=5),
)


def build(racks: list[Any], lone: int, third_tier: bool, shared: bool, jobs: list[Any]) -> list[Any]:
    things: list[Any] = [queue("default")]
    for rack, (cpus, tainted, old) in enumerate(racks):
        names = [f"r{rack}-{index}" for index in range(len(cpus))]
        for index, (name, cpu) in enumerate(zip(names, cpus, strict=True)):
            things.append(node(name, cpu=cpu, taints=_soft(tainted and index == 0)))
        things.append(
            hyper(f"r{rack}", 1, names + ([f"r{rack - 1}-0"] if shared and rack and racks[rack - 1][0] else []))
        )
        if names and old:
            things.append(pod(f"old-{rack}", node=names[0], cpu=1, deleting=old == "deleting"))
    things += [node(f"lone-{index}", cpu=4) for index in range(lone)]
    things += [spine("s0", "r0", "r1"), spine("s1", "r2", "r3")]
    if third_tier:
        things.append(spine("top", "s0", "s1", tier=3))
    for number, (size, minimum, cpu, copies) in enumerate(jobs):
        things += [gang(f"j{number}-{copy}", size, min(minimum, size), cpu=cpu) for copy in range(copies)]
    return things


def _soft(yes: bool) -> list[Any]:
    return [("slow", "", "PreferNoSchedule")] if yes else []


def outcome(things: list[Any]) -> Any:
    decisions = schedule(world(things), CONFIG)
    assert not decisions.violations
    return [(bind.pod, bind.node) for bind in decisions.binds], decisions.pod_conditions, decisions.verdicts


def look_everywhere(self: ByLines, table: Table, wanted: int) -> list[int]:
    """Places tasks one by one with all scores computed again, as `ByLines.take` does it line by line."""
    columns = list[int]()
    while len(columns) < wanted and (column := table.best()) >= 0:
        table.session.matrix[:, column] += table.change
        table.session.touched.append(column)
        columns.append(column)
    return columns


def score_anew(self: NetworkTopologyAwarePlugin, pod_class: PodClass, nodes: NodeView, candidates: BoolArray) -> Any:
    """The plug-in's score without anything that it has kept."""
    self._by_lines.clear()
    self.amounts = DomainAmounts(self.session, self.rows)
    lines = self.line_score(pod_class)
    return None if lines is None else lines.points()[lines.codes]


@settings(max_examples=examples(80), deadline=None)
@given(shapes)
def test_lines_choose_the_nodes_that_a_look_at_every_node_chooses(shape: tuple[Any, ...]) -> None:
    things = build(*shape)
    by_lines = outcome(things)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ByLines, "take", look_everywhere)
        patch.setattr(NetworkTopologyAwarePlugin, "batch_score", score_anew)
        assert outcome(things) == by_lines


def rack_of_two(number: int = 4) -> list[Any]:
    things: list[Any] = [queue("default")]
    for rack in range(2):
        names = [f"r{rack}-{index}" for index in range(number)]
        things += [*(node(name, cpu=4) for name in names), hyper(f"r{rack}", 1, names)]
    return things


def test_lines_are_compared_again_only_where_another_one_may_have_become_the_best(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[int] = []
    points = FillingOfLines.points

    def counted(self: FillingOfLines) -> Any:
        compared.append(1)
        return points(self)

    monkeypatch.setattr(FillingOfLines, "points", counted)
    binds, _, _ = outcome([*rack_of_two(16), *(gang(f"j{number}", 4, cpu=1) for number in range(16))])
    assert len(binds) == 64
    assert len(compared) < 20


def test_pods_fill_one_rack_before_they_open_the_next() -> None:
    binds, _, _ = outcome([*rack_of_two(), *(gang(f"j{number}", 1, cpu=2) for number in range(8))])
    assert {name for _, name in binds} == {f"r0-{index}" for index in range(4)}


def test_a_plugin_that_fails_while_lines_are_compared_costs_no_pod_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: FillingOfLines) -> Any:
        raise RuntimeError("no")

    monkeypatch.setattr(FillingOfLines, "points", broken)
    decisions = schedule(world([*rack_of_two(), gang("j", 3, cpu=2)]), CONFIG)
    assert len(decisions.binds) == 3
    assert {(one.plugin, one.hook) for one in decisions.plugin_failures} == {
        (NetworkTopologyAwarePlugin.name, "line_score"),
        (NetworkTopologyAwarePlugin.name, "batch_score"),
    }


def test_nodes_to_add_are_tried_beside_hypernodes() -> None:
    things = [*rack_of_two(1), gang("old", 2, cpu=4), gang("late", 1, cpu=4, created=5)]
    _, _, verdicts = outcome(things)
    assert [type(change) for change in verdicts["ns/late"].changes] == [AddNodes]
