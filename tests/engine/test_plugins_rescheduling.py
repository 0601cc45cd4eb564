"""rescheduling: which pods leave busy nodes, which stay, and that it comes to rest."""

from __future__ import annotations

from typing import Any

import pytest
from eviction_world import Plane, running_pods
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from support.build import START, cluster, config, flatten, group, node, priority_class, schedule
from support.examples import examples
from unisono.api.node_usage import NodeUsage
from unisono.api.times import rfc3339
from unisono.cluster.state import ClusterState
from unisono.engine.config.model import PluginConfig, SchedulerConfig
from unisono.engine.config_file.reader import load_config
from unisono.engine.plugins.registry import create
from unisono.errors import ConfigError

NOW = START + 10_000.0
STRATEGY: dict[str, Any] = {"thresholds": {"cpu": 30, "memory": 30}, "targetThresholds": {"cpu": 60, "memory": 60}}


def having(*more: str, interval: str = "5m", **params: Any) -> SchedulerConfig:
    strategies = [{"name": "lowNodeUtilization", "params": STRATEGY | params}]
    arguments = {"rescheduling": {"interval": interval, "strategies": strategies}}
    return config(("gang", "rescheduling", *more), ("predicates", "nodeorder"), actions="shuffle", arguments=arguments)


def moved(state: ClusterState, settings: SchedulerConfig | None = None, *, after: float = 300.0) -> list[str]:
    """Names of pods that leave in the second look, ``after`` seconds after the first."""
    chosen = settings or having()
    assert schedule(state, chosen, now=NOW - after).evictions == []
    decisions = schedule(state, chosen, now=NOW)
    assert decisions.violations == []
    assert {eviction.reason for eviction in decisions.evictions} <= {"shuffle"}
    return [eviction.pod for eviction in decisions.evictions]


def job(name: str, where: str, number: int = 1, *, minimum: int = 1, ago: float = 3600.0, **options: Any) -> list[Any]:
    pods = running_pods(name, [where] * number, **({"cpu": 1, "mem": "1Gi"} | options))
    for one in pods:
        one.status.start_time = rfc3339(NOW - ago)
    return [group(name, minimum, phase="Running"), *pods]


def busy(*things: Any, load: dict[str, tuple[float, float]] | None = None) -> ClusterState:
    """Two nodes of 10 CPUs: ``hot`` at 80 % and ``cold`` at 10 %, unless ``load`` says otherwise."""
    present = {one.metadata.name for one in flatten(things) if type(one).__name__ == "Node"}
    state = cluster([node(name, cpu=10, mem="40Gi") for name in ("hot", "cold") if name not in present], *things)
    loads = {"hot": (80.0, 20.0), "cold": (10.0, 10.0)} if load is None else load
    state.report_usage({name: NodeUsage(*pair, NOW - 30) for name, pair in loads.items()})
    return state


def test_pods_leave_busy_nodes_for_idle_ones() -> None:
    """Each of a CPU takes a tenth of the node's load with it: from 80 % two must go."""
    state = busy([job(f"j{at}", "hot") for at in range(6)], job("other", "cold"))
    assert moved(state) == ["j0-w-0", "j1-w-0"]


def test_where_nobody_measures_requests_count() -> None:
    state = busy([job(f"j{at}", "hot") for at in range(8)], load={})
    assert len(moved(state)) == 2


def test_nodes_that_nobody_has_measured_are_left_alone() -> None:
    things = [job(f"j{at}", "hot") for at in range(8)]
    assert moved(busy(things, load={"cold": (10.0, 10.0)})) == []
    assert moved(busy(things, load={"hot": (80.0, 10.0)})) == []
    stale = busy(things)
    stale.report_usage(
        {name: NodeUsage(90.0, 5.0, NOW - 301) for name in ("hot", "cold")} | {"x": NodeUsage(1, 1, NOW)}
    )
    assert moved(stale) == moved(busy(things, load={}))


@pytest.mark.parametrize(
    ("things", "settings", "stay"),
    [
        pytest.param(job("j", "hot", 2, minimum=2), having(), True, id="a gang without a pod to spare"),
        pytest.param(job("j", "hot", 2, minimum=1), having(), False, id="a gang with a pod to spare"),
        pytest.param(job("j", "hot", ago=299), having(), True, id="it has run for less than the interval"),
        pytest.param(job("j", "hot", cpu=0, mem="1Gi"), having(), True, id="it asks for nothing of what is busy"),
        pytest.param(job("j", "hot", cpu=6), having(), True, id="the low node would come above its target"),
        pytest.param(job("j", "hot", cpu=6), having(nodeFit=False), True, id="there is not so much room at all"),
        pytest.param(job("j", "hot", selector={"only": "hot"}), having(), True, id="it may not go to the low node"),
        pytest.param(
            job("j", "hot", selector={"only": "hot"}), having(nodeFit=False), False, id="nobody asks where it may go"
        ),
        pytest.param(job("j", "hot", priority=50), having(thresholdPriority=50), True, id="its priority is too high"),
        pytest.param(job("j", "hot", priority=49), having(thresholdPriority=50), False, id="its priority is below"),
        pytest.param(
            [priority_class("vip", 40), *job("j", "hot", priority=40)],
            having(thresholdPriorityClassName="vip"),
            True,
            id="a class says which priority is too high",
        ),
        pytest.param(job("j", "hot"), having(numberOfNodes=1), True, id="too few low nodes"),
        pytest.param(
            job("j", "hot", annotations={"volcano.sh/preemptable": "false"}),
            having(),
            True,
            id="it says that it must stay",
        ),
        pytest.param(
            job("j", "hot", priority_class="system-node-critical"), having("conformance"), True, id="it is critical"
        ),
        pytest.param(
            job("j", "hot", labels={"volcano.sh/cooldown-time": "2h"}), having("cdp"), True, id="it cools down"
        ),
        pytest.param(
            [node("cold", cpu=10, unschedulable=True), *job("j", "hot")], having(), True, id="a cordoned node"
        ),
    ],
)
def test_what_stays(things: list[Any], settings: SchedulerConfig, stay: bool) -> None:
    assert (moved(busy(things), settings) == []) is stay


