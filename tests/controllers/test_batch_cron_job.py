"""``batch/v1`` CronJobs share their rules with Volcano's; here is what differs, and that Jobs really come."""

from __future__ import annotations

from typing import Any

from workload_world import WorkloadWorld, build

from unisono.api.kind_families import BATCH_CRON_JOBS, BATCH_JOBS

TEMPLATE = {"metadata": {"labels": {"team": "x"}}, "spec": {"template": {"spec": {"containers": [{"name": "a"}]}}}}


async def start(world: WorkloadWorld, **spec: Any) -> None:
    await world.clock.advance(600 - world.clock.time() % 600)
    given = {"schedule": "*/5 * * * *", "jobTemplate": TEMPLATE} | spec
    await world.make(BATCH_CRON_JOBS, build(BATCH_CRON_JOBS, "tick", **given))
    await world.advance(1)


async def finish(world: WorkloadWorld, name: str, condition: str) -> None:
    found = world.client.find(BATCH_JOBS, f"default/{name}")
    assert found is not None
    stamp = "2026-03-02T12:00:00Z"
    status = {"conditions": [{"type": condition, "status": "True"}], "startTime": stamp}
    if condition == "Complete":
        status["completionTime"] = stamp
    await world.client.patch(BATCH_JOBS, name, {"status": status}, namespace="default", subresource="status")
    await world.settle()


async def test_jobs_come_by_the_clock_and_old_ones_go():
    async with WorkloadWorld() as world:
        await start(world, successfulJobsHistoryLimit=1)
        for _ in range(3):
            await world.advance(300)
            job = world.client.objects(BATCH_JOBS)[-1]
            assert job.metadata.labels == {"team": "x"}
            assert job.metadata.owner_references[0].api_version == "batch/v1"
            assert job.metadata.annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"].endswith("Z")
            assert [each.name for each in world.one(BATCH_CRON_JOBS, "tick").status.active] == [job.metadata.name]
            await finish(world, job.metadata.name, "Complete")
        assert len(world.client.objects(BATCH_JOBS)) == 1
        status = world.one(BATCH_CRON_JOBS, "tick").status
        assert status.active is None
        assert status.last_successful_time == "2026-03-02T12:00:00Z"


async def test_a_job_that_still_runs_forbids_the_next():
    async with WorkloadWorld() as world:
        await start(world, concurrencyPolicy="Forbid")
        await world.advance(300)
        await world.advance(300)
        (job,) = world.client.objects(BATCH_JOBS)
        await finish(world, job.metadata.name, "Failed")
        await world.advance(300)
        assert len(world.client.objects(BATCH_JOBS)) == 2
