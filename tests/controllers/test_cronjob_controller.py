"""Cron jobs: what is started when, what is kept, and what a crash cannot break."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from job_world import World, job, task

from support.examples import examples
from unisono.api.groups.batch import CronJob, Job, JobState
from unisono.api.kind_families import CRON_JOBS
from unisono.api.kinds import JOBS
from unisono.api.times import parse_time, rfc3339
from unisono.controllers.cronjob.decide import SCHEDULED, decide, job_name
from unisono.errors import ApiError, Unavailable

NOON = parse_time("2026-03-02T12:00:00Z")


def cron(schedule: str = "*/5 * * * *", **fields: Any) -> CronJob:
    """A cron job that was made at noon."""
    template = {"metadata": {"labels": {"team": "x"}}, "spec": {"tasks": [task("a")], "minAvailable": 1}}
    meta = {"name": "tick", "namespace": "default", "uid": "c1", "creationTimestamp": rfc3339(NOON)}
    return msgspec.convert(
        {"metadata": meta, "spec": {"schedule": schedule, "jobTemplate": template} | fields}, CronJob
    )


def made(minute: int, phase: str = "Running", ended: int | None = None) -> Job:
    """The job that was due so many minutes after noon."""
    due = NOON + 60 * minute
    given = job(task("a"), name=job_name("tick", due))
    meta = given.metadata
    meta.uid, meta.creation_timestamp, meta.annotations = f"u{minute}", rfc3339(due), {SCHEDULED: rfc3339(due)}
    given.status.state = JobState(phase=phase, last_transition_time=rfc3339(NOON + 60 * (ended or minute)))
    return given


def names(jobs: list[Job]) -> list[str]:
    return [each.metadata.name for each in jobs]


@pytest.mark.parametrize(
    ("fields", "jobs", "minute", "due", "again"),
    [
        ({}, [], 3, None, 2),
        ({}, [], 5, 5, 5),
        ({}, [], 17, 15, 3),
        ({}, [made(5)], 7, None, 3),
        ({}, [made(5)], 10, 10, 5),
        ({"suspend": True}, [], 10, None, None),
        ({"concurrencyPolicy": "Forbid"}, [made(5)], 10, None, 5),
        ({"concurrencyPolicy": "Forbid"}, [made(5, "Aborted")], 10, None, 5),
        ({"concurrencyPolicy": "Forbid"}, [made(5, "Completed")], 10, 10, 5),
        ({"concurrencyPolicy": "Forbid"}, [made(5, "Failed")], 13, 10, 2),
        ({"startingDeadlineSeconds": 60}, [], 11, 10, 4),
        ({"startingDeadlineSeconds": 60}, [], 12, None, 3),
        ({"startingDeadlineSeconds": 0}, [], 10, 10, 5),
        ({"schedule": "@every 7m"}, [], 15, 14, 6),
        ({"schedule": "@every 7m"}, [made(14)], 20, None, 1),
        ({"schedule": "0 14 * * *", "timeZone": "Europe/Berlin"}, [], 60, 60, 24 * 60),
        ({"schedule": "nonsense"}, [], 60, None, None),
    ],
)
def test_what_is_due(fields, jobs, minute, due, again):
    plan = decide(cron(**fields), jobs, NOON + 60 * minute)
    assert (plan.create.metadata.name if plan.create else None) == (job_name("tick", NOON + 60 * due) if due else None)
    assert plan.requeue_after == (None if again is None else pytest.approx(again * 60 + 0.1))


def test_the_job_that_is_made():
    plan = decide(cron("30 13 * * *", timeZone="Europe/Berlin"), [], NOON + 1800)
    meta = plan.create.metadata
    assert meta.name == f"tick-{int(NOON + 1800) // 60}"
    assert meta.labels == {"team": "x"}
    assert meta.annotations == {SCHEDULED: "2026-03-02T13:30:00+01:00"}
    assert [(o.kind, o.uid, o.controller) for o in meta.owner_references] == [("CronJob", "c1", True)]
    assert plan.create.spec.tasks[0].name == "a"


def test_times_within_a_minute_have_names_of_their_own():
    assert job_name("tick", 120) == "tick-2"
    assert job_name("tick", 150) == "tick-150"


def test_replace_takes_the_running_job_away():
    plan = decide(cron(concurrencyPolicy="Replace"), [made(5), made(0, "Completed")], NOON + 600)
    assert names(plan.delete) == [made(5).metadata.name]
    assert plan.create is not None
    assert plan.notices[-1].reason == "ReplaceConcurrent"


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        ({}, {"Completed": 3, "Failed": 1}),
        ({"successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": 0}, {"Completed": 0, "Failed": 0}),
        ({"successfulJobsHistoryLimit": 9, "failedJobsHistoryLimit": 2}, {"Completed": 4, "Failed": 2}),
    ],
)
def test_how_much_history_is_kept(fields, kept):
    phases = [
        "Completed",
        "Failed",
        "Completed",
        "Terminated",
        "Completed",
        "Failed",
        "Completed",
        "Running",
        "Aborted",
    ]
    jobs = [made(5 * number, phase) for number, phase in enumerate(phases)]
    gone = names(decide(cron(suspend=True, **fields), jobs, NOON + 3600).delete)
    left = [each for each in jobs if each.metadata.name not in gone]
    completed = [each for each in left if each.status.state.phase == "Completed"]
    failed = [each for each in left if each.status.state.phase in ("Failed", "Terminated")]
    assert (len(completed), len(failed)) == (kept["Completed"], kept["Failed"])
    # The oldest go, and those that have not ended stay whatever the limits say.
    assert names(left)[-2:] == names(jobs)[-2:]
    assert not completed or completed[-1] is jobs[6]


def test_the_status_tells_what_runs_and_when_it_last_went_well():
    jobs = [made(5, "Completed", ended=8), made(10, "Completed", ended=11), made(15), made(20, "Aborted")]
    status = decide(cron(), jobs, NOON + 60 * 21).status
    assert [reference.name for reference in status.active] == names(jobs[2:])
    assert status.last_schedule_time == rfc3339(NOON + 1200)
    assert status.last_successful_time == rfc3339(NOON + 660)


@pytest.mark.parametrize(("minute", "told"), [(500, False), (510, True)])
def test_a_long_pause_is_told_and_only_the_latest_start_made_up_for(minute, told):
    plan = decide(cron(), [], NOON + 60 * minute)
    assert plan.create.metadata.name == job_name("tick", NOON + 60 * minute)
    assert any(notice.reason == "TooManyMissedTimes" for notice in plan.notices) is told


# --- with the controllers -----------------------------------------------------------------------------------------


async def start(world: World, **fields: Any) -> None:
    given = cron(**fields)
    given.metadata.uid = given.metadata.creation_timestamp = None
    # To the next full ten minutes, so that five minutes are five minutes.
    await world.clock.advance(600 - world.clock.time() % 600)
    await world.client.create(CRON_JOBS, given)
    # A second later than every time of the schedule.
    await world.advance(1)


def status(world: World) -> Any:
    return world.client.find(CRON_JOBS, "default/tick").status


async def finish(world: World, phase: str = "Succeeded") -> None:
    """Let every job that exists run to its end."""
    for each in world.client.objects(JOBS):
        if world.group(each.metadata.name) is not None:
            await world.admit(each.metadata.name)
    await world.all_pods(phase)


@pytest.mark.parametrize(("policy", "active", "total"), [("Allow", 3, 3), ("Forbid", 1, 1), ("Replace", 1, 1)])
async def test_concurrency(policy, active, total):
    async with World() as world:
        await start(world, concurrencyPolicy=policy)
        for _ in range(3):
            await world.advance(300)
            world.client.collect_garbage()
            await world.finish_deletions()
        assert len(world.client.objects(JOBS)) == total
        assert len(status(world).active) == active
        assert status(world).last_schedule_time == rfc3339(world.clock.time() - 1 - (600 if policy == "Forbid" else 0))


async def test_a_day_of_jobs_keeps_only_its_history():
    async with World() as world:
        await start(world, schedule="0 * * * *")
        for _ in range(6):
            await world.advance(3600)
            await finish(world)
        jobs = world.client.objects(JOBS)
        assert [each.status.state.phase for each in jobs] == ["Completed"] * 3
        assert status(world).active is None
        assert status(world).last_successful_time == rfc3339(world.clock.time())
        assert len(world.recorder.of("SuccessfulCreate")) == 6
        assert len(world.recorder.of("SawCompletedJob")) == 6


async def test_a_forbidden_start_is_made_up_for_when_the_job_has_ended():
    async with World() as world:
        await start(world, concurrencyPolicy="Forbid")
        await world.advance(660)
        await finish(world)
        assert len(world.client.objects(JOBS)) == 2
        assert len(world.recorder.of("ForbidConcurrent")) == 1


async def test_a_machine_that_slept_starts_what_is_due_soon_after_it_wakes_up():
    async with World() as world:
        await start(world, schedule="0 0 * * *")
        assert world.client.objects(JOBS) == []
        world.clock.jump(24 * 3600)
        await world.advance(61)
        assert len(world.client.objects(JOBS)) == 1


async def test_suspended_and_resumed():
    async with World() as world:
        await start(world, suspend=True)
        await world.advance(700)
        assert world.client.objects(JOBS) == []
        await world.client.patch(CRON_JOBS, "tick", {"spec": {"suspend": False}}, namespace="default")
        await world.settle()
        assert len(world.client.objects(JOBS)) == 1


async def test_the_jobs_go_with_the_cron_job():
    async with World() as world:
        await start(world)
        await world.advance(300)
        assert world.client.objects(JOBS)
        await world.client.delete(CRON_JOBS, "tick", "default")
        world.client.collect_garbage()
        await world.advance(600)
        assert world.client.objects(JOBS) == []


async def test_a_strangers_job_of_that_name_stays_and_is_told_once():
    async with World() as world:
        await start(world)
        due = world.clock.time() + 299
        world.client.put(JOBS, job(task("a"), name=job_name("tick", due)))
        await world.advance(310)
        await world.restart()
        assert len(world.client.objects(JOBS)) == 1
        assert status(world).active is None
        assert "belongs to something else" in world.recorder.of("ForeignJob")[0]
        await world.advance(300)
        assert len(world.client.objects(JOBS)) == 2


async def test_a_refused_job_is_told_and_tried_again():
    async with World() as world:
        await start(world)

        def refuse(operation: str, resource: str, namespace: str, name: str) -> None:
            if (operation, resource) == ("create", "jobs"):
                raise ApiError("queue is closed", code=422, reason="Invalid")

        world.client.interceptor = refuse
        await world.advance(300)
        assert world.recorder.of("FailedCreate") == ["Error creating job: queue is closed"]
        world.client.interceptor = None
        await world.advance(120)
        assert len(world.client.objects(JOBS)) == 1


@pytest.mark.more
@settings(max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(0, 3), min_size=2, max_size=4), st.sampled_from(["Allow", "Forbid", "Replace"]))
def test_every_due_time_has_one_job_whatever_dies(lives, policy):
    asyncio.run(_lives(lives, policy))


async def _lives(lives: list[int], policy: str) -> None:
    async with World() as world:
        await start(world, concurrencyPolicy=policy, successfulJobsHistoryLimit=99)
        begun = int(world.clock.time()) - 1
        for left in lives:
            world.client.interceptor = dying(left)
            await world.advance(300)
            world.client.interceptor = None
            await world.restart()
            await finish(world)
        due = {job_name("tick", begun + 300 * number) for number in range(1, len(lives) + 1)}
        jobs = world.client.objects(JOBS)
        assert set(names(jobs)) == due
        assert status(world).last_schedule_time == rfc3339(begun + 300 * len(lives))
        assert {each.status.state.phase for each in jobs} == {"Completed"}


def dying(left: int) -> Any:
    """Lets so many writes through and refuses the rest, as a process that dies in between."""
    remaining = [left]

    def refuse(operation: str, resource: str, namespace: str, name: str) -> None:
        if operation not in ("get", "list", "watch"):
            remaining[0] -= 1
            if remaining[0] < 0:
                raise Unavailable("the process is dead")

    return refuse