def test_a_budget_in_annotations_is_kept() -> None:
    things = job("j", "hot", 4, minimum=0)
    things[0].metadata.annotations = {"volcano.sh/jdb-min-available": "3"}
    assert len(moved(busy(things))) == 1


def test_low_nodes_are_not_brought_above_their_target() -> None:
    state = busy([job(f"j{at}", "hot") for at in range(9)], load={"hot": (95.0, 20.0), "cold": (29.0, 29.0)})
    assert len(moved(state)) == 3


def test_low_priority_goes_first_and_guaranteed_pods_last() -> None:
    things = [job("a", "hot", priority=9), job("b", "hot", priority=1), job("c", "hot", priority=5)]
    assert moved(busy(things)) == ["b-w-0", "c-w-0"]
    sure = job("a", "hot")
    resources = sure[1].spec.containers[0].resources
    resources.limits = dict(resources.requests)
    assert moved(busy(sure, job("b", "hot"), load={"hot": (65.0, 1.0), "cold": (1.0, 1.0)})) == ["b-w-0"]


def test_pods_of_one_name_in_two_namespaces_are_told_apart() -> None:
    one, other = job("j", "hot"), job("j", "cold")
    for thing in other:
        thing.metadata.namespace, thing.metadata.uid = "else", f"else-{thing.metadata.name}"
    decisions_state = busy(one, other)
    moved_names = moved(decisions_state)
    assert moved_names == ["j-w-0"]
    fresh = busy(one, other)
    schedule(fresh, having(), now=NOW - 300)
    assert [e.namespace for e in schedule(fresh, having(), now=NOW).evictions] == ["ns"]


def test_it_looks_once_per_interval() -> None:
    state, settings = busy([job(f"j{at}", "hot") for at in range(6)]), having(interval="10m")
    found = [len(schedule(state, settings, now=NOW + 60.0 * minute).evictions) for minute in range(-12, 1)]
    assert [at for at, number in enumerate(found) if number] == [10]


@hypothesis_settings(max_examples=examples(25), deadline=None)
@given(st.lists(st.integers(0, 10), min_size=2, max_size=4), st.integers(0, 10**6))
def test_moving_comes_to_rest(pods: list[int], seed: int) -> None:
    """By requests, with nodes chosen by free room: sooner or later nothing is moved any more, and nobody is lost."""
    settings = load_config("""
actions: "allocate, shuffle"
tiers:
- plugins:
  - name: gang
  - name: rescheduling
    arguments:
      interval: 1m
      strategies: [{name: lowNodeUtilization, params: {thresholds: {cpu: 30}, targetThresholds: {cpu: 60}}}]
- plugins: [{name: predicates}, {name: nodeorder}]
""")
    things: list[Any] = [node(f"n{at}", cpu=10) for at in range(len(pods))]
    for at, number in enumerate(pods):
        for index in range(number):
            name = f"j{at}-{(index * 7 + seed) % 11}"
            things.append([group(name, 1, phase="Running"), *running_pods(name, [f"n{at}"], cpu=1)])
    plane = Plane(settings, things, grace=0)
    total = sum(plane.running().values())
    quiet = 0
    for _ in range(60):
        decisions = plane.cycle()
        quiet = 0 if decisions.evictions or decisions.binds or plane.leaving else quiet + 1
        plane.now += 61.0
    assert quiet >= 5, plane.evicted
    assert sum(plane.running().values()) == total


@pytest.mark.parametrize(
    ("strategies", "message"),
    [
        (
            [{"name": "shortLifeTimeFirst"}],
            "unknown strategy shortLifeTimeFirst; it is a design of Volcano that no version has built: remove it",
        ),
        (["lowNodeUtilization"], "unknown strategy None"),
        ([{"name": "lowNodeUtilization", "params": {"threshold": {}}}], "has no parameter threshold"),
        (
            [{"name": "lowNodeUtilization", "params": {"thresholds": {"cpu": "20"}}}],
            "thresholds.cpu must be a whole number",
        ),
        ([{"name": "lowNodeUtilization", "params": {"thresholds": {"gpu": 20}}}], "thresholds has no gpu"),
        (
            [{"name": "lowNodeUtilization", "params": {"thresholds": {"cpu": 50}, "targetThresholds": {"cpu": 40}}}],
            "thresholds.cpu must not be above targetThresholds.cpu",
        ),
        ([{"name": "lowNodeUtilization", "params": {"numberOfNodes": "1"}}], "numberOfNodes must be a whole number"),
    ],
)
def test_mistakes_in_strategies_are_named(strategies: list[Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        create(PluginConfig("rescheduling", arguments={"strategies": strategies}))
