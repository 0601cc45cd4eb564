"""Verdicts, conditions, phases and texts."""

from __future__ import annotations

from typing import Any

import pytest

from support.build import cluster, config, flatten, gang, group, node, nodes, pod, queue, schedule
from unisono.api import kinds
from unisono.api.kinds import NODES, PODS
from unisono.cluster.state import ClusterState
from unisono.engine.closing.status_updates import without_numbers
from unisono.engine.config_file.reader import default_config
from unisono.engine.decisions import Decisions, PodGroupUpdate
from unisono.engine.verdict import Cause, Verdict

FULL = default_config()


def verdict_of(decisions: Decisions, name: str = "j") -> Verdict:
    return decisions.verdicts[f"ns/{name}"]


def update_of(decisions: Decisions, name: str = "j") -> PodGroupUpdate:
    return next(update for update in decisions.pod_groups if update.name == name)


@pytest.mark.parametrize(
    ("things", "cause", "message", "suggestion"),
    [
        pytest.param(
            [nodes(3, cpu=1), gang("j", 6)],
            Cause.TOO_LARGE,
            "only 3 of 6 pods fit on the usable nodes even if they were empty: cpu 6 is asked for, and they have cpu 3",
            "lower minAvailable to 3, or add 3 nodes like n000",
            id="a gang larger than the cluster",
        ),
        pytest.param(
            [nodes(2, cpu=4), pod("x", node="n000", cpu=4), pod("y", node="n001", cpu=3), gang("j", 1, cpu=2)],
            Cause.NODES_FULL,
            "cpu 2 is asked for, and cpu 1 of 8 is free, at most 1 on one node; "
            "pod ns/x holds cpu 4, pod ns/y holds cpu 3",
            "add 1 node like n000",
            id="nodes are full",
        ),
        pytest.param(
            [nodes(2, cpu=4), gang("j", 1, cpu=16)],
            Cause.TOO_LARGE,
            "pod j-w-0 asks for cpu 16, and the largest node (n000) has cpu 4",
            "request at most cpu 4 per pod",
            id="a pod larger than any node",
        ),
        pytest.param(
            [nodes(2, cpu=4), gang("j", 1, gpu=1)],
            Cause.TOO_LARGE,
            "no node takes it: 0/2 nodes are unavailable: 2 Insufficient nvidia.com/gpu. "
            "No node offers nvidia.com/gpu.",
            "add a node that has nvidia.com/gpu (not tried)",
            id="nobody has such a device",
        ),
        pytest.param(
            [node("a", taints=[("t", "", "NoSchedule")]), node("b", unschedulable=True), gang("j", 1)],
            Cause.FILTERS,
            "no node takes it: 0/2 nodes are unavailable: "
            "1 node(s) had untolerated taint(s), 1 node(s) were unschedulable. Node b is cordoned; the pods do not "
            "tolerate the taint t:NoSchedule of a.",
            "uncordon b, or let its pods tolerate the taint t:NoSchedule",
            id="filters",
        ),
        pytest.param(
            [nodes(1), pod("x", node="n000", ports=[6379]), gang("j", 1, ports=[6379])],
            Cause.PORT_TAKEN,
            "no node takes it: 0/1 nodes are unavailable: "
            "1 node(s) didn't have free ports for the requested pod ports. Host port 6379/TCP is held by pod ns/x on "
            "n000.",
            "port 6379 is taken on node n000 by pod ns/x; wait for it, or use another port, or add 1 node like n000",
            id="a port is taken",
        ),
        pytest.param(
            [nodes(1), gang("j", 1, queue="nowhere")],
            Cause.QUEUE_MISSING,
            "queue nowhere does not exist",
            "create queue nowhere, or name another one in spec.queue (not tried)",
            id="no such queue",
        ),
        pytest.param(
            [nodes(1), group("j", 3)],
            Cause.NO_PODS,
            "the PodGroup has no pods yet; 3 are needed",
            "create pods that name this PodGroup (not tried)",
            id="no pods",
        ),
        pytest.param(
            [nodes(1), gang("j", 2, 5)],
            Cause.TOO_FEW_PODS,
            "Not enough valid tasks for gang-scheduling, valid: 2, min: 5",
            "create 3 more pods, or lower minAvailable to 2",
            id="too few pods",
        ),
        pytest.param(
            [gang("j", 1)], Cause.NO_NODES, "no node takes it: 0/0 nodes are unavailable", "add a node (not tried)"
        ),
    ],
)
def test_verdicts(things: list[Any], cause: Cause, message: str, suggestion: str) -> None:
    verdict = verdict_of(schedule(cluster(things)))
    assert (verdict.cause, verdict.message, verdict.suggestion) == (cause, message, suggestion)


