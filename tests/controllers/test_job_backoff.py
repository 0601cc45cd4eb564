"""The wait between restarts of a job."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from job_world import World, job, policy, task

from unisono.controllers.job.policies import BASE_SECONDS, MOST_SECONDS, SPREAD, restart_delay


@given(st.text(), st.integers(0, 10**6))
def test_waits_grow_within_their_bounds(uid, retries):
    delay = restart_delay(uid, retries)
    assert delay == restart_delay(uid, retries)
    if retries < 2:
        assert delay == 0
    else:
        middle = min(MOST_SECONDS, BASE_SECONDS * 2.0 ** min(retries - 2, 20))
        assert middle * (1 - SPREAD) <= delay <= middle * (1 + SPREAD)


def test_jobs_that_failed_together_do_not_come_back_together():
    delays = {round(restart_delay(f"uid-{number}", 3), 3) for number in range(100)}
    assert len(delays) > 90


async def failed_again(world: World) -> None:
    await world.admit()
    await world.all_pods("Running")
    await world.pod("job-a-0", "Failed")
    await world.finish_deletions()


@pytest.mark.parametrize("crash", [False, True])
async def test_the_first_restart_is_immediate_and_later_ones_wait(crash):
    async with World() as world:
        await world.submit(job(task("a", 2), policies=[policy("RestartJob", "PodFailed")], maxRetry=9))
        await failed_again(world)
        assert world.phase() == "Pending"
        for retry in (2, 3, 4):
            await failed_again(world)
            assert (world.phase(), world.job().status.retry_count) == ("Restarting", retry)
            if crash:
                await world.restart()
            wait = restart_delay(world.job().metadata.uid, retry)
            await world.advance(wait - 1)
            assert world.phase() == "Restarting"
            assert world.group() is None
            await world.advance(2)
            assert world.phase() == "Pending"
        assert len(set(world.recorder.of("BackOff"))) == 3


async def test_pods_that_are_not_restarted_go_on_during_the_wait():
    async with World() as world:
        await world.submit(job(task("a", 2), policies=[policy("RestartPod", "PodFailed")], maxRetry=9))
        await world.admit()
        for _ in range(2):
            await world.all_pods("Running")
            await world.pod("job-a-0", "Failed")
            await world.finish_deletions()
        assert world.phase() == "Restarting"
        assert world.names() == ["job-a-1"]
        assert world.job().status.running == 1
        await world.advance(13)
        assert world.names() == ["job-a-0", "job-a-1"]


async def test_a_job_without_retries_fails_at_once():
    async with World() as world:
        await world.submit(job(task("a", 2), policies=[policy("RestartJob", "PodFailed")], maxRetry=2))
        await failed_again(world)
        await failed_again(world)
        assert world.phase() == "Failed"


async def test_a_user_who_resumes_or_stops_a_job_does_not_wait():
    async with World() as world:
        await world.submit(job(task("a", 2), policies=[policy("RestartJob", "PodFailed")], maxRetry=9))
        await failed_again(world)
        await failed_again(world)
        assert world.phase() == "Restarting"
        await world.command("AbortJob")
        assert world.phase() == "Aborted"
        await world.command("ResumeJob")
        assert world.phase() == "Pending"
