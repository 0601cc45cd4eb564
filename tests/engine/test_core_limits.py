"""Limits that hold whatever is configured: whole gangs, capabilities of the tree of queues, promised places."""

from __future__ import annotations

from typing import Any

import pytest
from topology_world import TOPOLOGY, hyper, racks, wish
from topology_world import job as topology_job

from support.build import (
    GANG,
    bound_per_job,
    cluster,
    config,
    gang,
    group,
    node,
    placed,
    pod,
    priority_class,
    queue,
    schedule,
)
from unisono.api import kinds
from unisono.api.annotations import USER_LIMITS
from unisono.api.base import LabelSelector
from unisono.api.core import (
    Affinity,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    TopologySpreadConstraint,
)
from unisono.cluster.state import ClusterState

HOST = "kubernetes.io/hostname"
PROPORTION = config(("priority", "gang"), ("predicates", "proportion", "nodeorder"))
CAPACITY = config(("priority", "gang"), ("predicates", "capacity", "nodeorder"))
SHARING = {"gang": GANG, "proportion": PROPORTION, "capacity": CAPACITY}


def machines(number: int, **resources: Any) -> list[Any]:
    return [node(f"n{at}", labels={HOST: f"n{at}"}, **resources) for at in range(number)]


def term(app: str) -> PodAffinityTerm:
    return PodAffinityTerm(label_selector=LabelSelector(match_labels={"app": app}), topology_key=HOST)


def near(app: str) -> Affinity:
    return Affinity(pod_affinity=PodAffinity(required_during_scheduling_ignored_during_execution=[term(app)]))


def away(app: str) -> Affinity:
    wanted = PodAntiAffinity(required_during_scheduling_ignored_during_execution=[term(app)])
    return Affinity(pod_anti_affinity=wanted)


# ---- gangs with pods that request nothing


@pytest.mark.parametrize("slots", [3, 4])
def test_a_gang_starts_with_its_pods_that_request_nothing_or_not_at_all(slots: int) -> None:
    workers = [pod(f"w-{at}", "g", cpu=1) for at in range(3)]
    decisions = schedule(cluster(node("n1", pods=slots), group("g", 4), workers, pod("idle", "g")))
    assert bound_per_job(decisions) == ({"g": 4} if slots == 4 else {})
    assert not decisions.violations


def test_two_pods_that_request_nothing_and_one_place_start_nothing() -> None:
    decisions = schedule(cluster(node("n1", pods=1), group("g", 2), pod("a", "g"), pod("b", "g")))
    assert decisions.binds == []


def test_the_minimum_of_a_role_includes_pods_that_request_nothing() -> None:
    helper = pod("helper", "g", role="helper", selector={"zone": "nowhere"})
    head = group("g", 2, roles={"main": 1, "helper": 1})
    decisions = schedule(cluster(node("n1"), head, pod("main", "g", role="main", cpu=1), helper))
    assert decisions.binds == []


def test_surplus_pods_that_request_nothing_hold_nobody_up() -> None:
    nowhere = pod("idle", "g", selector={"zone": "nowhere"})
    decisions = schedule(cluster(node("n1"), group("g", 1), pod("main", "g", cpu=1), nowhere))
    assert placed(decisions) == {"main": "n1"}


@pytest.mark.parametrize("minimum", [2, 3])
def test_pods_that_request_nothing_stay_in_the_hard_domain_of_their_gang(minimum: int) -> None:
    pods = [pod(f"w-{at}", "j", cpu=4) for at in range(2)]
    head = group("j", minimum)
    head.spec.network_topology = wish(1)
    small = [node(f"a-{at}", cpu=4, pods=1) for at in range(2)]
    things = [*small, hyper("a", 1, ["a-0", "a-1"]), *racks({"b": 1}, cpu=2), head, pods, pod("idle", "j")]
    decisions = schedule(cluster(*things), TOPOLOGY)
    assert set(placed(decisions)) == (set() if minimum == 3 else {"w-0", "w-1"})


def test_a_pod_that_requests_nothing_joins_the_domain_where_its_gang_runs() -> None:
    things = [*racks({"a": 1, "b": 2}), topology_job("j", 2, wish(1), minimum=1, running={0: "b-0"})]
    things[-1][-1].spec.containers[0].resources.requests = None
    decisions = schedule(cluster(*things), TOPOLOGY)
    assert all(where.startswith("b-") for where in placed(decisions).values())
    assert len(decisions.binds) == 1


# ---- capabilities


@pytest.mark.parametrize("sharing", SHARING)
def test_a_queue_holds_no_more_than_the_capability_of_the_queue_above_it(sharing: str) -> None:
    queues = [
        queue("org", capability={"cpu": 4}),
        queue("a", parent="org", deserved={"cpu": 8}),
        queue("b", parent="org", deserved={"cpu": 8}),
    ]
    jobs = [gang(f"{name}{at}", 1, queue=name, cpu=1) for name in "ab" for at in range(4)]
    decisions = schedule(cluster(node("n1", cpu=16), queues, jobs), SHARING[sharing])
    assert len(decisions.binds) == 4
    assert not decisions.violations
    assert any("queue org has capability cpu 4" in verdict.message for verdict in decisions.verdicts.values())


@pytest.mark.parametrize("sharing", SHARING)
def test_terminating_pods_count_towards_the_capability_until_they_are_gone(sharing: str) -> None:
    old = [pod(f"old-{at}", "old", node="n1", deleting=True, cpu=1) for at in range(3)]
    things = [node("n1", cpu=16), queue("q", capability={"cpu": 4}, deserved={"cpu": 8}), group("old", 1, queue="q")]
    jobs = [gang(f"j{at}", 1, queue="q", cpu=1) for at in range(4)]
    state: ClusterState = cluster(*things, old, jobs)
    assert len(schedule(state, SHARING[sharing]).binds) == 1
    for leaving in old:
        state.apply("DELETED", kinds.PODS, leaving)
    assert len(schedule(state, SHARING[sharing]).binds) == 4


