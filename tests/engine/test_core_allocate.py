"""enqueue, allocate and backfill, one cycle at a time."""

from __future__ import annotations

from typing import Any

import pytest

from support.build import (
    GANG,
    bound_per_job,
    cluster,
    config,
    confirm,
    gang,
    group,
    node,
    nodes,
    placed,
    pod,
    priority_class,
    queue,
    schedule,
)
from unisono.api import kinds
from unisono.engine.config_file.reader import default_config
from unisono.engine.verdict import Cause

BINPACK = config(("priority", "gang"), ("predicates", "binpack"))


@pytest.mark.parametrize(
    ("size", "minimum", "bound"),
    [
        pytest.param(4, 4, 4, id="fits exactly"),
        pytest.param(5, 5, 0, id="one too many: nothing at all"),
        pytest.param(6, 4, 4, id="elastic: the minimum and what fits"),
        pytest.param(6, 2, 4, id="elastic beyond the minimum"),
        pytest.param(6, 0, 4, id="no minimum"),
    ],
)
def test_gangs_on_two_nodes_of_two_cores(size: int, minimum: int, bound: int) -> None:
    decisions = schedule(cluster(nodes(2, cpu=2), gang("j", size, minimum)))
    assert len(decisions.binds) == bound
    assert not decisions.violations


def test_a_gang_that_does_not_fit_leaves_its_room_to_others() -> None:
    decisions = schedule(cluster(nodes(2, cpu=2), gang("big", 5), gang("small", 4, created=1)))
    assert bound_per_job(decisions) == {"small": 4}


def test_ties_go_to_the_first_node_in_name_order() -> None:
    state = cluster(node("b"), node("a"), node("c"), gang("j", 1))
    assert placed(schedule(state)) == {"j-w-0": "a"}


def test_binpack_fills_one_node_before_the_next() -> None:
    decisions = schedule(cluster(nodes(3, cpu=4), gang("j", 6)), BINPACK)
    assert sorted(placed(decisions).values()) == ["n000"] * 4 + ["n001"] * 2


def test_higher_priority_goes_first() -> None:
    state = cluster(
        nodes(1, cpu=2),
        priority_class("high", 10),
        gang("old", 2),
        gang("new", 2, created=9, priority_class="high"),
    )
    assert bound_per_job(schedule(state)) == {"new": 2}


def test_older_jobs_go_first_among_equals() -> None:
    state = cluster(nodes(1, cpu=2), gang("a", 2, created=5), gang("b", 2, created=1))
    assert bound_per_job(schedule(state)) == {"b": 2}


def test_tasks_are_placed_in_the_order_of_their_numbers() -> None:
    tasks = [pod(f"j-w-{number}", "j", cpu=1) for number in (10, 9, 2)]
    decisions = schedule(cluster(nodes(1, cpu=2), group("j", 2), tasks))
    assert sorted(placed(decisions)) == ["j-w-2", "j-w-9"]


def test_surplus_tasks_of_jobs_take_turns() -> None:
    jobs = [gang("a", 6, 1), gang("b", 6, 1, created=1)]
    settings = config(("gang",), ("drf", "predicates"))
    assert bound_per_job(schedule(cluster(nodes(1, cpu=6), jobs), settings)) == {"a": 3, "b": 3}


def test_a_gang_that_lost_a_member_gets_its_place_before_a_fresh_job() -> None:
    held = [pod(f"old-w-{number}", "old", node="n000", cpu=1) for number in range(2)]
    state = cluster(
        nodes(1, cpu=3),
        group("old", 3, phase="Running", created=9),
        held,
        pod("old-w-2", "old", cpu=1),
        gang("fresh", 1),
    )
    assert bound_per_job(schedule(state, default_config())) == {"old": 1}


def test_what_is_being_released_is_promised_to_the_gang_that_waits() -> None:
    state = cluster(
        nodes(1, cpu=2),
        pod("gone", node="n000", deleting=True, cpu=2, scheduler="other"),
        gang("first", 2),
        gang("second", 1, created=1),
    )
    decisions = schedule(state)
    assert not decisions.binds
    assert [item.pod for item in decisions.pipelined] == ["first-w-0", "first-w-1"]
    assert decisions.verdicts["ns/first"].cause is Cause.WAITING_FOR_VICTIMS
    assert decisions.verdicts["ns/second"].cause is Cause.NODES_FULL


