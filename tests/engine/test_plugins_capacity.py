"""capacity, flat: deserved amounts, guarantees, capabilities, admission and what is given back."""

from __future__ import annotations

from typing import Any

import pytest
from plugins_world import World, a_pod, class_of, job_of, queue_of, task_of

from unisono.cluster.resources import CPU, MEMORY
from unisono.engine.answers import Purpose, Refusal, Vote
from unisono.engine.config.arguments import Flags
from unisono.engine.config.model import PluginConfig
from unisono.engine.plugins.registry import create
from unisono.engine.session.victims import VictimJobs
from unisono.engine.verdict import Cause

GI = 1 << 30


def guarantee(**amounts: str) -> dict[str, Any]:
    return {"guarantee": {"resource": amounts}}


# ---- limits


def test_a_guarantee_of_others_is_out_of_reach() -> None:
    world = World().node("n1").queue("a", **guarantee(cpu="3")).queue("b").queue("c", capability={"cpu": "5"})
    _, plugin = world.open("capacity")
    assert {name: plugin.branches[name].ceiling[CPU] for name in "abc"} == {"a": 10_000, "b": 7_000, "c": 5_000}


def test_deserved_is_cut_at_the_limit_and_lifted_to_the_guarantee() -> None:
    world = (
        World().node("n1").queue("a", deserved={"cpu": "20"}).queue("b", deserved={"cpu": "1"}, **guarantee(cpu="4"))
    )
    _, plugin = world.open("capacity")
    assert plugin.branches["a"].deserved[CPU] == 6_000
    assert plugin.branches["b"].deserved[CPU] == 4_000


def test_beside_proportion_a_queue_without_an_amount_deserves_its_weight() -> None:
    world = World().node("n1").queue("a", weight=1, deserved={"cpu": "1"}).queue("b", weight=3)
    for name in "ab":
        world.job(f"j{name}", *[a_pod("4", "1Gi")] * 5, queue=name)
    session, _ = world.open("proportion")
    plugin = create(PluginConfig("capacity", Flags(), {}))
    plugin.open(session)
    assert {name: plugin.branches[name].deserved[CPU] for name in "ab"} == {"a": 1_000, "b": 7_500}


def test_unusable_nodes_are_not_shared() -> None:
    world = World().node("n1").node("n2", unschedulable=True).node("n3", ready=False).queue("a", deserved={"cpu": "30"})
    world.job("j", a_pod("3", node="n2"), queue="a")
    _, plugin = world.open("capacity")
    assert plugin.branches["a"].ceiling[CPU] == 13_000


def test_a_queue_borrows_beyond_its_share_up_to_its_capability() -> None:
    world = World().node("n1").queue("a", deserved={"cpu": "2"}, capability={"cpu": "5"}).queue("b")
    world.job("j", *[a_pod("2", "1Gi")] * 4, queue="a")
    session, plugin = world.open("capacity")
    queue, pod_class, job = queue_of(session, "a"), class_of(session, "j-0"), job_of(session, "j")
    assert plugin.headroom(queue, pod_class) == 2
    for _ in range(2):
        assert plugin.allocatable(queue, pod_class) is None
        plugin.placed(job, pod_class, [0])
    refusal = plugin.allocatable(queue, pod_class)
    assert plugin.headroom(queue, pod_class) == 0
    assert refusal.cause is Cause.OVER_CAPABILITY
    assert refusal.message == "queue a may hold cpu 5 and holds cpu 4; cpu 2 more is asked for"
    assert (refusal.need, refusal.have, refusal.limit) == ({"cpu": 2_000}, {"cpu": 4_000}, {"cpu": 5_000})
    plugin.removed(job, pod_class, [0])
    assert plugin.allocatable(queue, pod_class) is None


def test_pods_are_no_limit() -> None:
    world = (
        World().node("n1", has={"pods": "1"}).queue("a", capability={"pods": "1"}).job("j", *[a_pod()] * 3, queue="a")
    )
    session, plugin = world.open("capacity")
    assert plugin.headroom(queue_of(session, "a"), class_of(session, "j-0")) == 10


