"""capacity over a tree of queues: limits at every level, leaves, broken trees, and who gives back first."""

from __future__ import annotations

from typing import Any

import pytest
from plugins_world import World, a_pod, class_of, job_of, queue_of, task_of

from unisono import engine
from unisono.cluster.resources import CPU
from unisono.engine.answers import Purpose, Reach, Vote
from unisono.engine.config.arguments import Flags
from unisono.engine.config_file.reader import load_config
from unisono.engine.plugins.capacity.tree import ROOT
from unisono.engine.verdict import Cause

TREE = Flags(hierarchy=True)


def open_tree(world: World, **arguments: Any) -> tuple[Any, Any]:
    return world.open("capacity", TREE, **arguments)


def company(**root: Any) -> World:
    """root: eng (dev, test) and sales, on 20 cpu."""
    world = World().node("n1").node("n2").queue(ROOT, **root)
    world.queue("eng", parent=ROOT, deserved={"cpu": "8"}, capability={"cpu": "12"})
    world.queue("sales", deserved={"cpu": "4"})
    world.queue("dev", parent="eng", deserved={"cpu": "6"}).queue("test", parent="eng", deserved={"cpu": "2"})
    return world


def test_limits_come_down_the_tree() -> None:
    world = company().queue("sales", guarantee={"resource": {"cpu": "10"}})
    world.queue("test", parent="eng", guarantee={"resource": {"cpu": "1"}}, capability={"cpu": "3"})
    _, plugin = open_tree(world)
    limits = {name: plugin.branches[name].ceiling[CPU] for name in (ROOT, "eng", "sales", "dev", "test")}
    assert limits == {ROOT: 20_000, "eng": 10_000, "sales": 20_000, "dev": 9_000, "test": 3_000}


def test_a_root_need_not_exist() -> None:
    world = World().node("n1").queue("a", capability={"cpu": "5"}).job("j", a_pod("2"), queue="a")
    session, plugin = open_tree(world)
    assert plugin.headroom(queue_of(session, "a"), class_of(session, "j-0")) == 2


def test_an_ancestor_is_full() -> None:
    world = company().job("jd", *[a_pod("5", "1Gi", node="n1")] * 2, queue="dev").job("jt", a_pod("3"), queue="test")
    session, plugin = open_tree(world)
    refusal = plugin.allocatable(queue_of(session, "test"), class_of(session, "jt-0"))
    assert refusal.message == "queue eng may hold cpu 12 and holds cpu 10; cpu 3 more is asked for"
    assert plugin.headroom(queue_of(session, "test"), class_of(session, "jt-0")) == 0
    assert plugin.headroom(queue_of(session, "sales"), class_of(session, "jt-0")) == 3


def test_placements_are_booked_up_to_the_root() -> None:
    session, plugin = open_tree(company().job("j", *[a_pod("2")] * 3, queue="dev"))
    job, pod_class = job_of(session, "j"), class_of(session, "j-0")
    plugin.placed(job, pod_class, [0, 0, 1])
    assert [plugin.branches[name].held[CPU] for name in ("dev", "eng", ROOT, "test")] == [6_000, 6_000, 6_000, 0]
    plugin.removed(job, pod_class, [1])
    assert plugin.branches[ROOT].held[CPU] == 4_000


def test_admission_reserves_up_to_the_root() -> None:
    world = company(capability={"cpu": "9"})
    for name, queue in (("j1", "dev"), ("j2", "sales")):
        world.job(name, a_pod("5"), queue=queue, phase="Pending", minResources={"cpu": "5"})
    session, plugin = open_tree(world)
    assert plugin.enqueueable(job_of(session, "j1")) is Vote.PERMIT
    session.book.promise(job_of(session, "j1"))
    assert plugin.enqueueable(job_of(session, "j2")).have == {"cpu": 5_000}


def test_only_leaves_run_jobs() -> None:
    world = company().job("j", a_pod(), queue="eng", minResources={"cpu": "1"}).job("k", a_pod(), queue="dev")
    session, plugin = open_tree(world)
    refusal = plugin.allocatable(queue_of(session, "eng"), class_of(session, "j-0"))
    assert refusal.cause is Cause.QUEUE_INVALID
    assert refusal.message == "queue eng has queues below it (dev, test); submit to one of those"
    assert plugin.enqueueable(job_of(session, "j")) == refusal
    assert plugin.headroom(queue_of(session, "eng"), class_of(session, "j-0")) == 0
    assert plugin.allocatable(queue_of(session, "dev"), class_of(session, "k-0")) is None


