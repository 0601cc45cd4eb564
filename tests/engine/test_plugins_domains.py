"""Affinity, spread, images and gates through whole cycles: who goes where, and what who waits is told."""

from __future__ import annotations

from typing import Any

import pytest

from support.build import bound_per_job, cluster, config, gang, group, node, placed, pod, queue, schedule
from unisono.api.base import LabelSelector, LabelSelectorRequirement
from unisono.api.core import (
    Affinity,
    ContainerImage,
    Node,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from unisono.api.kinds import NODES, PODS
from unisono.cluster.podclass import normalised_image
from unisono.engine.plugins.common.topology_spread import MOST_PREFERENCES
from unisono.engine.session.domains import Tally

HOST, ZONE = "kubernetes.io/hostname", "zone"
SETTINGS = config(("gang",), ("predicates", "nodeorder"))
ONLY = {f"{name}.weight": 0 for name in ("leastrequested", "balancedresource", "nodeaffinity", "tainttoleration")}


def term(app: str, key: str = HOST) -> PodAffinityTerm:
    return PodAffinityTerm(label_selector=LabelSelector(match_labels={"app": app}), topology_key=key)


def near(app: str, key: str = HOST) -> Affinity:
    return Affinity(pod_affinity=PodAffinity(required_during_scheduling_ignored_during_execution=[term(app, key)]))


def away(app: str, key: str = HOST) -> Affinity:
    return Affinity(
        pod_anti_affinity=PodAntiAffinity(required_during_scheduling_ignored_during_execution=[term(app, key)])
    )


def machines(number: int, zones: int = 2) -> list[Node]:
    names = [f"n{index}" for index in range(number)]
    return [node(name, labels={HOST: name, ZONE: f"z{index % zones}"}, cpu=8) for index, name in enumerate(names)]


def spread(*constraints: TopologySpreadConstraint, members: list[Any]) -> list[Any]:
    for member in members[1:]:
        member.spec.topology_spread_constraints = list(constraints)
    return members


def evenly(when: str = "DoNotSchedule", key: str = ZONE, skew: int = 1, app: str = "a") -> TopologySpreadConstraint:
    return TopologySpreadConstraint(
        max_skew=skew,
        topology_key=key,
        when_unsatisfiable=when,
        label_selector=LabelSelector(match_labels={"app": app}),
    )


def test_a_gang_that_keeps_apart_takes_one_node_each() -> None:
    decisions = schedule(cluster(machines(4), gang("g", 4, labels={"app": "a"}, affinity=away("a"))), SETTINGS)
    assert sorted(placed(decisions).values()) == ["n0", "n1", "n2", "n3"]


def test_wishes_of_pods_placed_in_the_same_cycle_count_for_those_that_follow() -> None:
    """The first would rather be alone; the second has no wish of its own, and leaves it alone."""
    alone = Affinity(
        pod_anti_affinity=PodAntiAffinity(
            preferred_during_scheduling_ignored_during_execution=[
                WeightedPodAffinityTerm(weight=100, pod_affinity_term=term("a"))
            ]
        )
    )
    state = cluster(
        machines(2),
        gang("first", 1, labels={"app": "a"}, affinity=alone),
        gang("next", 1, labels={"app": "a"}, created=1),
    )
    settings = config(("gang",), ("predicates", "nodeorder"), arguments={"nodeorder": ONLY})
    decisions = schedule(state, settings)
    assert placed(decisions) == {"first-w-0": "n0", "next-w-0": "n1"}


def test_a_gang_that_keeps_apart_and_is_too_large_says_how_many_fit() -> None:
    decisions = schedule(cluster(machines(3), gang("g", 4, labels={"app": "a"}, affinity=away("a"))), SETTINGS)
    verdict = decisions.verdicts["ns/g"]
    assert not decisions.binds
    assert verdict.tasks_placeable == 3
    assert dict(verdict.reasons) == {"node(s) didn't match pod anti-affinity rules": 3}


def test_a_gang_that_keeps_together_stays_in_one_zone() -> None:
    decisions = schedule(cluster(machines(4), gang("g", 6, labels={"app": "a"}, affinity=near("a", ZONE))), SETTINGS)
    assert len({int(name[1:]) % 2 for name in placed(decisions).values()}) == 1
    assert len(decisions.binds) == 6


def test_others_feel_the_anti_affinity_of_who_came_first() -> None:
    first = gang("first", 1, affinity=away("b"), labels={"app": "a"})
    second = gang("second", 2, labels={"app": "b"}, created=1.0)
    decisions = schedule(cluster(machines(1), first, second), SETTINGS)
    assert bound_per_job(decisions) == {"first": 1}
    reasons = dict(decisions.verdicts["ns/second"].reasons)
    assert reasons == {"node(s) didn't satisfy existing pods anti-affinity rules": 1}


def test_a_gang_that_fails_leaves_no_trace_for_others() -> None:
    failing = gang("failing", 3, labels={"app": "a"}, affinity=away("a"))
    other = gang("other", 2, labels={"app": "a"}, created=1.0)
    assert bound_per_job(schedule(cluster(machines(2), failing, other), SETTINGS)) == {"other": 2}


@pytest.mark.parametrize(("skew", "bound"), [(1, 5), (2, 6)])
def test_hard_spread_fills_zones_evenly(skew: int, bound: int) -> None:
    members = spread(evenly(skew=skew), members=gang("g", 7, 1, labels={"app": "a"}, cpu=4))
    full = gang("full", 1, cpu=8, selector={ZONE: "z1"}, created=-5.0)
    decisions = schedule(cluster(machines(4), full, members), SETTINGS)
    zones = [int(name[1:]) % 2 for key, name in placed(decisions).items() if key.startswith("g-")]
    assert len(zones) == bound
    assert abs(zones.count(0) - zones.count(1)) <= skew


def test_soft_spread_prefers_empty_zones() -> None:
    settings = config(("gang",), ("predicates", "nodeorder"), arguments={"nodeorder": ONLY})
    members = spread(evenly("ScheduleAnyway"), members=gang("g", 4, labels={"app": "a"}))
    zones = [int(name[1:]) % 2 for name in placed(schedule(cluster(machines(4), members), settings)).values()]
    assert sorted(zones) == [0, 0, 1, 1]


def test_pods_without_constraints_are_not_spread() -> None:
    settings = config(("gang",), ("predicates", "nodeorder"), arguments={"nodeorder": ONLY})
    state = cluster(machines(4), gang("g", 4, labels={"app": "a"}))
    decisions = schedule(state, settings)
    assert set(placed(decisions).values()) == {"n0"}
    pods = [task.pod_class for task in state.tasks.values()]
    assert all(pod_class.base is pod_class for pod_class in pods)


def test_labels_make_no_classes_where_nobody_looks_at_them() -> None:
    plain = [pod(f"p{index}", node="n0", labels={"app": f"a{index}"}, cpu=1) for index in range(5)]
    state = cluster(machines(2), plain)
    state.snapshot()
    assert len({task.pod_class.id for task in state.tasks.values()}) == 1
    state.apply("ADDED", PODS, pod("w", "g", affinity=away("a3"), cpu=1))
    state.snapshot()
    looked_at = [key for key, task in state.tasks.items() if task.pod_class.matched]
    assert looked_at == ["ns/p3"]


def with_images(name: str, **images: int) -> Node:
    made = node(name, labels={HOST: name}, cpu=8)
    made.status.images = [ContainerImage(names=[f"{key}:latest"], size_bytes=size) for key, size in images.items()]
    return made


def test_nodes_with_the_image_are_preferred_and_follow_changes() -> None:
    settings = config(("gang",), ("predicates", "nodeorder"), arguments={"nodeorder": ONLY})
    members = gang("g", 1)
    members[1].spec.containers[0].image = "big"  # type: ignore[attr-defined]
    mib = 1024 * 1024
    state = cluster(with_images("n0"), with_images("n1", big=900 * mib), with_images("n2", small=900 * mib), members)
    assert placed(schedule(state, settings)) == {"g-w-0": "n1"}

    state.apply("MODIFIED", NODES, with_images("n1"))
    state.apply("MODIFIED", NODES, with_images("n2", big=900 * mib))
    assert placed(schedule(state, settings)) == {"g-w-0": "n2"}

    state.apply("MODIFIED", NODES, with_images("n0", big=30 * mib))  # one image has one size: here next to none
    assert placed(schedule(state, settings)) == {"g-w-0": "n0"}


@pytest.mark.parametrize(
    ("name", "full"),
    [("a", "a:latest"), ("a:1", "a:1"), ("host:5000/a", "host:5000/a:latest"), ("h:1/a:2", "h:1/a:2")],
)
def test_image_names(name: str, full: str) -> None:
    assert normalised_image(name) == full


def test_gated_pods_wait_and_do_not_keep_others_from_starting() -> None:
    members = [pod("g-0", "g", gates=["x"], cpu=1), pod("g-1", "g", cpu=1)]
    decisions = schedule(cluster(machines(1), queue("default"), group("g", 1), members), SETTINGS)
    assert placed(decisions) == {"g-1": "n0"}


def test_required_affinity_can_be_switched_off() -> None:
    off = {"predicates": {"predicate.PodAffinityEnable": False, "predicate.PodTopologySpreadEnable": False}}
    settings = config(("gang",), ("predicates",), arguments=off)
    members = spread(evenly(), members=gang("g", 3, labels={"app": "a"}, affinity=away("a")))
    assert len(schedule(cluster(machines(1), members), settings).binds) == 3


def test_what_others_prefer_costs_a_pod_no_more_than_a_bounded_number_of_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand pods with a preference of their own about everybody's pods took minutes in one cycle."""
    steps = 0
    whole = Tally.on_nodes

    def counted(tally: Tally) -> Any:
        nonlocal steps
        steps += 1
        return whole(tally)

    monkeypatch.setattr(Tally, "on_nodes", counted)
    pods = []
    for number in range(6 * MOST_PREFERENCES):
        wish = PodAffinityTerm(
            label_selector=LabelSelector(
                match_expressions=[LabelSelectorRequirement(key=f"k{number}", operator="NotIn", values=["x"])]
            ),
            topology_key=HOST,
        )
        preferred = [WeightedPodAffinityTerm(weight=1, pod_affinity_term=wish)]
        one = gang(f"g{number}", 1)
        one[1].spec.affinity = Affinity(
            pod_anti_affinity=PodAntiAffinity(preferred_during_scheduling_ignored_during_execution=preferred)
        )
        pods.append(one)
    state = cluster(machines(50), pods)
    assert len(placed(schedule(state, SETTINGS))) == len(pods)
    assert steps <= len(pods) * 2 * (MOST_PREFERENCES + 1)
