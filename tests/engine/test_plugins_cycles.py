"""Whole cycles with the default configuration: what the plug-ins decide together."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from plugins_world import World, a_pod

from unisono import engine
from unisono.engine.config_file.reader import default_config, load_config
from unisono.engine.decisions import Decisions
from unisono.engine.verdict import Cause


def cycle(world: World, config: Any = None) -> Decisions:
    """One cycle, whose binds take effect."""
    decisions = engine.run(world.state.snapshot(), config or default_config(), now=0.0)
    assert decisions.violations == []
    for bind in decisions.binds:
        world.state.assume(f"{bind.namespace}/{bind.pod}", bind.node)
    return decisions


def bound(decisions: Decisions) -> dict[str, str]:
    return {bind.pod: bind.node for bind in decisions.binds}


class Plane:
    """Mission example 06 with controllers: pods are made once their PodGroup is admitted, phases are written back."""

    def __init__(self, cpu: str, order: list[str]) -> None:
        self.world = World().node("n1", has={"cpu": cpu}).queue("queue-a", weight=1).queue("queue-b", weight=2)
        self.phases = dict.fromkeys((f"job-{name}" for name in order), "Pending")
        for name in self.phases:
            self.write(name)

    def write(self, name: str) -> None:
        resources = {"cpu": "500m", "memory": "100Mi"}
        queue = f"queue-{name.split('-')[1]}"
        self.world.job(name, queue=queue, phase=self.phases[name], minMember=1, minResources=resources)

    def cycle(self, *, pods: bool = True) -> Decisions:
        decisions = cycle(self.world)
        for update in decisions.pod_groups:
            self.phases[update.name] = update.phase
            self.write(update.name)
        for name, phase in self.phases.items():
            if pods and phase == "Inqueue" and f"ns/{name}-0" not in self.world.state.tasks:
                self.world.pod(f"{name}-0", name, **a_pod("500m", "100Mi"))
        return decisions

    def running(self) -> dict[str, int]:
        tasks = self.world.state.tasks.values()
        return dict(Counter(task.job.split("-")[1] for task in tasks if task.node))


ORDERS = {
    "a first": [f"{queue}-{i}" for queue in "ab" for i in range(1, 7)],
    "b first": [f"{queue}-{i}" for queue in "ba" for i in range(1, 7)],
    "in turn": [f"{queue}-{i}" for i in range(1, 7) for queue in "ab"],
}


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize(("cpu", "running"), [("1500m", {"a": 1, "b": 2}), ("3", {"a": 2, "b": 4})])
def test_two_queues_share_one_to_two_while_both_have_a_backlog(
    cpu: str, running: dict[str, int], order: list[str]
) -> None:
    plane = Plane(cpu, order)
    for _ in range(8):
        plane.cycle()
    assert plane.running() == running
    later = plane.cycle()
    assert later.binds == []
    causes = {verdict.cause for verdict in later.verdicts.values()}
    assert causes <= {Cause.OVER_SHARE, Cause.CLUSTER_OVERCOMMITTED, Cause.NODES_FULL}


def test_pods_that_are_created_late_do_not_cost_their_queue_its_share() -> None:
    plane = Plane("3", ORDERS["a first"])
    for number in range(16):
        plane.cycle(pods=number % 2 == 1)
    assert plane.running() == {"a": 2, "b": 4}


def test_a_queue_takes_all_when_the_other_wants_nothing() -> None:
    world = World().node("n1", has={"cpu": "3"}).queue("queue-a", weight=1).queue("queue-b", weight=2)
    for number in range(8):
        world.job(f"j{number}", a_pod("500m", "100Mi"), queue="queue-a")
    assert len(cycle(world).binds) == 6


def test_equal_nodes_are_taken_in_name_order() -> None:
    world = World().node("b").node("a").node("c").queue("q").job("j", a_pod())
    assert bound(cycle(world)) == {"j-0": "a"}


def test_the_only_node_that_fits_is_found_among_many() -> None:
    world = World().queue("q")
    for number in range(300):
        world.node(f"n{number:03}", labels={"disk": "ssd"} if number == 299 else {})
    assert bound(cycle(world.job("j", a_pod(nodeSelector={"disk": "ssd"})))) == {"j-0": "n299"}


def test_a_gang_starts_whole_or_not_at_all() -> None:
    world = World().node("n1").node("n2").queue("q").job("big", *[a_pod("4")] * 5).job("small", *[a_pod("4")] * 4)
    assert set(bound(cycle(world))) == {f"small-{i}" for i in range(4)}


def test_a_broken_gang_is_served_before_fresh_jobs() -> None:
    world = World().node("n1").queue("q")
    world.job("fresh", *[a_pod("2")] * 2)
    world.job("broken", a_pod("4", node="n1"), a_pod("4"), minMember=2)
    assert set(bound(cycle(world))) == {"broken-1", "fresh-0", "fresh-1"} - {"fresh-0", "fresh-1"}


def test_higher_priority_goes_first() -> None:
    world = World().node("n1", has={"cpu": "1"}).queue("q").priority("high", 100)
    world.job("a", a_pod()).job("b", a_pod(), priorityClassName="high")
    assert bound(cycle(world)) == {"b-0": "n1"}


def test_binpack_fills_the_fuller_node_when_it_outweighs_spreading() -> None:
    text = "actions: allocate\ntiers:\n- plugins:\n  - {name: gang}\n  - {name: predicates}\n  - {name: binpack}\n"
    world = World().node("a").node("b").queue("q").pod("x", **a_pod("5", node="b")).job("j", a_pod())
    assert bound(cycle(world, load_config(text))) == {"j-0": "b"}
    spread = text.replace("binpack", "nodeorder")
    world = World().node("a").node("b").queue("q").pod("x", **a_pod("5", node="a")).job("j", a_pod())
    assert bound(cycle(world, load_config(spread))) == {"j-0": "b"}


def test_normalised_scores_look_at_candidates_only() -> None:
    """The node with the highest preference is full: the rest is normalised without it."""

    def prefer(weight: int, zone: str) -> dict[str, Any]:
        return {
            "weight": weight,
            "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]},
        }

    text = (
        "actions: allocate\ntiers:\n- plugins:\n  - {name: gang}\n  - {name: predicates}\n"
        "  - name: nodeorder\n    arguments: {nodeaffinity.weight: 1, leastrequested.weight: 1, "
        "balancedresource.weight: 0, tainttoleration.weight: 0}\n"
    )
    affinity = {
        "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [prefer(100, "x"), prefer(10, "y")]}
    }
    world = World().node("full", {"zone": "x"}).node("pref", {"zone": "y"}).node("empty").queue("q")
    world.pod("a", **a_pod("10", node="full")).pod("b", **a_pod("5", "5Gi", node="pref"))
    # among candidates the preferred node gets 100 points, more than the 50 that its load costs
    assert bound(cycle(world.job("j", a_pod(affinity=affinity)), load_config(text))) == {"j-0": "pref"}


def test_ports_taken_in_the_same_cycle_count() -> None:
    port = [{"containerPort": 80, "hostPort": 80}]
    world = World().node("a").node("b").queue("q").job("j", *[a_pod(ports=port)] * 3, minMember=1)
    decisions = cycle(world)
    assert sorted(bound(decisions).values()) == ["a", "b"]


def test_best_effort_pods_respect_the_pod_count() -> None:
    world = World().node("a", has={"pods": "2"}).queue("q").job("j", *[a_pod("", "")] * 3, minMember=1)
    assert len(cycle(world).binds) == 2


def test_a_closed_queue_places_nothing() -> None:
    world = World().node("a").queue("q", state="Closed").job("j", a_pod())
    decisions = cycle(world)
    assert decisions.binds == []
    assert decisions.verdicts["ns/j"].cause is Cause.QUEUE_CLOSED


def test_a_refused_share_becomes_the_verdict() -> None:
    world = World().node("n1").queue("q", capability={"cpu": "1"}).job("j", a_pod("2"))
    verdict = cycle(world).verdicts["ns/j"]
    assert verdict.cause is Cause.OVER_CAPABILITY
    assert verdict.need == {"cpu": 2_000}
