"""Jobs within domains of the network: which domain, when none, and what is said then."""

from __future__ import annotations

from typing import Any

import pytest
from topology_world import TOPOLOGY, hyper, job, policy, racks, spine, used_racks, wish, world

from support.build import confirm, gang, node, placed, schedule
from unisono.engine.verdict import Cause

TWO = [racks({"a": 3, "b": 2}), spine("s", "a", "b")]
FOUR = [
    racks({"a": 2, "b": 2, "c": 2, "d": 2}),
    spine("s", "a", "b"),
    spine("t", "c", "d"),
    spine("top", "s", "t", tier=3),
]


@pytest.mark.parametrize(
    ("things", "expected"),
    [
        ([TWO, job("j", 2, wish(1))], {"b": 2}),
        ([TWO, job("j", 3, wish(1))], {"a": 3}),
        ([TWO, job("j", 4, wish(1))], {}),
        ([TWO, job("j", 4, wish(2))], {"a": 3, "b": 1}),
        ([TWO, job("j", 5, wish(mode="soft"))], {"a": 3, "b": 2}),
        ([TWO, job("j", 2, wish(mode="soft"))], {"b": 2}),
        ([TWO, job("j", 4, wish())], {"a": 2, "b": 2}),
        ([TWO, job("j", 4, wish(name="unknown"))], {"a": 2, "b": 2}),
        ([TWO, job("j", 1, wish(0))], {}),
        ([FOUR, job("j", 5, wish(2))], {}),
        ([FOUR, job("j", 4, wish(2)), job("k", 4, wish(2), created=1)], {"a": 2, "b": 2, "c": 2, "d": 2}),
        ([FOUR, job("run", 1, running={0: "c-0"}), job("j", 1, wish(1))], {"c": 1}),
        ([FOUR, job("j", 3, wish(2), running={0: "d-0"})], {"c": 2}),
        ([FOUR, job("j", 3, wish(1), running={0: "d-0"})], {}),
        ([FOUR, job("j", 3, wish(1), minimum=2, running={0: "d-0"})], {"d": 1}),
        ([FOUR, job("j", 4, wish(1), minimum=1)], {"a": 2}),
        ([TWO, job("j", 3, wish(1), minimum=2)], {"a": 3}),
        ([FOUR, job("run", 1, running={0: "a-0"}), job("j", 4, wish(2), minimum=2)], {"c": 2, "d": 2}),
        ([TWO, job("run", 1, running={0: "a-0"}), job("j", 3, wish(1), minimum=2)], {"a": 2}),
    ],
    ids=[
        "the rack that it fills leaves the larger one free",
        "only one rack is large enough",
        "no rack is large enough",
        "the spine is",
        "soft goes up to everything",
        "soft takes a rack where one is enough",
        "hard without a tier is no bound",
        "nor is a tier name that nobody has",
        "no HyperNode is that low",
        "larger than each spine",
        "one spine each",
        "the rack that is in use comes first",
        "pods join those that run, within the spine",
        "and never leave the rack",
        "what still fits joins",
        "surplus stays in the rack",
        "the rack that holds the surplus too",
        "the spine that holds the surplus too",
        "the rack for the minimum where none holds more",
    ],
)
def test_domains(things: list[Any], expected: dict[str, int]) -> None:
    decisions = schedule(world(*things), TOPOLOGY)
    assert not decisions.violations
    assert used_racks(decisions) == expected


def test_tier_names() -> None:
    tree = [hyper("a", 1, ["n0", "n1"], tier_name="rack"), hyper("b", 1, ["n2"], tier_name="rack")]
    state = world([node(f"n{i}", cpu=4) for i in range(3)], tree, job("j", 2, wish(name="rack")))
    assert sorted(placed(schedule(state, TOPOLOGY)).values()) == ["n0", "n1"]


def test_pods_of_one_rack_come_before_those_of_the_next() -> None:
    decisions = schedule(world([FOUR, job("j", 3, wish(2))]), TOPOLOGY)
    assert sorted(used_racks(decisions).values()) == [1, 2]


