"""Changes of jobs that were dispatched: sizes, priority, suspending, and orders."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from fleet_world import fleet, node, template

from unisono.api.annotations import ELASTIC, ELASTIC_COOL_DOWN, MOST_REPLICAS, SCALED_AT
from unisono.api.base import ObjectMeta
from unisono.api.decode import decode
from unisono.api.documents import apply_json_patch
from unisono.api.groups.batch import Job
from unisono.api.kind_families import JOB_SETS, PYTORCH_JOBS, RAY_CLUSTERS
from unisono.api.kinds import COMMANDS, JOBS
from unisono.controllers.objects import to_json
from unisono.fleet.jobs.work import can_be_held, changes, held_back, is_held
from unisono.sdk.jobs.control import job_command


def job(replicas: int = 4, **spec: Any) -> Job:
    tasks = [{"name": "w", "replicas": replicas, "minAvailable": replicas, "template": template(1)}]
    given = {"queue": "q", "minAvailable": replicas, "schedulerName": "volcano", "maxRetry": 3, "tasks": tasks, **spec}
    return decode(JOBS, {"metadata": {"name": "j", "uid": "u"}, "spec": given}).obj


def torch(workers: int, **run: Any) -> Any:
    roles = {
        "Master": {"replicas": 1, "template": template(1)},
        "Worker": {"replicas": workers, "template": template(1)},
    }
    spec = {"pytorchReplicaSpecs": roles, "runPolicy": run}
    return decode(PYTORCH_JOBS, {"metadata": {"name": "j", "uid": "u"}, "spec": spec}).obj


def ray(workers: int, **spec: Any) -> Any:
    groups = [{"groupName": "g", "replicas": workers, "minReplicas": 0, "maxReplicas": 9, "template": template(1)}]
    given = {"headGroupSpec": {"template": template(1)}, "workerGroupSpecs": groups, **spec}
    return decode(RAY_CLUSTERS, {"metadata": {"name": "j", "uid": "u"}, "spec": given}).obj


def job_set(**spec: Any) -> Any:
    return decode(JOB_SETS, {"metadata": {"name": "j", "uid": "u"}, "spec": {"replicatedJobs": [], **spec}}).obj


def scaled(copied: Any) -> Any:
    """A copy that its member has scaled."""
    copied.metadata.annotations = {SCALED_AT: "2026-01-01T00:00:00Z"}
    return copied


@pytest.mark.parametrize(
    ("wanted", "found", "paths"),
    [
        (job(), job(), {}),
        (job(6), job(4), {"tasks/0/replicas": 6, "tasks/0/minAvailable": 6, "minAvailable": 6}),
        (job(priorityClassName="high"), job(), {"priorityClassName": "high"}),
        (job(), job(priorityClassName="high"), {"priorityClassName": None}),
        (job(queue="other"), job(), {}),
        (job(4), scaled(job(6)), {"tasks/0/minAvailable": 4, "minAvailable": 4}),
        (job(4, priorityClassName="high"), scaled(job(4)), {"priorityClassName": "high"}),
        (job(4), scaled(job(0)), {"tasks/0/replicas": 4, "tasks/0/minAvailable": 4, "minAvailable": 4}),
        (torch(3), scaled(torch(5)), {}),
        (ray(2), scaled(ray(5)), {}),
        (torch(2), torch(2), {}),
        (torch(3), torch(2), {"pytorchReplicaSpecs/Worker/replicas": 3}),
        (torch(2, suspend=True), torch(2), {"runPolicy/suspend": True}),
        (torch(2), torch(2, suspend=True), {"runPolicy/suspend": False}),
        (job_set(suspend=True), job_set(), {"suspend": True}),
        (job_set(), job_set(suspend=False), {}),
        (ray(2), ray(1), {"workerGroupSpecs/0/replicas": 2}),
        (ray(2, enableInTreeAutoscaling=True), ray(1, enableInTreeAutoscaling=True), {}),
    ],
)
def test_what_a_copy_follows(wanted, found, paths):
    patch = changes(wanted, found)
    assert {each["path"].removeprefix("/spec/"): each.get("value") for each in patch[1:]} == paths
    assert [each["path"] for each in patch[:1]] == (["/metadata/uid"] if paths else [])
    after = apply_json_patch(to_json(found), patch)
    assert changes(wanted, decode(_kind(found), after).obj) == []


def _kind(obj: Any) -> Any:
    return {"Job": JOBS, "PyTorchJob": PYTORCH_JOBS, "JobSet": JOB_SETS, "RayCluster": RAY_CLUSTERS}[type(obj).__name__]


def test_a_copy_is_held_back_without_pods_and_opened_by_its_sizes():
    wanted = job(4)
    held = decode(JOBS, {"metadata": {"name": "j", "uid": "u"}, "spec": held_back(to_json(wanted.spec))}).obj
    assert is_held(held)
    assert changes(wanted, held, held=True) == []
    opened = decode(JOBS, apply_json_patch(to_json(held), changes(wanted, held))).obj
    assert (opened.spec.min_available, opened.spec.tasks[0].replicas) == (4, 4)
    assert can_be_held(wanted)
    parts = [{"name": "w", "replicas": 4, "template": template(1)}]
    parts[0]["partitionPolicy"] = {"totalPartitions": 2, "partitionSize": 2}
    assert not can_be_held(job(4, tasks=parts))


async def order(world, name, action):
    command = job_command(world.hub_client.find(JOBS, f"default/{name}"), action)
    command.metadata.name = f"{name}-{action.lower()}"
    await world.hub_client.create(COMMANDS, command)


async def test_a_job_that_is_scaled_is_scaled_in_its_member():
    async with fleet("a") as world:
        world.join("a", [node("n1", 8)])
        world.start()
        await world.job("train", 4)
        await world.run(15)
        sizes = [{"op": "add", "path": "/spec/tasks/0/replicas", "value": 6}]
        await world.hub_client.patch(JOBS, "train", sizes, namespace="default", patch_type="json")
        await world.run(10)
        assert world.pods() == {"a": {"train": 6}}


async def test_a_member_that_refuses_a_change_goes_on_telling_its_status():
    async with fleet("a") as world:
        world.join("a", [node("n1", 8)])
        world.start()
        await world.job("train", 4)
        await world.run(15)
        sizes = [{"op": "add", "path": "/spec/tasks/0/replicas", "value": 6}]
        world.refuse("a", "patch", "jobs")
        await world.hub_client.patch(JOBS, "train", sizes, namespace="default", patch_type="json")
        await world.run(5)
        world.say("a", "train", {"state": {"phase": "Running"}, "running": 4})
        await world.run(10)
        assert world.pods() == {"a": {"train": 4}}
        assert world.hub_client.find(JOBS, "default/train").status.running == 4


async def test_orders_reach_the_member_and_what_follows_comes_back():
    async with fleet("a") as world:
        world.join("a", [node("n1", 8)])
        world.start()
        await world.job("train", 4)
        await world.run(15)
        await order(world, "train", "AbortJob")
        await world.run(10)
        (there,) = world.members["a"].objects(COMMANDS)
        copied = world.members["a"].find(JOBS, "default/train")
        assert (there.action, there.target.uid) == ("AbortJob", copied.metadata.uid)
        assert world.hub_client.objects(COMMANDS) == []
        world.say("a", "train", {"state": {"phase": "Aborted"}})
        await world.run(5)
        assert world.hub_client.find(JOBS, "default/train").status.state.phase == "Aborted"
        await world.job("next", 8)
        await world.run(15)
        assert world.where()["next"] == "a"


async def test_orders_to_a_job_that_waits_are_carried_out_on_the_hub():
    async with fleet("a") as world:
        world.join("a", [node("n1", 2)])
        world.start()
        await world.job("train", 4)
        await world.run(15)
        for action, phase in (("AbortJob", "Aborted"), ("ResumeJob", "Pending"), ("TerminateJob", "Terminated")):
            await order(world, "train", action)
            await world.run(5)
            assert world.hub_client.find(JOBS, "default/train").status.state.phase == phase
        assert world.hub_client.objects(COMMANDS) == []


async def test_an_order_to_a_lost_member_waits_and_one_to_another_incarnation_is_void():
    async with fleet("a", "b") as world:
        world.join("a", [node("n1", 4)])
        world.join("b", [])
        world.start()
        await world.job("train", 4)
        await world.run(15)
        world.lose("a")
        await world.run(60)
        await order(world, "train", "AbortJob")
        await world.run(20)
        assert len(world.hub_client.objects(COMMANDS)) == 1
        world.find("a")
        await world.run(30)
        assert len(world.members["a"].objects(COMMANDS)) == 1
        other = job_command(Job(metadata=ObjectMeta(name="train", namespace="default", uid="before")), "AbortJob")
        other.metadata.name = "void"
        await world.hub_client.create(COMMANDS, other)
        await world.run(5)
        assert world.hub_client.objects(COMMANDS) == []
        assert len(world.members["a"].objects(COMMANDS)) == 1


async def test_a_job_that_its_member_grows_is_not_shrunk_by_the_hub():
    async with fleet("a") as world:
        await world.whole("a", [8])
        world.start()
        await world.run(15)
        notes = {ELASTIC: "true", MOST_REPLICAS: "8", ELASTIC_COOL_DOWN: "30s"}
        await world.job("train", 2, annotations=notes)
        await world.run_whole(60)
        assert world.running() == {"a": 8}
        sizes = []
        for _ in range(90):
            await world.run_whole(1)
            copied = world.members["a"].find(JOBS, "default/train")
            task = copied.spec.tasks[0]
            sizes.append(task.replicas)
            if task.replicas != copied.spec.replicas:  # an API server brings both to one number
                tasks = [msgspec.structs.replace(task, replicas=copied.spec.replicas)]
                spec = msgspec.structs.replace(copied.spec, tasks=tasks)
                world.members["a"].put(JOBS, msgspec.structs.replace(copied, spec=spec))
        assert sizes[1:] == [8] * 89
