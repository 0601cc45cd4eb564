"""proportion and overcommit: what queues may hold, and what may be promised."""

from __future__ import annotations

from typing import Any

import pytest
from plugins_world import World, a_pod, class_of, job_of, queue_of, task_of

from unisono.cluster.resources import CPU, MEMORY
from unisono.engine.answers import Purpose, Refusal, Vote
from unisono.engine.verdict import Cause

GI = 1 << 30


def deserved(world: World, row: int = CPU) -> dict[str, int]:
    _, plugin = world.open("proportion")
    return {name: int(vector[row]) for name, vector in plugin.deserved.items()}


# ---- shares


def test_shares_by_weight_request_and_capability() -> None:
    """The worked numbers A1: weights 1, 3, 1; one asks for little, one is capped."""
    world = World().node("n1")
    world.queue("a").queue("b", weight=3).queue("c", capability={"cpu": "1"})
    world.job("ja", a_pod("2"), queue="a").job("jb", *[a_pod("5")] * 4, queue="b").job(
        "jc", *[a_pod("5")] * 4, queue="c"
    )
    assert deserved(world) == {"a": 2_000, "b": 7_000, "c": 1_000}


def test_a_guarantee_is_granted_and_taken_from_the_others() -> None:
    """The worked numbers A2."""
    world = World().node("n1")
    world.queue("a", guarantee={"resource": {"cpu": "4"}}).queue("b", capability={"cpu": "6"})
    world.job("ja", a_pod("1"), queue="a").job("jb", *[a_pod("5")] * 4, queue="b")
    assert deserved(world) == {"a": 4_000, "b": 6_000}
    _, plugin = world.open("proportion")
    assert plugin.real_capability["b"][CPU] == 6_000


def test_the_last_gpu_is_given() -> None:
    """Volcano's rounds end at 7999.94 milli-GPU here, and the eighth pod is refused."""
    world = World().node("n1", has={"cpu": "64", "memory": "256Gi", "nvidia.com/gpu": "8"}).queue("a").queue("b")
    world.job("ja", *[a_pod("20", "90Gi")] * 10, queue="a")
    world.job("jb", *[a_pod("1", "4Gi", has={"nvidia.com/gpu": "1"})] * 8, queue="b")
    session, plugin = world.open("proportion")
    assert plugin.deserved["b"][session.registry.row("nvidia.com/gpu")] == 8_000
    assert plugin.headroom(queue_of(session, "b"), class_of(session, "jb-0")) == 8


def test_one_to_two() -> None:
    """Mission example 06 on four cpus: the shares are 1:2 while both want more."""
    world = World().node("n1", has={"cpu": "3"}).queue("queue-a", weight=1).queue("queue-b", weight=2)
    for letter in "ab":
        for number in range(6):
            world.job(f"job-{letter}-{number}", a_pod("500m", "100Mi"), queue=f"queue-{letter}")
    session, plugin = world.open("proportion")
    room = {x: plugin.headroom(queue_of(session, f"queue-{x}"), class_of(session, f"job-{x}-0-0")) for x in "ab"}
    assert room == {"a": 2, "b": 4}


def test_queues_without_jobs_take_no_part() -> None:
    world = World().node("n1").queue("a", weight=9).queue("b").job("j", *[a_pod("5")] * 4, queue="b")
    assert deserved(world) == {"b": 10_000}


def test_unusable_nodes_do_not_count_but_what_runs_there_does() -> None:
    world = World().node("n1").node("n2", unschedulable=True).node("n3", ready=False).queue("a")
    world.job("j", a_pod("3", node="n2"), *[a_pod("5")] * 9, queue="a")
    assert deserved(world) == {"a": 13_000}


def test_resources_that_only_one_queue_asks_for() -> None:
    world = World().node("n1").queue("a").queue("b")
    world.job("ja", a_pod("20", "1Gi"), queue="a").job("jb", a_pod("1", "20Gi"), queue="b")
    assert deserved(world) == {"a": 9_000, "b": 1_000}
    assert deserved(world, MEMORY) == {"a": 1 * GI, "b": 9 * GI}


def test_resources_that_nobody_has_are_left_out() -> None:
    limits = {"cpu": "4", "example.com/fpga": "2"}
    world = World().node("n1").queue("a", capability=limits, guarantee={"resource": {"example.com/dpu": "1"}})
    assert deserved(world.job("j", *[a_pod("5")] * 2, queue="a")) == {"a": 4_000}


# ---- order and limits