@pytest.mark.parametrize(
    ("things", "expected"),
    [
        ([FOUR, job("j", 4, wish(2), parts=2, policies=[policy(2, 1)])], [2, 2]),
        ([FOUR, job("j", 6, wish(2), parts=2, policies=[policy(2, 1)])], []),
        ([FOUR, job("j", 6, wish(3), parts=2, policies=[policy(2, 1)])], [2, 2, 2]),
        ([FOUR, job("j", 6, parts=3, policies=[policy(3, 1)])], []),
        ([FOUR, job("j", 6, parts=3, policies=[policy(3, 2)])], [1, 1, 2, 2]),
        ([FOUR, job("j", 10, minimum=4, parts=2, policies=[policy(2, 1, minimum=2)])], [2, 2, 2, 2]),
        ([FOUR, job("j", 10, minimum=4, parts=2, policies=[policy(2, 1, minimum=5)])], []),
        ([TWO, job("j", 4, minimum=2, parts=2, policies=[policy(2, 1, minimum=2)])], [2, 2]),
    ],
    ids=[
        "a rack each, within one spine",
        "three racks are more than a spine has",
        "but not more than the top",
        "no rack holds a sub-group",
        "spines do",
        "surplus sub-groups follow",
        "five whole sub-groups cannot be",
        "the minimum counts sub-groups",
    ],
)
def test_sub_groups(things: list[Any], expected: list[int]) -> None:
    decisions = schedule(world(*things), TOPOLOGY)
    assert not decisions.violations
    assert sorted(used_racks(decisions).values()) == expected
    if expected != [1, 1, 2, 2]:
        parts = {(int(bind.pod.rpartition("-")[2]) // 2, bind.node[0]) for bind in decisions.binds}
        assert len(parts) == len({part for part, _ in parts})


def test_sub_groups_without_topology_disturb_others_as_little_as_plain_jobs() -> None:
    """They fill up the rack that is in use, and leave the empty one to jobs that need it whole."""
    cluster = [racks({"a": 4, "b": 4}), job("run", 1, running={0: "b-0"})]
    plain = schedule(world(cluster, job("j", 2)), TOPOLOGY)
    grouped = schedule(world(cluster, job("j", 2, parts=1, policies=[policy(1)])), TOPOLOGY)
    assert used_racks(grouped) == used_racks(plain) == {"b": 2}


def test_a_policy_without_keys_covers_nobody() -> None:
    alone = policy(2, 1, minimum=0)
    alone.match_label_keys = None
    assert len(schedule(world([FOUR, job("j", 8, parts=2, policies=[alone])]), TOPOLOGY).binds) == 8


def test_too_few_sub_groups_exist() -> None:
    state = world([FOUR, job("j", 4, minimum=2, parts=2, policies=[policy(2, 1, minimum=3)])])
    verdict = schedule(state, TOPOLOGY).verdicts["ns/j"]
    assert verdict.cause is Cause.TOO_FEW_PODS
    assert verdict.message.endswith("tp has 2 of 3")


@pytest.mark.parametrize(
    ("things", "message", "suggestion"),
    [
        (
            [TWO, job("j", 4, wish(1))],
            "3 of 4 tasks fit into the largest allowed domain: HyperNode a (tier 1)",
            "set highestTierAllowed to 2, or lower minAvailable to 3",
        ),
        (
            [
                FOUR,
                job("run", 1, running={0: "a-0"}),
                job("run2", 1, running={0: "b-0"}),
                job("j", 4, wish(2)),
                job("run3", 1, running={0: "c-1"}),
            ],
            "3 of 4 tasks fit into the largest allowed domain: HyperNode t (tier 2)",
            "set highestTierAllowed to 3, or lower minAvailable to 3, or free 1 node of HyperNode t (c-1)",
        ),
        (
            [FOUR, job("j", 1, wish(0))],
            "there is no HyperNode of tier 0 or lower",
            "set highestTierAllowed to 1",
        ),
        (
            [FOUR, job("j", 6, parts=3, policies=[policy(3, 1)])],
            "2 of 3 tasks of sub-group ns/j/tp-0 fit into the largest allowed domain: HyperNode a (tier 1)",
            "set highestTierAllowed to 2",
        ),
        (
            [TWO, hyper("b", 1, ["b-0"]), spine("u", "a"), job("j", 2, wish(1))],
            "there is no HyperNode of tier 1 or lower; HyperNode a is left out: HyperNode a already has a parent s, "
            "and cannot set another parent u",
            "set highestTierAllowed to 3",
        ),
    ],
    ids=["raise", "raise or free", "none so low", "sub-group", "broken tree"],
)
def test_verdicts(things: list[Any], message: str, suggestion: str) -> None:
    decisions = schedule(world(*things), TOPOLOGY)
    verdict = decisions.verdicts["ns/j"]
    assert not decisions.binds
    assert verdict.cause is Cause.TOPOLOGY
    assert all(part in verdict.message for part in message.split("; "))
    assert verdict.suggestion in (suggestion, f"{suggestion} (not tried)")
    assert verdict.need["pods"] > verdict.have["pods"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([TWO, job("j", 4, wish(1))], [TWO, job("j", 4, wish(2))]),
        ([FOUR, job("j", 6, parts=3, policies=[policy(3, 1)])], [FOUR, job("j", 6, parts=3, policies=[policy(3, 2)])]),
        (
            [FOUR, job("x", 1, running={0: "c-1"}), job("j", 4, wish(2)), job("y", 1, running={0: "a-0"})],
            [FOUR, job("j", 4, wish(2)), job("y", 1, running={0: "a-0"})],
        ),
    ],
    ids=["tier", "tier of the policy", "a freed node"],
)
def test_what_is_suggested_works(before: list[Any], after: list[Any]) -> None:
    first = schedule(world(*before), TOPOLOGY)
    assert first.verdicts["ns/j"].suggestion
    assert not first.binds
    assert len(schedule(world(*after), TOPOLOGY).binds) >= 4


def test_a_full_cluster_is_no_matter_of_topology() -> None:
    verdict = schedule(world(*TWO, job("j", 9, wish(1))), TOPOLOGY).verdicts["ns/j"]
    assert verdict.cause is Cause.TOO_LARGE


def test_without_the_plugin_bounds_are_not_looked_at() -> None:
    assert len(schedule(world(*TWO, job("j", 5, wish(1)))).binds) == 5


def test_a_job_promised_what_is_released_waits_in_its_domain() -> None:
    leaving = [pod for index in range(2) for pod in job(f"old{index}", 1, running={0: f"b-{index}"})]
    for each in leaving:
        if each.metadata.name.endswith("-0"):
            each.metadata.deletion_timestamp = "2023-11-14T22:13:20Z"
    state = world(racks({"a": 1, "b": 2}), leaving, job("j", 2, wish(1)))
    decisions = schedule(state, TOPOLOGY)
    assert not decisions.binds
    assert {entry.node for entry in decisions.pipelined} == {"b-0", "b-1"}


def test_a_ready_domain_goes_before_a_promised_one() -> None:
    leaving = job("old", 2, running={0: "b-0", 1: "b-1"})
    for each in leaving[1:]:
        each.metadata.deletion_timestamp = "2023-11-14T22:13:20Z"
    decisions = schedule(world(racks({"a": 2, "b": 2}), leaving, job("j", 2, wish(1))), TOPOLOGY)
    assert used_racks(decisions) == {"a": 2}


def test_ordinary_pods_leave_domains_free() -> None:
    state = world(racks({"a": 2}), node("lone", cpu=4), gang("j", 1, cpu=1))
    assert placed(schedule(state, TOPOLOGY)) == {"j-w-0": "lone"}
    used = world(racks({"a": 2, "b": 2}), job("run", 1, running={0: "b-0"}), gang("j", 1, cpu=1))
    assert placed(schedule(used, TOPOLOGY)) == {"j-w-0": "b-1"}


def test_nominated_pods_go_where_room_was_made() -> None:
    things = job("j", 2, wish(1))
    for each, name in zip(things[1:], ("b-0", "b-1"), strict=True):
        each.status.nominated_node_name = name
    state = world(racks({"a": 2, "b": 2}), job("run", 1, running={0: "a-1"}, cpu=1), things)
    assert used_racks(schedule(state, TOPOLOGY)) == {"b": 2}


def test_a_second_cycle_adds_what_is_missing_within_the_domain() -> None:
    state = world(*FOUR, job("j", 2, wish(2), cpu=4))
    confirm(state, schedule(state, TOPOLOGY))
    assert not schedule(state, TOPOLOGY).binds


def _leaving() -> list[Any]:
    """A pod that terminates and holds 4 CPUs of the only node."""
    pods = job("old", 1, running={0: "n"})
    pods[-1].metadata.deletion_timestamp = "2023-11-14T22:13:20Z"
    return pods


def test_a_sub_group_does_not_start_in_part_while_resources_are_released() -> None:
    """One pod of a sub-group of two has room now, the other one once the terminating pod is gone."""
    waiting = job("j", 2, minimum=1, policies=[policy(2, minimum=0)], parts=2)
    decisions = schedule(world(node("n", cpu=8, mem="64Gi"), _leaving(), waiting), TOPOLOGY)
    assert decisions.binds == []
    assert len(decisions.pipelined) == 1


def test_a_whole_sub_group_does_not_wait_for_one_that_does() -> None:
    waiting = job("j", 4, minimum=2, policies=[policy(2, minimum=0)], parts=2)
    decisions = schedule(world(node("n", cpu=16, mem="64Gi"), _leaving(), waiting), TOPOLOGY)
    assert len(decisions.binds) == 2


@pytest.mark.parametrize(
    ("sizes", "spines", "gang_size", "expected"),
    [
        ({"a": 2, "b": 3, "c": 4}, {"s": "abc"}, 5, {"c": 4, "a": 1}),
        ({"a": 2, "b": 3, "c": 4}, {"s": "abc"}, 6, {"c": 4, "a": 2}),
        ({"a": 2, "b": 3, "c": 4}, {"s": "abc"}, 7, {"c": 4, "b": 3}),
        ({"a": 2, "b": 2, "c": 3, "d": 2}, {"s": "ab", "t": "cd"}, 6, {"c": 3, "d": 2, "a": 1}),
        ({"a": 1, "b": 3, "c": 2, "d": 2}, {"s": "ab", "t": "cd"}, 4, {"b": 3, "a": 1}),
    ],
    ids=["the largest rack, and one node of the smallest", "both of it", "the two largest", "two spines", "one of two"],
)
def test_a_gang_that_needs_several_racks_takes_as_few_as_possible(
    sizes: dict[str, int], spines: dict[str, str], gang_size: int, expected: dict[str, int]
) -> None:
    above = [spine(name, *racks_below) for name, racks_below in spines.items()]
    things = [racks(sizes), above, spine("top", *spines, tier=3), job("j", gang_size, wish(mode="soft"))]
    assert used_racks(schedule(world(*things), TOPOLOGY)) == expected


def test_a_little_more_of_min_resources_than_the_pods_ask_rules_no_domain_out() -> None:
    """Whoever made the PodGroup may count pods that come later."""
    made = job("j", 4, wish(1), cpu=1)
    made[0].spec.min_resources = {"cpu": "4100m"}
    assert used_racks(schedule(world(racks({"a": 1, "b": 1}), *made), TOPOLOGY)) == {"a": 4}


def test_the_domain_that_holds_min_resources_comes_first() -> None:
    made = job("j", 4, wish(2), cpu=1)
    made[0].spec.min_resources = {"cpu": "6"}
    things = [racks({"a": 1, "b": 1}), spine("s", "a", "b"), racks({"c": 2}), *made]
    assert used_racks(schedule(world(*things), TOPOLOGY)) == {"c": 4}


def test_a_domain_with_room_for_all_in_all_but_not_for_each_leaves_the_sub_group_its_minimum_elsewhere() -> None:
    """Rack a has 6 CPUs in pieces of 2, which hold no pod of 3; b holds two of three such pods."""
    things = [racks({"a": 5}, cpu=2), racks({"b": 2}, cpu=3)]
    made = job("j", 3, policies=[policy(2, 1)], parts=3, minimum=2, cpu=3)
    assert used_racks(schedule(world(*things, *made), TOPOLOGY)) == {"b": 2}


def test_surplus_pods_are_tried_kind_by_kind() -> None:
    """The first may use no node of the domain, and the second does."""
    made = job("j", 3, wish(1), minimum=1, running={0: "a-0"}, cpu=1)
    for one in made[1:]:
        one.metadata.annotations["volcano.sh/task-spec"] = "worker"
    made[2].spec.node_selector = {"disk": "none"}
    decisions = schedule(world(racks({"a": 1}), *made), TOPOLOGY)
    assert placed(decisions) == {"j-w-2": "a-0"}
    assert "node affinity/selector" in decisions.verdicts["ns/j"].message


def _without(gone: str, things: list[Any]) -> list[Any]:
    """Nodes and HyperNodes after a node was lost; its HyperNode still names it."""
    return [one for one in things if one.metadata.name != gone]


LOST = job("j", 2, wish(1), running={0: "a-0"})
LOST_OF_GROUP = job("j", 2, policies=[policy(2, 1)], parts=2, running={0: "a-0"})


@pytest.mark.parametrize("things", [LOST, LOST_OF_GROUP], ids=["job", "sub-group"])
def test_the_pod_for_a_lost_one_joins_those_that_still_run(things: list[Any]) -> None:
    state = world(_without("a-1", racks({"a": 3, "b": 2})), things)
    assert placed(schedule(state, TOPOLOGY)) == {"j-w-1": "a-2"}


@pytest.mark.parametrize("things", [LOST, LOST_OF_GROUP], ids=["job", "sub-group"])
@pytest.mark.parametrize("others", [2, 1], ids=["room elsewhere", "none"])
def test_where_its_domain_has_no_node_left_no_job_is_told_to_free_its_own(things: list[Any], others: int) -> None:
    verdict = schedule(world(_without("a-1", racks({"a": 2, "b": others})), things), TOPOLOGY).verdicts["ns/j"]
    assert "the topology keeps them with pod j-w-0 of its own" in verdict.message
    assert "free 1 node" not in verdict.suggestion
    assert ("restart pod j-w-0, too: HyperNode b has room" in verdict.suggestion) == (others == 2)


def test_a_node_of_its_domain_that_another_job_uses_may_be_freed() -> None:
    state = world(racks({"a": 2, "b": 2}), job("other", 1, running={0: "a-1"}), LOST)
    verdict = schedule(state, TOPOLOGY).verdicts["ns/j"]
    assert "ns/other holds cpu 4 there" in verdict.message
    assert "free 1 node of HyperNode a (a-1)" in verdict.suggestion
