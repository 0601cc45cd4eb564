"""task-topology: roles near each other or apart, by annotations of the PodGroup."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from plugins_world import World, a_pod, class_of, job_of, task_of

from unisono import engine
from unisono.api.keys import TASK_TOPOLOGY_AFFINITY, TASK_TOPOLOGY_ANTI_AFFINITY, TASK_TOPOLOGY_ORDER
from unisono.cluster.status import TaskStatus
from unisono.engine.config_file.reader import load_config
from unisono.engine.plugins.task_topology import read_wishes

ROLES = ("ps", "worker", "chief")


def wishes(near: str = "", apart: str = "", order: str = "") -> dict[str, str]:
    given = {TASK_TOPOLOGY_AFFINITY: near, TASK_TOPOLOGY_ANTI_AFFINITY: apart, TASK_TOPOLOGY_ORDER: order}
    return {key: text for key, text in given.items() if text}


def job(world: World, annotations: dict[str, str], *roles: str, **pod: Any) -> World:
    world.job("j", *[{**a_pod(**pod), "role": role} for role in roles])
    world.state.book.jobs["ns/j"].annotations = annotations
    return world


def together(world: World) -> list[list[str]]:
    """Roles that a cycle binds to each node."""
    text = """
actions: "allocate"
tiers:
- plugins: [{name: gang}, {name: predicates}, {name: task-topology}, {name: nodeorder}]
"""
    decisions = engine.run(world.state.snapshot(), load_config(text), now=0.0)
    assert decisions.violations == []
    nodes: dict[str, list[str]] = defaultdict(list)
    for bind in decisions.binds:
        nodes[bind.node].append(world.state.tasks[f"ns/{bind.pod}"].role)
    return sorted(sorted(roles) for roles in nodes.values())


# ---- reading


@pytest.mark.parametrize(
    ("near", "apart", "order"),
    [
        ("", "", "ps"),
        ("ps,ghost", "", ""),
        ("ps,worker", "", "ghost"),
        ("ps,ps", "", ""),
        ("", "ps,worker", "ps,ps"),
    ],
)
def test_wishes_that_make_no_sense_are_ignored(near: str, apart: str, order: str) -> None:
    assert read_wishes(wishes(near, apart, order), ROLES) is None


@pytest.mark.parametrize(
    ("near", "apart", "priorities"),
    [
        ("ps,worker", "ps", {"ps": 4, "worker": 3, "chief": 0}),
        ("ps;worker,chief", "", {"ps": 2, "worker": 3, "chief": 3}),
        ("", "ps,worker,chief", {"ps": 1, "worker": 1, "chief": 1}),
    ],
)
def test_priorities_of_roles(near: str, apart: str, priorities: dict[str, int]) -> None:
    found = read_wishes(wishes(near, apart), ROLES)
    assert found is not None
    assert {role: found.priority(role) for role in ROLES} == priorities


def test_scores_between_roles() -> None:
    found = read_wishes(wishes("ps,worker", "ps;worker,chief"), ROLES)
    assert found is not None
    assert found.score("ps", {"worker": 2, "ps": 1}) == 1
    assert found.score("worker", {"ps": 1, "chief": 3, "worker": 5}) == -2
    assert found.score("worker", {"ps": 1, "chief": 3}, only_apart=True) == -3


# ---- whole cycles


def four_nodes(cpu: str = "4") -> World:
    world = World().queue("q")
    for index in range(4):
        world.node(f"n{index}", has={"cpu": cpu})
    return world


def test_each_ps_has_its_workers() -> None:
    world = job(four_nodes(), wishes("ps,worker", "ps"), *["ps"] * 2, *["worker"] * 4)
    assert together(world) == [["ps", "worker", "worker"], ["ps", "worker", "worker"]]


def test_a_role_that_keeps_to_itself() -> None:
    assert together(job(four_nodes(), wishes("worker"), *["worker"] * 4)) == [["worker"] * 4]


def test_a_role_that_spreads() -> None:
    assert together(job(four_nodes("9"), wishes(apart="worker"), *["worker"] * 4)) == [["worker"]] * 4


def test_pairs_of_roles_that_spread_are_kept_pairs_whatever_order_pods_come_in() -> None:
    """Both want to be apart from their own kind and near the other: two pairs, not four on one node."""
    world = job(four_nodes("9"), wishes("ps,worker", "ps;worker"), "ps", "worker", "ps", "worker")
    assert together(world) == [["ps", "worker"], ["ps", "worker"]]


def test_without_wishes_nothing_changes() -> None:
    world = job(four_nodes(), {}, "ps", "worker")
    session, plugin = world.open("task-topology")
    session.subject = job_of(session, "j")
    assert not plugin.concerns(class_of(session, "j-0"))
    assert plugin.score(class_of(session, "j-0"), session.nodes) is None
    assert plugin.task_key(task_of(session, "j-0")) == plugin.task_key(task_of(session, "j-1"))


def test_what_runs_already_attracts() -> None:
    world = four_nodes()
    world.job("j", {**a_pod(node="n2"), "role": "ps"}, *[{**a_pod(), "role": "worker"}] * 2)
    world.state.book.jobs["ns/j"].annotations = wishes("ps,worker")
    assert together(world) == [["worker", "worker"]]
    session, plugin = world.open("task-topology")
    session.subject = job_of(session, "j")
    scores = plugin.score(class_of(session, "j-1"), session.nodes).tolist()
    assert scores == pytest.approx([200 / 3, 200 / 3, 100.0, 200 / 3])


# ---- scores and order


def test_only_what_fits_counts_as_company() -> None:
    world = (
        World().queue("q").node("big", has={"cpu": "9"}).node("mid", has={"cpu": "5"}).node("small", has={"cpu": "1"})
    )
    session, plugin = job(world, wishes("worker"), *["worker"] * 4, cpu="2", memory="1Gi").open("task-topology")
    session.subject = job_of(session, "j")
    assert plugin.score(class_of(session, "j-0"), session.nodes).tolist() == [100.0, 50.0, 0.0]


def test_places_are_booked_and_given_back() -> None:
    session, plugin = job(four_nodes(), wishes("ps,worker"), "ps", "worker").open("task-topology")
    state, task = job_of(session, "j"), task_of(session, "j-0")
    session.subject = state
    before = plugin.score(class_of(session, "j-1"), session.nodes).tolist()
    plugin.moved(state, [task], [1], TaskStatus.PENDING, TaskStatus.ALLOCATED)
    after = plugin.score(class_of(session, "j-1"), session.nodes).tolist()
    assert after.index(max(after)) == 1
    plugin.moved(state, [task], [1], TaskStatus.ALLOCATED, TaskStatus.PENDING)
    assert plugin.score(class_of(session, "j-1"), session.nodes).tolist() == before
    plugin.moved(state, [task], [1], TaskStatus.ALLOCATED, TaskStatus.BINDING)
    assert plugin.score(class_of(session, "j-1"), session.nodes).tolist() == before


def test_order_of_tasks() -> None:
    world = job(four_nodes(), wishes("ps,worker", "ps", "ps,worker"), "chief", "worker", "ps", "worker", "ps", "worker")
    session, plugin = world.open("task-topology")
    tasks = sorted(
        (task_of(session, f"j-{index}") for index in range(6)), key=lambda t: (plugin.task_key(t), t.ordinal)
    )
    assert [task.role for task in tasks] == ["ps", "worker", "worker", "ps", "worker", "chief"]