def test_numbers_of_a_verdict() -> None:
    state = cluster(nodes(2, cpu=4), group("h", 1), pod("h-w-0", "h", node="n000", cpu=3), gang("j", 4, cpu=2))
    verdict = verdict_of(schedule(state))
    assert (verdict.tasks_placeable, verdict.tasks_needed) == (2, 4)
    assert verdict.need == {"cpu": 4000}
    assert verdict.have == {"cpu": 5000}
    assert verdict.reasons == {"Insufficient cpu": 2}
    assert [(h.kind, h.name, dict(h.amounts)) for h in verdict.holders] == [("Job", "ns/h", {"cpu": 3000})]
    assert verdict.task == "ns/j-w-2"


def test_a_share_is_named_when_it_is_the_limit() -> None:
    jobs = [gang(f"{q}{i}", 1, queue=q, cpu=2, created=i) for q in ("one", "two") for i in range(3)]
    decisions = schedule(cluster(nodes(1, cpu=8), queue("one"), queue("two"), jobs), FULL)
    verdict = verdict_of(decisions, "one2")
    assert verdict.cause is Cause.OVER_SHARE
    assert "queue one may hold cpu 4 and holds cpu 4" in verdict.message
    assert verdict.suggestion == "wait for other jobs of queue one, or add 1 node like n000"


def test_a_capability_is_named_when_it_is_the_limit() -> None:
    jobs = gang("j", 6, queue="q", phase="Pending", min_resources=True)
    decisions = schedule(cluster(nodes(1, cpu=8), queue("q", capability={"cpu": 4}), jobs), FULL)
    verdict = verdict_of(decisions)
    assert verdict.cause is Cause.OVER_CAPABILITY
    assert verdict.need == {"cpu": 6000}
    assert verdict.suggestion == "lower minAvailable to 4, or raise the capability of queue q: cpu by 2"
    assert update_of(decisions).events[0] == (
        "Normal",
        "Unschedulable",
        "queue resource quota insufficient: insufficient cpu",
    )


def test_the_condition_has_volcanos_text_and_what_would_help() -> None:
    """Appendix A4 of the reference: six pods, three placeable."""
    update = update_of(schedule(cluster(nodes(3, cpu=1), gang("j", 6))))
    (condition,) = update.conditions
    assert (condition.type, condition.status, condition.reason) == ("Unschedulable", "True", "NotEnoughResources")
    assert condition.message == (
        "3/6 tasks in gang unschedulable: pod group is not ready, 6 Pending, 6 minAvailable; "
        "Pending: 3 Schedulable, 3 Unschedulable. Origin reason is j-w-3: "
        "0/3 nodes are unavailable: 3 Insufficient cpu: "
        "only 3 of 6 pods fit on the usable nodes even if they were empty: cpu 6 is asked for, "
        "and they have cpu 3; to start it: lower minAvailable to 3, or add 3 nodes like n000"
    )
    assert update.events[-1][2].startswith("6/6 tasks in gang unschedulable: pod group is not ready, 6 Pending")


def test_pod_conditions_say_where_each_pod_stands() -> None:
    decisions = schedule(cluster(nodes(1, cpu=1), gang("j", 2)))
    why = "only 1 of 2 pods fits on the usable nodes even if they were empty: cpu 2 is asked for, and they have cpu 1"
    waits = "Pod ns/j-w-0 can possibly be assigned to n000, once minAvailable is satisfied"
    assert [(c.pod, c.reason, c.message) for c in decisions.pod_conditions] == [
        ("j-w-0", "Unschedulable", f"{waits}: {why}"),
        ("j-w-1", "Unschedulable", f"0/1 nodes are unavailable: 1 Insufficient cpu: {why}"),
    ]


