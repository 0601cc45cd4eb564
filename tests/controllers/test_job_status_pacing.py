"""How often the status of a job is written while its pods come and go one by one."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from job_world import World, job, task

from support.memory import Write
from unisono.api.groups.batch import JobState, JobStatus, TaskState
from unisono.api.kinds import JOBS
from unisono.controllers.job.status import CountPacing

RUNNING = JobState(phase="Running")


def counted(running: int, **more: object) -> JobStatus:
    tasks = {"work": TaskState(phase={"Running": running})}
    return JobStatus(state=RUNNING, running=running, task_status_count=tasks, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "new",
    [
        JobStatus(state=JobState(phase="Completed"), running=1),
        JobStatus(state=JobState(phase="Running", message="pvc x is not found"), running=1),
        counted(2, version=2),
        counted(2, retry_count=1),
        counted(2, min_available=3),
        counted(2, controlled_resources={"plugin-ssh": "ssh"}),
    ],
    ids=["phase", "message", "version", "retries", "minimum", "notes"],
)
def test_news_are_written_at_once(new: JobStatus) -> None:
    pacing = CountPacing(2.0, 0.5)
    pacing.written("a", 10.0)
    assert pacing.wait("a", counted(1), new, 10.0) == 0.0


def test_counts_come_to_rest_first_then_wait_for_the_interval() -> None:
    pacing = CountPacing(2.0, 0.5)
    assert pacing.wait("a", counted(1), counted(2), 10.0) == 0.5
    assert pacing.wait("a", counted(1), counted(3), 10.4) == pytest.approx(0.1)
    assert pacing.wait("a", counted(1), counted(4), 10.5) == 0.0
    pacing.written("a", 10.5)
    assert pacing.wait("a", counted(4), counted(5), 10.6) == pytest.approx(1.9)
    assert pacing.wait("b", counted(4), counted(5), 10.6) == 0.5, "each job has its own time"


def test_a_strained_server_is_told_less_often() -> None:
    pacing = CountPacing(2.0, 0.5)
    assert pacing.wait("a", counted(1), counted(2), 10.0, stretch=4.0) == 2.0
    pacing.written("a", 12.0)
    assert pacing.wait("a", counted(2), counted(3), 12.0, stretch=4.0) == 8.0
    assert pacing.wait("a", counted(2), counted(3), 14.0) == 0.0, "and as before when it has time again"


def test_counts_that_went_back_start_anew() -> None:
    pacing = CountPacing(2.0, 0.5)
    pacing.wait("a", counted(1), counted(2), 10.0)
    pacing.settled("a")
    assert pacing.wait("a", counted(1), counted(2), 20.0) == 0.5


def test_without_an_interval_nothing_waits() -> None:
    pacing = CountPacing(0.0, 0.5)
    pacing.written("a", 10.0)
    assert pacing.wait("a", counted(1), counted(2), 10.0) == 0.0


@given(st.lists(st.floats(0.0, 3.0), min_size=1, max_size=40))
def test_counts_are_never_older_than_the_interval_and_writes_never_closer(gaps: list[float]) -> None:
    pacing, now, writes, dirty_since = CountPacing(2.0, 0.5), 0.0, [], None
    for gap in gaps:
        now += gap
        dirty_since = now if dirty_since is None else dirty_since
        wait = pacing.wait("a", counted(1), counted(2), now)
        assert now + wait <= dirty_since + 2.0 + 1e-9 or now > dirty_since + 2.0
        if wait == 0.0:
            pacing.written("a", now)
            writes.append(now)
            dirty_since = None
    assert all(after - before >= 2.0 - 1e-9 for before, after in pairwise(writes))


async def test_a_gang_that_starts_costs_few_writes_and_ends_with_the_right_counts() -> None:
    async with World(count_seconds=2.0) as it:
        await it.submit(job(task("work", 8)))
        await it.admit()
        for name in it.names():
            await it.pod(name, "Running")
            await it.advance(0.1)
        before = status_writes(it)
        await it.advance(3.0)
        status = it.job().status
        assert (status.running, status.pending, status.state.phase) == (8, None, "Running")
        assert before <= 4
        await it.advance(60.0)
        assert status_writes(it) <= before + 1, "a status that is right is not written again"


# --- the first status of a job -----------------------------------------------------------------------------------


async def test_a_job_that_starts_at_once_was_pending_first_for_whoever_watches() -> None:
    async with World(count_seconds=2.0) as it:
        await it.submit(job(task("work", 8)))
        created = it.job().metadata.creation_timestamp
        await it.advance(1.0)
        await it.admit()
        for name in it.names():
            await it.pod(name, "Running")
        await it.advance(3.0)
        status = it.job().status
        assert (status.state.phase, status.running, status.pending) == ("Running", 8, None)
        assert [condition.status for condition in status.conditions or ()] == ["Pending", "Running"]
        assert (status.conditions or [])[0].last_transition_time == created
        told = [write.body["status"]["state"]["phase"] for write in it.client.writes if _of_status(write)]
        assert told == ["Pending", "Running"]


async def test_a_job_that_waits_says_so_after_a_moment() -> None:
    async with World(count_seconds=2.0) as it:
        await it.submit(job(task("work", 2)))
        assert it.group() is not None, "its pod group does not wait for a status"
        assert it.phase() == ""
        await it.advance(2.0)
        assert (it.phase(), it.job().status.min_available) == ("Pending", 2)
        await it.advance(60.0)
        assert status_writes(it) == 1


async def test_pods_that_wait_for_a_node_are_counted_in_the_first_status() -> None:
    async with World(count_seconds=2.0) as it:
        await it.submit(job(task("work", 2)))
        await it.admit()
        await it.advance(10.0)
        assert (it.phase(), it.job().status.pending, status_writes(it)) == ("Pending", 2, 1)


@pytest.mark.parametrize(
    ("spec", "phase", "reason"),
    [
        ({"volumes": [{"mountPath": "/data", "volumeClaimName": "mine"}]}, "Pending", "PVCError"),
        ({"plugins": {"bogus": []}}, "Pending", "PluginError"),
        ({"plugins": {"svc": []}}, "Pending", None),
    ],
    ids=["no claim", "no plug-in", "notes of a plug-in"],
)
async def test_what_does_not_go_without_saying_is_told_at_once(
    spec: dict[str, object], phase: str, reason: str | None
) -> None:
    async with World(count_seconds=60.0) as it:
        await it.submit(job(task("work", 1), **spec))
        assert (it.phase(), it.job().status.state.reason) == (phase, reason)


async def test_a_job_that_is_ended_before_its_first_status_ends() -> None:
    async with World(count_seconds=60.0) as it:
        await it.submit(job(task("work", 2)))
        await it.admit()
        await it.command("AbortJob")
        await it.finish_deletions()
        assert (it.phase(), it.names()) == ("Aborted", [])
        assert [c.status for c in it.job().status.conditions or ()] == ["Pending", "Aborting", "Aborted"]


async def test_controllers_that_start_anew_before_the_first_status_go_on() -> None:
    async with World(count_seconds=60.0) as it:
        await it.submit(job(task("work", 2)))
        await it.admit()
        uids = [pod.metadata.uid for pod in it.pods()]
        assert (len(uids), it.phase()) == (2, "")
        await it.restart()
        for name in it.names():
            await it.pod(name, "Running")
        assert it.phase() == "Running"
        assert [pod.metadata.uid for pod in it.pods()] == uids


async def test_the_end_of_a_job_is_told_at_once() -> None:
    async with World(count_seconds=60.0) as it:
        await it.submit(job(task("work", 2)))
        await it.admit()
        for name in it.names():
            await it.pod(name, "Running")
        for name in it.names():
            await it.pod(name, "Succeeded", 0)
        status = it.job().status
        assert (status.state.phase, status.succeeded, status.running) == ("Completed", 2, None)


def status_writes(it: World) -> int:
    return sum(map(_of_status, it.client.writes))


def _of_status(write: Write) -> bool:
    return write.resource == JOBS.plural and write.subresource == "status"
