"""Room that was made for a job stays its own until the victims have ended, whoever comes meanwhile."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from eviction_world import OFF, Plane, settings
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from test_filter_causes import near

from support.build import cluster, flatten, group, node, pod, priority_class, queue, unadvised
from support.examples import examples
from unisono.api.decode import decode
from unisono.api.groups.scheduling import SubGroupPolicySpec
from unisono.api.kinds import PODS
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.config_file.reader import load_config

RANKS = [priority_class("low", 1), priority_class("mid", 5), priority_class("high", 9)]
ORDERS = (
    "allocate, preempt, backfill",
    "allocate, preempt, reclaim, backfill",
    "preempt, reclaim, allocate, backfill",
    "allocate, gangpreempt, backfill",
    "gangpreempt, gangreclaim, allocate",
    "allocate, preempt, gangpreempt, reclaim, gangreclaim",
)


AWAY = {
    "requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}}
    ]
}
BY_PRIORITY = """
actions: "enqueue, allocate, preempt, backfill"
tiers:
- plugins: [{name: priority}, {name: conformance}]
- plugins: [{name: gang}, {name: predicates}, {name: capacity}, {name: nodeorder}]
"""
"""Gangs protect no pod that a higher priority wants."""


def acting(order: str, *, spared: bool) -> SchedulerConfig:
    off = "" if spared else f"{OFF}\n    enableReclaimable: false"
    second = "".join(f"\n  - name: {name}" for name in ("overcommit", "predicates", "capacity", "nodeorder", "binpack"))
    return load_config(
        f'actions: "enqueue, {order}"\ntiers:\n'
        f"- plugins:\n  - name: priority\n  - name: gang{off}\n  - name: conformance\n- plugins:{second}\n"
    )


def job(name: str, size: int, cpu: int, **given: Any) -> list[Any]:
    created = given.get("created", 0.0)
    pods = [pod(f"{name}-w-{at}", name, created=created, **({"cpu": cpu} if cpu else {})) for at in range(size)]
    return [group(name, size, **given), *pods]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("queue_name", ["qa", "qb"])
@pytest.mark.parametrize("grace", [1, 3])
def test_no_younger_job_takes_the_room(order: str, queue_name: str, grace: int) -> None:
    """A gang has one free place and waits for two victims, while equals come to its queue or to another one."""
    things: list[Any] = [*RANKS, queue("qa", 1, deserved={"cpu": 4}), queue("qb", 1, deserved={"cpu": 4})]
    things += [node("n0", cpu=2), node("n1", cpu=2)]
    for at, where in enumerate(["n0", "n0", "n1"]):
        things.append(group(f"v{at}", 1, queue="qa", phase="Running", priority_class="low"))
        things.append(pod(f"v{at}-w-0", f"v{at}", node=where, cpu=1))
    plane = Plane(acting(order, spared=False), things, job("g", 3, 1, queue="qa", priority_class="high"), grace=grace)
    plane.cycle()
    assert sum(map(len, plane.evicted)) == 2
    for cycle in range(grace + 2):
        for thing in job(f"y{cycle}", 1, 1, queue=queue_name, priority_class="high", created=10 + cycle):
            plane.put(thing)
        decisions = plane.cycle()
        assert not [eviction for eviction in decisions.evictions if eviction.beneficiary == "ns/g"]
        if not plane.running().get("g"):
            assert not [bind for bind in decisions.binds if bind.job != "ns/g"]
    assert plane.running()["g"] == 3


@pytest.mark.parametrize("order", ORDERS[:3])
def test_what_a_job_wants_beyond_its_minimum_takes_no_room_that_was_made_for_another(order: str) -> None:
    """It comes first in the queue, but preemption makes no room for it."""
    things: list[Any] = [*RANKS, queue("qa", 1, deserved={"cpu": 4}), node("n0", cpu=2), node("n1", cpu=1)]
    things.append(group("h", 1, queue="qa", phase="Running", priority_class="high"))
    things += [pod("h-w-0", "h", node="n1", cpu=1), pod("h-w-1", "h", cpu=1)]
    for at in range(2):
        things.append(group(f"v{at}", 1, queue="qa", phase="Running", priority_class="low"))
        things.append(pod(f"v{at}-w-0", f"v{at}", node="n0", cpu=1))
    plane = Plane(acting(order, spared=False), things, job("g", 2, 1, queue="qa", priority_class="mid"))
    for _ in range(4):
        plane.cycle()
    assert plane.running() == {"h": 1, "g": 2}
    assert sum(map(len, plane.evicted)) == 2


@pytest.mark.parametrize("behind", [False, True])
def test_no_room_is_taken_back_for_a_job_before_which_another_would_take_it(behind: bool) -> None:
    """The queue holds more processors than it deserves and less memory: it may take room for who asks for both."""
    things: list[Any] = [*RANKS, queue("qa", 1, deserved={"cpu": 1, "memory": "8Gi"}), queue("qb", 1)]
    things += [node("n0", cpu=2, memory="16Gi"), node("n1", cpu=2, memory="16Gi")]
    things.append(group("o", 1, queue="qa", phase="Running", priority_class="high"))
    things.append(pod("o-w-0", "o", node="n0", cpu=2))
    for at in range(2):
        things.append(group(f"v{at}", 1, queue="qb", phase="Running"))
        things.append(pod(f"v{at}-w-0", f"v{at}", node="n1", cpu=1))
    things += [group("g", 1, queue="qa"), pod("g-w-0", "g", cpu=1, memory="1Gi")]
    things += job("h", 1, 1, queue="qa", priority_class="high") if behind else []
    plane = Plane(acting("allocate, preempt, reclaim, backfill", spared=False), things)
    for _ in range(4):
        plane.cycle()
    assert sum(map(len, plane.evicted)) == (0 if behind else 1)
    assert plane.running().get("g", 0) == (0 if behind else 1)


@pytest.mark.parametrize("order", ["allocate, preempt, backfill", "preempt, allocate, backfill"])
def test_places_made_for_pods_without_requests_are_theirs(order: str) -> None:
    """The gang asks for nothing but to be two pods on a node that takes two; who comes meanwhile asks for cpu."""
    things = [*RANKS, queue("qa", 1), node("n0", cpu=4, pods=2)]
    for at in range(2):
        things += [group(f"v{at}", 1, queue="qa", phase="Running", priority_class="low")]
        things += [pod(f"v{at}-w-0", f"v{at}", node="n0")]
    plane = Plane(acting(order, spared=False), things, job("g", 2, 0, queue="qa", priority_class="high"), grace=2)
    plane.cycle()
    assert sum(map(len, plane.evicted)) == 2
    for cycle in range(4):
        for thing in job(f"y{cycle}", 1, 1, queue="qa", priority_class="high", created=10 + cycle):
            plane.put(thing)
        plane.cycle()
    assert plane.running() == {"g": 2}


@pytest.mark.parametrize("order", ["allocate, gangpreempt, backfill", "allocate, gangpreempt, gangreclaim, backfill"])
def test_pods_without_requests_take_no_place_that_was_made_for_others(order: str) -> None:
    """They have a higher priority and need but a pod's place; backfill serves them, and it comes last."""
    things = [*RANKS, queue("qa", 1), node("n0", cpu=4, pods=2)]
    for at in range(2):
        things += [group(f"v{at}", 1, queue="qa", phase="Running", priority_class="low")]
        things += [pod(f"v{at}-w-0", f"v{at}", node="n0", cpu=1)]
    plane = Plane(acting(order, spared=False), things, job("g", 2, 1, queue="qa", priority_class="mid"), grace=2)
    plane.cycle()
    assert sum(map(len, plane.evicted)) == 2
    for thing in job("z", 1, 0, queue="qa", priority_class="high", created=10):
        plane.put(thing)
    for _ in range(4):
        plane.cycle()
    assert plane.running() == {"g": 2}
    assert sum(map(len, plane.evicted)) == 2