@pytest.mark.parametrize("state", ["Closed", "Closing", "Unknown", ""])
def test_only_open_queues_admit_place_and_take(state: str) -> None:
    world = World().node("n1").queue("a", state=state).job("j", a_pod(), queue="a", minResources={"cpu": "1"})
    session, plugin = world.open("capacity")
    queue, pod_class = queue_of(session, "a"), class_of(session, "j-0")
    assert plugin.allocatable(queue, pod_class).cause is Cause.QUEUE_CLOSED
    assert plugin.preemptive(queue, [pod_class]).cause is Cause.QUEUE_CLOSED
    assert plugin.enqueueable(job_of(session, "j")).cause is Cause.QUEUE_CLOSED
    assert plugin.headroom(queue, pod_class) == 0


# ---- order


def test_queue_order_is_priority_then_share_then_who_deserves() -> None:
    world = World().node("n1").node("n2").queue("a", deserved={"cpu": "4"}).queue("b", deserved={"cpu": "8"})
    world.queue("c", priority=1).queue("d").queue("e", deserved={"cpu": "1"})
    for name in "abcde":
        world.job(f"j{name}", a_pod("1", node="n1"), queue=name)
    session, plugin = world.open("capacity")
    assert sorted("abcde", key=lambda name: plugin.queue_key(queue_of(session, name))) == ["c", "b", "a", "e", "d"]


# ---- admission


def pending(world: World, name: str, cpu: str, queue: str = "a") -> World:
    return world.job(name, a_pod(cpu), queue=queue, phase="Pending", minResources={"cpu": cpu})


def test_admission_counts_what_is_held_and_promised_but_not_the_elastic_part() -> None:
    world = World().node("n1").queue("a")
    world.job("run", *[a_pod("2", node="n1")] * 2, queue="a", phase="Running", minMember=1, minResources={"cpu": "2"})
    world = pending(pending(world, "j1", "5"), "j2", "4")
    session, plugin = world.open("capacity")
    assert plugin.enqueueable(job_of(session, "j1")) is Vote.PERMIT
    session.book.promise(job_of(session, "j1"))
    refusal = plugin.enqueueable(job_of(session, "j2"))
    assert isinstance(refusal, Refusal)
    assert refusal.message == "queue resource quota insufficient: insufficient cpu"
    assert (refusal.need, refusal.have, refusal.limit) == ({"cpu": 4_000}, {"cpu": 7_000}, {"cpu": 10_000})
    assert refusal.event


def test_overcommit_learns_what_a_queue_may_still_place() -> None:
    world = World().node("n1").queue("a", capability={"cpu": "5"}).job("j", a_pod("2", node="n1"), queue="a")
    session, _ = world.open("capacity")
    room = session.book.shares.room(queue_of(session, "a"))
    assert room is not None
    assert room[CPU] == 3_000


# ---- taking back


def taking(deserved: dict[str, str], *, holds: int, cpu: str = "2") -> World:
    world = World().node("n1", has={"cpu": "20", "memory": "20Gi"})
    world.queue("taker", deserved={"cpu": "4", "memory": "4Gi"}).queue("giver", deserved=deserved)
    return world.job("old", *[a_pod("2", "1Gi", node="n1")] * holds, queue="giver", minMember=1).job(
        "new", a_pod(cpu, "1Gi"), queue="taker"
    )


def victims(world: World, number: int) -> list[bool]:
    session, plugin = world.open("capacity")
    candidates = [task_of(session, f"old-{i}") for i in range(number)]
    mask = plugin.victims(job_of(session, "new"), task_of(session, "new-0"), candidates, Purpose.RECLAIM)
    return list(mask.tolist())


