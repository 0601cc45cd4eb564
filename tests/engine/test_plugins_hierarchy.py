"""drf with hierarchy: fairness among branches, then within them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from plugins_world import World, a_pod, class_of, job_of, queue_of, task_of

from unisono import engine
from unisono.cluster.status import TaskStatus
from unisono.engine.answers import Purpose, Reach
from unisono.engine.config.arguments import Flags
from unisono.engine.config_file.reader import load_config
from unisono.engine.plugins.drf import Tree, path_of

ON = Flags(hierarchy=True)
G = "1G"


def queue(world: World, name: str, path: str, weights: str) -> World:
    from unisono.api.groups.scheduling import Queue

    annotations = {"volcano.sh/hierarchy": path, "volcano.sh/hierarchy-weights": weights}
    world.add(Queue, name, meta={"annotations": annotations}, spec={"weight": 1}, status={"state": "Open"})
    return world


def company(cpu: str = "10", memory: str = "10G") -> World:
    world = World().node("n1", has={"cpu": cpu, "memory": memory, "pods": "50"})
    queue(world, "sci", "root/sci", "100/50")
    queue(world, "dev", "root/eng/dev", "100/50/50")
    return queue(world, "prod", "root/eng/prod", "100/50/50")


def fill(world: World) -> dict[str, dict[str, int]]:
    """Place task after task of the best queue's job until nothing fits; what each queue holds then."""
    session, plugin = world.open("drf", ON)
    waiting = {job.queue.name: list(job.record.pending.values()) for job in session.jobs}
    idle = session.nodes.idle[:, 0].copy()
    while queues := [name for name, tasks in waiting.items() if tasks]:
        best = min(queues, key=lambda name: (plugin.queue_key(queue_of(session, name)), name))
        task = waiting[best].pop(0)
        if (task.pod_class.vector > idle).any():
            waiting[best].clear()
            continue
        idle -= task.pod_class.vector
        job = session.job(task.job)
        job.move(task.pod_class, "", 1, TaskStatus.PENDING, TaskStatus.ALLOCATED)
        plugin.placed(job, task.pod_class, [0])
    held = {job.queue.name: session.registry.amounts(job.allocated) for job in session.jobs}
    return {name: {key: value for key, value in amounts.items() if key != "pods"} for name, amounts in held.items()}


def test_rescaling_gives_each_branch_half() -> None:
    """One branch wants both resources, the other has one queue for cpu and one for memory."""
    world = company().job("j1", *[a_pod("1", G)] * 10, queue="sci", minMember=1)
    world.job("j2", *[a_pod("1", "")] * 10, queue="dev", minMember=1)
    world.job("j3", *[a_pod("", G)] * 10, queue="prod", minMember=1)
    assert fill(world) == {
        "sci": {"cpu": 5_000, "memory": 5 * 10**9},
        "dev": {"cpu": 5_000},
        "prod": {"memory": 5 * 10**9},
    }


def test_a_branch_that_wants_little_leaves_the_rest() -> None:
    world = company().job("j1", *[a_pod("1", "")] * 2, queue="sci", minMember=1)
    world.job("j2", *[a_pod("1", "")] * 10, queue="dev", minMember=1).job(
        "j3", *[a_pod("1", "")] * 10, queue="prod", minMember=1
    )
    assert fill(world) == {"sci": {"cpu": 2_000}, "dev": {"cpu": 4_000}, "prod": {"cpu": 4_000}}


def test_weights_divide_a_level() -> None:
    world = World().node("n1", has={"cpu": "9"})
    queue(world, "a", "root/a", "1/1")
    queue(world, "b", "root/b", "1/2")
    world.job("ja", *[a_pod("1", "")] * 9, queue="a", minMember=1).job(
        "jb", *[a_pod("1", "")] * 9, queue="b", minMember=1
    )
    assert fill(world) == {"a": {"cpu": 3_000}, "b": {"cpu": 6_000}}


def test_a_branch_that_is_blocked_on_one_resource_holds_nobody_up() -> None:
    """Three branches share the cpu; the memory goes to the two that can use it."""
    world = World().node("n1", has={"cpu": "30", "memory": "30G", "pods": "200"})
    for path in ("a", "b", "c/x", "c/y", "d"):
        queue(world, path, f"root/{path}", "100/25/50")
        pod = a_pod("", G) if path in ("c/y", "d") else a_pod("1", "")
        world.job(f"j-{path.replace('/', '-')}", *[pod] * 30, queue=path, minMember=1)
    cpu, memory = {"cpu": 10_000}, {"memory": 15 * 10**9}
    assert fill(world) == {"a": cpu, "b": cpu, "c/x": cpu, "c/y": memory, "d": memory}