@pytest.mark.parametrize(("free", "withdrawn"), [(False, True), (True, False)])
def test_a_nomination_that_can_no_longer_be_kept_is_withdrawn(free: bool, withdrawn: bool) -> None:
    """Node autoscalers take a nominated pod for placed and bring no node for it."""
    things: list[Any] = [*RANKS, queue("qa", 1), node("n0", cpu=2)]
    if not free:
        things += [group("v", 1, queue="qa", phase="Running", priority_class="high"), pod("v-0", "v", node="n0", cpu=2)]
    things += [group("g", 2, queue="qa", priority_class="mid")]
    things += [pod("g-0", "g", cpu=1, nominated="n0"), pod("g-1", "g", cpu=4)]
    decisions = unadvised(cluster(*things), acting("allocate, preempt, backfill", spared=False))
    told = [one.withdrawn for one in decisions.pod_conditions if one.pod == "g-0"]
    assert told == [withdrawn]


@pytest.mark.parametrize("order", ["allocate, preempt, backfill", "allocate, gangpreempt, backfill"])
@pytest.mark.parametrize(("leaving", "runs"), [("v1", {}), ("", {"g": 1})])
def test_no_room_is_made_beside_company_that_leaves(order: str, leaving: str, runs: dict[str, int]) -> None:
    """The gang wants to be near pods of v1; one of v0 would have to go for it."""
    host = {"kubernetes.io/hostname": "n0"}
    things: list[Any] = [*RANKS, queue("qa", 1), node("n0", cpu=2, labels=host)]
    for name in ("v0", "v1"):
        things += [group(name, 1, queue="qa", phase="Running", priority_class="low" if name == "v0" else "high")]
        things += [pod(f"{name}-w-0", name, node="n0", cpu=1, labels={"app": name}, deleting=name == leaving)]
    things += [group("g", 1, queue="qa", priority_class="high", created=10)]
    things += [pod("g-0", "g", cpu=2 if leaving else 1, affinity=near(app="v1"))]
    plane = Plane(acting(order, spared=False), things, grace=2)
    for _ in range(5):
        plane.cycle()
    assert {name: number for name, number in plane.running().items() if name == "g"} == runs
    assert sum(map(len, plane.evicted)) == len(runs)