@pytest.mark.parametrize(
    ("deserved", "expected"),
    [
        ({"cpu": "8"}, [False] * 3),
        ({"cpu": "6"}, [False] * 3),
        ({"cpu": "5"}, [True, False, False]),
        ({"cpu": "2"}, [True, True, False]),
        ({}, [True] * 3),
        ({"memory": "1Gi"}, [True, True, False]),
        ({"nvidia.com/gpu": "1"}, [True] * 3),
        ({"cpu": "8", "memory": "2Gi"}, [True, False, False]),
    ],
)
def test_victims_down_to_what_is_deserved(deserved: dict[str, str], expected: list[bool]) -> None:
    assert victims(taking(deserved, holds=3), 3) == expected


def test_a_guarantee_is_never_given_back() -> None:
    world = taking({}, holds=3)
    world.queue("giver", **guarantee(cpu="3"))
    assert victims(world, 3) == [True, False, False]


def test_tasks_that_hold_nothing_of_what_is_asked_for_stay() -> None:
    world = (
        World().node("n1", has={"nvidia.com/gpu": "1"}).queue("taker", deserved={"nvidia.com/gpu": "1"}).queue("giver")
    )
    world.job("old", a_pod("1"), queue="giver").job("new", a_pod("", "", has={"nvidia.com/gpu": "1"}), queue="taker")
    assert victims(world, 1) == [False]


def test_jobs_of_queues_within_their_share_are_not_looked_at() -> None:
    world = taking({"cpu": "4", "memory": "4Gi"}, holds=2).job("big", a_pod("3", "1Gi", node="n1"), queue="taker")
    session, plugin = world.open("capacity")
    jobs = VictimJobs([job_of(session, "big"), job_of(session, "old")])
    task = task_of(session, "new-0")
    assert plugin.victim_jobs(job_of(session, "new"), task, jobs, Purpose.RECLAIM).tolist() == [False, False]
    session, plugin = taking({"cpu": "1"}, holds=2).open("capacity")
    jobs = VictimJobs([job_of(session, "old")])
    assert plugin.victim_jobs(job_of(session, "new"), task, jobs, Purpose.RECLAIM).tolist() == [True]
    assert plugin.victim_jobs(job_of(session, "new"), task, jobs, Purpose.PREEMPT) is None


def test_preemption_is_not_its_business() -> None:
    session, plugin = taking({}, holds=1).open("capacity")
    job, task, old = job_of(session, "new"), task_of(session, "new-0"), task_of(session, "old-0")
    assert plugin.victims(job, task, [old], Purpose.PREEMPT) is None
    assert plugin.victims(job, None, [old], Purpose.GANG_PREEMPT).tolist() == [True]
    assert plugin.victims(job, None, [old], Purpose.GANG_RECLAIM).tolist() == [True]


@pytest.mark.parametrize(("cpu", "memory", "allowed"), [("4", "1Gi", True), ("5", "4Gi", True), ("5", "5Gi", False)])
def test_a_queue_takes_back_within_its_share_of_one_resource(cpu: str, memory: str, allowed: bool) -> None:
    world = taking({}, holds=1).job("more", a_pod(cpu, memory), queue="taker")
    session, plugin = world.open("capacity")
    refusal = plugin.preemptive(queue_of(session, "taker"), [class_of(session, "more-0")])
    assert (refusal is None) is allowed
    if not allowed:
        assert refusal.cause is Cause.OVER_SHARE
        assert refusal.message == (
            "queue taker deserves cpu 4, memory 4Gi and holds cpu 0, memory 0; it cannot take back cpu 5, memory 5Gi"
        )


def test_a_queue_never_takes_beyond_its_capability() -> None:
    world = taking({}, holds=1)
    world.queue("taker", deserved={"cpu": "4"}, capability={"memory": "512Mi"})
    session, plugin = world.open("capacity")
    refusal = plugin.preemptive(queue_of(session, "taker"), [class_of(session, "new-0")])
    assert refusal.cause is Cause.OVER_CAPABILITY
    assert session.registry.names[MEMORY] in refusal.limit
