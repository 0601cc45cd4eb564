"""preempt and shuffle: who takes from whom, on which node, and what stays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from eviction_world import PREEMPT, Plane, running_pods, settings

from support.build import cluster, config, gang, group, node, pod, priority_class, queue, schedule
from unisono.api.base import LabelSelector
from unisono.api.core import Affinity, PodAffinityTerm, PodAntiAffinity
from unisono.cluster.records import Task
from unisono.cluster.status import TaskStatus
from unisono.engine.answers import BoolArray
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.config_file.reader import load_config
from unisono.engine.contract.plugin import Plugin
from unisono.engine.verdict import Cause

RANKS = [priority_class("low", 10), priority_class("high", 100)]
TOPOLOGY = settings(
    "enqueue, allocate, preempt, backfill",
    gang="\n    enablePreemptable: false",
    drf="\n    enablePreemptable: false",
    more="configurations:\n- name: preempt\n  arguments: {enableTopologyAwarePreemption: true, "
    "minCandidateNodesPercentage: 100}\n",
)


def holder(name: str, nodes: Sequence[str], *, rank: str = "low", minimum: int = 1, **options: Any) -> list[Any]:
    created = options.get("created", 0.0)
    return [
        group(name, minimum, phase="Running", priority_class=rank, created=created),
        *running_pods(name, nodes, **options),
    ]


def evicted(plane: Plane) -> list[str]:
    return sorted(eviction.pod for eviction in plane.cycle().evictions)


def test_a_gang_of_higher_priority_takes_all_its_places_and_keeps_them() -> None:
    plane = Plane(PREEMPT, RANKS, node("n1", cpu=4), node("n2", cpu=4), holder("low", ["n1"] * 4 + ["n2"] * 4))
    for thing in gang("g", 6, priority_class="high"):
        plane.put(thing)
    decisions = plane.cycle()
    assert len(decisions.evictions) == 6
    assert {(e.reason, e.beneficiary) for e in decisions.evictions} == {("preempt", "ns/g")}
    assert len(decisions.pipelined) == 6
    verdict = decisions.verdicts["ns/g"]
    assert verdict.cause is Cause.WAITING_FOR_VICTIMS
    assert "and 3 more have ended" in verdict.message
    plane.settle()
    assert plane.running() == {"g": 6, "low": 2}
    assert sum(len(jobs) for jobs in plane.evicted) == 6


@pytest.mark.parametrize(
    ("rank", "queue_name", "size", "victims"),
    [
        ("high", "default", 2, 2),
        ("low", "default", 2, 0),  # the same priority
        ("high", "other", 2, 0),  # another queue is for reclaim
        ("high", "default", 5, 0),  # would not start even then
    ],
)
def test_who_may_take(rank: str, queue_name: str, size: int, victims: int) -> None:
    things = [*RANKS, queue("default"), queue("other"), node("n1", cpu=4), holder("low", ["n1"] * 4)]
    plane = Plane(PREEMPT, *things, gang("g", size, priority_class=rank, queue=queue_name))
    assert len(plane.cycle().evictions) == victims


@pytest.mark.parametrize(
    ("settled", "minimum"),
    [(PREEMPT, 0), (settings("enqueue, allocate, preempt, backfill"), 1)],
    ids=["all may go", "one may go"],
)
def test_the_lowest_task_of_the_lowest_job_goes_first(settled: SchedulerConfig, minimum: int) -> None:
    things = [*RANKS, priority_class("mid", 50), node("n1", cpu=3)]
    things += holder("mid", ["n1"], rank="mid") + holder("low", ["n1", "n1"], minimum=minimum)
    plane = Plane(settled, *things, gang("g", 1, priority_class="high"))
    assert evicted(plane) == ["low-w-1"]


def test_a_place_that_is_being_released_is_not_taken_twice() -> None:
    things = [*RANKS, node("n1", cpu=2), group("low", 1, phase="Running", priority_class="low")]
    things += [pod("low-0", "low", node="n1", cpu=1, deleting=True), pod("low-1", "low", node="n1", cpu=1)]
    plane = Plane(PREEMPT, *things, gang("g", 1, priority_class="high"))
    decisions = plane.cycle()
    assert decisions.evictions == []
    assert [p.pod for p in decisions.pipelined] == ["g-w-0"]
    assert "ns/low-0" in decisions.verdicts["ns/g"].message


def test_a_place_in_the_number_of_pods_is_made_too() -> None:
    full = Plane(PREEMPT, RANKS, node("n1", cpu=8, pods=1), holder("low", ["n1"]), gang("g", 1, priority_class="high"))
    assert evicted(full) == ["low-w-0"]


def test_within_a_job_better_tasks_take_the_places_of_lesser_ones() -> None:
    things = [node("n1", cpu=2), group("j", 2, phase="Running")]
    things += [pod(f"j-w-{i}", "j", node="n1", cpu=1, priority=1, role="w") for i in range(2)]
    things += [pod("j-m-0", "j", cpu=1, priority=9, role="m")]
    on = config(("priority",), ("predicates",), actions="allocate, preempt")
    decisions = schedule(cluster(things), on)
    assert [(e.pod, e.beneficiary) for e in decisions.evictions] == [("j-w-1", "ns/j")]
    assert [p.pod for p in decisions.pipelined] == ["j-m-0"]


def test_topology_aware_mode_takes_the_node_that_loses_least() -> None:
    things = [*RANKS, *(node(f"n{i}", cpu=2) for i in range(4))]
    jobs = [
        holder("a", ["n0", "n0"], minimum=0, priority=5),
        holder("b", ["n1"], minimum=0, cpu=2, priority=5),
        holder("c", ["n2"], minimum=0, cpu=2, priority=3, created=1),
        holder("d", ["n3"], minimum=0, cpu=2, priority=3, created=9),
    ]
    plane = Plane(TOPOLOGY, things, jobs, gang("g", 1, priority_class="high", cpu=2))
    assert evicted(plane) == ["d-w-0"]
    without = Plane(TOPOLOGY, things, jobs[:2], holder("x", ["n2", "n3"], rank="high", cpu=2), plane_gang())
    assert evicted(without) == ["b-w-0"]


def plane_gang() -> list[Any]:
    return list(gang("g", 1, priority_class="high", cpu=2))


class Leave(Plugin):
    """Wants the pods of one node to leave."""

    name = "leave"

    def shuffled(self, candidates: Sequence[Task]) -> BoolArray | None:
        assert all(task.status is TaskStatus.RUNNING for task in candidates)
        return np.array([task.node == "n1" for task in candidates], dtype=np.bool_)


def test_shuffle_evicts_what_plugins_name_for_nobodys_sake() -> None:
    things = [node("n1", cpu=4), node("n2", cpu=4), group("j", 4, phase="Running")]
    things += running_pods("j", ["n1", "n1", "n2", "n2"])
    things += [pod("fixed", "j", node="n1", cpu=1, annotations={"volcano.sh/preemptable": "false"})]
    decisions = schedule(
        cluster(things), config(("gang", "leave"), ("predicates",), actions="shuffle"), plugins={"leave": Leave}
    )
    assert decisions.violations == []
    assert [(e.pod, e.reason, e.beneficiary) for e in decisions.evictions] == [
        ("j-w-0", "shuffle", ""),
        ("j-w-1", "shuffle", ""),
    ]


def test_an_empty_cluster_or_nobody_to_evict_is_no_error() -> None:
    everything = settings("enqueue, allocate, preempt, reclaim, shuffle, backfill")
    assert Plane(everything, gang("g", 1)).cycle().evictions == []
    assert Plane(everything, node("n1", cpu=1), gang("g", 2, minimum=2)).cycle().evictions == []


def test_topology_aware_preemption_stops_nobody_where_there_are_free_places() -> None:
    config = settings(
        "enqueue, preempt, allocate, backfill",
        gang="\n    enablePreemptable: false",
        drf="\n    enablePreemptable: false",
        more="configurations:\n- name: preempt\n  arguments: {enableTopologyAwarePreemption: true}\n",
    )
    things = [RANKS, node("n1", cpu=8), node("n2", cpu=8), holder("low", ["n1"] * 5)]
    plane = Plane(config, *things, gang("g", 8, priority_class="high"))
    decisions = plane.cycle()
    assert decisions.evictions == []
    assert len(decisions.binds) == 8


@pytest.mark.parametrize("action", ["preempt", "reclaim"])
def test_nobody_is_evicted_for_a_gangs_minimum_that_pods_without_requests_fill(action: str) -> None:
    off = "\n    enablePreemptable: false"
    plan = settings(f"enqueue, allocate, {action}, backfill", gang=off, drf=off)
    own = "a" if action == "preempt" else "b"
    things = [RANKS, node("n1", cpu=4), queue("a"), queue("b"), group("low", 1, queue="a", priority_class="low")]
    things += [*running_pods("low", ["n1"] * 4), group("g", 2, queue=own, priority_class="high")]
    things += [pod("g-w-0", "g", cpu=1), pod("g-w-1", "g"), pod("g-w-2", "g", cpu=1)]
    plane = Plane(plan, *things)
    decisions = plane.cycle()
    assert len(decisions.evictions) == 1
    assert {"g-w-0", "g-w-1"} >= {told.pod for told in decisions.pipelined} >= {"g-w-0"}
    plane.settle()
    assert plane.running() == {"low": 3, "g": 2}


def test_what_an_evicted_pod_held_and_its_beneficiary_did_not_need_is_promised_to_the_next_job() -> None:
    things = [RANKS, node("n1", cpu=4), group("large", 0, phase="Running", priority_class="low")]
    things += running_pods("large", ["n1"], cpu=4)
    plane = Plane(PREEMPT, *things, *(gang(name, 1, priority_class="high", role="w") for name in ("one", "two")))
    decisions = plane.cycle()
    assert [(e.pod, e.beneficiary) for e in decisions.evictions] == [("large-w-0", "ns/one")]
    assert [(p.job, p.node) for p in decisions.pipelined] == [("ns/one", "n1"), ("ns/two", "n1")]
    plane.settle()
    assert plane.running() == {"one": 1, "two": 1}


def test_a_gang_that_cannot_start_is_promised_nothing() -> None:
    things = [RANKS, node("n1", cpu=4), *holder("other", ["n1"] * 3, rank="high")]
    plane = Plane(PREEMPT, *things, gang("g", 2, priority_class="high"))
    decisions = plane.cycle()
    assert (decisions.binds, decisions.evictions, decisions.pipelined) == ([], [], [])


def test_what_is_left_of_a_place_is_promised_to_no_spare_pod_and_taken_in_the_next_cycle() -> None:
    things = [RANKS, node("n1", cpu=4), *holder("large", ["n1"], cpu=4, minimum=0)]
    plane = Plane(PREEMPT, *things, gang("g", 3, minimum=1, priority_class="high"))
    decisions = plane.cycle()
    assert [eviction.pod for eviction in decisions.evictions] == ["large-w-0"]
    assert [promise.pod for promise in decisions.pipelined] == ["g-w-0"]
    plane.settle()
    assert plane.running() == {"g": 3}
    assert sum(len(jobs) for jobs in plane.evicted) == 1


@pytest.mark.parametrize("tried", [False, True], ids=["alone", "after a gang that fits nowhere"])
def test_evictions_that_were_taken_back_move_nobody(tried: bool) -> None:
    things = [RANKS, node("n1", cpu=8), node("n2", cpu=4)]
    things += [*holder("large", ["n1"] * 2, cpu=4, minimum=0), *holder("small", ["n2"] * 2, cpu=2, minimum=0)]
    vain = gang("vain", 4, priority_class="high", cpu=4) if tried else []
    plane = Plane(PREEMPT, *things, *vain, gang("g", 1, priority_class="high", cpu=2, created=5))
    decisions = plane.cycle()
    assert [(promise.pod, promise.node) for promise in decisions.pipelined] == [("g-w-0", "n1")]
    assert [eviction.pod for eviction in decisions.evictions] == ["large-w-1"]


def test_who_is_not_in_the_way_of_a_rule_stays() -> None:
    """The newest pods would go first, and make room, but it is the older ones that the beneficiary keeps away from."""
    term = PodAffinityTerm(
        label_selector=LabelSelector(match_labels={"app": "old"}), topology_key="kubernetes.io/hostname"
    )
    away = Affinity(pod_anti_affinity=PodAntiAffinity(required_during_scheduling_ignored_during_execution=[term]))
    things = [*RANKS, node("n1", labels={"kubernetes.io/hostname": "n1"}, cpu=4)]
    things += holder("old", ["n1"] * 2, minimum=0, labels={"app": "old"})
    things += holder("new", ["n1"] * 2, minimum=0, created=5)
    assert evicted(Plane(PREEMPT, things, gang("g", 1, priority_class="high", affinity=away))) == ["old-w-0", "old-w-1"]


BEFORE_GANG = load_config(
    """actions: "enqueue, allocate, preempt, reclaim"
