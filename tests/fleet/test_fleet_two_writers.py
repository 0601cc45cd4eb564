"""A job that its member grows: each size has one owner, and neither the hub's object nor the copy changes for ever."""

from __future__ import annotations

from typing import Any

import pytest
from fleet_world import fleet, template

from unisono.api.annotations import ELASTIC, ELASTIC_COOL_DOWN
from unisono.api.kind import Kind
from unisono.api.kind_families import PYTORCH_JOBS, RAY_CLUSTERS
from unisono.api.kinds import JOBS

TORCH = {
    "elasticPolicy": {"minReplicas": 2, "maxReplicas": 8},
    "pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": template(1)}},
}
RAY = {
    "headGroupSpec": {"template": template(1)},
    "workerGroupSpecs": [
        {"groupName": "g", "replicas": 1, "minReplicas": 1, "maxReplicas": 7, "template": template(1)}
    ],
}


@pytest.mark.parametrize(("kind", "spec"), [(PYTORCH_JOBS, TORCH), (RAY_CLUSTERS, RAY)])
async def test_a_job_grows_and_shrinks_in_its_member_and_the_hub_leaves_its_size_alone(kind: Kind[Any], spec: Any):
    async with fleet("a") as world:
        await world.whole("a", [8])
        world.start()
        await world.run(15)
        meta = {"name": "train", "namespace": "default", "annotations": {ELASTIC: "true", ELASTIC_COOL_DOWN: "30s"}}
        await world.create(kind, {"metadata": meta, "spec": spec})
        await world.run_whole(60)
        assert world.running() == {"a": 8}
        there, here = world.members["a"], world.hub_client
        generations = {(client.find(kind, "default/train").metadata.generation) for client in (there, here)}
        await world.run_whole(90)
        assert {(client.find(kind, "default/train").metadata.generation) for client in (there, here)} == generations
        assert here.find(kind, "default/train").metadata.generation == 1
        assert world.running() == {"a": 8}


async def test_sizes_of_a_job_that_nobody_grows_are_set_back_once():
    async with fleet("a") as world:
        await world.whole("a", [8])
        world.start()
        await world.run(15)
        await world.job("train", 2)
        await world.run_whole(10)
        sizes = [{"op": "replace", "path": "/spec/tasks/0/replicas", "value": 4}]
        await world.members["a"].patch(JOBS, "train", sizes, namespace="default", patch_type="json")
        await world.run_whole(20)
        copied = world.members["a"].find(JOBS, "default/train")
        assert (copied.spec.tasks[0].replicas, copied.metadata.generation) == (2, 3)
