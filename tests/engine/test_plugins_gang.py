"""gang: minimums of a PodGroup in all and per role."""

from __future__ import annotations

from typing import Any

import pytest
from plugins_world import World, a_pod, class_of, job_of, task_of

from unisono.cluster.status import TaskStatus
from unisono.engine.answers import Purpose, Refusal, Vote
from unisono.engine.verdict import Cause

PENDING, PIPELINED, ALLOCATED = TaskStatus.PENDING, TaskStatus.PIPELINED, TaskStatus.ALLOCATED


def opened(*pods: dict[str, Any], **spec: Any) -> tuple[Any, Any, Any]:
    world = World().node("n1").queue("q").job("j", *pods, **spec)
    session, plugin = world.open("gang")
    return session, plugin, job_of(session, "j")


RUNNING, WAITING, NOTHING = a_pod(node="n1"), a_pod(), a_pod("", "")
MASTER, WORKER = a_pod(role="master"), a_pod(role="worker")
RUNNING_MASTER, RUNNING_WORKER = a_pod(node="n1", role="master"), a_pod(node="n1", role="worker")
ROLES = {"master": 1, "worker": 2}


@pytest.mark.parametrize(
    ("pods", "spec", "ready", "missing"),
    [
        ([WAITING] * 3, {"minMember": 3}, False, 3),
        ([RUNNING, WAITING, WAITING], {"minMember": 3}, False, 2),
        ([RUNNING] * 3, {"minMember": 3}, True, 0),
        ([RUNNING] * 3, {"minMember": 2}, True, 0),
        ([WAITING], {"minMember": 0}, True, 0),
        ([RUNNING, NOTHING], {"minMember": 2}, False, 1),  # a pod that requests nothing counts once it has a place
        ([MASTER, WORKER, WORKER], {"minMember": 3, "minTaskMember": ROLES}, False, 3),
        ([RUNNING_MASTER, RUNNING_WORKER, RUNNING_WORKER], {"minMember": 3, "minTaskMember": ROLES}, True, 0),
        ([RUNNING_WORKER] * 3 + [MASTER], {"minMember": 3, "minTaskMember": ROLES}, False, 1),
        # minMember below the sum of the roles: they do not apply
        ([RUNNING_WORKER] * 2 + [MASTER], {"minMember": 2, "minTaskMember": ROLES}, True, 0),
        ([RUNNING_WORKER] * 2 + [a_pod("", "", role="master")], {"minMember": 3, "minTaskMember": ROLES}, False, 1),
    ],
)
def test_ready_and_missing(pods: list[dict[str, Any]], spec: dict[str, Any], ready: bool, missing: int) -> None:
    _, plugin, job = opened(*pods, **spec)
    assert plugin.ready(job) is ready
    assert plugin.missing(job) == missing


def test_missing_is_a_lower_bound_while_tasks_are_placed() -> None:
    session, plugin, job = opened(WAITING, WAITING, WAITING, minMember=2)
    pod_class = class_of(session, "j-0")
    assert plugin.missing(job) == 2
    job.move(pod_class, "", 1, PENDING, ALLOCATED)
    assert (plugin.missing(job), plugin.ready(job)) == (1, False)
    job.move(pod_class, "", 1, PENDING, ALLOCATED)
    assert (plugin.missing(job), plugin.ready(job)) == (0, True)


@pytest.mark.parametrize(
    ("pods", "spec", "cause", "words"),
    [
        ([], {"minMember": 2}, Cause.NO_PODS, "valid: 0, min: 2"),
        ([WAITING], {"minMember": 2}, Cause.TOO_FEW_PODS, "valid: 1, min: 2"),
        ([{**WAITING, "phase": "Failed"}, WAITING], {"minMember": 2}, Cause.TOO_FEW_PODS, "valid: 1, min: 2"),
        ([WORKER] * 3, {"minMember": 3, "minTaskMember": ROLES}, Cause.TOO_FEW_PODS, "master has 0 of 1"),
        ([WAITING] * 2, {"minMember": 2}, None, ""),
        ([{**WAITING, "phase": "Succeeded"}, WAITING], {"minMember": 2}, None, ""),
        ([WORKER] * 2, {"minMember": 2, "minTaskMember": ROLES}, None, ""),
    ],
)
def test_valid(pods: list[dict[str, Any]], spec: dict[str, Any], cause: Cause | None, words: str) -> None:
    _, plugin, job = opened(*pods, **spec)
    refusal = plugin.valid(job)
    assert (refusal.cause if refusal else None) == cause
    assert words in (refusal.message if refusal else "")


