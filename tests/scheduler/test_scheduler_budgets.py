"""Evictions of pods under a PodDisruptionBudget: the API server has the last word."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from scheduler_world import World, fill, pod, world

from support.memory import MemoryClient
from unisono.api.base import LabelSelector, ObjectMeta
from unisono.api.core import PodDisruptionBudget, PodDisruptionBudgetSpec
from unisono.api.kinds import POD_DISRUPTION_BUDGETS, PODS
from unisono.cluster.snapshot import Snapshot
from unisono.cluster.status import TaskStatus
from unisono.engine.decisions import Decisions, Eviction
from unisono.errors import Unavailable
from unisono.scheduler.scheduler import Scheduler


def evict_all(snapshot: Snapshot, decisions: Decisions) -> None:
    """Wants every running pod gone, in every cycle."""
    for task in snapshot.tasks.values():
        if task.status is TaskStatus.RUNNING:
            decisions.evictions.append(
                Eviction(task.namespace, task.name, task.uid, task.node or "", "preempt", beneficiary="team/other")
            )


def prepare(client: MemoryClient, labels: dict[str, str]) -> None:
    fill(client, gangs={"a": 1})
    made = pod("a-0", "a")
    made.metadata.labels = labels
    made.spec.node_name = "n0"
    made.status.phase = "Running"
    client.put(PODS, made)
    spec = PodDisruptionBudgetSpec(min_available=1, selector=LabelSelector(match_labels={"app": "web"}))
    budget = PodDisruptionBudget(metadata=ObjectMeta(name="b", namespace="team"), spec=spec)
    client.put(POD_DISRUPTION_BUDGETS, budget)


def removals(it: World) -> list[str]:
    return [write.operation for write in it.client.writes if write.operation in ("evict", "delete")]


@pytest.mark.parametrize(
    ("labels", "reason", "way"),
    [
        ({"app": "web"}, "preempt", "evict"),
        ({"app": "web"}, "calendar", "evict"),
        ({"app": "other"}, "preempt", "delete"),
        # Whoever is limited may write budgets.
        ({"app": "web"}, "run-time", "delete"),
    ],
)
async def test_the_eviction_api_is_for_pods_with_a_budget(labels: dict[str, str], reason: str, way: str) -> None:
    def evict(snapshot: Snapshot, decisions: Decisions) -> None:
        evict_all(snapshot, decisions)
        decisions.evictions[:] = [msgspec.structs.replace(one, reason=reason) for one in decisions.evictions]

    client = MemoryClient()
    prepare(client, labels)
    async with world(client) as it:
        it.engine.extra = evict
        it.nudge()
        await it.run(1)
        assert removals(it) == [way]
        marks = [write for write in it.writes("patch", "pods") if write.subresource == "status"]
        assert bool(marks) == (way == "delete"), "the server marks evicted pods itself"


async def test_a_spent_budget_keeps_the_pod_in_its_place_and_is_asked_again_later() -> None:
    client = MemoryClient()
    prepare(client, {"app": "web"})
    asked: list[float] = []

    def refuse(operation: str, *_: Any) -> None:
        if operation == "evict":
            asked.append(client.clock.monotonic())
            if len(asked) < 3:
                raise Unavailable("Cannot evict pod as it would violate the pod's disruption budget.", code=429)

    client.interceptor = refuse
    async with world(client) as it:
        it.engine.extra = evict_all
        scheduler: Scheduler = it.scheduler
        for _ in range(60):
            it.nudge()
            await it.run(0.5)
            if len(asked) < 3:
                assert scheduler.feed.state.tasks["team/a-0"].status is TaskStatus.RUNNING
        assert len(asked) == 3
        assert all(later - earlier >= 10.0 for earlier, later in pairwise(asked))
        assert removals(it) == ["evict"]