def test_a_task_that_starts_now_leaves_what_is_promised() -> None:
    state = cluster(
        nodes(1, cpu=3),
        pod("gone", node="n000", deleting=True, cpu=2, scheduler="other"),
        gang("wide", 1, cpu=3),
        gang("narrow", 1, created=1),
    )
    decisions = schedule(state)
    assert [item.pod for item in decisions.pipelined] == ["wide-w-0"]
    assert not decisions.binds


def test_jobs_that_are_ready_take_turns_on_what_is_being_released() -> None:
    """Surplus pods compete through the orders, on free resources and on those that others still leave."""
    state = cluster(
        nodes(2, cpu=3),
        *[pod(f"gone-{i}", node="n000", deleting=True, cpu=1, scheduler="other") for i in range(2)],
        pod("stays", node="n000", cpu=1, scheduler="other"),
        pod("stays-too", node="n001", cpu=1, scheduler="other"),
        *[group(name, 1, phase="Running", created=at) for at, name in enumerate(("first", "second"))],
        *[pod(f"{name}-w-9", name, node="n001", cpu=1) for name in ("first", "second")],
        *[pod(f"{name}-w-{i}", name, cpu=1) for name in ("first", "second") for i in range(2)],
    )
    decisions = schedule(state, config(("priority", "gang"), ("drf", "predicates")))
    assert not decisions.binds
    assert sorted(item.pod for item in decisions.pipelined) == ["first-w-0", "second-w-0"]


def test_the_nominated_node_comes_first() -> None:
    state = cluster(nodes(3), group("j", 1), pod("j-w-0", "j", cpu=1, nominated="n002"))
    assert placed(schedule(state)) == {"j-w-0": "n002"}


@pytest.mark.parametrize("nominated", ["gone", "n000"])
def test_a_nomination_that_does_not_help_is_passed_over(nominated: str) -> None:
    state = cluster(
        nodes(2, cpu=2),
        pod("there", node="n000", cpu=2),
        group("j", 1),
        pod("j-w-0", "j", cpu=1, nominated=nominated),
    )
    assert placed(schedule(state)) == {"j-w-0": "n001"}


@pytest.mark.parametrize(
    ("roles", "minimum", "bound"),
    [
        pytest.param(None, 3, {"j-m-0", "j-w-0", "j-w-1"}, id="no minimum per role"),
        pytest.param({"m": 1, "w": 2}, 3, {"j-m-0", "j-w-0", "j-w-1"}, id="met"),
        pytest.param({"m": 1, "w": 3}, 4, set(), id="a role falls short"),
        pytest.param({"m": 1, "w": 9}, 2, {"j-m-0", "j-w-0", "j-w-1"}, id="ignored when above minMember"),
    ],
)
def test_minimum_per_role(roles: dict[str, int] | None, minimum: int, bound: set[str]) -> None:
    tasks = [pod("j-m-0", "j", role="m", cpu=1), *(pod(f"j-w-{i}", "j", role="w", cpu=1) for i in range(3))]
    decisions = schedule(cluster(nodes(1, cpu=3), group("j", minimum, roles=roles), tasks))
    assert set(placed(decisions)) == bound


def test_gated_and_foreign_pods_are_left_alone() -> None:
    state = cluster(
        nodes(1),
        group("j", 1),
        pod("j-w-0", "j", cpu=1, gates=["later"]),
        pod("j-w-1", "j", cpu=1, scheduler="default-scheduler"),
    )
    decisions = schedule(state)
    assert not decisions.binds
    assert decisions.verdicts["ns/j"].cause is Cause.GATED


@pytest.mark.parametrize(
    ("foreign", "bound"),
    [
        pytest.param({"nominated": "n000"}, {"n001"}, id="its scheduler made room for it"),
        pytest.param({"nominated": "n000", "gates": ["later"]}, {"n000"}, id="it may not be scheduled"),
        pytest.param({"nominated": "gone"}, {"n000"}, id="its node is gone"),
        pytest.param({"node": "n000"}, {"n001"}, id="it is there"),
        pytest.param({}, {"n000"}, id="it waits for any node"),
    ],
)
def test_the_place_that_another_scheduler_keeps_for_its_pod_is_taken(foreign: dict[str, Any], bound: set[str]) -> None:
    state = cluster(
        node("n000", cpu=4),
        node("n001", cpu=2, labels={"spare": "yes"}),
        gang("j", 1, cpu=2),
        pod("theirs", cpu=4, scheduler="default-scheduler", **foreign),
    )
    assert set(placed(schedule(state)).values()) == bound


