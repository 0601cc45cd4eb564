"""Training jobs that are too large for one member, and are divided over several whose pods find each other by names."""

from __future__ import annotations

import msgspec
import pytest
from fleet_world import fleet, node, template

from unisono.api.annotations import CLUSTER_ID, MEMBER_REASONS, NETWORK
from unisono.api.kind_families import HYPER_JOBS, JOB_SETS, MPI_JOBS, PYTORCH_JOBS, RAY_CLUSTERS, TF_JOBS
from unisono.api.kinds import EVENTS, PODS
from unisono.fleet.hyper_jobs.exports import SERVICE_EXPORTS

MASTER = "train-part-0-master-0-0.{}.train-part-0.default.svc.clusterset.local"


def role(replicas, container="pytorch", **more):
    pod = template(1)
    pod["spec"]["containers"][0]["name"] = container
    return {"replicas": replicas, "template": pod, **more}


def torch(workers=8, **run):
    return {
        "runPolicy": {"schedulingPolicy": {"queue": "default"}, **run},
        "pytorchReplicaSpecs": {"Master": role(1), "Worker": role(workers)},
    }


def ray(workers=8):
    group = {"groupName": "gpu", "replicas": workers, "minReplicas": workers, "maxReplicas": workers}
    head = {"rayStartParams": {}, "template": template(1)}
    return {"headGroupSpec": head, "workerGroupSpecs": [{**group, "rayStartParams": {}, "template": template(1)}]}


async def submit(world, kind, spec, name="train", **notes):
    await world.create(kind, {"metadata": {"name": name, "namespace": "default", "annotations": notes}, "spec": spec})


def labels(name, **more):
    return {NETWORK: "mesh", CLUSTER_ID: f"{name}-id", **more}


def reasons(world, name="train"):
    return msgspec.json.decode((world.group(name).metadata.annotations or {})[MEMBER_REASONS])


def variables(pod):
    return {each.name: each.value for each in pod.spec.containers[0].env or ()}


def pods_by_member(world):
    return {name: client.objects(PODS) for name, client in world.members.items()}


def resolved(pod, key):
    """A variable as a kubelet expands it."""
    found = variables(pod)
    text = found[key]
    for name, value in found.items():
        text = text.replace(f"$({name})", value or "")
    return text


async def test_a_pytorch_job_starts_over_both_members_with_ranks_of_the_whole_and_ends_as_one():
    async with fleet("gpu1", "gpu2") as world:
        await world.whole("gpu1", [4])
        await world.whole("gpu2", [8])
        for name in ("gpu1", "gpu2"):
            world.join(name, [], **labels(name))
        world.start()
        await world.run_whole(10)
        await submit(world, PYTORCH_JOBS, torch())
        for _ in range(30):
            await world.run_whole(1)
            job = world.hub_client.find(PYTORCH_JOBS, "default/train")
            said = {each.type for each in job.status.conditions or () if each.status == "True"}
            pods = sum(world.running().values())
            assert "Running" not in said or pods == 9
        assert "Running" in said
        counts = job.status.replica_statuses
        assert (counts["Master"].active, counts["Worker"].active) == (1, 8)
        members = pods_by_member(world)
        assert all(members.values())
        pods = [pod for found in members.values() for pod in found]
        assert sorted(int(variables(pod)["RANK"]) for pod in pods) == list(range(9))
        assert {variables(pod)["WORLD_SIZE"] for pod in pods} == {"9"}
        master = next(name for name, found in members.items() if any(variables(pod)["RANK"] == "0" for pod in found))
        assert {resolved(pod, "MASTER_ADDR") for pod in pods} == {MASTER.format(f"{master}-id")}
        exported = {
            name: [each.metadata.name for each in client.objects(SERVICE_EXPORTS)]
            for name, client in world.members.items()
        }
        assert exported == world.copies()
        await world.hub_client.delete(PYTORCH_JOBS, "train", "default")
        for _ in range(3):
            world.hub_client.collect_garbage()
            await world.run_whole(1)
        assert not world.hub_client.objects(HYPER_JOBS)
        assert world.copies() == {"gpu1": [], "gpu2": []}
        assert not any(client.objects(SERVICE_EXPORTS) for client in world.members.values())


def mpi():
    def of(replicas):
        return role(replicas, "mpi")

    return {"mpiReplicaSpecs": {"Launcher": of(1), "Worker": of(8)}, "slotsPerWorker": 1}


def tensorflow():
    return {"tfReplicaSpecs": {"Chief": role(1, "tensorflow"), "Worker": role(8, "tensorflow")}}


def job_set():
    pod = template(1)
    pod["spec"]["restartPolicy"] = "Never"
    spec = {"parallelism": 9, "completions": 9, "completionMode": "Indexed", "backoffLimit": 0, "template": pod}
    return {"replicatedJobs": [{"name": "w", "replicas": 1, "template": {"spec": spec}}]}