@pytest.mark.parametrize("order", ["allocate, preempt, backfill", "allocate, gangpreempt, backfill"])
@pytest.mark.parametrize(("company", "evicted"), [("v", 0), ("w", 2)])
def test_company_that_is_evicted_for_a_gang_is_none(order: str, company: str, evicted: int) -> None:
    """One pod of the gang wants to be near pods of ``company``; for the other, gang v has to go."""
    host = {"kubernetes.io/hostname": "n0"}
    things: list[Any] = [*RANKS, queue("qa", 1), node("n0", cpu=4, labels=host)]
    things += [group("v", 2, queue="qa", phase="Running", priority_class="low")]
    things += [pod(f"v-{at}", "v", node="n0", cpu=1, labels={"app": "v"}) for at in range(2)]
    things += [group("w", 1, queue="qa", phase="Running", priority_class="high")]
    things += [pod("w-0", "w", node="n0", cpu=1, labels={"app": "w"})]
    things += [group("g", 2, queue="qa", priority_class="mid", created=10)]
    things += [pod("g-0", "g", cpu=1, affinity=near(app=company)), pod("g-1", "g", cpu=2)]
    plane = Plane(acting(order, spared=False), things)
    for _ in range(5):
        plane.cycle()
    assert sum(map(len, plane.evicted)) == evicted
    assert plane.running().get("g", 0) == evicted


@pytest.mark.parametrize("order", ["allocate, preempt, backfill", "allocate, preempt, reclaim, backfill"])
@pytest.mark.parametrize(("room", "evicted", "runs"), [(4, 1, 2), (3, 0, 0)])
def test_no_room_is_made_for_a_part_of_a_sub_group(order: str, room: int, evicted: int, runs: int) -> None:
    """The job needs one pod, but its pods start in twos."""
    things: list[Any] = [*RANKS, queue("qa", 1), node("n0", cpu=room)]
    things += [group("v", 1, queue="qa", phase="Running", priority_class="low"), pod("v-0", "v", node="n0", cpu=2)]
    twos = group("g", 1, queue="qa", priority_class="high", created=10)
    assert twos.spec is not None
    twos.spec.sub_group_policy = [
        SubGroupPolicySpec(name="part", match_label_keys=["part"], sub_group_size=2, min_sub_groups=0)
    ]
    things += [twos, *(pod(f"g-{at}", "g", cpu=2, labels={"part": "0"}) for at in range(2))]
    plane = Plane(acting(order, spared=False), things)
    for _ in range(4):
        plane.cycle()
    assert sum(map(len, plane.evicted)) == evicted
    assert plane.running().get("g", 0) == runs


def test_a_pod_gets_the_place_of_one_of_its_own_job_that_was_evicted_for_it() -> None:
    """Though that one comes first by its sub-group, and the gang lacks a pod meanwhile."""
    singles = group("g", 3, queue="qa", phase="Running")
    assert singles.spec is not None
    singles.spec.sub_group_policy = [
        SubGroupPolicySpec(name="part", match_label_keys=["part"], sub_group_size=1, min_sub_groups=0)
    ]
    things: list[Any] = [*RANKS, queue("qa", 1), node("n0", cpu=3), singles]
    things += [pod("g-0", "g", node="n0", cpu=1, labels={"part": "0"})]
    things += [pod(f"g-{at}", "g", node="n0", cpu=1, labels={"part": f"{at - 1}"}, priority=9) for at in (1, 2)]
    things += [pod("g-3", "g", cpu=1, labels={"part": "1"}, priority=9)]
    plane = Plane(load_config(BY_PRIORITY), things)
    plane.settle()
    assert sum(map(len, plane.evicted)) == 1
    assert {each.metadata.name for each in plane.pods() if each.spec.node_name} == {"g-1", "g-2", "g-3"}


