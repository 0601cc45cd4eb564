"""Deployments and ReplicaSets: how pods come, change and go, and what an update may never do."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from workload_world import LABELS, WorkloadWorld, template, workload

from support.examples import examples
from unisono.api.groups.apps import Deployment, ReplicaSet
from unisono.api.kind_families import DEPLOYMENTS, REPLICA_SETS, REPLICATION_CONTROLLERS
from unisono.api.kinds import PODS
from unisono.controllers.workloads.deployment_decide import decide, limits, size
from unisono.errors import ApiError


def deployment(**spec: Any) -> Deployment:
    return workload(DEPLOYMENTS, **spec)


def sets(world: WorkloadWorld) -> dict[str, int]:
    """Wanted pods by image."""
    return {
        (each.spec.template.spec.containers or [])[0].image or "": size(each)
        for each in world.client.objects(REPLICA_SETS)
    }


async def update(world: WorkloadWorld, image: str) -> None:
    await world.edit(DEPLOYMENTS, "web", template=template(image))


async def test_pods_come_and_the_status_tells_how_many():
    async with WorkloadWorld() as world:
        await world.make(DEPLOYMENTS, deployment(replicas=3))
        assert world.by_image() == {"busybox:1": 3}
        assert world.condition(DEPLOYMENTS, "web", "Available") == ("False", "MinimumReplicasUnavailable")
        await world.ready()
        status = world.one(DEPLOYMENTS).status
        assert (status.replicas, status.updated_replicas, status.available_replicas) == (3, 3, 3)
        assert world.condition(DEPLOYMENTS, "web", "Available") == ("True", "MinimumReplicasAvailable")
        assert world.condition(DEPLOYMENTS, "web", "Progressing") == ("True", "NewReplicaSetAvailable")
        (only,) = world.client.objects(REPLICA_SETS)
        pod = world.pods()[0]
        mark = only.metadata.labels["pod-template-hash"]
        assert only.metadata.name == f"web-{mark}"
        assert pod.metadata.labels == LABELS | {"pod-template-hash": mark}
        assert pod.metadata.name.startswith(f"web-{mark}-")
        assert pod.metadata.owner_references[0].uid == only.metadata.uid


async def test_a_failed_pod_is_replaced():
    async with WorkloadWorld() as world:
        await world.make(DEPLOYMENTS, deployment(replicas=2))
        await world.ready()
        first = world.names()[0]
        await world.pod(first, "Failed")
        assert len([pod for pod in world.pods() if pod.status.phase != "Failed"]) == 2


async def test_an_update_goes_step_by_step_and_can_be_undone():
    async with WorkloadWorld() as world:
        await world.make(DEPLOYMENTS, deployment(replicas=4))
        await world.roll()
        await update(world, "busybox:2")
        # A quarter more, a quarter less.
        assert sets(world) == {"busybox:1": 3, "busybox:2": 2}
        await world.roll()
        assert sets(world) == {"busybox:1": 0, "busybox:2": 4}
        assert world.one(DEPLOYMENTS).metadata.annotations["deployment.kubernetes.io/revision"] == "2"
        await update(world, "busybox:1")
        await world.roll()
        assert sets(world) == {"busybox:1": 4, "busybox:2": 0}
        old = next(each for each in world.client.objects(REPLICA_SETS) if size(each))
        assert old.metadata.annotations["deployment.kubernetes.io/revision"] == "3"
        assert old.metadata.annotations["deployment.kubernetes.io/revision-history"] == "1"


async def test_recreate_starts_nothing_before_the_last_old_pod_has_gone():
    async with WorkloadWorld() as world:
        await world.make(DEPLOYMENTS, deployment(replicas=2, strategy={"type": "Recreate"}))
        await world.ready()
        await update(world, "busybox:2")
        assert world.by_image() == {}
        assert sets(world) == {"busybox:1": 0}
        await world.finish_deletions()
        assert world.by_image() == {"busybox:2": 2}


async def test_a_paused_update_waits_but_can_be_scaled():
    async with WorkloadWorld() as world:
        await world.make(DEPLOYMENTS, deployment(replicas=2))
        await world.roll()
        await world.edit(DEPLOYMENTS, "web", paused=True)
        await update(world, "busybox:2")
        assert sets(world) == {"busybox:1": 2}
        assert world.condition(DEPLOYMENTS, "web", "Progressing") == ("Unknown", "DeploymentPaused")
        await world.edit(DEPLOYMENTS, "web", replicas=5)
        assert sets(world) == {"busybox:1": 5}
        await world.edit(DEPLOYMENTS, "web", paused=False)
        await world.roll()
        assert world.by_image() == {"busybox:2": 5}


async def test_a_bad_update_stops_and_leaves_enough_pods():
    async with WorkloadWorld() as world:
        await world.make(DEPLOYMENTS, deployment(replicas=4, progressDeadlineSeconds=60))
        await world.roll()
        await update(world, "busybox:broken")
        await world.finish_deletions()
        assert sets(world) == {"busybox:1": 3, "busybox:broken": 2}
        await world.advance(65)
        assert world.condition(DEPLOYMENTS, "web", "Progressing") == ("False", "ProgressDeadlineExceeded")
        assert world.condition(DEPLOYMENTS, "web", "Available") == ("True", "MinimumReplicasAvailable")


async def test_old_revisions_go_beyond_the_limit():
    async with WorkloadWorld() as world:
        await world.make(DEPLOYMENTS, deployment(replicas=1, revisionHistoryLimit=2))
        for number in range(1, 6):
            await update(world, f"busybox:{number}")
            await world.roll()
        assert sorted(sets(world)) == ["busybox:3", "busybox:4", "busybox:5"]


async def test_scaling_in_the_middle_of_an_update_keeps_the_proportion():
    async with WorkloadWorld() as world:
        await world.make(DEPLOYMENTS, deployment(replicas=10, strategy={"rollingUpdate": {"maxSurge": 3}}))
        await world.roll()
        await update(world, "busybox:2")
        await world.finish_deletions()
        before = sets(world)
        assert before == {"busybox:1": 8, "busybox:2": 5}
        await world.edit(DEPLOYMENTS, "web", replicas=20)
        after = sets(world)
        assert sum(after.values()) == 23
        assert after["busybox:1"] > after["busybox:2"] > before["busybox:2"]


async def test_pods_count_as_available_after_their_waiting_time():
    async with WorkloadWorld() as world:
        await world.make(DEPLOYMENTS, deployment(replicas=1, minReadySeconds=30))
        await world.ready()
        assert world.one(DEPLOYMENTS).status.available_replicas is None
        await world.advance(31)
        assert world.one(DEPLOYMENTS).status.available_replicas == 1


async def test_orphans_are_adopted_and_strangers_let_go():
    async with WorkloadWorld() as world:
        await world.make(DEPLOYMENTS, deployment(replicas=2))
        await world.ready()
        (owner,) = world.client.objects(REPLICA_SETS)
        stranger, orphan = world.names()
        await world.client.patch(PODS, stranger, {"metadata": {"labels": {"app": "other"}}}, namespace="default")
        await world.settle()
        assert not world.client.find(PODS, f"default/{stranger}").metadata.owner_references
        assert len(world.names()) == 3
        await world.client.patch(PODS, orphan, {"metadata": {"ownerReferences": None}}, namespace="default")
        await world.settle()
        found = world.client.find(PODS, f"default/{orphan}")
        assert [each.uid for each in found.metadata.owner_references] == [owner.metadata.uid]


async def test_a_replication_controller_is_a_replica_set_in_older_words():
    async with WorkloadWorld() as world:
        await world.make(REPLICATION_CONTROLLERS, workload(REPLICATION_CONTROLLERS, selector=LABELS, replicas=3))
        (owner,) = world.pods()[0].metadata.owner_references
        assert (owner.api_version, owner.kind, owner.name) == ("v1", "ReplicationController", "web")
        await world.ready()
        await world.pod(world.names()[0], "Failed")
        assert world.one(REPLICATION_CONTROLLERS).status.replicas == 3
        await world.edit(REPLICATION_CONTROLLERS, "web", replicas=1)
        await world.settle()
        status = world.one(REPLICATION_CONTROLLERS).status
        assert (status.replicas, status.ready_replicas, status.fully_labeled_replicas) == (1, 1, 1)
        await world.restart()
        assert world.one(REPLICATION_CONTROLLERS).status.replicas == 1


async def test_a_refused_pod_is_told():
    async with WorkloadWorld() as world:

        def refuse(operation: str, resource: str, namespace: str, name: str) -> None:
            if (operation, resource) == ("create", "pods"):
                raise ApiError("pods is forbidden: exceeded quota: q", code=403, reason="Forbidden")

        world.client.interceptor = refuse
        await world.make(DEPLOYMENTS, deployment(replicas=2))
        assert world.condition(DEPLOYMENTS, "web", "ReplicaFailure") == ("True", "FailedCreate")
        assert "exceeded quota" in world.recorder.of("FailedCreate")[0]
        world.client.interceptor = None
        await world.advance(300)
        assert len(world.names()) == 2
        assert world.condition(DEPLOYMENTS, "web", "ReplicaFailure") is None


async def test_a_refusal_that_names_another_pod_each_time_brings_no_try_of_its_own():
    async with WorkloadWorld() as world:
        tries: list[str] = []

        def refuse(operation: str, resource: str, namespace: str, name: str) -> None:
            if (operation, resource) == ("create", "pods"):
                tries.append(name)
                raise ApiError(f'pods "web-{len(tries)}" is forbidden: exceeded quota: q', code=403, reason="Forbidden")

        world.client.interceptor = refuse
        await world.make(DEPLOYMENTS, deployment(replicas=1))
        await world.advance(60)
        assert 2 <= len(tries) <= 16  # after pauses that double: 5 ms, 10 ms, ...
        (owner,) = world.client.objects(REPLICA_SETS)
        assert [each.message for each in owner.status.conditions] == ['pods "web-1" is forbidden: exceeded quota: q']


async def test_a_restart_makes_no_pod_twice():
    async with WorkloadWorld() as world:
        await world.make(DEPLOYMENTS, deployment(replicas=3))
        await world.restart()
        assert len(world.pods()) == 3
        assert len(world.client.objects(REPLICA_SETS)) == 1


async def test_the_cheapest_pod_goes_first():
    async with WorkloadWorld() as world:
        await world.make(DEPLOYMENTS, deployment(replicas=3))
        await world.ready()
        cheap, *rest = world.names()
        cost = {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-5"}}}
        await world.client.patch(PODS, cheap, cost, namespace="default")
        await world.settle()
        await world.edit(DEPLOYMENTS, "web", replicas=2)
        assert world.names() == rest


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "expected"),
    [(10, "25%", "25%", (3, 2)), (1, "25%", "25%", (1, 0)), (4, 0, "1%", (0, 1)), (5, 2, 0, (2, 0)), (0, 1, 1, (0, 0))],
)
def test_limits(replicas, surge, unavailable, expected):
    strategy = {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    assert limits(deployment(replicas=replicas, strategy=strategy)) == expected


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_an_update_never_has_too_many_pods_nor_too_few_and_always_ends(data):
    """ReplicaSets that follow late, and pods that become ready in any order."""
    replicas = data.draw(st.integers(1, 12), "replicas")
    surge = data.draw(st.integers(0, 4), "surge")
    missing = data.draw(st.integers(0 if surge else 1, 4), "missing")
    strategy = {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": missing}}
    wanted = deployment(replicas=replicas, strategy=strategy)
    wanted.metadata.generation = wanted.status.observed_generation = 1
    old = decide(deployment(replicas=replicas, image="old", strategy=strategy), [], old_pods=False).create
    assert old is not None
    old.spec.replicas, old.metadata.creation_timestamp = replicas, "2026-01-01T00:00:00Z"
    old.status.available_replicas = old.status.replicas = replicas
    present: dict[str, ReplicaSet] = {old.metadata.name: old}
    missing = min(missing, replicas)
    for step in range(400):
        plan = decide(wanted, list(present.values()), old_pods=False)
        if plan.create is not None:
            plan.create.metadata.creation_timestamp = "2026-01-02T00:00:00Z"
            present[plan.create.metadata.name] = plan.create
        for name, change in plan.changes.items():
            found = present[name]
            found.metadata.annotations = {**(found.metadata.annotations or {}), **change.annotations}
            if change.replicas is not None:
                assert change.replicas >= 0
                found.spec.replicas = change.replicas
        assert sum(map(size, present.values())) <= max(replicas + surge, replicas)
        for each in present.values():
            have, target = each.status.available_replicas or 0, size(each)
            # Pods that are ready beyond the wanted number go; of the missing ones some become ready.
            ready = min(have, target)
            if ready < target and (step > 100 or data.draw(st.booleans())):
                ready += 1
            each.status.available_replicas, each.status.replicas = ready, target
        assert sum(each.status.available_replicas or 0 for each in present.values()) >= replicas - missing
        done = size(old) == 0 and sum(map(size, present.values())) == replicas
        if done and all(size(each) == (each.status.available_replicas or 0) for each in present.values()):
            break
    assert size(old) == 0
    assert sum(map(size, present.values())) == replicas
