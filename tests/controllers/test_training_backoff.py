"""Training jobs whose pods fail again and again: how long their successors wait, and what goes on meanwhile."""

from __future__ import annotations

import pytest
from test_training_ray import cluster, start, workers
from training_world import TrainingWorld, pytorch

from unisono.controllers.job.policies import BASE_SECONDS, MOST_SECONDS, SPREAD


async def fail(world: TrainingWorld, name: str = "j-worker-0", **how: object) -> float:
    """Let the pod fail; answers the seconds until its successor is there."""
    failed = world.find_pod(name).metadata.uid
    await world.pod(name, "Failed", **({"code": 137} | how))
    for seconds in range(1000):
        found = next((pod for pod in world.pods() if pod.metadata.name == name), None)
        if found is not None and found.metadata.uid != failed:
            return seconds
        await world.advance(1)
    raise AssertionError(f"{name} never came back")


async def begin(world: TrainingWorld, policy: str = "ExitCode", **spec: object) -> None:
    await world.submit(pytorch((3, policy), **spec))
    await world.all_pods("Running")


@pytest.mark.parametrize("policy", ["ExitCode", "OnFailure", "Always"])
async def test_each_wait_is_longer_than_the_one_before(policy):
    async with TrainingWorld() as world:
        await begin(world, policy)
        waits = [await fail(world) for _ in range(8)]
        assert waits[0] == 0
        for number, wait in enumerate(waits[1:]):
            middle = min(MOST_SECONDS, BASE_SECONDS * 2**number)
            # Times of ends on the wire have full seconds.
            assert middle * (1 - SPREAD) - 1 <= wait <= middle * (1 + SPREAD) + 1
        assert world.job.metadata.annotations["unisono.io/pod-restarts"] == "worker-0=8"


async def test_a_pod_that_its_node_refuses_waits_like_one_that_fails():
    async with TrainingWorld() as world:
        await begin(world)
        assert [await fail(world, reason="OutOfcpu") > 5 for _ in range(3)] == [False, True, True]


async def test_pods_wait_each_for_itself_and_the_others_go_on():
    async with TrainingWorld() as world:
        await begin(world)
        await fail(world)
        await world.pod("j-worker-0", "Failed", 137)
        uids = {pod.metadata.name: pod.metadata.uid for pod in world.pods()}
        assert world.find_pod("j-worker-0").status.phase == "Failed", "its log is there to be read"
        assert await fail(world, "j-worker-1") == 0
        assert world.find_pod("j-worker-2").metadata.uid == uids["j-worker-2"]
        assert world.job.status.replica_statuses["Worker"].failed == 1


async def test_nothing_is_written_while_a_pod_waits_and_a_restart_forgets_nothing():
    async with TrainingWorld() as world:
        await begin(world)
        for _ in range(3):
            await fail(world)
        failed = world.find_pod("j-worker-0").metadata.uid
        await world.pod("j-worker-0", "Failed", 137)
        writes = len(world.client.writes)
        await world.advance(5)
        await world.restart()
        await world.advance(5)
        assert [write for write in world.client.writes[writes:] if write.operation != "create"] == []
        assert world.state() == "Restarting"
        assert world.find_pod("j-worker-0").metadata.uid == failed
        assert len(world.recorder.of("BackOff")) == 4, "each wait is told, and once more after the restart"


async def test_a_pod_that_lasted_is_forgiven():
    async with TrainingWorld() as world:
        await begin(world)
        for _ in range(4):
            await fail(world)
        await world.all_pods("Running")
        await world.advance(700)
        assert await fail(world) == 0
        assert 7 <= await fail(world) <= 13


async def test_a_pod_that_lost_its_place_never_waits():
    async with TrainingWorld() as world:
        await begin(world)
        for _ in range(4):
            assert await fail(world, disrupted=True) == 0
        assert "unisono.io/pod-restarts" not in (world.job.metadata.annotations or {})


async def test_a_job_that_is_resumed_starts_from_the_beginning():
    async with TrainingWorld() as world:
        await begin(world)
        for _ in range(3):
            await fail(world)
        await world.change(runPolicy={"suspend": True})
        await world.finish_deletions()
        assert "unisono.io/pod-restarts" not in (world.job.metadata.annotations or {})
        await world.change(runPolicy={"suspend": False})
        await world.admit()
        await world.all_pods("Running")
        assert await fail(world) == 0


async def test_a_ray_cluster_tries_a_refused_worker_again_after_a_while():
    async with TrainingWorld() as world:
        await start(world, cluster(workers(1)))
        made = world.created_pods()
        for _ in range(100):
            for pod in world.pods(deleting=False):
                if "worker" in pod.metadata.name and pod.status.phase != "Failed":
                    world.set_pod(pod, "Failed", reason="OutOfcpu")
            await world.advance(1)
        assert 5 <= world.created_pods() - made <= 11
