"""Strategies of rescheduling that look at single pods."""

from __future__ import annotations

from typing import Any

import pytest

from support.build import START, cluster, config, group, node, pod, schedule
from unisono.api.base import OwnerReference
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
    ],
)
def test_mistakes_are_named(name: str, params: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        create(PluginConfig("rescheduling", arguments={"strategies": [{"name": name, "params": params}]}))