def test_a_victim_that_keeps_a_pod_away_from_another_node_is_not_spared() -> None:
    """It asks for nothing, and there is room for all on its node; but the gang wants no such pod in the zone."""
    zone = {"zone": "z"}
    away = decode(
        PODS, {"spec": {"containers": [{"name": "c"}], "affinity": {"podAntiAffinity": AWAY}}}
    ).obj.spec.affinity
    things: list[Any] = [*RANKS, queue("qa", 1), node("n0", cpu=1, labels=zone), node("n1", cpu=2, labels=zone)]
    for name, on, cpu in (("v", "n0", {"cpu": 1}), ("w", "n1", {})):
        things += [group(name, 1, queue="qa", phase="Running", priority_class="low")]
        things += [pod(f"{name}-0", name, node=on, labels={"app": "a"}, **cpu)]
    things += [group("g", 2, queue="qa", priority_class="high", created=10)]
    things += [pod("g-0", "g", cpu=1, affinity=away), pod("g-1", "g", cpu=2)]
    plane = Plane(acting("allocate, gangpreempt, backfill", spared=False), things)
    for _ in range(4):
        plane.cycle()
    assert plane.running().get("g") == 2
    assert sum(map(len, plane.evicted)) == 2


@pytest.mark.parametrize("order", ["allocate, preempt, backfill", "allocate, gangpreempt, backfill"])
def test_a_gang_that_lost_all_its_pods_stays_admitted_while_room_is_made_for_it(order: str) -> None:
    """It would not be let in again: its minResources are more than there is."""
    things: list[Any] = [*RANKS, queue("qa", 1), node("n0", cpu=2)]
    things += [group("v", 1, queue="qa", phase="Running", priority_class="low"), pod("v-0", "v", node="n0", cpu=2)]
    things += [group("g", 1, queue="qa", phase="Running", priority_class="high", resources={"cpu": 6})]
    plane = Plane(acting(order, spared=False), things, pod("g-0", "g", cpu=2))
    plane.settle()
    assert sum(map(len, plane.evicted)) == 1
    assert plane.running() == {"g": 1}


@pytest.mark.parametrize("order", ["allocate, preempt, backfill", "allocate, gangpreempt, backfill"])
@pytest.mark.parametrize(("cordoned", "runs"), [(True, 0), (False, 6)])
def test_no_share_rests_on_what_the_victims_hold_of_a_cordoned_node(order: str, cordoned: bool, runs: int) -> None:
    """Once they are gone there is less to share, and the gang would be over the share of its queue."""
    things: list[Any] = [*RANKS, queue("qa", 1), queue("qb", 1)]
    things += [node("n0", cpu=4, labels={"at": "n0"}), node("n1", cpu=4, unschedulable=cordoned), node("n2", cpu=6)]
    things += [group("v", 2, queue="qa", phase="Running", priority_class="low")]
    things += [pod("v-0", "v", node="n1", cpu=2), pod("v-1", "v", node="n2")]
    things += [group("b", 4, queue="qb", phase="Running"), *(pod(f"b-{at}", "b", node="n0", cpu=1) for at in range(4))]
    things += [group("c", 2, queue="qb"), *(pod(f"c-{at}", "c", cpu=1, selector={"at": "n0"}) for at in range(2))]
    things += job("g", 6, 1, queue="qa", priority_class="mid", created=10)
    plane = Plane(settings(f"enqueue, {order}", gang=OFF, drf=OFF), things)
    for _ in range(5):
        plane.cycle()
    assert plane.running().get("g", 0) == runs
    assert not any(plane.evicted)


