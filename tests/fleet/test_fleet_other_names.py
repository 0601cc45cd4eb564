"""Pods whose names the hub does not know beforehand, as operators of other projects make them, count once."""

from __future__ import annotations

import msgspec
import pytest
from fleet_world import fleet, node, template

from unisono.api.base import ObjectMeta
from unisono.api.core import Pod, PodStatus
from unisono.api.kind_families import RAY_CLUSTERS
from unisono.api.kinds import PODS


def cluster(workers: int) -> dict:
    group = {"groupName": "g", "replicas": workers, "minReplicas": 1, "maxReplicas": 7, "template": template(1)}
    spec = {"headGroupSpec": {"template": template(2)}, "workerGroupSpecs": [group]}
    return {"metadata": {"name": "train", "namespace": "default"}, "spec": spec}


@pytest.mark.parametrize("head_first", [True, False])
async def test_a_pod_of_another_name_takes_the_place_of_a_stand_in_of_its_size(head_first):
    async with fleet("a") as world:
        client = world.members["a"]
        world.join("a", [node("n", 8)])
        world.start()
        await world.run(10)
        await world.create(RAY_CLUSTERS, cluster(3))
        await world.run(10)
        copied = client.find(RAY_CLUSTERS, "default/train").spec
        head, worker = copied.head_group_spec.template, copied.worker_group_specs[0].template
        templates = [head, worker, worker, worker]
        for number, each in enumerate(templates if head_first else reversed(templates)):
            meta = each.metadata
            client.put(
                PODS,
                Pod(
                    metadata=ObjectMeta(
                        name=f"train-{number}x7k", namespace="default", labels=meta.labels, annotations=meta.annotations
                    ),
                    spec=msgspec.structs.replace(each.spec, node_name="n"),
                    status=PodStatus(phase="Running"),
                ),
            )
            await world.run(2)
            # What has not come yet keeps its place.
            await world.job(f"large-{number}", 4)
            await world.run(3)
            assert world.where()[f"large-{number}"] == ""
        await world.job("small", 3)
        await world.run(10)
        assert world.where()["small"] == "a"


async def test_a_failed_pod_gives_its_place_back_to_its_successor():
    async with fleet("a") as world:
        client = world.members["a"]
        world.join("a", [node("n", 4)])
        world.start()
        await world.run(10)
        await world.create(RAY_CLUSTERS, cluster(1))
        await world.run(10)
        meta = client.find(RAY_CLUSTERS, "default/train").spec.worker_group_specs[0].template.metadata
        spec = client.find(RAY_CLUSTERS, "default/train").spec.worker_group_specs[0].template.spec
        for name, phase in (("train-old", "Failed"), ("train-new", "Running")):
            own = ObjectMeta(name=name, namespace="default", labels=meta.labels, annotations=meta.annotations)
            bound = msgspec.structs.replace(spec, node_name="n")
            client.put(PODS, Pod(metadata=own, spec=bound, status=PodStatus(phase=phase)))
        await world.run(5)
        await world.job("two", 2)
        await world.job("one", 1)
        await world.run(10)
        assert world.where() == {"two": "", "one": "a"}
