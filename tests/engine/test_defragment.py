"""defragment: running pods are moved together so that a gang starts, within limits, and never for nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from topology_world import hyper, wish

from support.build import START, cluster, config, confirm, gang, group, node, pod, unadvised
from support.examples import examples
from unisono.api import kinds
from unisono.api.annotations import CHECKPOINT_TIME
from unisono.api.base import LabelSelector, OwnerReference
from unisono.api.core import Pod, PodDisruptionBudget
from unisono.api.groups.scheduling import PodGroup
from unisono.api.times import rfc3339
from unisono.cluster.state import ClusterState
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.decisions import Decisions

NOW = START + 7200.0
ACTIONS = "enqueue, allocate, backfill, defragment"


def settings_of(**arguments: Any) -> SchedulerConfig:
    made = config(
        ("priority", "gang", "conformance"),
        ("predicates", "nodeorder", "binpack", "network-topology-aware"),
        actions=ACTIONS,
    )
    return replace(made, action_arguments={"defragment": {"maxLostTime": "24h", **arguments}})


DEFRAGMENT = settings_of()


def remade(thing: Pod) -> Pod:
    thing.metadata.owner_references = [
        OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="rs", uid="rs", controller=True)
    ]
    return thing


def single(name: str, on: str, *, owner: bool = True, **given: Any) -> list[Any]:
    """A job of one running pod."""
    made = pod(name, name, node=on, **given)
    return [group(name, 1, phase="Running"), remade(made) if owner else made]


def scattered(nodes: int = 4, gpus: int = 2, **given: Any) -> list[Any]:
    """Nodes of 8 GPUs with one small job each."""
    things: list[Any] = [node(f"n{at}", cpu=64, gpu=8) for at in range(nodes)]
    for at in range(nodes):
        things += single(f"small{at}", f"n{at}", gpu=gpus, cpu=1, **given)
    return things


def large(pods: int, gpus: int = 8, **given: Any) -> list[Any]:
    return gang("large", pods, gpu=gpus, cpu=1, **given)


def decide(things: Iterable[Any], how: SchedulerConfig = DEFRAGMENT, now: float = NOW) -> Decisions:
    decisions = unadvised(cluster(list(things)), how, now=now)
    assert not decisions.violations
    return decisions


def test_two_small_jobs_make_room_for_a_gang_of_whole_nodes() -> None:
    decisions = decide([*scattered(), *large(2)])
    (plan,) = decisions.plans
    assert plan.job == "ns/large" and len(plan.moves) == 2 and plan.gained["nvidia.com/gpu"] == 16_000
    assert sorted(plan.places.values()) == sorted(move.node for move in plan.moves)
    assert {move.to for move in plan.moves}.isdisjoint(plan.places.values())
    assert {(one.reason, one.beneficiary) for one in decisions.evictions} == {("defragment", "ns/large")}
    assert sorted(one.pod for one in decisions.evictions) == sorted(move.pod.partition("/")[2] for move in plan.moves)
    assert not decisions.binds


NOTHING: dict[str, tuple[list[Any], SchedulerConfig]] = {
    "more than is idle": ([*scattered(), *large(4)], DEFRAGMENT),
    "it starts anyway": ([*scattered(gpus=0), *large(2)], DEFRAGMENT),
    "more moves than are allowed": ([*scattered(), *large(2)], settings_of(maxMoves=1)),
    "no controller makes the pods again": ([*scattered(owner=False), *large(2)], DEFRAGMENT),
    "they have just started": ([*scattered(), *large(2)], settings_of(minRunTime="3h")),
    "they would lose too much": ([*scattered(), *large(2)], settings_of(maxLostTime="30m")),
    "they are more important": ([*scattered(priority=10), *large(2)], DEFRAGMENT),
    "they are not preemptable": (
        [*scattered(annotations={"volcano.sh/preemptable": "false"}), *large(2)],
        DEFRAGMENT,
    ),
    "they fit nowhere else": ([*scattered(gpus=5), *large(1)], DEFRAGMENT),
}


@pytest.mark.parametrize("name", NOTHING)
def test_nothing_is_moved_for_nothing(name: str) -> None:
    things, how = NOTHING[name]
    decisions = decide(things, how)
    assert decisions.plans == [] and decisions.evictions == []


def test_gangs_are_never_broken() -> None:
    """Each node has two pods of a gang of eight that needs seven: one of them can go."""
    nodes = [node(f"n{at}", cpu=64, gpu=8) for at in range(4)]
    members = [remade(pod(f"g-{at}", "g", node=f"n{at % 4}", gpu=1, cpu=1)) for at in range(8)]
    needs_seven = [*nodes, group("g", 7, phase="Running"), *members]
    assert decide([*needs_seven, *large(1)]).plans == []
    decisions = decide([*needs_seven, *large(1, gpus=7)])
    assert [len(plan.moves) for plan in decisions.plans] == [1]


def test_work_that_is_saved_moves_first() -> None:
    things = scattered()
    saved = [thing for thing in things if isinstance(thing, Pod)][1::2]
    for thing in saved:
        thing.metadata.annotations = {**(thing.metadata.annotations or {}), CHECKPOINT_TIME: rfc3339(NOW - 60)}
    (plan,) = decide([*things, *large(2)], settings_of(maxLostTime="5m")).plans
    assert {move.pod for move in plan.moves} == {thing.key for thing in saved}
    assert all(move.lost_seconds == 60 and move.ran_seconds > 3600 for move in plan.moves)
    assert plan.lost_seconds == 120


def test_budgets_hold_although_no_plugin_looks_after_them() -> None:
    things = scattered(labels={"app": "web"})
    budget = PodDisruptionBudget()
    budget.metadata.name, budget.metadata.namespace = "web", "ns"
    budget.spec.selector = LabelSelector(match_labels={"app": "web"})
    for allowed, plans in ((1, 0), (2, 1)):
        budget.spec.max_unavailable = allowed
        state = cluster([*things, *large(2)])
        state.apply("ADDED", kinds.POD_DISRUPTION_BUDGETS, budget)
        assert len(unadvised(state, DEFRAGMENT, now=NOW).plans) == plans


def test_a_whole_domain_is_freed() -> None:
    racks = [hyper("rack-a", 1, ["n0", "n1"]), hyper("rack-b", 1, ["n2", "n3"])]
    members = large(2)
    head = next(thing for thing in members if isinstance(thing, PodGroup))
    head.spec.network_topology = wish(1)
    state = cluster([*scattered(), *members])
    for rack in racks:
        state.apply("ADDED", kinds.HYPER_NODES, rack)
    (plan,) = unadvised(state, DEFRAGMENT, now=NOW).plans
    assert set(plan.places.values()) in ({"n0", "n1"}, {"n2", "n3"})


class Life:
    """A cluster whose controllers make evicted pods again."""

    def __init__(self, things: Iterable[Any], how: SchedulerConfig) -> None:
        self.state: ClusterState = cluster(list(things))
        self.how, self.now, self.number = how, NOW, 0
        self.moved: list[str] = []
        self.objects = {thing.key: thing for thing in things if isinstance(thing, Pod)}

    def cycle(self, seconds: float = 61.0) -> Decisions:
        decisions = unadvised(self.state, self.how, now=self.now)
        assert not decisions.violations
        confirm(self.state, decisions)
        for bind in decisions.binds:
            bound = self.objects[f"{bind.namespace}/{bind.pod}"]
            bound.spec.node_name, bound.status.phase = bind.node, "Running"
            bound.status.start_time = rfc3339(self.now)
            self.state.apply("MODIFIED", kinds.PODS, bound)
        for one in decisions.pipelined:
            self.objects[f"{one.namespace}/{one.pod}"].status.nominated_node_name = one.node
            self.state.apply("MODIFIED", kinds.PODS, self.objects[f"{one.namespace}/{one.pod}"])
        for one in decisions.evictions:
            self._make_again(f"{one.namespace}/{one.pod}")
        self.now += seconds
        return decisions

    def _make_again(self, key: str) -> None:
        old = self.objects.pop(key)
        self.state.apply("DELETED", kinds.PODS, old)
        self.number += 1
        requests = (old.spec.containers or [])[0].resources.requests or {}
        job = (old.metadata.annotations or {})["scheduling.k8s.io/group-name"]
        new = remade(pod(f"{job}-again-{self.number}", job, created=self.now, cpu=1, gpu=requests["nvidia.com/gpu"]))
        self.objects[new.key] = new
        self.state.apply("ADDED", kinds.PODS, new)
        self.moved.append(job)

    def running(self, job: str) -> int:
        mine = [thing for thing in self.objects.values() if thing.metadata.name.startswith(job)]
        return sum(1 for thing in mine if thing.spec.node_name)


def test_the_gang_starts_and_the_moved_pods_run_again() -> None:
    life = Life([*scattered(), *large(2)], DEFRAGMENT)
    life.cycle()
    assert len(life.moved) == 2
    life.cycle()
    assert life.running("large") == 2 and life.running("small") == 4
    for _ in range(5):
        life.cycle()
    assert len(life.moved) == 2


@settings(max_examples=examples(60), deadline=None)
@given(
    held=st.lists(st.lists(st.integers(1, 4), max_size=3), min_size=2, max_size=7),
    wanted=st.lists(st.tuples(st.integers(1, 3), st.sampled_from([2, 4, 8])), min_size=1, max_size=3),
    most=st.integers(1, 5),
)
def test_limits_hold_every_plan_pays_and_it_ends(
    held: list[list[int]], wanted: list[tuple[int, int]], most: int
) -> None:
    things: list[Any] = [node(f"n{at}", cpu=64, gpu=8) for at in range(len(held))]
    for at, sizes in enumerate(held):
        for number, gpus in enumerate(sizes):
            if sum(sizes[: number + 1]) <= 8:
                things += single(f"s{at}x{number}", f"n{at}", gpu=gpus, cpu=1)
    for number, (pods, gpus) in enumerate(wanted):
        things += gang(f"gang{number}", pods, gpu=gpus, cpu=1, created=START + number)
    life = Life(things, settings_of(maxMoves=most))
    singles = {thing.metadata.name for thing in things if isinstance(thing, Pod) and thing.spec.node_name}
    for _ in range(12):
        before = len(life.moved)
        decisions = life.cycle()
        assert len(life.moved) - before <= most
        if not decisions.plans:
            continue
        (plan,) = decisions.plans
        name = plan.job.partition("/")[2]
        life.cycle()
        assert life.running(f"{name}-") == next(pods for at, (pods, _) in enumerate(wanted) if f"gang{at}" == name)
        assert all(life.running(job) == 1 for job in singles), "every moved pod runs again"
    assert len(life.moved) == len(set(life.moved)), "within its least run time no pod moves twice"
    quiet = len(life.moved)
    for _ in range(3):
        life.cycle()
    assert len(life.moved) == quiet
