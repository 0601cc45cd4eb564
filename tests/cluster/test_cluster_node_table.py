"""The table of nodes is the same however it came about."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from support.build import node, pod
from unisono.cluster.interning import PodClasses
from unisono.cluster.nodes import NodeFacts, NodeTable
from unisono.cluster.resources import ResourceRegistry

_PARTS = ("allocatable", "used", "outside", "releasing")

NAMES = ("a", "b", "c", "d", "e")
TAINTS = ((), (("k", "", "NoSchedule"),), (("k", "v", "NoExecute"),))


@st.composite
def facts(draw: st.DrawFn) -> NodeFacts:
    labels = {"zone": draw(st.sampled_from(("x", "y", "z")))} if draw(st.booleans()) else {}
    device = draw(st.sampled_from(("example.com/gpu", "example.com/card")))
    return NodeFacts(
        node(
            draw(st.sampled_from(NAMES)),
            labels=labels,
            taints=draw(st.sampled_from(TAINTS)),
            unschedulable=draw(st.booleans()),
            cpu=draw(st.integers(1, 4)),
            **{device: draw(st.integers(0, 3))},
        )
    )


steps = st.lists(facts() | st.sampled_from(NAMES) | st.none() | st.tuples(st.sampled_from(NAMES)), max_size=14)


def told(table: NodeTable) -> dict[str, Any]:
    table.widen()
    rows = range(len(table.names))
    return {
        "names": table.names,
        "amounts": [
            _amounts(table, part, row) for part in ("allocatable", "used", "outside", "releasing") for row in rows
        ],
        "taints": (table.taint_codes.tolist(), table.taint_sets),
        "flags": (table.unschedulable.tolist(), table.ready.tolist()),
        "zones": (table.label_column("zone").tolist(), table.label_domains("zone")),
        "present": table.present_values("zone"),
        "facts": [facts.name for facts in table.facts],
        "nonzero": table.nonzero.tolist(),
    }


def _amounts(table: NodeTable, part: str, row: int) -> dict[str, int]:
    found = {name: int(getattr(table, part)[table.registry.row(name), row]) for name in table.registry.names}
    return {name: amount for name, amount in found.items() if amount}


def laid_out(registry: ResourceRegistry, wanted: dict[str, NodeFacts], pods: dict[str, int], one: Any) -> NodeTable:
    """A table into which these nodes and pods were put one after the other."""
    table = NodeTable(registry)
    for each in wanted.values():
        table.put(each)
    table.settle(lambda _: None)
    for name, number in pods.items():
        for _ in range(number):
            table.occupy(name, one, 1, releasing=False)
    table.widen()
    return table


@given(steps, st.lists(facts(), min_size=1, max_size=3))
def test_nodes_that_come_go_and_change_leave_the_table_that_they_would_make_at_once(
    steps: list[Any], changed: list[NodeFacts]
) -> None:
    registry = ResourceRegistry()
    one = PodClasses(registry).intern(pod("p", cpu=1).spec)
    table, wanted, pods = NodeTable(registry), dict[str, NodeFacts](), dict[str, int]()
    for step in steps:
        if isinstance(step, NodeFacts):
            table.put(step)
            wanted[step.name] = step
        elif isinstance(step, str):
            table.remove(step)
            wanted.pop(step, None)
        elif step is None:
            table.settle(lambda _: None)
            pods = {name: number for name, number in pods.items() if name in wanted}
        elif step[0] in table.index and step[0] in wanted:
            table.occupy(step[0], one, 1, releasing=False)
            pods[step[0]] = pods.get(step[0], 0) + 1
        table.present_values("zone")  # what is remembered here must not outlive the next change
    table.settle(lambda _: None)
    there = {facts.labels["zone"] for facts in table.facts if "zone" in facts.labels}
    assert table.present_values("zone") == sorted(there)
    pods = {name: number for name, number in pods.items() if name in wanted}
    before = told(table)
    after = {each.name: each for each in changed}
    variant = table.variant(after)
    assert told(variant) == told(laid_out(registry, wanted | after, pods, one))
    assert told(table) == before
    assert np.array_equal(variant.sums().allocatable, laid_out(registry, wanted | after, pods, one).sums().allocatable)
