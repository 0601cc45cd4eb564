import pytest
from fleet_world import fleet, template
from unisono.api.kind_families import PYTORCH_JOBS, RAY_CLUSTERS
from unisono.api.annotations import ELASTIC, ELASTIC_COOL_DOWN, MOST_REPLICAS
from unisono.api.kinds import PODS

NOTES = {ELASTIC: "true", ELASTIC_COOL_DOWN: "30s"}

def torch():
    roles = {"Worker": {"replicas": 2, "template": template(1)}}
    return PYTORCH_JOBS, {"elasticPolicy": {"minReplicas": 2, "maxReplicas": 8}, "pytorchReplicaSpecs": roles}

def ray(auto=False):
    groups = [{"groupName": "g", "replicas": 1, "minReplicas": 1, "maxReplicas": 7, "template": template(1)}]
    return RAY_CLUSTERS, {"headGroupSpec": {"rayStartParams": {}, "template": template(1)}, "workerGroupSpecs": groups, "enableInTreeAutoscaling": auto}

def sizes(kind, spec):
    if kind is PYTORCH_JOBS: return spec.pytorch_replica_specs["Worker"].replicas
    return spec.worker_group_specs[0].replicas

@pytest.mark.parametrize("made", [torch, ray])
async def test_two_writers(made):
    kind, spec = made()
    async with fleet("a") as world:
        await world.whole("a", [8])
        world.start()
        await world.run(15)
        await world.create(kind, {"metadata": {"name": "train", "namespace": "default", "annotations": NOTES}, "spec": spec})
        await world.run_whole(90)
        print(world.running())
        seen = set()
        for _ in range(90):
            await world.run_whole(1)
            c = world.members["a"].find(kind, "default/train"); h = world.hub_client.find(kind, "default/train")
            seen.add((sizes(kind, c.spec), c.metadata.generation, h.metadata.generation, sum(world.running().values())))
        print(seen)
        assert len(seen) == 1
        assert sum(world.running().values()) == 8