def test_queue_order_is_priority_then_share() -> None:
    world = World().node("n1").queue("a").queue("b").queue("c", priority=5)
    world.job("ja", a_pod("2", node="n1"), a_pod("9"), queue="a").job(
        "jb", a_pod("1", node="n1"), a_pod("9"), queue="b"
    )
    world.job("jc", a_pod("3", node="n1"), queue="c")
    session, plugin = world.open("proportion")
    assert sorted("abc", key=lambda name: plugin.queue_key(queue_of(session, name))) == ["c", "b", "a"]


def limited() -> World:
    """Two equal queues on 10 cpu; a holds 4 of its 5."""
    world = (
        World()
        .node("n1")
        .queue("a")
        .queue("b")
        .job("ja", *[a_pod("2", "1Gi", node="n1")] * 2, *[a_pod("2", "1Gi")] * 2, queue="a")
    )
    return world.job("jb", *[a_pod("2", "1Gi")] * 5, queue="b")


def test_a_queue_never_allocates_beyond_its_share() -> None:
    session, plugin = limited().open("proportion")
    queue, pod_class = queue_of(session, "a"), class_of(session, "ja-2")
    refusal = plugin.allocatable(queue, pod_class)
    assert refusal.cause is Cause.OVER_SHARE
    assert refusal.message == "queue a may hold cpu 5 and holds cpu 4; cpu 2 more is asked for"
    assert (refusal.need, refusal.have, refusal.limit) == ({"cpu": 2_000}, {"cpu": 4_000}, {"cpu": 5_000})
    assert plugin.headroom(queue, pod_class) == 0
    assert plugin.preemptive(queue, [pod_class]) is not None


def test_headroom_agrees_with_allocatable() -> None:
    session, plugin = limited().open("proportion")
    queue, pod_class = queue_of(session, "b"), class_of(session, "jb-0")
    room = plugin.headroom(queue, pod_class)
    assert room == 2
    for _ in range(room):
        assert plugin.allocatable(queue, pod_class) is None
        queue.claimed += pod_class.vector
    assert plugin.allocatable(queue, pod_class) is not None


def test_pods_are_no_limit_and_best_effort_tasks_have_room() -> None:
    world = World().node("n1", has={"pods": "1"}).queue("a").job("j", a_pod("1"), a_pod("1"), a_pod("", ""), queue="a")
    session, plugin = world.open("proportion")
    queue = queue_of(session, "a")
    assert plugin.headroom(queue, class_of(session, "j-0")) == 2
    assert plugin.headroom(queue, class_of(session, "j-2")) > 10**6


def test_preemptive_counts_every_task() -> None:
    session, plugin = limited().open("proportion")
    pod_class = class_of(session, "jb-0")
    assert plugin.preemptive(queue_of(session, "b"), [pod_class] * 2) is None
    assert plugin.preemptive(queue_of(session, "b"), [pod_class] * 3).cause is Cause.OVER_SHARE


def test_a_capability_is_named_as_the_cause() -> None:
    world = World().node("n1").queue("a", capability={"cpu": "1"}).job("j", a_pod("2"), queue="a")
    session, plugin = world.open("proportion")
    assert plugin.allocatable(queue_of(session, "a"), class_of(session, "j-0")).cause is Cause.OVER_CAPABILITY


def test_overused_means_no_room_in_any_resource() -> None:
    world = World().node("n1", has={"pods": "4"}).queue("a").queue("b")
    world.job("ja", *[a_pod("5", "5Gi", node="n1")], a_pod("5", "5Gi"), queue="a").job(
        "jb", *[a_pod("5", "5Gi")] * 2, queue="b"
    )
    session, plugin = world.open("proportion")
    queue = queue_of(session, "a")
    assert plugin.overused(queue) is None  # one more pod would be within its share
    queue.claimed += class_of(session, "ja-1").vector
    assert plugin.overused(queue).cause is Cause.OVER_SHARE
    assert plugin.overused(queue_of(session, "b")) is None


@pytest.mark.parametrize("state", ["Closed", "Closing", "Unknown", ""])
def test_only_open_queues_place(state: str) -> None:
    world = World().node("n1").queue("a", state=state).job("j", a_pod(), queue="a", minResources={"cpu": "1"})
    session, plugin = world.open("proportion")
    queue, pod_class = queue_of(session, "a"), class_of(session, "j-0")
    assert plugin.allocatable(queue, pod_class).cause is Cause.QUEUE_CLOSED
    assert plugin.preemptive(queue, [pod_class]).cause is Cause.QUEUE_CLOSED
    assert plugin.enqueueable(job_of(session, "j")).cause is Cause.QUEUE_CLOSED
    assert plugin.headroom(queue, pod_class) == 0


# ---- admission