tiers:
- plugins: [{name: priority}, {name: conformance}]
- plugins: [{name: overcommit}, {name: gang}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""
)
"""The first tier gives up pods that their gang needs."""


def test_a_gang_that_a_tier_gives_up_goes_whole() -> None:
    things = [RANKS, node("n1", cpu=2), node("n2", cpu=2), holder("low", ["n1", "n1", "n2", "n2"], minimum=4)]
    assert evicted(Plane(BEFORE_GANG, things, gang("g", 1, priority_class="high"))) == [
        f"low-w-{at}" for at in range(4)
    ]


def test_what_gangs_can_spare_goes_before_one_that_would_end() -> None:
    """Also where it is on another node, which comes later by score."""
    things = [RANKS, node("n1", cpu=2), node("n2", cpu=2)]
    for spare, whole in (("n1", "n2"), ("n2", "n1")):
        held = [*holder("whole", [whole] * 2, minimum=2), *holder("spare", [spare] * 2, minimum=1)]
        assert evicted(Plane(BEFORE_GANG, things, held, gang("g", 1, priority_class="high")))[0].startswith("spare")


def test_a_gang_with_a_pod_that_stays_is_not_touched() -> None:
    held = holder("low", ["n1", "n2"], minimum=2)
    held[-1].metadata.annotations["volcano.sh/preemptable"] = "false"
    things = [RANKS, node("n1", cpu=1), node("n2", cpu=1), held]
    assert evicted(Plane(BEFORE_GANG, things, gang("g", 1, priority_class="high"))) == []


def test_no_queue_gives_up_its_share_to_a_gang_whose_room_is_in_pieces() -> None:
    """Each queue holds what it deserves; they must not take turns in evicting each other."""
    config = load_config(
        """actions: "enqueue, allocate, gangreclaim"
tiers:
- plugins: [{name: priority}, {name: conformance}]
- plugins: [{name: overcommit}, {name: gang}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""
    )
    things = [queue("a"), queue("b"), node("n1", cpu=4), node("n2", cpu=4)]
    held = [group("held", 2, queue="a", phase="Running"), *running_pods("held", ["n1", "n2"], cpu=2)]
    assert evicted(Plane(config, things, held, gang("g", 1, cpu=4, queue="b"))) == []
