"""Random trees and jobs: no gang outside its domain, none in part, nothing over allocatable."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from topology_world import TOPOLOGY, hyper, job, policy, spine, wish, world

from support.build import node, schedule, unadvised
from support.examples import examples
from unisono.cluster.hypertree import HyperNodeTree

RACKS = 5
LIMITS = st.sampled_from([0, 1, 2, 3, None])


@st.composite
def clusters(draw: st.DrawFn) -> list[Any]:
    things: list[Any] = []
    sizes = [draw(st.integers(0, 3)) for _ in range(RACKS)]
    for rack, size in enumerate(sizes):
        names = [f"r{rack}-{index}" for index in range(size)]
        things += [node(name, cpu=draw(st.sampled_from([2, 4, 8])), mem="64Gi") for name in names]
        things.append(hyper(f"r{rack}", 1, names))
    things += [node("lone", cpu=4), spine("s0", "r0", "r1"), spine("s1", "r2", "r3"), spine("top", "s0", "s1", tier=3)]
    for number in range(draw(st.integers(1, 4))):
        size = draw(st.integers(1, 6))
        limit = draw(LIMITS)
        parts = draw(st.sampled_from([0, 0, 2, 3]))
        below = draw(LIMITS)
        things.append(
            job(
                f"j{number}",
                size,
                None if limit is None else wish(limit, mode=draw(st.sampled_from(["hard", "hard", "soft"]))),
                minimum=draw(st.integers(1, size)),
                parts=parts,
                policies=[policy(draw(st.integers(1, 3)), below, minimum=draw(st.integers(0, 2)))] if parts else (),
                running={0: draw(st.sampled_from(["lone", "lone", "r0-0"]))} if draw(st.booleans()) else None,
                created=number,
                cpu=draw(st.sampled_from([1, 2, 4])),
            )
        )
    return things


def tier_over(tree: HyperNodeTree, columns: list[int]) -> int:
    """Lowest tier of a HyperNode that holds all, by looking at every HyperNode."""
    held = [int(tree.tiers[at]) for at in range(len(tree)) if set(columns) <= set(tree.columns[at].tolist())]
    return min(held)


@settings(max_examples=examples(120), deadline=None)
@given(clusters())
def test_gangs_stay_in_their_domains_and_are_whole(things: list[Any]) -> None:
    state = world(*things)
    snapshot = state.snapshot()
    decisions = unadvised(state, TOPOLOGY)
    assert not decisions.violations
    tree, index = snapshot.hyper_nodes, snapshot.nodes.index
    used: dict[str, int] = defaultdict(int)
    bound: dict[str, list[Any]] = defaultdict(list)
    for bind in decisions.binds:
        bound[bind.job].append(bind)
        task = snapshot.tasks[f"{bind.namespace}/{bind.pod}"]
        used[bind.node] += task.pod_class.requests["cpu"]
    for name, amount in used.items():
        column = index[name]
        assert amount + snapshot.nodes.used[0, column] <= max(
            snapshot.nodes.allocatable[0, column], snapshot.nodes.used[0, column]
        )
    for key, binds in bound.items():
        record = snapshot.jobs[key]
        running = [task for task in record.tasks.values() if task.node]
        assert len(binds) + len(running) >= record.min_member
        columns = [index[bind.node] for bind in binds] + [index[t.node] for t in running if t.node in index]
        if record.topology is not None and record.topology.hard and record.topology.tier is not None:
            assert tier_over(tree, columns) <= record.topology.tier
        for each in record.sub_groups:
            if each.wish is None or each.wish.tier is None:
                continue
            parts: dict[Any, list[int]] = defaultdict(list)
            for bind in binds:
                parts[each.values(record.tasks[f"ns/{bind.pod}"].labels)].append(index[bind.node])
            for values, own in parts.items():
                own += [index[t.node] for t in running if t.node in index and each.values(t.labels) == values]
                assert tier_over(tree, own) <= each.wish.tier


@settings(max_examples=examples(50), deadline=None)
@given(clusters())
def test_a_suggested_tier_works(things: list[Any]) -> None:
    """With only one job, so that nobody else takes the room; bounds of sub-groups rise with that of the job."""
    alone = [thing for thing in things if not isinstance(thing, list) or thing[0].metadata.name == "j0"]
    verdict = schedule(world(*alone), TOPOLOGY).verdicts.get("ns/j0")
    words = verdict.suggestion.replace(",", "").split() if verdict is not None else []
    if words[:3] != ["set", "highestTierAllowed", "to"]:
        return
    for thing in alone:
        if isinstance(thing, list):
            spec, tier = thing[0].spec, int(words[3])
            if spec.network_topology is not None and spec.network_topology.mode == "hard":
                spec.network_topology = wish(tier)
            for each in spec.sub_group_policy or ():
                if each.network_topology is not None and (each.network_topology.highest_tier_allowed or 0) < tier:
                    each.network_topology = wish(tier)
    assert unadvised(world(*alone), TOPOLOGY).binds
