"""Owner references are what their author wrote: those that point into another namespace count for nothing there."""

from __future__ import annotations

from typing import Any

import msgspec
from job_world import World, job, task
from workload_world import WorkloadWorld, workload

from unisono.api.base import Object
from unisono.api.core import Pod
from unisono.api.kind import Kind
from unisono.api.kind_families import REPLICA_SETS
from unisono.api.kinds import JOBS, PODS


def intruder(kind: Kind[Any], owner: Object, name: str, namespace: str) -> Pod:
    """A failed pod that names another namespace's object as its controller."""
    reference = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "controller": True,
    }
    meta = {
        "name": name,
        "namespace": namespace,
        "labels": {"app": "web"},
        "ownerReferences": [reference],
        "annotations": {"volcano.sh/task-spec": "work", "volcano.sh/job-version": "0"},
    }
    spec = {"containers": [{"name": "c", "image": "i"}]}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": {"phase": "Failed"}}, Pod)


async def test_a_failed_pod_of_another_namespace_does_not_fail_a_job() -> None:
    async with World() as world:
        await world.submit(job(task("work", 2), minAvailable=2, maxRetry=1))
        await world.admit()
        await world.all_pods("Running")
        assert world.phase() == "Running"
        await world.client.create(PODS, intruder(JOBS, world.job(), "job-work-0", "elsewhere"))
        # Something that makes the controller look at the job again.
        await world.pod("job-work-1", "Succeeded")
        assert world.phase() == "Running"
        status = world.job().status
        assert (status.running, status.succeeded, status.failed) == (1, 1, None)


async def test_a_replica_set_does_not_count_or_delete_pods_of_another_namespace() -> None:
    async with WorkloadWorld() as world:
        made = await world.make(REPLICA_SETS, workload(REPLICA_SETS, replicas=1))
        stranger = intruder(REPLICA_SETS, made, "stranger", "elsewhere")
        stranger.status.phase = "Running"
        await world.client.create(PODS, stranger)
        await world.settle()
        assert world.one(REPLICA_SETS).status.replicas == 1
        await world.edit(REPLICA_SETS, "web", replicas=0)
        assert [pod.key for pod in world.pods(deleting=False)] == ["elsewhere/stranger"]
