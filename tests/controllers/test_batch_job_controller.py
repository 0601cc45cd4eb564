"""``batch/v1`` Jobs: when pods are made, how their ends are counted, and how a Job ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from workload_world import WorkloadWorld, build

from support.examples import examples
from unisono.api.groups.batch_v1 import BatchJob, format_indexes, parse_indexes
from unisono.api.keys import COMPLETION_INDEX
from unisono.api.kind_families import BATCH_JOBS
from unisono.api.kinds import PODS
from unisono.controllers.workloads.job_decide import FINALIZER

LABELS = {"batch.kubernetes.io/controller-uid": "u", "job-name": "work"}


def job(restart: str = "Never", **spec: Any) -> BatchJob:
    container = {"name": "main", "image": "busybox"}
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [container], "restartPolicy": restart}}
    given = {"template": template, "selector": {"matchLabels": LABELS}, "manualSelector": True} | spec
    return build(BATCH_JOBS, "work", **given)


async def start(world: WorkloadWorld, **spec: Any) -> None:
    await world.make(BATCH_JOBS, job(**spec))


def running(world: WorkloadWorld) -> list[str]:
    return [pod.metadata.name for pod in world.pods(deleting=False) if pod.status.phase in (None, "Pending", "Running")]


def indexes(world: WorkloadWorld) -> list[str]:
    pods = [pod for pod in world.pods(deleting=False) if pod.status.phase in (None, "Pending", "Running")]
    return sorted(pod.metadata.annotations[COMPLETION_INDEX] for pod in pods)


async def end(
    world: WorkloadWorld, phase: str = "Succeeded", index: str | None = None, code: int | None = None
) -> None:
    """The first pod that runs (of that index) ends."""
    for pod in world.pods(deleting=False):
        over = pod.status.phase in ("Succeeded", "Failed")
        if not over and (index is None or pod.metadata.annotations[COMPLETION_INDEX] == index):
            await world.pod(pod.metadata.name, phase, code)
            return
    raise AssertionError("no pod runs")


def status(world: WorkloadWorld) -> Any:
    return world.one(BATCH_JOBS, "work").status


def verdict(world: WorkloadWorld) -> tuple[str, str] | None:
    """The condition with which the Job ended, and its reason."""
    for name in ("Complete", "Failed"):
        found = world.condition(BATCH_JOBS, "work", name)
        if found is not None:
            return name, found[1]
    return None


async def test_a_job_runs_its_pods_and_is_complete():
    async with WorkloadWorld() as world:
        await start(world, completions=3, parallelism=2)
        assert len(running(world)) == 2
        assert world.pods()[0].metadata.finalizers == [FINALIZER]
        await end(world)
        assert (status(world).succeeded, status(world).active, len(running(world))) == (1, 2, 2)
        await end(world)
        assert len(running(world)) == 1
        await end(world)
        assert verdict(world) == ("Complete", "CompletionsReached")
        assert world.condition(BATCH_JOBS, "work", "SuccessCriteriaMet") == ("True", "CompletionsReached")
        assert (status(world).succeeded, status(world).active) == (3, None)
        assert status(world).completion_time and status(world).uncounted_terminated_pods is None
        assert all(not pod.metadata.finalizers for pod in world.pods())


async def test_failed_pods_are_replaced_after_a_pause_that_doubles_until_the_limit():
    async with WorkloadWorld() as world:
        await start(world, backoffLimit=2)
        for pause in (10, 20):
            await end(world, "Failed")
            await world.advance(pause - 2)
            assert running(world) == []
            await world.advance(3)
            assert len(running(world)) == 1
        await end(world, "Failed")
        assert verdict(world) == ("Failed", "BackoffLimitExceeded")
        assert status(world).failed == 3


async def test_without_completions_one_success_is_enough_and_the_others_may_end():
    async with WorkloadWorld() as world:
        given = job(parallelism=2)
        given.spec.completions = None
        await world.make(BATCH_JOBS, given)
        await end(world)
        assert len(running(world)) == 1
        assert verdict(world) is None
        await end(world)
        assert verdict(world) == ("Complete", "CompletionsReached")


async def test_every_index_runs_until_it_succeeds():
    async with WorkloadWorld() as world:
        await start(world, completionMode="Indexed", completions=3, parallelism=2)
        assert indexes(world) == ["0", "1"]
        pod = world.pods()[0]
        assert pod.spec.hostname == "work-0"
        assert pod.metadata.labels[COMPLETION_INDEX] == "0"
        assert [each.name for each in pod.spec.containers[0].env] == ["JOB_COMPLETION_INDEX"]
        await end(world, index="1")
        assert indexes(world) == ["0", "2"]
        await end(world, "Failed", index="0")
        await world.advance(11)
        assert indexes(world) == ["0", "2"]
        await end(world, index="0")
        await end(world, index="2")
        assert verdict(world) == ("Complete", "CompletionsReached")
        assert status(world).completed_indexes == "0-2"


async def test_one_bad_index_fails_alone_where_each_has_a_limit_of_its_own():
    async with WorkloadWorld() as world:
        await start(world, completionMode="Indexed", completions=2, parallelism=2, backoffLimitPerIndex=1)
        await end(world, "Failed", index="0")
        await world.advance(11)
        assert indexes(world) == ["0", "1"]
        await end(world, "Failed", index="0")
        await world.advance(100)
        assert indexes(world) == ["1"]
        assert status(world).failed_indexes == "0"
        await end(world, index="1")
        assert verdict(world) == ("Failed", "FailedIndexes")


@pytest.mark.parametrize(
    ("action", "code", "ended", "failed"),
    [
        ("FailJob", 42, ("Failed", "PodFailurePolicy"), 1),
        ("Ignore", 42, None, None),
        ("Count", 42, ("Failed", "BackoffLimitExceeded"), 1),
        ("FailJob", 1, ("Failed", "BackoffLimitExceeded"), 1),
    ],
)
async def test_what_an_exit_code_means(action, code, ended, failed):
    rule = {"action": action, "onExitCodes": {"operator": "In", "values": [42]}}
    async with WorkloadWorld() as world:
        await start(world, backoffLimit=0, podFailurePolicy={"rules": [rule]})
        await end(world, "Failed", code=code)
        assert verdict(world) == ended
        assert status(world).failed == failed
        if ended is None:
            await world.advance(11)
            assert len(running(world)) == 1
        if ended and ended[1] == "PodFailurePolicy":
            found = next(each for each in status(world).conditions if each.type == "Failed")
            assert "failed with exit code 42 matching FailJob rule at index 0" in found.message


async def test_a_success_policy_ends_the_job_early():
    async with WorkloadWorld() as world:
        policy = {"rules": [{"succeededIndexes": "0"}]}
        await start(world, completionMode="Indexed", completions=3, parallelism=3, successPolicy=policy)
        await end(world, index="0")
        assert world.condition(BATCH_JOBS, "work", "SuccessCriteriaMet") == ("True", "SuccessPolicy")
        await world.finish_deletions()
        await world.advance(2)
        assert verdict(world) == ("Complete", "SuccessPolicy")


async def test_suspension_takes_the_pods_away_and_counts_no_failure():
    async with WorkloadWorld() as world:
        await start(world, completions=2, parallelism=2)
        await world.all_pods("Running")
        await world.edit(BATCH_JOBS, "work", suspend=True)
        await world.finish_deletions()
        assert world.pods() == []
        assert world.condition(BATCH_JOBS, "work", "Suspended") == ("True", "JobSuspended")
        assert (status(world).failed, status(world).start_time) == (None, None)
        await world.edit(BATCH_JOBS, "work", suspend=False)
        assert len(running(world)) == 2
        assert world.condition(BATCH_JOBS, "work", "Suspended") == ("False", "JobResumed")


async def test_a_job_that_takes_too_long_fails():
    async with WorkloadWorld() as world:
        await start(world, activeDeadlineSeconds=60)
        await world.all_pods("Running")
        await world.advance(61)
        assert world.condition(BATCH_JOBS, "work", "FailureTarget") == ("True", "DeadlineExceeded")
        await world.finish_deletions()
        await world.advance(2)
        assert verdict(world) == ("Failed", "DeadlineExceeded")


async def test_fewer_pods_at_once_withdraws_some():
    async with WorkloadWorld() as world:
        await start(world, completions=5, parallelism=3)
        await world.edit(BATCH_JOBS, "work", parallelism=1)
        assert len(running(world)) == 1
        assert status(world).failed is None


async def test_an_ended_job_goes_after_its_time():
    async with WorkloadWorld() as world:
        await start(world, ttlSecondsAfterFinished=30)
        await end(world)
        await world.advance(29)
        assert world.client.find(BATCH_JOBS, "default/work") is not None
        await world.advance(3)
        assert world.client.find(BATCH_JOBS, "default/work") is None


async def test_pods_of_a_job_that_is_gone_are_let_go():
    async with WorkloadWorld() as world:
        await start(world, completions=2, parallelism=2)
        world.client.remove(BATCH_JOBS, "default/work")
        await world.settle()
        assert all(not pod.metadata.finalizers for pod in world.pods())


async def test_a_job_of_another_controller_is_left_alone():
    async with WorkloadWorld() as world:
        await start(world, managedBy="kueue.x-k8s.io/multikueue")
        assert world.pods() == []


@pytest.mark.parametrize(
    ("text", "found"), [("", set()), ("3", {3}), ("0,2-4", {0, 2, 3, 4}), ("0-1,3", {0, 1, 3}), ("0,1", {0, 1})]
)
def test_lists_of_indexes(text, found):
    assert set(parse_indexes(text)) == found
    assert set(parse_indexes(format_indexes(found))) == found


@pytest.mark.parametrize("text", ["x", "1,", "2,1", "3-2", "-1", "1,1"])
def test_lists_that_are_none(text):
    with pytest.raises(ValueError, match=r"order|integer"):
        parse_indexes(text)


OUTCOMES = st.lists(st.sampled_from(["Succeeded", "Failed", "gone", "restart", "wait"]), max_size=25)


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    outcomes=OUTCOMES,
    completions=st.integers(1, 5),
    parallelism=st.integers(1, 4),
    indexed=st.booleans(),
    limit=st.integers(0, 4),
)
def test_every_end_counts_once(outcomes, completions, parallelism, indexed, limit):
    """Pods that end in any way, restarts of the controller in between: the counts are those of a bystander."""

    async def play() -> None:
        async with WorkloadWorld() as world:
            mode = "Indexed" if indexed else "NonIndexed"
            await start(
                world, completions=completions, parallelism=parallelism, completionMode=mode, backoffLimit=limit
            )
            succeeded = failed = 0
            for outcome in outcomes:
                live = running(world)
                assert len(live) <= parallelism
                if outcome == "restart":
                    await world.restart()
                elif outcome == "wait" or not live:
                    await world.advance(700)
                elif outcome == "gone":
                    await world.client.delete(PODS, live[0], "default")
                    await world.settle()
                    await world.finish_deletions()
                    failed += 1
                else:
                    await world.pod(live[0], outcome)
                    succeeded += outcome == "Succeeded"
                    failed += outcome == "Failed"
                found = status(world)
                assert (found.succeeded or 0) == succeeded
                if verdict(world) is None and world.condition(BATCH_JOBS, "work", "FailureTarget") is None:
                    assert (found.failed or 0) == failed
                    assert failed <= limit
                    assert succeeded < completions
                if verdict(world) is not None:
                    break
            await world.finish_deletions()
            await world.advance(2)
            if succeeded >= completions:
                assert verdict(world) == ("Complete", "CompletionsReached")
            elif failed > limit:
                await world.finish_deletions()
                await world.advance(2)
                assert verdict(world) == ("Failed", "BackoffLimitExceeded")

    asyncio.run(play())
