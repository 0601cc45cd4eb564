"""Deletes finished jobs whose ``ttlSecondsAfterFinished`` is over."""

from __future__ import annotations

from unisono.api.groups.batch import Job
from unisono.api.kinds import JOBS
from unisono.api.times import parse_time
from unisono.controllers.job.phases import FINISHED
from unisono.errors import NotFound
from unisono.kube.controller import Context, Controller


def expiry(job: Job) -> float | None:
    """When the job is to be deleted, seconds since 1970; None when never, or when it has not finished."""
    ttl, state = job.spec.ttl_seconds_after_finished, job.status.state
    if ttl is None or state.phase not in FINISHED or not state.last_transition_time:
        return None
    if job.metadata.deletion_timestamp:
        return None
    return parse_time(state.last_transition_time) + ttl


class TtlController(Controller):
    """The garbage collector of finished jobs."""

    name = "gc-controller"
    workers = 1

    def setup(self, context: Context) -> None:
        """Watch jobs."""
        self._client, self._clock = context.client, context.clock
        self._jobs = context.watch(JOBS)

    async def reconcile(self, key: str) -> float | None:
        """Delete the job when its time has come, else say when to look again."""
        cached = self._jobs.get(key)
        if cached is None or expiry(cached) is None:
            return None
        try:
            job = await self._client.get(JOBS, cached.metadata.name, cached.metadata.namespace)
            due = expiry(job)
            if due is None:
                return None
            if due > self._clock.time():
                return due - self._clock.time()
            meta = job.metadata
            await self._client.delete(JOBS, meta.name, meta.namespace, uid=meta.uid, propagation="Foreground")
        except NotFound:
            return None
        return None