@pytest.mark.parametrize(
    ("kind", "spec", "given", "notes", "why"),
    [
        (PYTORCH_JOBS, torch(), {CLUSTER_ID: ""}, {}, "Multi-Cluster Services"),
        (RAY_CLUSTERS, ray(), {CLUSTER_ID: ""}, {}, "pods of a RayCluster find each other by names"),
        (PYTORCH_JOBS, torch(), {NETWORK: ""}, {}, "in no common network"),
        (PYTORCH_JOBS, torch(), {}, {"unisono.io/divided": "false"}, "unisono.io/divided is false"),
        (MPI_JOBS, mpi(), {}, {}, "which its controller makes in one cluster"),
        (PYTORCH_JOBS, torch(), {}, {"volcano.sh/network-topology-mode": "hard"}, "networkTopology"),
    ],
)
async def test_what_keeps_a_training_job_from_being_divided_is_told(kind, spec, given, notes, why):
    async with fleet("gpu1", "gpu2") as world:
        for name, gpus in (("gpu1", 4), ("gpu2", 8)):
            world.join(name, [node("n", gpus)], **labels(name, **given))
        world.start()
        await world.run(5)
        await submit(world, kind, spec, **notes)
        await world.run(60)
        assert not world.hub_client.objects(HYPER_JOBS)
        assert why in reasons(world)["gpu1, gpu2"]


@pytest.mark.parametrize(
    ("kind", "spec", "variable", "expected"),
    [
        (RAY_CLUSTERS, ray(), "RAY_IP", "train-part-0-headgroup-0-0."),
        (TF_JOBS, tensorflow(), "TF_CONFIG", "train-part-0-chief-0-0."),
        (JOB_SETS, job_set(), "JOB_COMPLETION_INDEX", ""),
    ],
)
async def test_other_kinds_run_over_both_members(kind, spec, variable, expected):
    async with fleet("gpu1", "gpu2") as world:
        await world.whole("gpu1", [4])
        await world.whole("gpu2", [8])
        for name in ("gpu1", "gpu2"):
            world.join(name, [], **labels(name))
        world.start()
        await world.run_whole(5)
        await submit(world, kind, spec)
        await world.run_whole(30)
        assert world.running() == {"gpu1": 4, "gpu2": 5} or sum(world.running().values()) == 9
        pods = [pod for found in pods_by_member(world).values() for pod in found]
        assert any(expected in resolved(pod, variable) for pod in pods)
        job = world.hub_client.find(kind, "default/train")
        if kind is RAY_CLUSTERS:
            assert (job.status.state, job.status.ready_worker_replicas) == ("ready", 8)
            assert job.status.head.pod_name == "train-part-0-headgroup-0-0"


async def test_a_divided_job_that_is_suspended_gives_its_room_back_and_starts_again():
    async with fleet("gpu1", "gpu2") as world:
        await world.whole("gpu1", [4])
        await world.whole("gpu2", [8])
        for name in ("gpu1", "gpu2"):
            world.join(name, [], **labels(name))
        world.start()
        await world.run_whole(5)
        await submit(world, PYTORCH_JOBS, torch())
        for suspended in (False, True, False):
            patch = {"spec": {"runPolicy": {"suspend": suspended}}}
            await world.hub_client.patch(PYTORCH_JOBS, "train", patch, namespace="default")
            for _ in range(40):
                world.hub_client.collect_garbage()
                await world.run_whole(1)
            job = world.hub_client.find(PYTORCH_JOBS, "default/train")
            holds = {each.type for each in job.status.conditions or () if each.status == "True"}
            assert ("Suspended" in holds, "Running" in holds) == (suspended, not suspended)
            assert sum(world.running().values()) == (0 if suspended else 9)


async def test_a_member_without_the_service_exports_keeps_the_gang_from_opening_and_is_told():
    async with fleet("gpu1", "gpu2") as world:
        await world.whole("gpu1", [4])
        await world.whole("gpu2", [8])
        for name in ("gpu1", "gpu2"):
            world.join(name, [], **labels(name))
        world.refuse("gpu1", "create", "serviceexports")
        world.start()
        await world.run_whole(5)
        await submit(world, PYTORCH_JOBS, torch())
        for _ in range(60):
            await world.run_whole(1)
            world.hub_client.collect_garbage()
            assert sum(world.running().values()) == 0
        assert "are missing in gpu1" in reasons(world)["gpu1, gpu2"]
        events = [each.message for each in world.hub_client.objects(EVENTS) if each.reason == "NotExported"]
        assert any("gpu1 takes no ServiceExport" in text for text in events)


@pytest.mark.parametrize(
    ("policy", "phase", "word"), [("Never", "Failed", "Failed"), ("Never", "Succeeded", "Succeeded")]
)
async def test_the_end_of_the_master_ends_all_parts(policy, phase, word):
    async with fleet("gpu1", "gpu2") as world:
        await world.whole("gpu1", [4])
        await world.whole("gpu2", [8])
        for name in ("gpu1", "gpu2"):
            world.join(name, [], **labels(name))
        world.start()
        await world.run_whole(5)
        spec = torch(ttlSecondsAfterFinished=30)
        spec["pytorchReplicaSpecs"]["Master"]["restartPolicy"] = "Never"
        await submit(world, PYTORCH_JOBS, spec)
        await world.run_whole(20)
        assert sum(world.running().values()) == 9
        for client in world.members.values():
            for pod in client.objects(PODS):
                if variables(pod)["RANK"] == "0":
                    await client.patch(
                        PODS, pod.metadata.name, {"status": {"phase": phase}}, namespace="default", subresource="status"
                    )
        for _ in range(10):
            world.hub_client.collect_garbage()
            await world.run_whole(1)
        job = world.hub_client.find(PYTORCH_JOBS, "default/train")
        assert phase in {each.type for each in job.status.conditions if each.status == "True"}
        assert world.copies() == {"gpu1": [], "gpu2": []}
        await world.run_whole(40)
        assert world.hub_client.find(PYTORCH_JOBS, "default/train") is None
