"""Policies of a JobSet's Jobs: which failures of pods count, which indexes may fail, when enough have succeeded."""

from __future__ import annotations

from typing import Any

import pytest
from training_world import TrainingWorld, template


def job_set(pods: int = 2, failure_policy: dict[str, Any] | None = None, **job: Any) -> dict[str, Any]:
    spec = {"parallelism": pods, "completions": pods, "template": template(restartPolicy="Never"), **job}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "js", "namespace": "ns"},
        "spec": {
            "replicatedJobs": [{"name": "a", "replicas": 1, "template": {"spec": spec}}],
            **({"failurePolicy": failure_policy} if failure_policy else {}),
        },
    }


def on_exit(action: str, *codes: int) -> dict[str, Any]:
    return {"rules": [{"action": action, "onExitCodes": {"operator": "In", "values": list(codes)}}]}


async def end(world: TrainingWorld, index: int, phase: str, code: int | None = None) -> None:
    (pod,) = living(world, index)
    await world.pod(pod, phase, code)


def living(world: TrainingWorld, index: int | None = None) -> list[str]:
    hosts = {f"js-a-0-{index}"} if index is not None else {"js-a-0-0", "js-a-0-1", "js-a-0-2", "js-a-0-3"}
    return [
        pod.metadata.name
        for pod in world.pods()
        if pod.spec.hostname in hosts
        and not pod.metadata.deletion_timestamp
        and pod.status.phase not in ("Succeeded", "Failed")
    ]


@pytest.mark.parametrize(
    ("policy", "code", "state", "reason"),
    [
        (on_exit("FailJob", 42), 42, "Failed", "PodFailurePolicy"),
        (on_exit("FailJob", 42), 1, None, ""),
        (on_exit("Ignore", 42), 42, None, ""),
        (on_exit("Count", 42), 42, None, ""),
        ({"rules": "nonsense"}, 42, None, ""),
    ],
)
async def test_a_failed_pod_means_what_the_policy_says(policy, code, state, reason):
    rules = [{"action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}]
    async with TrainingWorld() as world:
        await world.submit(job_set(backoffLimit=1, podFailurePolicy=policy, failure_policy={"rules": rules}))
        await world.all_pods("Running")
        await end(world, 0, "Failed", code)
        assert world.job.status.terminal_state == state
        if state:
            assert world.condition("Failed").reason == "FailJobSetFailurePolicyAction"
        else:
            assert len(living(world)) == 2, "the pod is made again"


async def test_ignored_failures_never_use_up_the_limit():
    async with TrainingWorld() as world:
        await world.submit(job_set(backoffLimit=0, podFailurePolicy=on_exit("Ignore", 42)))
        for _ in range(3):
            await world.all_pods("Running")
            await end(world, 0, "Failed", 42)
        assert len(living(world)) == 2
        await end(world, 0, "Failed", 1)
        assert world.job.status.terminal_state == "Failed"


async def test_a_disruption_can_be_ignored_by_condition():
    pattern = [{"type": "DisruptionTarget", "status": "True"}]
    policy = {"rules": [{"action": "FailJob", "onPodConditions": pattern}]}
    async with TrainingWorld() as world:
        await world.submit(job_set(backoffLimit=5, podFailurePolicy=policy))
        await world.all_pods("Running")
        await world.pod(living(world, 0)[0], "Failed", 137, disrupted=True)
        assert world.job.status.terminal_state == "Failed", "the policy says that a disruption ends this job"


async def test_every_index_has_its_own_limit():
    async with TrainingWorld() as world:
        await world.submit(job_set(3, backoffLimitPerIndex=1, maxFailedIndexes=1))
        await world.all_pods("Running")
        await end(world, 0, "Failed")
        await world.all_pods("Running")
        await end(world, 0, "Failed")
        assert living(world, 0) == [], "index 0 has failed for good"
        assert not world.job.status.terminal_state
        assert len(living(world)) == 2
        await end(world, 1, "Failed")
        await world.all_pods("Running")
        await end(world, 1, "Failed")
        assert world.job.status.terminal_state == "Failed"


async def test_failed_indexes_fail_the_job_when_all_others_are_done():
    async with TrainingWorld() as world:
        policy = on_exit("FailIndex", 7)
        await world.submit(job_set(2, backoffLimitPerIndex=3, podFailurePolicy=policy))
        await world.all_pods("Running")
        await end(world, 0, "Failed", 7)
        assert living(world, 0) == []
        assert not world.job.status.terminal_state
        await end(world, 1, "Succeeded")
        assert world.job.status.terminal_state == "Failed"


@pytest.mark.parametrize("rule", [{"succeededIndexes": "0"}, {"succeededCount": 1}])
async def test_enough_successes_end_the_job_and_its_other_pods(rule):
    async with TrainingWorld() as world:
        await world.submit(job_set(4, completionMode="Indexed", successPolicy={"rules": [rule]}))
        await world.all_pods("Running")
        await end(world, 0, "Succeeded")
        assert world.job.status.terminal_state == "Completed"
        assert living(world) == []
