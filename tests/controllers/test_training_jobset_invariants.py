"""Random outcomes of a JobSet's pods, evictions, suspension and crashes of the controller: what must always hold."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_training_jobset import job_set, jobs
from training_world import TrainingWorld

from support.examples import examples
from unisono.api.kinds import PODS

ACTIONS = ["FailJobSet", "RestartJobSet", "RestartJob"]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("pod"), st.integers(0, 3), st.sampled_from(["Running", "Succeeded", "Succeeded", "Failed"])),
        st.tuples(st.just("evict"), st.integers(0, 3)),
        st.tuples(st.just("gone")),
        st.tuples(st.just("suspend"), st.booleans()),
        st.tuples(st.just("admit")),
        st.tuples(st.just("restart")),
    ),
    max_size=14,
)


async def play(world: TrainingWorld, step: tuple[Any, ...]) -> None:
    living = [
        pod
        for pod in world.pods()
        if not pod.metadata.deletion_timestamp and pod.status.phase not in ("Succeeded", "Failed")
    ]
    match step:
        case ("pod", number, phase):
            if number < len(living):
                world.set_pod(living[number], phase)
        case ("evict", number):
            if number < len(living):
                await world.client.delete(PODS, living[number].metadata.name, "ns")
        case ("gone",):
            await world.finish_deletions()
        case ("suspend", value):
            await world.change(suspend=value)
        case ("admit",):
            await world.admit()
        case ("restart",):
            await world.restart()
    await world.settle()


@pytest.mark.more
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    action=st.sampled_from(ACTIONS),
    most=st.integers(0, 2),
    limit=st.integers(0, 1),
    script=STEPS,
)
def test_invariants_of_job_sets(action, most, limit, script):
    asyncio.run(_invariants(action, most, limit, script))


async def _invariants(action: str, most: int, limit: int, script: list[tuple[Any, ...]]) -> None:
    policy = {"maxRestarts": most, "rules": [{"action": action}]}
    async with TrainingWorld() as world:
        await world.submit(job_set(jobs("a", limit=limit), jobs("b", 2, limit=limit), failurePolicy=policy))
        for step in script:
            before = world.job.status
            created = world.created_pods()
            await play(world, step)
            status = world.job.status
            towards_max = (status.restarts_count_towards_max or 0) + sum(
                sum(each.job_restarts_count_towards_max or ()) for each in status.replicated_jobs_status or ()
            )
            assert towards_max <= most
            assert (status.restarts or 0) >= (before.restarts or 0)
            # Two pods of one place never live at the same time: they have the same host name.
            places = [
                pod.spec.hostname
                for pod in world.pods()
                if pod.status.phase not in ("Succeeded", "Failed") and not pod.metadata.deletion_timestamp
            ]
            assert len(places) == len(set(places))
            if status.terminal_state:
                assert world.group() is None
                assert places == []
            if before.terminal_state:
                assert status.terminal_state == before.terminal_state
                assert world.created_pods() == created
            elif world.job.spec.suspend:
                assert places == []