@pytest.mark.parametrize(("taken", "now"), [({}, "n001"), ({"cpu": 1}, "n000"), (None, "n000")])
def test_a_pod_is_told_of_another_possible_node_only_when_the_one_that_it_knows_has_no_room(
    taken: dict[str, Any] | None, now: str
) -> None:
    """Which node it would be changes with every pod that comes and goes, and none goes there."""
    before = pod("before", node="n000", phase="Running", cpu=1)
    state = cluster(nodes(2, cpu=1), gang("j", 3), [before])
    assert "assigned to n001," in _told_of("j-w-0", state)
    state.apply("DELETED", PODS, before)
    if taken is None:
        state.apply("MODIFIED", NODES, node("n001", cpu=1, unschedulable=True))
    elif taken:
        state.apply("ADDED", PODS, pod("other", node="n001", phase="Running", **taken))
    assert f"assigned to {now}," in _told_of("j-w-0", state)


def _told_of(name: str, state: ClusterState) -> str:
    return next(one.message for one in schedule(state).pod_conditions if one.pod == name)


def test_a_pod_that_was_not_tried_gets_no_reason_of_another_one() -> None:
    """The gang is given up at its first pod, which selects a label; the other one selects nothing."""
    first = pod("j-a-0", "j", cpu=1, role="a", selector={"disk": "ssd"})
    state = cluster(nodes(1, cpu=4), group("j", 2), [first, pod("j-b-0", "j", cpu=1, role="b")])
    told = {one.pod: one.message for one in schedule(state).pod_conditions}
    assert told["j-a-0"].startswith(("0/1 nodes are unavailable: 1 node(s) didn't match", "1 of 2 tasks can be placed"))
    assert not told["j-b-0"].startswith("0/1 nodes")
    assert all("disk=ssd" in message for message in told.values())


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ("cpu 4 is asked for, and cpu 1 of 8 is free", "cpu 4 is asked for, and cpu 2.5 of 8 is free", True),
        ("memory 4Gi is asked for", "memory 16Gi is asked for", True),
        ("default/hog holds cpu 4", "default/hog-2 holds cpu 4", False),
        ("1 of 2 nodes is cordoned (n-1)", "1 of 2 nodes is cordoned (n-2)", False),
        ("queue a has capability cpu 4", "queue b has capability cpu 4", False),
    ],
)
def test_amounts_alone_are_no_news_for_every_pod(before: str, after: str, same: bool) -> None:
    assert (without_numbers(before) == without_numbers(after)) is same