@pytest.mark.parametrize(
    ("queues", "broken"),
    [
        ({"x": "gone"}, {"x": "its parent gone does not exist"}),
        (
            {"x": "gone", "y": "x"},
            {"x": "its parent gone does not exist", "y": "the parent of its ancestor x does not exist"},
        ),
        ({"x": "y", "y": "x"}, {"x": "its parents form a circle at x", "y": "its parents form a circle at y"}),
        ({"x": "x"}, {"x": "its parents form a circle at x"}),
    ],
)
def test_a_broken_branch_stops_itself_and_nobody_else(queues: dict[str, str], broken: dict[str, str]) -> None:
    """Volcano admits and places nothing in the whole cluster then."""
    world = company().job("k", a_pod(), queue="dev")
    for name, parent in queues.items():
        world.queue(name, parent=parent)
    world.job("j", a_pod(), queue="x")
    session, plugin = open_tree(world)
    assert {name: branch.fault for name, branch in plugin.branches.items() if branch.fault} == broken
    refusal = plugin.allocatable(queue_of(session, "x"), class_of(session, "j-0"))
    assert refusal.cause is Cause.QUEUE_INVALID
    assert refusal.message == f"queue x cannot be used: {broken['x']}"
    assert plugin.allocatable(queue_of(session, "dev"), class_of(session, "k-0")) is None


def test_a_whole_cycle_with_a_broken_branch() -> None:
    world = company().queue("x", parent="gone").job("j", a_pod(), queue="x").job("k", a_pod(), queue="dev")
    text = """
actions: "enqueue, allocate"
tiers:
- plugins: [{name: gang}, {name: predicates}, {name: capacity, enableHierarchy: true}]
"""
    decisions = engine.run(world.state.snapshot(), load_config(text), now=0.0)
    assert [bind.job for bind in decisions.binds] == ["ns/k"]
    assert decisions.verdicts["ns/j"].cause is Cause.QUEUE_INVALID
    assert "its parent gone does not exist" in decisions.verdicts["ns/j"].message


# ---- order


def test_branches_are_compared_below_their_common_ancestor() -> None:
    world = company()
    world.job("jd", a_pod("1", node="n1"), queue="dev").job("jt", a_pod("1", node="n1"), queue="test")
    world.job("js", a_pod("2", node="n1"), queue="sales")
    session, plugin = open_tree(world)
    order = sorted(session.queues, key=lambda name: plugin.queue_key(queue_of(session, name)))
    assert order == ["dev", "test", "sales", ROOT, "eng"]  # eng holds 2 of 8, sales 2 of 4
    plugin.placed(job_of(session, "jd"), class_of(session, "js-0"), [0, 0])
    order = sorted(session.queues, key=lambda name: plugin.queue_key(queue_of(session, name)))
    assert order[:3] == ["sales", "test", "dev"]
    assert plugin.order_reach is Reach.CLUSTER


@pytest.mark.parametrize("deserved", [{}, {"deserved": {"cpu": "4"}}])
def test_a_short_path_is_no_advantage_among_equal_branches(deserved: dict[str, Any]) -> None:
    """Nobody holds anything yet: the branch that comes first by age and name is served, however deep its queue is."""
    world = World().node("n1", has={"cpu": "4"}).queue(ROOT)
    world.queue("a", parent=ROOT, **deserved).queue("a-leaf", parent="a").queue("b", parent=ROOT, **deserved)
    for name in ("b", "a-leaf"):
        world.job(f"j-{name}", *[a_pod("2", "1Gi")] * 2, queue=name, minMember=2)
    text = """
actions: "allocate"
tiers:
- plugins: [{name: gang}, {name: capacity, enableHierarchy: true}, {name: predicates}]
"""
    decisions = engine.run(world.state.snapshot(), load_config(text), now=0.0)
    assert {bind.job for bind in decisions.binds} == {"ns/j-a-leaf"}


def test_the_nearest_family_gives_first() -> None:
    session, plugin = open_tree(company())
    actor = queue_of(session, "dev")
    keys = {name: plugin.victim_queue_key(queue_of(session, name), actor) for name in ("test", "sales")}
    assert keys["test"] < keys["sales"]


