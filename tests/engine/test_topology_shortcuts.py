"""Gangs in domains: what the search keeps from one gang to the next changes no decision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from topology_world import TOPOLOGY, hyper, job, policy, spine, wish, world

from support.build import config, node, pod, queue, schedule
from support.examples import examples
from unisono.cluster.hypertree import HyperNodeTree
from unisono.cluster.snapshot import Snapshot
from unisono.engine.placement.domain_search import DomainSlots, DomainTaker
from unisono.engine.plugins.network_topology_aware.fewest_domains import DomainAmounts
from unisono.engine.plugins.network_topology_aware.plugin import NetworkTopologyAwarePlugin

TIERS = (("priority", "gang"), ("overcommit", "predicates", "nodeorder", "binpack", "network-topology-aware"))
CONFIGS = {
    "allocate": config(*TIERS),
    "evict": config(*TIERS, actions="enqueue, allocate, gangpreempt, backfill"),
}
RACKS = 4

rack_shapes = st.tuples(
    st.lists(st.sampled_from([2, 4, 8]), max_size=4),  # CPUs of its nodes
    st.booleans(),  # the first one is tainted, softly
    st.sampled_from(["", "", "running", "deleting"]),  # a pod on it
)
job_shapes = st.tuples(
    st.integers(1, 6),  # size
    st.integers(1, 6),  # minimum
    st.sampled_from([1, 1, 2]),  # cpu
    st.integers(1, 4),  # how many of them
    st.sampled_from([None, "hard", "hard", "soft"]),
    st.integers(0, 3),  # highest tier
    st.sampled_from([0, 0, 0, 2]),  # pods of a sub-group
)
shapes = st.tuples(
    st.lists(rack_shapes, min_size=RACKS, max_size=RACKS),
    st.integers(0, 2),  # nodes outside of HyperNodes
    st.booleans(),  # the first node of a rack is in the next one as well
    st.lists(job_shapes, min_size=1, max_size=5),
)


def build(racks: list[Any], lone: int, shared: bool, jobs: list[Any]) -> list[Any]:
    things: list[Any] = [queue("default")]
    for rack, (cpus, tainted, old) in enumerate(racks):
        names = [f"r{rack}-{index}" for index in range(len(cpus))]
        soft = [("slow", "", "PreferNoSchedule")]
        things += [node(name, cpu=cpu, taints=soft if tainted and name == names[0] else []) for name, cpu in
                   zip(names, cpus, strict=True)]  # fmt: skip
        overlap = [f"r{rack - 1}-0"] if shared and rack and racks[rack - 1][0] else []
        things.append(hyper(f"r{rack}", 1, names + overlap))
        if names and old:
            things.append(pod(f"old-{rack}", node=names[0], cpu=1, deleting=old == "deleting"))
    things += [node(f"lone-{index}", cpu=4) for index in range(lone)]
    things += [spine("s0", "r0", "r1"), spine("s1", "r2", "r3"), spine("top", "s0", "s1", tier=3)]
    for number, (size, minimum, cpu, copies, mode, tier, parts) in enumerate(jobs):
        for copy in range(copies):
            things.append(
                job(
                    f"j{number}-{copy}",
                    size,
                    None if mode is None else wish(tier, mode=mode),
                    minimum=min(minimum, size),
                    policies=[policy(parts, 1, minimum=1)] if parts else (),
                    parts=parts,
                    created=number * 10 + copy,
                    cpu=cpu,
                )
            )
    return things


def outcome(things: list[Any], name: str) -> Any:
    # What would help by evictions takes ten times as long to try; test_contract_accelerated compares that as well.
    decisions = schedule(world(things), CONFIGS[name], advice=name == "allocate")
    assert not decisions.violations
    evicted = [(eviction.pod, eviction.reason) for eviction in decisions.evictions]
    return [(bind.pod, bind.node) for bind in decisions.binds], evicted, decisions.verdicts


def forget_everything(patch: pytest.MonkeyPatch) -> None:
    """Work everything out again each time that it is asked for."""
    parts, gradients = DomainTaker._parts, NetworkTopologyAwarePlugin.domain_gradients

    def always_parts(self: DomainTaker) -> Any:
        return parts(self) or [np.zeros(len(self.where))]

    def fresh_gradients(self: NetworkTopologyAwarePlugin, *given: Any, **named: Any) -> Any:
        self._tiers.clear()
        vars(self).pop("_free", None)
        return gradients(self, *given, **named)

    def fresh_share(self: NetworkTopologyAwarePlugin, request: Any) -> Any:
        self._fillings.clear()
        self.amounts = DomainAmounts(self.session, self.rows)
        return share(self, request)

    def fresh_slots(self: DomainSlots, *given: Any, **named: Any) -> Any:
        self._known.clear()
        return followed(self, *given, **named)

    share, followed = NetworkTopologyAwarePlugin._share, DomainSlots._followed
    patch.setattr(DomainTaker, "_parts", always_parts)
    patch.setattr(NetworkTopologyAwarePlugin, "domain_gradients", fresh_gradients)
    patch.setattr(NetworkTopologyAwarePlugin, "_share", fresh_share)
    patch.setattr(DomainSlots, "_followed", fresh_slots)


@pytest.mark.parametrize("name", list(CONFIGS))
@settings(max_examples=examples(80), deadline=None)
@given(shape=shapes)
def test_gangs_go_where_they_go_when_all_is_worked_out_again(name: str, shape: tuple[Any, ...]) -> None:
    things = build(*shape)
    kept = outcome(things, name)
    with pytest.MonkeyPatch.context() as patch:
        forget_everything(patch)
        assert outcome(things, name) == kept


@settings(max_examples=examples(80), deadline=None)
@given(shape=shapes, changes=st.lists(st.tuples(st.integers(0, 30), st.integers(-9, 9)), max_size=12))
def test_sums_that_follow_are_sums(shape: tuple[Any, ...], changes: list[tuple[int, int]]) -> None:
    tree = snapshot_of(build(*shape)).hyper_nodes
    values = np.zeros(len(tree.leaf), dtype=np.int64)
    sums = tree.sums(values)
    moved = {at % len(values): by for at, by in changes} if len(values) else {}
    nodes = np.array(sorted(moved), dtype=np.intp)
    by = np.array([moved[at] for at in nodes.tolist()], dtype=np.int64)
    values[nodes] += by
    tree.add_to_sums(sums, nodes, by)
    assert sums.tolist() == tree.sums(values).tolist()
    assert held_by(tree, tree.one_a_line(nodes.tolist())) == held_by(tree, nodes.tolist())


def held_by(tree: HyperNodeTree, columns: Any) -> set[tuple[int, ...]]:
    return {tuple(tree.holders(column).tolist()) for column in columns}


def snapshot_of(things: list[Any]) -> Snapshot:
    return world(things).snapshot()


def test_equal_gangs_ask_the_topology_once_a_gang(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all nodes of a domain are equally near, a run of pods needs no question in between."""
    asked: list[int] = []
    points = DomainTaker._points

    def counted(self: DomainTaker, given: Any) -> Any:
        asked.append(1)
        return points(self, given)

    monkeypatch.setattr(DomainTaker, "_points", counted)
    names = [f"n{index}" for index in range(8)]
    things = [*(node(name, cpu=4) for name in names), hyper("r", 1, names)]
    jobs = [job(f"j{number}", 4, wish(1), cpu=1, created=number) for number in range(6)]
    assert len(schedule(world(things, jobs), TOPOLOGY).binds) == 24
    assert len(asked) == 6
