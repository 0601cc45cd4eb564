"""Quotas, disruption budgets and node load in the cluster state."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from unisono.api import kinds
from unisono.api.annotations import USAGE_CPU, USAGE_MEMORY, USAGE_TIME
from unisono.api.core import PodDisruptionBudget, ResourceQuota
from unisono.api.groups.scheduling import PodGroup
from unisono.api.node_usage import NodeUsage, usage_in
from unisono.cluster.limits import Budget, scaled
from unisono.cluster.state import ClusterState


def quota(name: str = "q", namespace: str = "ns", **parts: Any) -> ResourceQuota:
    return msgspec.convert({"metadata": {"name": name, "namespace": namespace}, **parts}, ResourceQuota)


def budget(name: str = "b", **parts: Any) -> PodDisruptionBudget:
    return msgspec.convert({"metadata": {"name": name, "namespace": "ns"}, **parts}, PodDisruptionBudget)


def test_quotas_follow_events_and_lists() -> None:
    state = ClusterState()
    first = quota(spec={"hard": {"requests.cpu": "4", "limits.memory": "1Gi", "pods": "3"}})
    state.apply("ADDED", kinds.RESOURCE_QUOTAS, first)
    held = state.snapshot().quotas["ns"]["q"]
    assert held.hard == {"requests.cpu": 4_000, "limits.memory": 1 << 30, "pods": 3}
    assert held.used is None
    version = state.version
    state.apply("MODIFIED", kinds.RESOURCE_QUOTAS, first)
    assert state.version == version
    counted = quota(spec={"hard": {"cpu": "4"}}, status={"hard": {"cpu": "3"}, "used": {"cpu": "1"}})
    state.apply("MODIFIED", kinds.RESOURCE_QUOTAS, counted)
    assert state.version > version
    held = state.snapshot().quotas["ns"]["q"]
    assert (held.hard, held.used) == ({"cpu": 3_000}, {"cpu": 1_000})
    state.replace(kinds.RESOURCE_QUOTAS, [quota("other", "else")])
    assert list(state.snapshot().quotas) == ["else"]
    state.apply("DELETED", kinds.RESOURCE_QUOTAS, quota("other", "else"))
    assert not state.snapshot().quotas


def test_scopes_of_a_quota() -> None:
    term = {"scopeName": "PriorityClass", "operator": "In", "values": ["high", "low"]}
    state = ClusterState()
    spec = {"scopes": ["NotBestEffort"], "scopeSelector": {"matchExpressions": [term]}}
    state.apply("ADDED", kinds.RESOURCE_QUOTAS, quota(spec=spec))
    held = state.snapshot().quotas["ns"]["q"]
    assert held.scopes == {"NotBestEffort", "PriorityClass"}
    assert held.priority_classes == {"high", "low"}


def test_budgets_follow_events() -> None:
    state = ClusterState()
    state.apply("ADDED", kinds.POD_DISRUPTION_BUDGETS, budget(spec={"minAvailable": "50%", "selector": {}}))
    held = state.snapshot().budgets["ns"]["b"]
    assert (held.min_available, held.allowed) == ("50%", None)
    status = {"observedGeneration": 1, "disruptionsAllowed": 2, "disruptedPods": {"p": "2026-01-01T00:00:00Z"}}
    state.apply("MODIFIED", kinds.POD_DISRUPTION_BUDGETS, budget(status=status))
    held = state.snapshot().budgets["ns"]["b"]
    assert (held.allowed, held.disrupted, held.key) == (2, {"p"}, "ns/b")
    state.apply("DELETED", kinds.POD_DISRUPTION_BUDGETS, budget())
    assert not state.snapshot().budgets


def test_an_unreadable_limit_is_set_aside() -> None:
    state = ClusterState()
    state.apply("ADDED", kinds.RESOURCE_QUOTAS, quota(spec={"hard": {"cpu": "much"}}))
    state.apply("ADDED", kinds.POD_DISRUPTION_BUDGETS, budget(spec={"minAvailable": "half"}))
    assert {f"{one.kind} {one.key}" for one in state.rejected.all()} == {
        "ResourceQuota ns/q",
        "PodDisruptionBudget ns/b",
    }
    assert not state.snapshot().quotas["ns"]["q"].readable
    assert state.snapshot().budgets["ns"]["b"].allowed == 0, "a budget that cannot be read lets none of its pods go"


@pytest.mark.parametrize(
    ("minimum", "maximum", "expected", "healthy", "spare"),
    [
        (2, None, 4, 4, 2),
        (2, None, 4, 1, 0),
        ("50%", None, 5, 5, 2),
        (None, 1, 4, 4, 1),
        (None, "25%", 5, 5, 2),
        (None, 9, 4, 4, 4),
        (None, None, 4, 4, 4),
    ],
)
def test_what_a_budget_spares(minimum: Any, maximum: Any, expected: int, healthy: int, spare: int) -> None:
    assert Budget("ns", "b", None, minimum, maximum, None).spare(expected, healthy) == spare


@pytest.mark.parametrize(("value", "whole", "amount"), [(3, 9, 3), ("50%", 3, 2), ("0%", 9, 0), ("100%", 9, 9)])
def test_percentages_are_rounded_up(value: Any, whole: int, amount: int) -> None:
    assert scaled(value, whole) == amount


def test_names_that_only_quotas_know_are_kept() -> None:
    state = ClusterState()
    spec = {"minResources": {"cpu": "1", "limits.cpu": "2", "count/pods": "3"}}
    group = msgspec.convert({"metadata": {"name": "g", "namespace": "ns"}, "spec": spec}, PodGroup)
    state.apply("ADDED", kinds.POD_GROUPS, group)
    job = state.snapshot().jobs["ns/g"]
    assert job.min_amounts == {"cpu": 1_000}
    assert job.min_quoted == {"cpu": 1_000, "limits.cpu": 2_000, "count/pods": 3_000}


GOOD = {USAGE_CPU: "62.5", USAGE_MEMORY: "40", USAGE_TIME: "1970-01-01T00:01:40Z"}


@pytest.mark.parametrize(
    ("annotations", "usage"),
    [
        (GOOD, NodeUsage(62.5, 40.0, 100.0)),
        ({**GOOD, USAGE_CPU: "much"}, None),
        ({**GOOD, USAGE_CPU: "nan"}, None),
        ({**GOOD, USAGE_TIME: "lately"}, None),
        ({USAGE_CPU: "1", USAGE_MEMORY: "1"}, None),
        ({}, None),
    ],
)
def test_load_from_annotations(annotations: dict[str, str], usage: NodeUsage | None) -> None:
    assert usage_in(annotations) == usage


def test_load_from_a_source_of_metrics_starts_no_cycle() -> None:
    state = ClusterState()
    version = state.version
    state.report_usage({"n": NodeUsage(1.0, 2.0, 3.0)})
    assert state.version == version
    assert state.snapshot().node_usage == {"n": NodeUsage(1.0, 2.0, 3.0)}