# ---- taking back at several levels


def two_families(grandparent: str) -> World:
    """giver holds 2 of its 1, and its parent as well; its grandparent deserves ``grandparent``."""
    world = World().node("n1", has={"cpu": "2"}).queue(ROOT)
    for side, share in (("a", "2"), ("b", "1")):
        world.queue(f"grand-{side}", parent=ROOT, deserved={"cpu": grandparent if side == "b" else "2"})
        world.queue(f"parent-{side}", parent=f"grand-{side}", deserved={"cpu": share})
        world.queue(f"queue-{side}", parent=f"parent-{side}", deserved={"cpu": share})
    return world.job("old", a_pod("2", node="n1"), queue="queue-b").job("new", a_pod("2"), queue="queue-a")


@pytest.mark.parametrize(
    ("level", "grandparent", "given"),
    [(0, "3", True), (1, "3", True), (2, "3", False), (2, "1", True), (-1, "3", True)],
)
def test_ancestors_up_to_the_level_must_be_over_their_share(level: int, grandparent: str, given: bool) -> None:
    session, plugin = open_tree(two_families(grandparent), ancestorReclaimLevel=level)
    job, task, old = job_of(session, "new"), task_of(session, "new-0"), task_of(session, "old-0")
    assert plugin.victims(job, task, [old], Purpose.RECLAIM).tolist() == [given]


def test_the_share_of_an_ancestor_lets_a_queue_take() -> None:
    world = World().node("n1").queue(ROOT).queue("p", parent=ROOT, deserved={"cpu": "4"}).queue("q", parent="p")
    world.job("j", a_pod("2"), queue="q")
    for level, allowed in ((0, False), (1, True)):
        session, plugin = open_tree(world, ancestorReclaimLevel=level)
        assert (plugin.preemptive(queue_of(session, "q"), [class_of(session, "j-0")]) is None) is allowed


@pytest.mark.parametrize("capability", [{}, {"capability": {"cpu": "4"}}])
def test_nobody_is_promised_a_free_place_beyond_the_limit_of_an_ancestor(capability: dict[str, Any]) -> None:
    """A node has room, and b deserves half of the gang; but a holds all that their parent may hold and gives up 2."""
    world = World().node("n1", has={"cpu": "16"}).queue(ROOT).queue("p", parent=ROOT, **capability)
    for name in ("a", "b"):
        world.queue(name, parent="p", deserved={"cpu": "2"})
    for number in range(2):
        world.job(f"old-{number}", a_pod("2", "", node="n1"), queue="a", phase="Running")
    world.job("new", *[a_pod("2", "")] * 2, queue="b")
    text = """
actions: "allocate, reclaim"
tiers:
- plugins: [{name: gang}, {name: predicates}, {name: capacity, enableHierarchy: true}]
"""
    decisions = engine.run(world.state.snapshot(), load_config(text), now=0.0)
    assert (len(decisions.binds), decisions.pipelined, decisions.evictions) == (
        (0, [], []) if capability else (2, [], [])
    )


@pytest.mark.parametrize(("level", "given"), [(0, True), (1, False)])
def test_siblings_without_shares_leave_each_other_alone(level: int, given: bool) -> None:
    world = World().node("n1").queue(ROOT).queue("p", parent=ROOT, deserved={"cpu": "4"})
    world.queue("a", parent="p").queue("b", parent="p")
    world.job("old", a_pod("2", node="n1"), queue="b").job("new", a_pod("2"), queue="a")
    session, plugin = open_tree(world, ancestorReclaimLevel=level)
    job, task, old = job_of(session, "new"), task_of(session, "new-0"), task_of(session, "old-0")
    assert plugin.victims(job, task, [old], Purpose.RECLAIM).tolist() == [given]


def test_the_guarantee_of_an_ancestor_is_kept() -> None:
    world = two_families("1").queue("parent-b", parent="grand-b", guarantee={"resource": {"cpu": "1"}})
    session, plugin = open_tree(world)
    job, task, old = job_of(session, "new"), task_of(session, "new-0"), task_of(session, "old-0")
    assert plugin.victims(job, task, [old], Purpose.RECLAIM).tolist() == [False]
