"""Gangs of gangs: how many groups start together at each level, how close, and what a lost pod means."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from topology_world import TOPOLOGY, racks, spine, wish, world

from support.build import confirm, group, pod, schedule
from unisono.api.core.pod import PodSchedulingGroup
from unisono.api.groups.scheduling import SubGroupPolicySpec
from unisono.engine.verdict import Cause

FOUR = [
    racks({"a": 2, "b": 2, "c": 2, "d": 2}),
    spine("s", "a", "b"),
    spine("t", "c", "d"),
    spine("top", "s", "t", tier=3),
]


def inner(name: str, minimum: int, parent: str = "", tier: int | None = None) -> SubGroupPolicySpec:
    """A group of groups."""
    bound = None if tier is None else wish(tier)
    return SubGroupPolicySpec(name=name, min_sub_groups=minimum, parent=parent or None, network_topology=bound)


def leaf(name: str, minimum: int, parent: str = "", tier: int | None = None) -> SubGroupPolicySpec:
    """A group of the pods that name it."""
    bound = None if tier is None else wish(tier)
    return SubGroupPolicySpec(
        name=name, pod_group_name=name, sub_group_size=minimum, parent=parent or None, network_topology=bound
    )


def tree(policies: Iterable[SubGroupPolicySpec], pods: dict[str, int], minimum: int, **running: str) -> list[Any]:
    """A PodGroup ``j`` and its pods, ``NAME-0``, ... for each group; ``running``: nodes by name of the pod."""
    head = group("j", minimum)
    head.spec.sub_group_policy = list(policies)
    made = [head]
    for name, number in pods.items():
        for index in range(number):
            node = running.get(f"{name}_{index}", "")
            each = pod(f"{name}-{index}", "j", cpu=4, node=node)
            each.spec.scheduling_group = PodSchedulingGroup(pod_group_name=name)
            made.append(each)
    return made


THREE = [
    inner("root", 2),
    inner("left", 2, "root"),
    inner("right", 1, "root"),
    leaf("l0", 2, "left"),
    leaf("l1", 1, "left"),
    leaf("r0", 2, "right"),
    leaf("r1", 2, "right"),
]
"""Three levels: ``root`` needs both, ``left`` needs both of its own, ``right`` one of its own."""


def bound(*things: Any) -> dict[str, int]:
    """Pods that get a node, by group; none starts in part, or outside of its domain."""
    decisions = schedule(world(*things), TOPOLOGY)
    assert not decisions.violations
    counts: dict[str, int] = {}
    for bind in decisions.binds:
        name = bind.pod.rpartition("/")[2].rpartition("-")[0]
        counts[name] = counts.get(name, 0) + 1
    return dict(sorted(counts.items()))


@pytest.mark.parametrize(
    ("nodes", "pods", "expected"),
    [
        (7, {"l0": 2, "l1": 1, "r0": 2, "r1": 2}, {"l0": 2, "l1": 1, "r0": 2, "r1": 2}),
        (5, {"l0": 2, "l1": 1, "r0": 2, "r1": 2}, {"l0": 2, "l1": 1, "r0": 2}),
        (6, {"l0": 2, "l1": 1, "r0": 2, "r1": 2}, {"l0": 2, "l1": 1, "r0": 2}),
        (4, {"l0": 2, "l1": 1, "r0": 2, "r1": 2}, {}),
        (6, {"l0": 3, "l1": 1, "r0": 2}, {"l0": 3, "l1": 1, "r0": 2}),
        (9, {"l0": 2, "l1": 1}, {}),
        (9, {"l0": 2, "r0": 2, "r1": 2}, {}),
        (9, {"l0": 1, "l1": 1, "r0": 2}, {}),
        (9, {"l0": 2, "l1": 1, "r0": 1, "r1": 2}, {"l0": 2, "l1": 1, "r1": 2}),
    ],
    ids=[
        "all",
        "the minimum at each level",
        "half of a group is no use",
        "less than the minimum starts nothing",
        "what a group has beyond its minimum",
        "a group of the root that has no pods",
        "a group of the left that has no pods",
        "a group that lacks a pod",
        "one that lacks a pod and is not needed",
    ],
)
def test_it_starts_whole_at_each_level_or_not_at_all(
    nodes: int, pods: dict[str, int], expected: dict[str, int]
) -> None:
    assert bound(racks({"n": nodes}), tree(THREE, pods, 5)) == expected


def test_groups_that_start_on_their_own_within_one_that_does_not() -> None:
    policies = [inner("root", 1), inner("a", 2, "root"), inner("b", 2, "root")]
    policies += [leaf(f"{name}{index}", 2, name) for name in "ab" for index in range(2)]
    pods = {"a0": 2, "a1": 2, "b0": 2, "b1": 2}
    assert bound(racks({"n": 6}), tree(policies, pods, 4)) == {"a0": 2, "a1": 2}
    assert bound(racks({"n": 8}), tree(policies, pods, 4)) == pods


@pytest.mark.parametrize(
    ("policies", "pods", "expected"),
    [
        (
            [inner("root", 2), inner("x", 2, "root", 2), inner("y", 2, "root", 2)]
            + [leaf(f"{name}{index}", 2, name, 1) for name in "xy" for index in range(2)],
            {"x0": 2, "x1": 2, "y0": 2, "y1": 2},
            [("x", {"s"}), ("y", {"t"})],
        ),
        (
            [inner("root", 1, "", 2), leaf("x0", 2, "root", 1), leaf("x1", 2, "root", 1)],
            {"x0": 2, "x1": 2},
            [("x", {"s"})],
        ),
    ],
    ids=["a spine for each group and a rack for each of its own", "one spine for all"],
)
def test_a_topology_at_each_level(policies: list[Any], pods: dict[str, int], expected: list[Any]) -> None:
    decisions = schedule(world(FOUR, tree(policies, pods, 4)), TOPOLOGY)
    assert not decisions.violations and len(decisions.binds) == sum(pods.values())
    rack = {bind.pod.rpartition("/")[2]: bind.node.rpartition("-")[0] for bind in decisions.binds}
    spines = {"a": "s", "b": "s", "c": "t", "d": "t"}
    found: dict[str, set[str]] = {}
    for name, at in rack.items():
        found.setdefault(name[0], set()).add(spines[at])
        assert rack[f"{name.rpartition('-')[0]}-0"] == at, "each PodGroup in one rack"
    sides = [found[name] for name, _ in expected]
    assert all(len(side) == 1 for side in sides) and len(set.union(*sides)) == len(sides)


def test_a_group_of_groups_that_fits_into_no_domain_waits_and_says_why() -> None:
    policies = [inner("root", 2, "", 2), leaf("x", 3, "root"), leaf("y", 2, "root")]
    state = world(FOUR, tree(policies, {"x": 3, "y": 2}, 5))
    decisions = schedule(state, TOPOLOGY)
    assert decisions.binds == []
    told = decisions.verdicts["ns/j"]
    assert "j/root" in told.message and "fit into the largest allowed domain" in told.message


def test_a_lost_pod_comes_back_into_its_domain_while_the_others_run() -> None:
    policies = [inner("root", 2, "", 2), leaf("x", 2, "root"), leaf("y", 2, "root")]
    running = {"x_0": "a-0", "x_1": "a-1", "y_0": "b-0"}
    assert bound(FOUR, tree(policies, {"x": 2, "y": 2}, 4, **running)) == {"y": 1}
    state = world(FOUR, tree(policies, {"x": 2, "y": 2}, 4, **running))
    (bind,) = schedule(state, TOPOLOGY).binds
    assert bind.node == "b-1"
    taken = racks({"a": 2, "b": 1, "c": 2}), spine("s", "a", "b"), spine("t", "c"), spine("top", "s", "t", tier=3)
    assert bound(taken, tree(policies, {"x": 2, "y": 2}, 4, **running)) == {}, "there is no place in its spine"


def test_what_is_missing_is_told_by_the_name_of_the_group() -> None:
    decisions = schedule(world(racks({"n": 9}), tree(THREE, {"l0": 2, "l1": 1, "r0": 1, "r1": 1}, 5)), TOPOLOGY)
    told = decisions.verdicts["ns/j"]
    assert told.cause is Cause.TOO_FEW_PODS
    assert "1 of 2 sub-groups of root have all their pods; r0-r0 has 1 of 2" in told.message


def test_it_stays_whole_over_cycles() -> None:
    state = world(racks({"n": 5}), tree(THREE, {"l0": 2, "l1": 1, "r0": 2, "r1": 2}, 5))
    confirm(state, schedule(state, TOPOLOGY))
    assert schedule(state, TOPOLOGY).binds == []