@pytest.mark.parametrize("sharing", SHARING)
@pytest.mark.parametrize("deleting", [True, False], ids=["terminating", "running"])
def test_pods_count_until_they_are_gone_also_where_their_gang_is_gone_first(sharing: str, deleting: bool) -> None:
    """Who deletes a job whose pods take long to end would start as much again beside them, without end."""
    old = [pod(f"old-{at}", "old", node="n1", deleting=deleting, cpu=1) for at in range(3)]
    head = group("old", 1, queue="q", phase="Running")
    limits = {USER_LIMITS: "pods=4"}
    things = [node("n1", cpu=16), queue("q", capability={"cpu": 4}, deserved={"cpu": 8}, annotations=limits), head]
    late = pod("old-3", "old", cpu=1)
    state: ClusterState = cluster(*things, old, late, [gang(f"j{at}", 1, queue="q", cpu=1) for at in range(4)])
    state.apply("DELETED", kinds.POD_GROUPS, head)
    for _ in range(2):
        decisions = schedule(state, SHARING[sharing])
        assert len(decisions.binds) == 1
        assert not {"ns/old-3"} & {f"{bind.namespace}/{bind.pod}" for bind in decisions.binds}
        assert "ns/old" not in {update.key for update in decisions.pod_groups}
        state.apply("MODIFIED", kinds.PODS, old[0])  # the only news of the pod is no news of its gang
    for leaving in old:
        state.apply("DELETED", kinds.PODS, leaving)
    assert len(schedule(state, SHARING[sharing]).binds) == 4
    assert not state.book.jobs["ns/old"].known


def test_gangs_of_one_shape_stop_at_the_capability_above_their_queue() -> None:
    queues = [queue("root", capability={"cpu": 5}), queue("q")]
    jobs = [gang(f"j{at}", 2, queue="q", cpu=1) for at in range(6)]
    decisions = schedule(cluster(node("n1", cpu=64), queues, jobs))
    assert len(decisions.binds) == 4


# ---- what is not there yet, and what is still there


@pytest.mark.parametrize("racked", [True, False])
def test_pods_of_one_gang_keep_apart_within_a_domain(racked: bool) -> None:
    head = group("j", 2)
    head.spec.network_topology = wish(1)
    pods = [pod(f"w-{at}", "j", cpu=1, labels={"app": "x"}, affinity=away("x")) for at in range(2)]
    things = [*machines(1, cpu=4), *([hyper("a", 1, ["n0"])] if racked else []), head, pods]
    assert schedule(cluster(*things), TOPOLOGY).binds == []


def test_a_host_port_is_given_once_within_a_domain() -> None:
    head = group("j", 2)
    head.spec.network_topology = wish(1)
    things = [*racks({"a": 1}), head, [pod(f"w-{at}", "j", cpu=1, ports=[80]) for at in range(2)]]
    assert schedule(cluster(*things), TOPOLOGY).binds == []


def waiting_mates(minimum: int) -> list[Any]:
    """A gang of which one pod has a free place and the other one waits for a pod that terminates."""
    leaving = pod("leaving", "old", node="n1", deleting=True, cpu=8)
    mates = [pod(f"mate-{at}", "mates", labels={"app": "mate"}, cpu=5) for at in range(minimum)]
    return [*machines(2), group("old", 1), leaving, group("mates", minimum), mates]


def test_a_pod_that_was_only_promised_a_place_is_no_company() -> None:
    follower = pod("follower", "follower", created=9.0, affinity=near("mate"), cpu=1)
    decisions = schedule(cluster(*waiting_mates(2), group("follower", 1, created=9.0), follower))
    assert decisions.pipelined
    assert decisions.binds == []


def test_promised_pods_do_not_even_out_what_starts_now() -> None:
    follower = pod("follower", "follower", created=9.0, labels={"app": "mate"}, cpu=1, selector={HOST: "n0"})
    follower.spec.topology_spread_constraints = [
        TopologySpreadConstraint(
            max_skew=1,
            topology_key=HOST,
            when_unsatisfiable="DoNotSchedule",
            label_selector=LabelSelector(match_labels={"app": "mate"}),
            node_affinity_policy="Ignore",
        )
    ]
    there = pod("there", "there", node="n0", labels={"app": "mate"}, cpu=1)
    things = [*waiting_mates(1), group("there", 1), there, group("follower", 1, created=9.0), follower]
    for mate in things[5]:
        mate.spec.node_selector = {HOST: "n1"}
    decisions = schedule(cluster(*things))
    assert "mate-0" in {promise.pod for promise in decisions.pipelined}
    assert decisions.binds == []


def test_an_evicted_pod_repels_others_until_it_is_gone() -> None:
    settings = config(("priority", "gang"), ("predicates",), actions="enqueue, allocate, preempt, backfill")
    victim = pod("victim", "low", node="n0", labels={"app": "x"}, affinity=away("shy"), cpu=8)
    shy = pod("shy", "shy", labels={"app": "shy"})
    things = [*machines(1), group("low", 0, created=1.0), victim]
    high = [priority_class("high", 100), gang("high", 1, cpu=8, priority_class="high", priority=100)]
    decisions = schedule(cluster(*things, high, group("shy", 1, created=5.0), shy), settings)
    assert [eviction.pod for eviction in decisions.evictions] == ["victim"]
    assert "shy" not in placed(decisions)
