"""Hyper jobs: their jobs, their sizes, their ends."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from job_world import World, job, task

from unisono.api.groups.batch import HyperJob
from unisono.api.kind_families import HYPER_JOBS
from unisono.api.kinds import COMMANDS, JOBS
from unisono.controllers.hyperjob.decide import SplitError, wanted_jobs
from unisono.errors import ApiError


def replicated(name: str, replicas: int = 1, **spec: Any) -> dict[str, Any]:
    return {"name": name, "replicas": replicas, "templateSpec": {"tasks": [task("t", 1)], **spec}}


async def start(world: World, *jobs: dict[str, Any], **spec: Any) -> None:
    value = {"metadata": {"name": "h", "namespace": "default"}, "spec": {"replicatedJobs": list(jobs), **spec}}
    await world.client.create(HYPER_JOBS, msgspec.convert(value, HyperJob))
    await world.settle()


async def change(world: World, *jobs: dict[str, Any]) -> None:
    await world.client.patch(HYPER_JOBS, "h", {"spec": {"replicatedJobs": list(jobs)}}, namespace="default")
    await world.settle()


def status(world: World) -> Any:
    return world.client.find(HYPER_JOBS, "default/h").status


def condition(world: World) -> tuple[str, str] | None:
    found = status(world).conditions
    return (found[0].type, found[0].message) if found else None


def jobs(world: World) -> list[str]:
    return [each.metadata.name for each in world.client.objects(JOBS)]


async def end(world: World, name: str, outcome: str = "Succeeded") -> None:
    if world.group(name) is not None and world.group(name).status.phase == "Pending":
        await world.admit(name)
    for pod in world.pods(deleting=False):
        if pod.metadata.name.startswith(f"{name}-"):
            world.set_pod(pod, outcome)
    await world.settle()


async def test_jobs_of_a_hyper_job():
    async with World() as world:
        await start(world, replicated("a", 2, queue="q"), replicated("b"))
        assert jobs(world) == ["h-a-0", "h-a-1", "h-b-0"]
        made = world.job("h-a-1")
        assert made.spec.queue == "q"
        assert made.metadata.labels["volcano.sh/hyperjob-name"] == "h"
        assert made.metadata.labels["volcano.sh/replicatedjob-name"] == "a"
        assert [(o.kind, o.controller) for o in made.metadata.owner_references] == [("HyperJob", True)]
        assert status(world).split_count == 3
        assert status(world).conditions is None
        await world.admit("h-a-0")
        first, second = status(world).replicated_jobs_status
        assert {name: state.phase for name, state in first.job_states.items()} == {
            "h-a-0": "Pending",
            "h-a-1": "Pending",
        }
        assert (first.pending, second.pending) == (1, None)


@pytest.mark.parametrize(
    ("outcomes", "ended"),
    [
        (["Succeeded", "Succeeded"], ("Completed", "HyperJob completed: 2 completed")),
        (["Succeeded", "Failed"], ("Failed", "HyperJob failed: 1 completed, 1 failed, 0 aborted, 0 terminated")),
        (["Succeeded"], None),
        (["Failed"], None),
    ],
)
async def test_how_it_ends(outcomes, ended):
    async with World() as world:
        await start(world, replicated("a", 2))
        for number, outcome in enumerate(outcomes):
            await end(world, f"h-a-{number}", outcome)
        assert condition(world) == ended


async def test_what_has_ended_is_not_done_again_when_it_is_gone():
    async with World() as world:
        await start(world, replicated("a", 2, ttlSecondsAfterFinished=10))
        await end(world, "h-a-0", "Failed")
        await end(world, "h-a-1")
        since = status(world).conditions[0].last_transition_time
        await world.advance(11)
        world.client.collect_garbage()
        await world.restart()
        assert jobs(world) == []
        assert condition(world)[0] == "Failed"
        assert status(world).conditions[0].last_transition_time == since
        assert status(world).replicated_jobs_status[0].job_states["h-a-1"].phase == "Completed"


async def test_a_failed_job_that_is_deleted_is_done_again():
    async with World() as world:
        await start(world, replicated("a"))
        await end(world, "h-a-0", "Failed")
        assert condition(world)[0] == "Failed"
        await world.client.delete(JOBS, "h-a-0", "default")
        world.client.collect_garbage()
        await world.settle()
        await end(world, "h-a-0")
        assert condition(world)[0] == "Completed"


async def test_a_suspended_job_is_no_end():
    async with World() as world:
        await start(world, replicated("a"))
        await world.command("AbortJob", "h-a-0")
        assert world.phase("h-a-0") == "Aborted"
        assert condition(world) is None


async def test_replicas_come_and_go():
    async with World() as world:
        await start(world, replicated("a", 1), replicated("b", 1))
        await change(world, replicated("a", 3))
        world.client.collect_garbage()
        assert jobs(world) == ["h-a-0", "h-a-1", "h-a-2"]
        await change(world, replicated("a", 0))
        assert jobs(world) == []


async def test_sizes_of_a_template_reach_the_jobs_that_run():
    async with World() as world:
        await start(world, replicated("a", 1, minAvailable=1))
        before = world.job("h-a-0")
        wider = replicated("a", 1, minAvailable=2, tasks=[task("t", 3)])
        await change(world, wider)
        after = world.job("h-a-0")
        assert after.metadata.uid == before.metadata.uid
        assert (after.spec.tasks[0].replicas, after.spec.min_available) == (3, 2)
        writes = len(world.client.writes)
        await world.restart()
        assert len(world.client.writes) == writes


async def test_what_a_job_cannot_change_is_told_and_holds_for_the_next_one():
    async with World() as world:
        await start(world, replicated("a", 1, queue="old"))
        await change(world, replicated("a", 2, queue="new"))
        assert [world.job(name).spec.queue for name in jobs(world)] == ["old", "new"]
        (told,) = set(world.recorder.of("FailedUpdateVCJob"))
        assert told.startswith("job h-a-0 goes on with the template that it was made from")
        await world.client.delete(JOBS, "h-a-0", "default")
        world.client.collect_garbage()
        await world.settle()
        assert world.job("h-a-0").spec.queue == "new"


async def test_a_refused_job_and_a_strangers_do_not_keep_the_others_back():
    async with World() as world:

        def refuse(operation: str, resource: str, namespace: str, name: str) -> None:
            if (operation, resource, name) == ("create", "jobs", "h-a-0"):
                raise ApiError("queue is closed", code=422, reason="Invalid")

        await world.client.create(JOBS, job(task("a"), name="h-a-1"))
        world.client.interceptor = refuse
        await start(world, replicated("a", 3))
        assert jobs(world) == ["h-a-1", "h-a-2"]
        told = world.recorder.of("FailedCreateVCJob")
        assert told[0] == "Failed to create job h-a-0: queue is closed"
        assert "belongs to something else" in told[1]
        world.client.interceptor = None
        await world.advance(120)
        assert jobs(world) == ["h-a-0", "h-a-1", "h-a-2"]
        assert world.job("h-a-1").metadata.owner_references is None


async def test_the_jobs_go_with_the_hyper_job():
    async with World() as world:
        await start(world, replicated("a", 2))
        await world.client.delete(HYPER_JOBS, "h", "default")
        world.client.collect_garbage()
        await world.advance(10)
        assert jobs(world) == []


# --- minAvailable -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("least", "outcomes", "ended"),
    [
        (2, ["Succeeded", "Failed", "Succeeded"], ("Completed", "HyperJob completed: 2 completed, 1 failed, ")),
        (3, ["Succeeded", "Succeeded", "Succeeded"], ("Completed", "HyperJob completed: 3 completed")),
        (9, ["Succeeded", "Succeeded", "Failed"], ("Failed", "HyperJob failed: 2 completed, 1 failed, ")),
    ],
)
async def test_enough_jobs_complete_a_hyper_job(least, outcomes, ended):
    async with World() as world:
        await start(world, replicated("a", 3), minAvailable=least)
        for number, outcome in enumerate(outcomes):
            await end(world, f"h-a-{number}", outcome)
        kind, message = condition(world)
        assert kind == ended[0]
        assert message.startswith(ended[1])


async def test_what_goes_on_in_vain_is_terminated():
    async with World() as world:
        await start(world, replicated("a", 3), minAvailable=2)
        for name in jobs(world):
            await world.admit(name)
        await world.all_pods("Running")
        await end(world, "h-a-0", "Failed")
        assert [world.phase(name) for name in jobs(world)[1:]] == ["Running", "Running"], "two can still complete"
        await end(world, "h-a-1", "Failed")
        await world.finish_deletions()
        assert world.phase("h-a-2") == "Terminated"
        assert condition(world) == ("Failed", "HyperJob failed: 0 completed, 2 failed, 0 aborted, 1 terminated")
        assert world.client.objects(COMMANDS) == []
        await world.restart()
        assert condition(world)[0] == "Failed"


async def test_without_min_available_one_failure_stops_nobody():
    async with World() as world:
        await start(world, replicated("a", 2))
        await world.admit("h-a-1")
        await world.all_pods("Running")
        await end(world, "h-a-0", "Failed")
        assert world.phase("h-a-1") == "Running"


# --- splitPolicy ------------------------------------------------------------------------------------------------

GPU = "nvidia.com/gpu"


def gpu_job(replicas: int, each: int = 2, policy: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    worker = task("w", 1)
    worker["template"]["spec"]["containers"][0]["resources"] = {"limits": {GPU: str(each)}}
    made = replicated("a", replicas, **{"tasks": [task("head", 1), worker]} | spec)
    return made | {"splitPolicy": {"mode": "static", "acceleratorType": GPU, **(policy or {})}}


def sizes(world: World) -> list[int]:
    """Workers by job."""
    return [each.spec.tasks[1].replicas for each in world.client.objects(JOBS)]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (gpu_job(2, policy={"accelerators": 12}), [3, 3]),
        (gpu_job(2, policy={"accelerators": 10}), [3, 2]),
        (gpu_job(3, 1, policy={"accelerators": 8}), [3, 3, 2]),
        (gpu_job(2), [1, 1]),
        (gpu_job(4, policy={"mode": "auto", "accelerators": 12}), [6]),
        (gpu_job(4, policy={"mode": "auto"}), [1]),
    ],
)
async def test_accelerators_are_shared_evenly(value, expected):
    async with World() as world:
        await start(world, value)
        assert sizes(world) == expected
        assert status(world).split_count == len(expected)


@pytest.mark.parametrize(("gang", "expected"), [(2, 4), (1, 1), (None, None)])
async def test_a_gang_of_all_pods_stays_one(gang, expected):
    async with World() as world:
        await start(world, gpu_job(1, policy={"accelerators": 6}, **({"minAvailable": gang} if gang else {})))
        assert sizes(world) == [3]
        assert world.job("h-a-0").spec.min_available == expected


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (gpu_job(2, policy={"accelerators": 7}), "make splitPolicy.accelerators a multiple of that"),
        (gpu_job(4, policy={"accelerators": 6}), "too few for 4 replicas"),
        (gpu_job(2, policy={"accelerators": 4, "acceleratorType": "amd.com/gpu"}), "and here are 0"),
        (gpu_job(2, policy={"accelerators": 4, "acceleratorType": None}), "acceleratorType is missing"),
    ],
)
async def test_a_policy_that_cannot_be_followed_is_told(value, told):
    async with World() as world:
        await start(world, value)
        assert jobs(world) == []
        (message,) = world.recorder.of("FailedSplit")
        assert told in message


async def test_more_accelerators_reach_jobs_that_run():
    async with World() as world:
        await start(world, gpu_job(2, policy={"accelerators": 8}))
        await change(world, gpu_job(2, policy={"accelerators": 12}))
        assert sizes(world) == [3, 3]
        await change(world, gpu_job(2, policy={"accelerators": 5}))
        assert sizes(world) == [3, 3], "jobs go on until the policy can be followed"


@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 60), st.sampled_from(["static", "auto"]))
def test_every_accelerator_is_in_exactly_one_job(replicas: int, each: int, pods: int, mode: str):
    value = gpu_job(replicas, each, {"accelerators": pods * each, "mode": mode})
    hyper_job = msgspec.convert({"metadata": {"name": "h"}, "spec": {"replicatedJobs": [value]}}, HyperJob)
    try:
        found = [wanted.spec.tasks[1].replicas for wanted in wanted_jobs(hyper_job)]
    except SplitError:
        assert pods < replicas
        return
    assert sum(found) * each == pods * each
    assert max(found) - min(found) <= 1
    assert len(found) == (1 if mode == "auto" else replicas)
