"""StatefulSets: order, names, claims, updates with a partition and the way back."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from workload_world import WorkloadWorld, template, workload

from support.examples import examples
from unisono.api.kind_families import CONTROLLER_REVISIONS, STATEFUL_SETS
from unisono.api.kinds import PERSISTENT_VOLUME_CLAIMS, PODS

CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


async def start(world: WorkloadWorld, **spec: Any) -> None:
    await world.make(STATEFUL_SETS, workload(STATEFUL_SETS, **{"serviceName": "web"} | spec))


async def update(world: WorkloadWorld, image: str) -> None:
    await world.edit(STATEFUL_SETS, "web", template=template(image))


def images(world: WorkloadWorld) -> list[str]:
    return [(pod.spec.containers or [])[0].image or "" for pod in world.pods(deleting=False)]


async def test_pods_come_one_after_the_other():
    async with WorkloadWorld() as world:
        await start(world, replicas=3)
        assert world.names() == ["web-0"]
        await world.ready("web-0")
        assert world.names() == ["web-0", "web-1"]
        await world.roll()
        assert world.names() == ["web-0", "web-1", "web-2"]
        pod = world.pods()[1]
        assert (pod.spec.hostname, pod.spec.subdomain) == ("web-1", "web")
        assert pod.metadata.labels["statefulset.kubernetes.io/pod-name"] == "web-1"
        assert pod.metadata.labels["apps.kubernetes.io/pod-index"] == "1"
        status = world.one(STATEFUL_SETS).status
        assert (status.replicas, status.ready_replicas, status.updated_replicas) == (3, 3, 3)
        assert status.current_revision == status.update_revision == pod.metadata.labels["controller-revision-hash"]


async def test_in_parallel_they_come_at_once_and_may_begin_with_another_number():
    async with WorkloadWorld() as world:
        await start(world, replicas=3, podManagementPolicy="Parallel", ordinals={"start": 5})
        assert world.names() == ["web-5", "web-6", "web-7"]


async def test_the_highest_number_goes_first_and_keeps_its_claim():
    async with WorkloadWorld() as world:
        await start(world, replicas=3, volumeClaimTemplates=[CLAIM])
        await world.roll()
        claims = [each.metadata.name for each in world.client.objects(PERSISTENT_VOLUME_CLAIMS)]
        assert claims == ["data-web-0", "data-web-1", "data-web-2"]
        volume = (world.pods()[2].spec.volumes or [])[0]
        assert (volume.name, volume.persistent_volume_claim.claim_name) == ("data", "data-web-2")
        await world.edit(STATEFUL_SETS, "web", replicas=1)
        assert world.names() == ["web-0", "web-1"]
        await world.roll()
        assert world.names() == ["web-0"]
        assert len(world.client.objects(PERSISTENT_VOLUME_CLAIMS)) == 3


async def test_claims_go_where_the_set_says_so():
    async with WorkloadWorld() as world:
        policy = {"whenScaled": "Delete", "whenDeleted": "Delete"}
        await start(world, replicas=2, volumeClaimTemplates=[CLAIM], persistentVolumeClaimRetentionPolicy=policy)
        await world.roll()
        owned = world.client.objects(PERSISTENT_VOLUME_CLAIMS)
        assert {each.metadata.owner_references[0].kind for each in owned} == {"StatefulSet"}
        await world.edit(STATEFUL_SETS, "web", replicas=1)
        await world.roll()
        left = [each.metadata.name for each in world.client.objects(PERSISTENT_VOLUME_CLAIMS)]
        assert left == ["data-web-0"]


async def test_an_update_goes_down_to_the_partition():
    async with WorkloadWorld() as world:
        await start(world, replicas=3, updateStrategy={"rollingUpdate": {"partition": 1}})
        await world.roll()
        await update(world, "busybox:2")
        assert world.names() == ["web-0", "web-1"]
        await world.roll()
        assert images(world) == ["busybox:1", "busybox:2", "busybox:2"]
        # A pod below the partition comes back as it was.
        await world.client.delete(PODS, "web-0", "default")
        await world.roll()
        assert images(world)[0] == "busybox:1"
        await world.edit(STATEFUL_SETS, "web", updateStrategy={"rollingUpdate": {"partition": 0}})
        await world.roll()
        assert images(world) == ["busybox:2"] * 3
        status = world.one(STATEFUL_SETS).status
        assert status.current_revision == status.update_revision


async def test_on_delete_waits_for_somebody_to_delete():
    async with WorkloadWorld() as world:
        await start(world, replicas=2, updateStrategy={"type": "OnDelete"})
        await world.roll()
        await update(world, "busybox:2")
        await world.roll()
        assert images(world) == ["busybox:1", "busybox:1"]
        await world.client.delete(PODS, "web-1", "default")
        await world.roll()
        assert images(world) == ["busybox:1", "busybox:2"]


async def test_a_template_that_does_not_work_can_be_taken_back():
    async with WorkloadWorld() as world:
        await start(world, replicas=2)
        await world.roll()
        await update(world, "busybox:broken")
        await world.finish_deletions()
        assert images(world) == ["busybox:1", "busybox:broken"]
        await update(world, "busybox:1")
        await world.roll()
        assert images(world) == ["busybox:1", "busybox:1"]
        numbers = sorted(each.revision for each in world.client.objects(CONTROLLER_REVISIONS))
        assert numbers == [2, 3]


async def test_an_ended_pod_is_made_anew_under_its_name():
    async with WorkloadWorld() as world:
        await start(world, replicas=1)
        await world.ready()
        uid = world.pods()[0].metadata.uid
        await world.pod("web-0", "Failed")
        await world.finish_deletions()
        (pod,) = world.pods()
        assert pod.metadata.name == "web-0"
        assert pod.metadata.uid != uid


async def test_old_revisions_go():
    async with WorkloadWorld() as world:
        await start(world, replicas=1, revisionHistoryLimit=1)
        for number in range(2, 6):
            await update(world, f"busybox:{number}")
            await world.roll()
        await world.advance(5)
        assert len(world.client.objects(CONTROLLER_REVISIONS)) == 2


@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    actions=st.lists(st.sampled_from(["ready", "fail", "update", "scale", "restart", "gone"]), max_size=20),
    parallel=st.booleans(),
    sizes=st.lists(st.integers(0, 4), min_size=20, max_size=20),
)
def test_names_are_never_taken_twice_and_the_set_comes_to_rest(actions, parallel, sizes):
    async def play() -> None:
        async with WorkloadWorld() as world:
            await start(world, replicas=2, podManagementPolicy="Parallel" if parallel else "OrderedReady")
            failed: set[str] = set()
            for step, action in enumerate(actions):
                alive = world.pods(deleting=False)
                if action == "ready":
                    await world.ready()
                elif action == "fail" and alive:
                    failed.add(alive[0].metadata.name)
                    await world.pod(alive[0].metadata.name, "Failed")
                elif action == "update":
                    await update(world, f"busybox:{step}")
                elif action == "scale":
                    await world.edit(STATEFUL_SETS, "web", replicas=sizes[step])
                elif action == "restart":
                    await world.restart()
                elif action == "gone":
                    await world.finish_deletions()
                if not parallel:
                    # One that failed is made again beside the one that waited already.
                    waiting = [pod for pod in world.pods(deleting=False) if pod.status.phase in (None, "Pending")]
                    assert len([pod for pod in waiting if pod.metadata.name not in failed]) <= 1
            await world.roll()
            found = world.one(STATEFUL_SETS)
            assert world.names() == [f"web-{number}" for number in range(found.spec.replicas)]
            assert set(images(world)) <= {found.spec.template.spec.containers[0].image}
            assert (found.status.ready_replicas or 0) == found.spec.replicas

    asyncio.run(play())
