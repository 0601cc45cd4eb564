"""Disaggregated inference: prefill and decode roles with minimums of their own, each replica within one rack.

The PodGroups have the shape that operators for such services write for Volcano: one gang, a ``subGroupPolicy`` per role
that selects the role's pods and splits them by replica.
"""

from __future__ import annotations

from typing import Any

import pytest
from topology_world import TOPOLOGY, racks, spine, used_racks, wish, world

from support.build import confirm, group, pod, unadvised
from unisono.api.base import LabelSelector
from unisono.api.groups.scheduling import SubGroupPolicySpec
from unisono.api.kinds import PODS

ROLE, REPLICA = "example.com/role", "example.com/replica"


def role(name: str, size: int, minimum: int) -> SubGroupPolicySpec:
    """So many pods per replica in one rack; ``minimum`` replicas are needed."""
    return SubGroupPolicySpec(
        name=name,
        label_selector=LabelSelector(match_labels={ROLE: name}),
        match_label_keys=[REPLICA],
        sub_group_size=size,
        min_sub_groups=minimum,
        network_topology=wish(1),
    )


def service(prefill: int = 1, decode: int = 1, *, start: tuple[int, int] = (0, 0), least: int = 6) -> list[Any]:
    """Replicas of prefill (2 pods each) and decode (4 pods each), pods of a whole node; the first of each is needed."""
    head = group("serve", least)
    head.spec.network_topology = wish(2)
    head.spec.sub_group_policy = [role("prefill", 2, 1), role("decode", 4, 1)]
    made: list[Any] = [head]
    for name, size, replicas, first in (("prefill", 2, prefill, start[0]), ("decode", 4, decode, start[1])):
        made += [
            pod(f"{name}-{replica}-{at}", "serve", labels={ROLE: name, REPLICA: f"{name}-{replica}"}, cpu=4)
            for replica in range(first, first + replicas)
            for at in range(size)
        ]
    return made


def by_replica(decisions: Any) -> dict[str, set[str]]:
    """Racks of each replica."""
    found: dict[str, set[str]] = {}
    for bind in decisions.binds:
        replica = bind.pod.rpartition("-")[0]
        found.setdefault(replica, set()).add(bind.node.rpartition("-")[0])
    return found


@pytest.mark.parametrize(
    ("sizes", "placed"),
    [
        pytest.param({"a": 4, "b": 2}, {"a": 4, "b": 2}, id="one rack each"),
        pytest.param({"a": 6}, {"a": 6}, id="both in one rack"),
        pytest.param({"a": 3, "b": 3}, {}, id="decode fits in no rack"),
        pytest.param({"a": 4, "b": 1, "c": 1}, {}, id="prefill would be split"),
        pytest.param({"a": 5}, {}, id="one pod too many"),
    ],
)
def test_a_service_starts_whole_or_not_at_all(sizes: dict[str, int], placed: dict[str, int]) -> None:
    decisions = unadvised(world(racks(sizes), spine("s", *sizes), service()), TOPOLOGY)
    assert not decisions.violations
    assert used_racks(decisions) == placed


def test_the_service_stays_below_one_spine() -> None:
    things = [racks({"a": 4, "b": 2}), spine("s1", "a"), spine("s2", "b"), service()]
    decisions = unadvised(world(*things), TOPOLOGY)
    assert decisions.binds == [] and not decisions.violations


def test_surplus_replicas_start_whole_and_where_they_fit() -> None:
    sizes = {"a": 4, "b": 2, "c": 3}
    decisions = unadvised(world(racks(sizes), spine("s", *sizes), service(prefill=2, decode=2)), TOPOLOGY)
    found = by_replica(decisions)
    assert not decisions.violations
    assert set(found) == {"prefill-0", "prefill-1", "decode-0"}, "no rack holds the second decode replica"
    assert all(len(where) == 1 for where in found.values())


def test_a_service_is_scaled_without_moving_what_runs() -> None:
    sizes = {"a": 4, "b": 2, "c": 4, "d": 2}
    state = world(racks(sizes), spine("s", *sizes), service())
    first = unadvised(state, TOPOLOGY)
    confirm(state, first)
    for thing in service(start=(1, 1))[1:]:
        state.apply("ADDED", PODS, thing)
    second = unadvised(state, TOPOLOGY)
    assert not second.evictions and not second.violations
    assert {each: len(where) for each, where in by_replica(second).items()} == {"prefill-1": 1, "decode-1": 1}


def test_a_lost_pod_comes_back_to_its_replica() -> None:
    sizes = {"a": 4, "b": 2, "c": 4}
    state = world(racks(sizes), spine("s", *sizes), service())
    first = unadvised(state, TOPOLOGY)
    confirm(state, first)
    lost = next(bind for bind in first.binds if "decode-0-1" in bind.pod)
    old = next(thing for thing in service()[1:] if thing.metadata.name == "decode-0-1")
    state.apply("DELETED", PODS, old)
    new = pod("decode-0-1b", "serve", labels={ROLE: "decode", REPLICA: "decode-0"}, cpu=4)
    state.apply("ADDED", PODS, new)
    second = unadvised(state, TOPOLOGY)
    assert [bind.node for bind in second.binds] == [lost.node], "the only free node of its rack"