def test_a_short_path_is_no_advantage_among_equal_branches() -> None:
    """Nobody holds anything yet: the queue that comes first by name is served, however deep it stands."""
    world = World().node("n1", has={"cpu": "8"})
    queue(world, "a-deep", "root/a/deep", "1/1/1")
    queue(world, "b", "root/b", "1/1")
    world.job("deep", *[a_pod("4", "")] * 2, queue="a-deep", minMember=2)
    world.job("flat", *[a_pod("4", "")] * 2, queue="b", minMember=2)
    assert fill(world) == {"a-deep": {"cpu": 4_000}, "b": {"cpu": 4_000}}
    session, plugin = world.open("drf", ON)
    assert plugin.queue_key(queue_of(session, "a-deep")) == plugin.queue_key(queue_of(session, "b"))


@pytest.mark.parametrize(
    ("annotations", "path", "weights"),
    [
        ({"volcano.sh/hierarchy": "root/a/b", "volcano.sh/hierarchy-weights": "1/2/8"}, ["root", "a", "b"], [1, 2, 8]),
        ({"volcano.sh/hierarchy": "root/a", "volcano.sh/hierarchy-weights": "1/0.5"}, ["root", "a"], [1, 1]),
        ({"volcano.sh/hierarchy": "root/a", "volcano.sh/hierarchy-weights": "x/nan"}, ["root", "a"], [1, 1]),
        ({}, [""], [1]),
    ],
)
def test_paths_and_weights(annotations: dict[str, str], path: list[str], weights: list[float]) -> None:
    assert path_of(annotations) == (path, weights)


def test_missing_weights_count_as_one() -> None:
    tree = Tree(np.array([10.0]))
    tree.put(["root", "a", "b"], [1.0], "j", np.array([5.0]), np.array([9.0]))
    tree.update(np.array([5.0]))
    assert tree.key(["root", "a", "b"]) == ((False, 0.5),) * 3
    assert tree.key(["root", "c"]) == ((False, 0.5),)  # a queue without jobs has no node


def test_without_the_switch_queues_are_not_ordered() -> None:

    world = company().job("j", a_pod(), queue="sci")
    assert "queue_key" not in world.open("drf")[1].implemented
    plugin: Any = world.open("drf", ON)[1]
    assert "queue_key" in plugin.implemented
    assert plugin.order_reach is Reach.CLUSTER


def test_jobs_are_still_ordered_by_their_share() -> None:
    world = company().job("small", a_pod("1", node="n1"), queue="sci").job("big", a_pod("4", node="n1"), queue="sci")
    session, plugin = world.open("drf", ON)
    assert plugin.job_key(job_of(session, "small")) < plugin.job_key(job_of(session, "big"))


def test_the_branch_that_holds_least_is_next_although_a_neighbour_waited_longer() -> None:
    """One queue of branch a was served: its sibling comes after branch b, which holds nothing."""
    world = World().node("n1", has={"cpu": "8"})
    for path in ("a/x", "a/y", "b"):
        name = path.replace("/", "-")
        queue(world, name, f"root/{path}", "1/1/1")
        world.job(f"j-{name}", *[a_pod("2", "")] * 2, queue=name, minMember=2)
    text = """
actions: "allocate"
tiers:
- plugins: [{name: gang}, {name: drf, enableHierarchy: true}, {name: predicates}]
"""
    decisions = engine.run(world.state.snapshot(), load_config(text), now=0.0)
    assert {bind.job for bind in decisions.binds} == {"ns/j-a-x", "ns/j-b"}


def test_the_only_other_queue_gets_its_turn_when_the_served_one_holds_more() -> None:
    """Also where what all hold together has become smaller in proportion: that concerns both queues alike."""
    world = World().node("n1", has={"cpu": "8", "memory": "8G"})
    queue(world, "a", "root/a", "1/1")
    queue(world, "b", "root/b", "1/2")
    for name in ("a", "b"):
        world.job(f"runs-{name}", a_pod("2", "", node="n1"), queue=name, minMember=1)
    world.job("a1", a_pod("", "3G"), queue="a", minMember=1)
    for name, memory in (("b1", "2G"), ("b2", "3G"), ("b3", "3G")):
        world.job(name, a_pod("", memory), queue="b", minMember=1)
    text = """
actions: "allocate"
tiers:
- plugins: [{name: gang}, {name: drf, enableHierarchy: true}, {name: predicates}]
"""
    decisions = engine.run(world.state.snapshot(), load_config(text), now=0.0)
    assert {bind.job for bind in decisions.binds} == {"ns/b1", "ns/b2", "ns/a1"}


def test_reclaim_takes_from_branches_that_hold_more() -> None:
    world = company().job("j1", *[a_pod("2", "", node="n1")] * 4, queue="sci", minMember=1)
    world.job("j2", a_pod("2", "", node="n1"), a_pod("2", ""), queue="dev", minMember=1)
    session, plugin = world.open("drf", ON)
    actor, task = job_of(session, "j2"), task_of(session, "j2-1")
    before = plugin.queue_key(queue_of(session, "sci"))
    candidates = [task_of(session, "j1-0"), task_of(session, "j2-0")]
    assert plugin.victims(actor, task, candidates, Purpose.RECLAIM).tolist() == [True, False]
    assert plugin.queue_key(queue_of(session, "sci")) == before  # asking changes nothing
    assert class_of(session, "j2-1") is task.pod_class