def test_pipelined_counts_promised_places() -> None:
    session, plugin, job = opened(RUNNING, WAITING, WAITING, minMember=2)
    refusal = plugin.pipelined(job)
    assert isinstance(refusal, Refusal)
    assert refusal.message == "only 1 of 2 tasks of the gang can get a place"
    job.move(class_of(session, "j-1"), "", 1, PENDING, PIPELINED)
    assert plugin.pipelined(job) is Vote.PERMIT
    assert not plugin.ready(job)


def test_pipelined_looks_at_roles() -> None:
    session, plugin, job = opened(MASTER, WORKER, WORKER, WORKER, minMember=3, minTaskMember=ROLES)
    job.move(class_of(session, "j-1"), "worker", 3, PENDING, PIPELINED)
    assert isinstance(plugin.pipelined(job), Refusal)
    job.move(class_of(session, "j-0"), "master", 1, PENDING, ALLOCATED)
    assert plugin.pipelined(job) is Vote.PERMIT


def test_starving_ignores_best_effort_tasks() -> None:
    _, plugin, job = opened(RUNNING, NOTHING, minMember=2)
    assert plugin.starving(job)
    _, plugin, job = opened(RUNNING, WAITING, minMember=1)
    assert not plugin.starving(job)


def test_broken_gangs_come_first_and_ready_ones_last() -> None:
    world = World().node("n1").queue("q")
    world.job("fresh", WAITING, WAITING).job("done", RUNNING, WAITING, minMember=1).job("broken", RUNNING, WAITING)
    session, plugin = world.open("gang")
    keys = {name: plugin.job_key(job_of(session, name)) for name in ("fresh", "done", "broken")}
    assert sorted(keys, key=keys.__getitem__) == ["broken", "fresh", "done"]


def victims(world: World, names: list[str], purpose: Purpose) -> list[bool] | None:
    session, plugin = world.open("gang")
    mask = plugin.victims(job_of(session, "actor"), None, [task_of(session, name) for name in names], purpose)
    return None if mask is None else mask.tolist()


def eviction_world(*pods: dict[str, Any], **spec: Any) -> World:
    return World().node("n1").queue("q").job("actor", WAITING).job("v", *pods, **spec)


@pytest.mark.parametrize(
    ("minimum", "allowed"),
    [(3, [False, False, False]), (2, [True, False, False]), (1, [True, True, False]), (0, [True, True, True])],
)
@pytest.mark.parametrize("purpose", [Purpose.PREEMPT, Purpose.RECLAIM])
def test_victims_beyond_the_minimum(minimum: int, allowed: list[bool], purpose: Purpose) -> None:
    world = eviction_world(*[RUNNING] * 3, minMember=minimum)
    assert victims(world, ["v-0", "v-1", "v-2"], purpose) == allowed


def test_the_minimum_of_a_role_is_kept() -> None:
    world = eviction_world(RUNNING_MASTER, *[RUNNING_WORKER] * 3, minMember=3, minTaskMember=ROLES)
    assert victims(world, ["v-0", "v-1", "v-2"], Purpose.PREEMPT) == [False, True, False]


def test_other_purposes() -> None:
    world = eviction_world(RUNNING, RUNNING)
    assert victims(world, ["v-0", "v-1"], Purpose.GANG_PREEMPT) == [True, True]
    assert victims(world, ["v-0", "v-1"], Purpose.SHUFFLE) is None


def test_pods_without_a_pod_group_are_no_victims() -> None:
    world = eviction_world(RUNNING).pod("alone", **RUNNING)
    assert victims(world, ["alone"], Purpose.PREEMPT) == [False]