@pytest.mark.parametrize("tree", [False, True])
@pytest.mark.parametrize("order", ["allocate, preempt, backfill", "allocate, gangpreempt, backfill"])
@pytest.mark.parametrize(("cordoned", "runs"), [(True, 3), (False, 4)])
def test_nor_does_what_guarantees_leave(order: str, cordoned: bool, runs: int, tree: bool) -> None:
    """Ten cpus without the one that is guaranteed to others are enough for four pods of two, and eight are not."""
    things: list[Any] = [*RANKS, queue("qa", 1), queue("qb", 1, guarantee={"cpu": 1})]
    things += [*(node(f"n{at}", cpu=2) for at in range(4)), node("n4", cpu=2, unschedulable=cordoned)]
    things += [group("v", 2, queue="qa", phase="Running", priority_class="low")]
    things += [pod(f"v-{at}", "v", node=f"n{at + 3}", cpu=2) for at in range(2)]
    things += [group("g", 4, queue="qa", phase="Running", priority_class="mid")]
    things += [pod(f"g-{at}", "g", node=f"n{at}", cpu=2, priority=5) for at in range(3)]
    quota = "capacity\n    enableHierarchy: true" if tree else "capacity"
    plane = Plane(settings(f"enqueue, {order}", gang=OFF, drf=OFF, quota=quota), things)
    plane.put(pod("g-3", "g", cpu=2, priority=5))
    for _ in range(5):
        plane.cycle()
    assert plane.running().get("g", 0) == runs
    assert any(plane.evicted) != cordoned


@pytest.mark.parametrize("second", ["drf", "overcommit"])
@pytest.mark.parametrize("action", ["gangreclaim", "reclaim, gangreclaim", "reclaim"])
def test_gangs_do_not_take_one_room_from_each_other(action: str, second: str) -> None:
    """Where no plug-in divides the cluster each queue may take from the other, whole gangs at that."""
    first, rest = ("priority", "gang", "conformance"), (second, "predicates", "nodeorder")
    tiers = [{"plugins": [{"name": name} for name in tier]} for tier in (first, rest)]
    text = json.dumps({"actions": f"enqueue, allocate, {action}, backfill", "tiers": tiers})
    things = [queue("qa"), queue("qb"), node("n0", cpu=2), node("n1", cpu=2)]
    things += [job("a", 2, 2, queue="qa"), job("b", 2, 2, queue="qb", created=10)]
    plane = Plane(load_config(text), things)
    for _ in range(8):
        plane.cycle()
    assert plane.running() == {"a": 2}
    assert not any(plane.evicted)


def world(random: Random) -> list[Any]:
    things: list[Any] = [*RANKS]
    things += [queue(name, 1, deserved={"cpu": random.choice([2, 4, 8])}) for name in ("qa", "qb")]
    free = {f"n{at}": random.choice([2, 4, 4]) for at in range(random.randint(1, 4))}
    things += [node(name, cpu=cpu) for name, cpu in free.items()]
    for number in range(random.randint(2, 8)):
        cpu, places = random.choice([1, 1, 2]), list[str]()
        for _ in range(random.randint(1, 3)):
            room = [name for name, left in free.items() if left >= cpu]
            if room:
                places.append(random.choice(room))
                free[places[-1]] -= cpu
        if places:
            rank = random.choice(["low", "low", "mid"])
            held = {"queue": random.choice(["qa", "qb"]), "phase": "Running", "priority_class": rank}
            things.append(group(f"r{number}", random.randint(1, len(places)), **held))
            things += [pod(f"r{number}-w-{at}", f"r{number}", node=n, cpu=cpu) for at, n in enumerate(places)]
    for number in range(random.randint(1, 2)):
        size, cpu = random.randint(1, 4), random.choice([1, 1, 2])
        things.append(job(f"g{number}", size, cpu, queue="qa", priority_class="high", created=10 + number))
    return flatten(things)


@hypothesis_settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 10**6), st.sampled_from(ORDERS), st.booleans(), st.sampled_from([1, 2, 5]))
def test_who_evicts_runs_and_evicts_once(seed: int, order: str, spared: bool, grace: int) -> None:
    """Jobs of the highest priority: others of any rank come to both queues while their victims end."""
    random = Random(seed)
    plane = Plane(acting(order, spared=spared), world(random), grace=grace)
    evicted_for: set[str] = set()
    served: set[str] = set()
    for cycle in range(12):
        now = {eviction.beneficiary for eviction in plane.cycle().evictions if eviction.beneficiary[3] == "g"}
        assert not (now & evicted_for) - served
        evicted_for |= now
        running = plane.running()
        served |= {key for key in evicted_for if running.get(key[3:], 0)}
        for number in range(random.randint(0, 2) if cycle < 4 else 0):
            cpu, size = random.choice([1, 2, 0]), random.choice([1, 1, 2])
            given = {"queue": random.choice(["qa", "qb"]), "priority_class": random.choice(["high", "mid", "low"])}
            for thing in job(f"y{cycle}{number}", size, cpu, created=100 + cycle, **given):
                plane.put(thing)
    assert evicted_for == served