def admission(name: str, world: World, *jobs: str, **arguments: Any) -> list[Vote | Refusal]:
    """Votes on the jobs one after the other; what an admitted job asks for is promised to it."""
    session, plugin = world.open(name, **arguments)
    votes = []
    for job in (job_of(session, job) for job in jobs):
        votes.append(plugin.enqueueable(job))
        if votes[-1] is Vote.PERMIT:
            session.book.promise(job)
    return votes


def pending(world: World, name: str, cpu: str, queue: str = "a", **amounts: str) -> World:
    return world.job(name, a_pod(cpu), queue=queue, phase="Pending", minResources={"cpu": cpu, **amounts})


def test_proportion_admits_up_to_the_real_capability() -> None:
    world = World().node("n1").queue("a").queue("b", guarantee={"resource": {"cpu": "4"}})
    world = pending(pending(pending(world, "j1", "5"), "j2", "2"), "j3", "1")
    first, second, third = admission("proportion", world, "j1", "j2", "j3")
    assert (first, third) == (Vote.PERMIT, Vote.PERMIT)
    assert isinstance(second, Refusal)
    assert second.message == "queue resource quota insufficient: insufficient cpu"
    assert (second.need, second.have, second.limit) == ({"cpu": 2_000}, {"cpu": 5_000}, {"cpu": 6_000})
    assert second.event
    assert second.cause is Cause.OVER_CAPABILITY


def test_proportion_counts_what_is_held_but_not_the_elastic_part() -> None:
    world = World().node("n1").queue("a")
    world.job("run", *[a_pod("4", node="n1")] * 2, queue="a", phase="Running", minMember=1, minResources={"cpu": "4"})
    world = pending(pending(world, "j1", "6"), "j2", "1")
    votes = admission("proportion", world, "j1", "j2")
    assert votes[0] is Vote.PERMIT
    assert isinstance(votes[1], Refusal)


def test_pods_in_min_resources_are_no_limit() -> None:
    world = pending(World().node("n1", has={"pods": "1"}).queue("a"), "j", "1", pods="50")
    assert admission("proportion", world, "j") == [Vote.PERMIT]
    assert admission("overcommit", world, "j") == [Vote.PERMIT]


def test_overcommit_promises_a_multiple_of_what_is_free() -> None:
    world = World().node("n1").queue("a").pod("foreign", **a_pod("2", node="n1"))
    world = pending(pending(pending(world, "j1", "9"), "j2", "2"), "j3", "1")
    first, second, third = admission("overcommit", world, "j1", "j2", "j3")
    assert (first, third) == (Vote.PERMIT, Vote.PERMIT)
    assert isinstance(second, Refusal)
    assert second.message == "resource in cluster is overused: overused cpu"
    assert (second.need, second.have, second.limit) == ({"cpu": 2_000}, {"cpu": 9_000}, {"cpu": 10_000})
    assert second.cause is Cause.CLUSTER_OVERCOMMITTED


@pytest.mark.parametrize(("factor", "admitted"), [(1.0, False), (1.2, True), (0.5, True), (2, True)])
def test_overcommit_factor(factor: float, admitted: bool) -> None:
    world = pending(World().node("n1").queue("a"), "j", "12")
    votes = admission("overcommit", world, "j", **{"overcommit-factor": factor})
    assert (votes == [Vote.PERMIT]) is admitted


def test_overcommit_does_not_count_twice_what_an_admitted_job_holds() -> None:
    world = World().node("n1").queue("a")
    world.job("half", a_pod("4", node="n1"), a_pod("4"), queue="a", minResources={"cpu": "8"})
    assert admission("overcommit", pending(world, "j", "4"), "j") == [Vote.PERMIT]


def test_overcommit_leaves_unusable_nodes_out() -> None:
    world = World().node("n1").node("n2", ready=False).queue("a")
    assert isinstance(admission("overcommit", pending(world, "j", "13"), "j")[0], Refusal)


# ---- victims


def test_victims_come_from_queues_above_their_share_until_they_are_not() -> None:
    world = World().node("n1").queue("a").queue("b")
    world.job("ja", *[a_pod("3", "1Gi", node="n1")] * 3, queue="a").job("jb", *[a_pod("5", "1Gi")] * 2, queue="b")
    session, plugin = world.open("proportion")
    candidates = [task_of(session, f"ja-{i}") for i in range(3)]
    actor = job_of(session, "jb")
    assert plugin.victims(actor, task_of(session, "jb-0"), candidates, Purpose.RECLAIM).tolist() == [True, True, False]
    assert plugin.victims(actor, task_of(session, "jb-0"), candidates, Purpose.PREEMPT) is None