def test_a_kept_place_is_free_when_its_pod_goes_elsewhere_or_away() -> None:
    theirs = {"cpu": 4, "scheduler": "default-scheduler"}
    state = cluster(nodes(2, cpu=4), gang("j", 1, cpu=4), pod("theirs", nominated="n000", **theirs))
    state.apply("MODIFIED", kinds.PODS, pod("theirs", nominated="n000", node="n001", **theirs))
    assert set(placed(schedule(state)).values()) == {"n000"}
    state.apply("DELETED", kinds.PODS, pod("theirs", **theirs))
    assert state.snapshot().nodes.used.sum() == 0


def test_two_pods_with_the_same_host_port_do_not_share_a_node() -> None:
    decisions = schedule(cluster(nodes(2), gang("j", 2, ports=[6379])))
    assert sorted(placed(decisions).values()) == ["n000", "n001"]
    third = schedule(cluster(nodes(2), gang("j", 3, ports=[6379])))
    assert not third.binds


def test_pods_that_request_nothing_are_backfilled() -> None:
    state = cluster(nodes(1, cpu=1), gang("full", 1), group("j", 1, created=1), pod("j-w-0", "j"))
    assert set(placed(schedule(state))) == {"full-w-0", "j-w-0"}


def test_backfill_respects_the_number_of_pods_of_a_node() -> None:
    state = cluster(nodes(1, pods=2), group("j", 1), [pod(f"j-w-{i}", "j") for i in range(4)])
    decisions = schedule(state)
    assert len(decisions.binds) == 2
    assert not decisions.violations


@pytest.mark.parametrize("state_", ["Closed", "Closing"])
def test_a_closed_queue_gets_nothing(state_: str) -> None:
    state = cluster(
        nodes(1),
        queue("q", state=state_),
        gang("a", 1, queue="q"),
        gang("p", 1, queue="q", phase="Pending"),
        group("b", 1, queue="q"),
        pod("b-w-0", "b"),
    )
    decisions = schedule(state)
    assert not decisions.binds
    assert {verdict.cause for verdict in decisions.verdicts.values()} == {Cause.QUEUE_CLOSED}
    assert decisions.verdicts["ns/a"].suggestion == "open queue q, or submit to another one (not tried)"


def test_pending_groups_are_admitted_and_placed_in_the_same_cycle() -> None:
    decisions = schedule(cluster(nodes(1), gang("j", 1, phase="Pending")))
    assert set(placed(decisions)) == {"j-w-0"}
    assert decisions.pod_groups[0].phase == "Inqueue"


def test_without_enqueue_nobody_waits_for_admission() -> None:
    settings = config(("gang",), ("predicates",), actions="allocate")
    assert schedule(cluster(nodes(1), gang("j", 1, phase="Pending")), settings).binds


def test_two_queues_share_by_weight_while_both_have_a_backlog() -> None:
    """Mission example 06: weights 1 and 2, six jobs each, room for nine pods."""
    jobs = [gang(f"{q}{number}", 1, queue=q, min_resources=True) for q in ("one", "two") for number in range(9)]
    state = cluster(nodes(1, cpu=9), queue("one", 1), queue("two", 2), jobs)
    counts = bound_per_job(schedule(state, default_config()))
    assert sum(name.startswith("one") for name in counts) == 3
    assert sum(name.startswith("two") for name in counts) == 6


def test_the_next_cycle_goes_on_where_the_binds_are_still_on_their_way() -> None:
    state = cluster(nodes(1, cpu=2), gang("a", 2), gang("b", 1, created=1))
    confirm(state, schedule(state))
    decisions = schedule(state)
    assert not decisions.binds
    assert decisions.verdicts["ns/b"].cause is Cause.NODES_FULL


def test_an_empty_cluster_and_an_empty_configuration() -> None:
    assert not schedule(cluster()).binds
    decisions = schedule(cluster(gang("j", 1)))
    assert decisions.verdicts["ns/j"].cause is Cause.NO_NODES
    assert not schedule(cluster(nodes(1), gang("j", 1)), config(actions="enqueue")).binds


def test_lowering_the_minimum_as_suggested_starts_the_gang() -> None:
    verdict = schedule(cluster(nodes(3, cpu=4), gang("j", 20)), default_config()).verdicts["ns/j"]
    assert verdict.suggestion.startswith("lower minAvailable to 12, or add 2 nodes like n000")
    assert len(schedule(cluster(nodes(3, cpu=4), gang("j", 20, 12)), default_config()).binds) == 12
    assert len(schedule(cluster(nodes(5, cpu=4), gang("j", 20)), default_config()).binds) == 20
    assert GANG.actions == ("enqueue", "allocate", "backfill")
