"""Strategies of rescheduling that look at single pods."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from support.build import START, cluster, config, group, node, pod, schedule
from unisono.api.base import LabelSelector, OwnerReference
from unisono.api.core import Affinity, Toleration, TopologySpreadConstraint
from unisono.engine.config.model import PluginConfig
from unisono.engine.plugins.registry import create
from unisono.errors import ConfigError

NOW = START + 10_000.0


def running(name: str, job: str, on: str, *, owner: bool = True, **given: Any) -> Any:
    made = pod(name, job, node=on, **({"cpu": 1} | given))
    if owner:
        reference = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="rs", uid="rs", controller=True)
        made.metadata.owner_references = [reference]
    return made


def moved(things: list[Any], name: str, **params: Any) -> list[str]:
    """Names of pods that leave in the second look."""
    strategies = [{"name": name, "params": params}]
    arguments = {"rescheduling": {"interval": "5m", "strategies": strategies}}
    how = config(("gang", "rescheduling"), ("predicates",), actions="shuffle", arguments=arguments)
    state = cluster(things)
    assert schedule(state, how, now=NOW - 300).evictions == []
    decisions = schedule(state, how, now=NOW)
    assert decisions.violations == []
    return sorted(eviction.pod for eviction in decisions.evictions)


def test_several_strategies_together_leave_a_gang_its_minimum() -> None:
    """Each would take a pod of a gang that can spare one."""
    strategies = [{"name": "removeDuplicates"}, {"name": "podLifeTime", "params": {"maxPodLifeTimeSeconds": 5000}}]
    arguments = {"rescheduling": {"interval": "5m", "strategies": strategies}}
    how = config(("gang", "rescheduling"), ("predicates",), actions="shuffle", arguments=arguments)
    state = cluster([*TWO, group("web", 2, phase="Running"), *(running(f"w{at}", "web", "a") for at in range(3))])
    schedule(state, how, now=NOW - 300)
    assert [eviction.pod for eviction in schedule(state, how, now=NOW).evictions] == ["w0"]


TWO = [node("a", cpu=4, labels={"zone": "x"}), node("b", cpu=4, labels={"zone": "y"})]
WEB = group("web", 1, phase="Running")


@pytest.mark.parametrize(
    ("things", "expected"),
    [
        pytest.param([running("w", "web", "a", selector={"zone": "y"})], ["w"], id="its node has another label now"),
        pytest.param([running("w", "web", "a", selector={"zone": "x"})], [], id="it matches"),
        pytest.param([running("w", "web", "a", selector={"zone": "z"})], [], id="no node matches"),
        pytest.param([running("w", "web", "a", selector={"zone": "y"}, owner=False)], [], id="nothing makes it again"),
        pytest.param([running("w", "web", "a", selector={"zone": "y"}, cpu=5)], [], id="no room there"),
    ],
)
def test_pods_leave_nodes_that_they_no_longer_match(things: list[Any], expected: list[str]) -> None:
    assert moved([*TWO, WEB, *things], "removePodsViolatingNodeAffinity") == expected


def test_duplicates_spread_over_nodes_without_one() -> None:
    three = [*TWO, node("c", cpu=4)]
    same = [running(f"w{at}", "web", "a") for at in range(4)]
    assert moved([*three, WEB, *same], "removeDuplicates") == ["w0", "w1"], "one for each node that has none"
    assert moved([*three, WEB, running("w0", "web", "a"), running("w1", "web", "b")], "removeDuplicates") == []


def test_a_gang_keeps_its_minimum() -> None:
    same = [running(f"w{at}", "web", "a") for at in range(3)]
    assert moved([*TWO, group("web", 3, phase="Running"), *same], "removeDuplicates") == []


def test_old_pods_are_made_again() -> None:
    things = [node("a", cpu=4), WEB, running("old", "web", "a"), running("new", "web", "a", created=9000.0)]
    assert moved(things, "podLifeTime", maxPodLifeTimeSeconds=5000) == ["old"]
    assert moved(things, "podLifeTime", maxPodLifeTimeSeconds=50_000) == []


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("podLifeTime", {}, "needs maxPodLifeTimeSeconds"),
        ("podLifeTime", {"maxPodLifeTimeSeconds": "1h"}, "whole number"),
        ("removeDuplicates", {"maxPodLifeTimeSeconds": 5}, "has no parameter maxPodLifeTimeSeconds"),
        ("removeDuplicates", {"thresholdPriority": True}, "whole number"),
        ("removePodsViolatingTopologySpreadConstraint", {"includeSoftConstraints": 1}, "true or false"),
        ("highNodeUtilization", {}, "needs thresholds"),
        ("highNodeUtilization", {"thresholds": {"cpu": 200}}, "from 0 to 100"),
    ],
)
def test_mistakes_are_named(name: str, params: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        create(PluginConfig("rescheduling", arguments={"strategies": [{"name": name, "params": params}]}))


# ---- what pods must not meet, and how they are to spread

AWAY = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "noisy"}}, "topologyKey": "zone"}
        ]
    }
}


def shy(name: str, job: str, on: str, **given: Any) -> Any:
    """A pod that keeps noisy ones out of its zone."""
    return running(name, job, on, affinity=msgspec.convert(AWAY, Affinity), **given)


OTHER_SETS = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone", "mismatchLabelKeys": ["set"]}


def of_a_set(name: str, on: str, number: str) -> Any:
    """A pod that keeps pods of other sets out of its zone."""
    away = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [OTHER_SETS]}}
    return running(name, "web", on, affinity=msgspec.convert(away, Affinity), labels={"app": "web", "set": number})


@pytest.mark.parametrize(
    ("things", "expected"),
    [
        pytest.param([of_a_set("q1", "a", "1"), of_a_set("q2", "a", "1")], [], id="of one set"),
        pytest.param([of_a_set("q1", "a", "1"), of_a_set("q2", "a", "2")], ["q1"], id="of two sets"),
        pytest.param(
            [shy("quiet", "web", "a"), running("n", "noise", "a", labels={"app": "noisy"})], ["n"], id="one goes"
        ),
        pytest.param([shy("quiet", "web", "a"), running("n", "noise", "b", labels={"app": "noisy"})], [], id="apart"),
        pytest.param(
            [shy("quiet", "web", "a", owner=False), running("n", "noise", "a", labels={"app": "noisy"})],
            ["n"],
            id="the one that can be made again",
        ),
        pytest.param(
            [shy(name, "web", on, labels={"app": "noisy"}) for name, on in (("q1", "a"), ("q2", "a"))],
            ["q1"],
            id="two that keep their like away",
        ),
        pytest.param([shy("q1", "web", "a", labels={"app": "noisy"})], [], id="a pod does not keep itself away"),
        pytest.param(
            [shy("q", "web", "a"), shy("p", "web", "b"), running("n", "noise", "a", labels={"app": "noisy"})],
            ["q"],
            id="the noisy one finds no zone without shy pods, a shy one does",
        ),
    ],
)
def test_pods_leave_those_that_they_must_not_meet(things: list[Any], expected: list[str]) -> None:
    noise = group("noise", 1, phase="Running")
    assert moved([*TWO, WEB, noise, *things], "removePodsViolatingInterPodAntiAffinity") == expected


def test_pods_leave_nodes_with_taints_that_they_do_not_tolerate() -> None:
    tainted = node("t", cpu=4, taints=[("only", "", "NoSchedule")])
    tolerant = running("w2", "web", "t", tolerations=[Toleration(key="only", operator="Exists")])
    things = [TWO[0], tainted, WEB, running("w1", "web", "t"), tolerant]
    assert moved(things, "removePodsViolatingNodeTaints") == ["w1"]
    assert moved([tainted, WEB, running("w1", "web", "t")], "removePodsViolatingNodeTaints") == [], "nowhere to go"


def evenly(name: str, on: str, *, hard: bool = True, skew: int = 1, **given: Any) -> Any:
    made = running(name, "web", on, labels={"app": "web"}, **given)
    selector = LabelSelector(match_labels={"app": "web"})
    how = "DoNotSchedule" if hard else "ScheduleAnyway"
    made.spec.topology_spread_constraints = [
        TopologySpreadConstraint(max_skew=skew, topology_key="zone", when_unsatisfiable=how, label_selector=selector)
    ]
    return made


def test_pods_leave_crowded_domains_until_the_spread_is_kept() -> None:
    name = "removePodsViolatingTopologySpreadConstraint"
    things = [*TWO, WEB]
    assert moved([*things, *(evenly(f"w{at}", "a") for at in range(4))], name) == ["w0", "w1"]
    assert moved([*things, *(evenly(f"w{at}", "a", skew=2) for at in range(4))], name) == ["w0"]
    assert moved([*things, evenly("w0", "a"), evenly("w1", "a"), evenly("w2", "b")], name) == []
    assert (
        moved([*things, *(evenly(f"w{at}", "a", cpu=2) for at in range(2)), running("x", "web", "b", cpu=3)], name)
        == []
    )
    soft = [evenly(f"w{at}", "a", hard=False) for at in range(4)]
    assert moved([*things, *soft], name) == []
    assert moved([*things, *soft], name, includeSoftConstraints=True) == ["w0", "w1"]


# ---- nodes that are hardly asked for


@pytest.mark.parametrize(
    ("things", "expected"),
    [
        pytest.param([running("w", "web", "b")], ["w"], id="it fits on the node in use"),
        pytest.param(
            [running("w", "web", "b"), running("x", "web", "b", owner=False, cpu="100m")], [], id="one would stay"
        ),
        pytest.param([running("w", "web", "b", cpu=2), running("v", "web", "b", cpu="500m")], [], id="in use enough"),
        pytest.param([running("w", "web", "b", priority=5)], [], id="too important"),
        pytest.param([running("w", "web", "b", selector={"zone": "y"})], [], id="it fits nowhere else"),
    ],
)
def test_nodes_that_are_hardly_asked_for_are_emptied_whole(things: list[Any], expected: list[str]) -> None:
    old = [group("old", 1, phase="Running"), running("o", "old", "a", cpu=2, owner=False)]
    params = {"thresholds": {"cpu": 50}, "thresholdPriority": 5}
    assert moved([*TWO, WEB, *old, *things], "highNodeUtilization", **params) == expected


def test_a_node_is_not_emptied_where_all_are_hardly_asked_for_or_a_gang_would_break() -> None:
    assert moved([*TWO, WEB, running("w", "web", "b")], "highNodeUtilization", thresholds={"cpu": 50}) == []
    gang = [group("g", 2, phase="Running"), running("g1", "g", "b"), running("g2", "g", "a", cpu=2)]
    assert moved([*TWO, *gang], "highNodeUtilization", thresholds={"cpu": 50}) == []
