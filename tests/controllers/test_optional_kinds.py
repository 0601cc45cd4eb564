"""A cluster that serves jobs but not the kinds that make jobs."""

from __future__ import annotations

from job_world import World, job, task

from unisono.api.kind_families import FLOW_KINDS
from unisono.errors import NotFound

ABSENT = {kind.plural for kind in FLOW_KINDS}


async def test_jobs_run_where_cron_jobs_and_flows_are_not_served():
    def not_served(operation: str, resource: str, namespace: str, name: str) -> None:
        if resource in ABSENT:
            raise NotFound("404 page not found")

    world = World()
    world.client.interceptor = not_served
    async with world:
        await world.submit(job(task("a")))
        await world.admit()
        await world.all_pods("Succeeded")
        assert world.phase() == "Completed"