def _nodes_that_come(state: ClusterState, decisions: Decisions, cpu: int) -> int:
    """As a node autoscaler counts: pods that are Unschedulable go to free nodes first, new nodes come for the rest."""
    wanted = sum(condition.reason == "Unschedulable" for condition in decisions.pod_conditions)
    free = int((state.nodes.allocatable - state.nodes.used)[state.registry.row("cpu")].sum()) // 1000
    return -(-max(wanted - free, 0) // cpu)


@pytest.mark.parametrize(("members", "busy", "come"), [(2, 0, 0), (6, 1, 5), (4, 2, 4), (3, 0, 1)])
def test_an_autoscaler_brings_all_nodes_that_a_gang_lacks(members: int, busy: int, come: int) -> None:
    """There are two nodes with one place each, ``busy`` of them taken; a new node has one place too."""
    running = [
        thing for i in range(busy) for thing in (group(f"h{i}", 1), pod(f"h{i}-w", f"h{i}", node=f"n00{i}", cpu=1))
    ]
    state = cluster(nodes(2, cpu=1), running, gang("j", members))
    assert _nodes_that_come(state, schedule(state), 1) == come


def test_a_gang_that_waits_for_its_queue_asks_for_no_nodes_where_it_has_places() -> None:
    """Its first pods have places; the queue's capability refuses the others, and no node changes that."""
    jobs = gang("j", 4, queue="q")
    decisions = schedule(cluster(nodes(4, cpu=1), queue("q", capability={"cpu": 2}), jobs), FULL)
    assert [condition.reason for condition in decisions.pod_conditions][:2] == ["Schedulable", "Schedulable"]


def test_what_a_pod_was_told_is_not_said_again() -> None:
    from unisono.api.core import PodCondition

    state = cluster(nodes(1, cpu=1), gang("j", 2))
    told = {c.pod: c for c in schedule(state).pod_conditions}
    version = state.version
    for obj in gang("j", 2)[1:]:
        said = told[obj.metadata.name]
        obj.status.conditions = [  # type: ignore[attr-defined]
            PodCondition(type="PodScheduled", status="False", reason=said.reason, message=said.message)
        ]
        state.apply("MODIFIED", kinds.PODS, obj)
    assert state.version == version, "a condition is no reason for another cycle"
    assert not schedule(state).pod_conditions


@pytest.mark.parametrize(
    ("phases", "minimum", "before", "expected"),
    [
        pytest.param(["Running", "Running"], 2, "Inqueue", "Running"),
        pytest.param(["Succeeded", "Failed"], 2, "Running", "Completed"),
        pytest.param(["Running", "Succeeded"], 2, "Running", "Running", id="partly done"),
        pytest.param([], 0, "Pending", "Completed", id="nothing to wait for"),
        pytest.param(["Running"], 2, "Running", "Unknown", id="below the minimum while something runs"),
        pytest.param([], 2, "Running", "Pending", id="all pods vanished"),
        pytest.param([], 2, "Inqueue", "Inqueue", id="Inqueue stays"),
    ],
)
def test_phases(phases: list[str], minimum: int, before: str, expected: str) -> None:
    pods = [pod(f"j-w-{i}", "j", node="n000", phase=phase, cpu=1) for i, phase in enumerate(phases)]
    decisions = schedule(
        cluster(nodes(1), group("j", minimum, phase=before), pods), config(("gang",), actions="backfill")
    )
    changed = {update.name: update.phase for update in decisions.pod_groups}
    assert changed.get("j", before) == expected


def test_a_gang_whose_members_only_terminate_is_not_called_unschedulable() -> None:
    pods = [pod("j-w-0", "j", node="n000", cpu=1), pod("j-w-1", "j", node="n000", cpu=1, deleting=True)]
    update = update_of(schedule(cluster(nodes(1), group("j", 2, phase="Inqueue"), pods)))
    assert update.phase == "Running"
    assert not any(condition.type == "Unschedulable" for condition in update.conditions)


def test_unschedulable_is_cleared_once_the_gang_is_scheduled() -> None:
    from unisono.api.groups.scheduling import PodGroupCondition

    objects = flatten(gang("j", 1))
    objects[0].status.conditions = [  # type: ignore[attr-defined]
        PodGroupCondition(type="Unschedulable", status="True", reason="NotEnoughResources", message="so far")
    ]
    update = update_of(schedule(cluster(nodes(1), objects)))
    assert [(c.type, c.status) for c in update.conditions] == [("Scheduled", "True")]


def test_a_status_that_fits_is_not_written_again() -> None:
    state = cluster(nodes(1, cpu=1), gang("j", 2))
    update = update_of(schedule(state))
    from unisono.api.groups.scheduling import PodGroupCondition

    written = group("j", 2)
    written.status.phase = update.phase
    written.status.conditions = [
        PodGroupCondition(type=c.type, status=c.status, reason=c.reason, message=c.message) for c in update.conditions
    ]
    state.apply("MODIFIED", kinds.POD_GROUPS, written)
    assert not schedule(state).pod_groups


def test_allocated_of_queues_counts_children() -> None:
    state = cluster(
        nodes(1),
        queue("root"),
        queue("team", parent="root"),
        queue("leaf", parent="team"),
        gang("j", 2, queue="leaf"),
    )
    reported = {update.name: dict(update.allocated) for update in schedule(state).queues}
    assert reported == {name: {"cpu": "2", "pods": "2"} for name in ("root", "team", "leaf")}


def test_tasks_beyond_the_minimum_are_told_apart_from_the_gang() -> None:
    verdict = verdict_of(schedule(cluster(nodes(1, cpu=3), gang("j", 5, 2))))
    assert verdict.message.startswith("the gang has its minimum, and 2 more tasks wait: cpu 2 is asked for")
    assert verdict.suggestion == "add 1 node like n000"
