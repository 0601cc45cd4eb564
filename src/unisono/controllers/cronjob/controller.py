"""Jobs by the clock: CronJobs make them on schedule, and those that ended go when their time to live is over."""

from __future__ import annotations

from unisono.api.groups.batch import CronJobStatus, Job
from unisono.api.groups.batch_v1 import BatchCronJobStatus
from unisono.api.kinds import JOBS
from unisono.api.times import parse_time
from unisono.controllers import owners
from unisono.controllers.cronjob.decide import VOLCANO, AnyCronJob, AnyJob, CronPlan, Family, decide, reference_to
from unisono.controllers.job.view import FINISHED
from unisono.controllers.objects import BeingDeleted, ForeignObject, LastWritten, create_once, delete_seen, write_status
from unisono.controllers.owners import index
from unisono.controllers.recorder import Announcer, Notice, Recorder
from unisono.errors import ApiError, NotFound
from unisono.kube.client import EventType
from unisono.kube.controller import Context, Controller

# The cron job controller: feeds ``decide`` from the caches and has its plans carried out.

# Jobs by the UID of whatever controls them.
OWNER_INDEX = "controller-uid"
# Seconds until a name that is about to become free is tried again.
_DELETION_RETRY = 1.0
# Seconds after which the clock is looked at again, however far the next start is: a machine that was asleep wakes up
# with another time, and timers do not tell.
_LONGEST_REST = 60.0


class CronJobController(Controller):
    """Runs CronJobs of one family."""

    def __init__(self, recorder: Recorder, family: Family = VOLCANO) -> None:
        self._family, self.name = family, family.name
        self._announcer = Announcer(recorder)
        self._written: LastWritten[AnyCronJob] = LastWritten()

    def setup(self, context: Context) -> None:
        """Watch cron jobs and the jobs that they made."""
        self._cron_jobs = context.watch(self._family.cron_jobs, optional=True)
        self._cron_jobs.on_change(self._changed)
        self._jobs = context.watch(self._family.jobs, lambda job: owners.keys_of(self._family.cron_jobs, job))
        index(self._jobs, OWNER_INDEX, owners.controller_keys)

    async def reconcile(self, key: str) -> float | None:
        """Decide about one cron job and carry the plan out."""
        cron_job = self._written.newest(key, self._cron_jobs.get(key))
        if cron_job is None:
            return None
        plan = decide(cron_job, await self._jobs_of(cron_job), self._clock.time(), self._family)
        self._announcer.tell(cron_job, plan.notices)
        try:
            if plan.delete:
                # Written down before the jobs go: without them, it would be lost that their times were served.
                cron_job = await self._write(cron_job, plan.status)
            for job in plan.delete:
                await delete_seen(self._client, self._family.jobs, job)
                self._tell(cron_job, "SuccessfulDelete", f"Deleted job {job.metadata.name}")
            made = await self._create(cron_job, plan)
            await self._write(cron_job, _with(plan, made, self._family))
        except NotFound:
            if self._cron_jobs.get(key) is None:
                return None
            raise
        return None if plan.requeue_after is None else min(plan.requeue_after, _LONGEST_REST)

    async def _write(self, cron_job: AnyCronJob, status: CronJobStatus | BatchCronJobStatus) -> AnyCronJob:
        written: AnyCronJob = await write_status(self._client, self._family.cron_jobs, cron_job, status)
        self._written.keep(written)
        return written

    async def _jobs_of(self, cron_job: AnyCronJob) -> list[AnyJob]:
        """The cron job's jobs; active ones that the cache does not show are asked for."""
        jobs = list(self._jobs.by_index(OWNER_INDEX, owners.family(cron_job)))
        cached_uids = {job.metadata.uid for job in jobs}
        for reference in cron_job.status.active or ():
            if reference.uid in cached_uids or not reference.name:
                continue
            try:
                job = await self._client.get(self._family.jobs, reference.name, cron_job.metadata.namespace)
            except NotFound:
                continue
            if job.metadata.uid == reference.uid:
                jobs.append(job)
        return jobs

    async def _create(self, cron_job: AnyCronJob, plan: CronPlan) -> AnyJob | None:
        """Make the job that is due, or find that it was made before; None where it cannot be."""
        if plan.create is None:
            return None
        name, namespace = plan.create.metadata.name, plan.create.metadata.namespace
        try:
            made: AnyJob | None = await create_once(self._client, self._family.jobs, plan.create)
            if made is None:
                existing: AnyJob = await self._client.get(self._family.jobs, name, namespace)
                return existing
        except BeingDeleted:
            plan.requeue_after = _DELETION_RETRY
            return None
        except ForeignObject as error:
            # Nothing changes until the next time is due.
            notice = Notice("Warning", "ForeignJob", f"cannot start job {name}: {error}", once=f"foreign/{name}")
            self._announcer.tell(cron_job, [notice])
            return None
        except ApiError as error:
            ending = "is being terminated" in str(error)
            reason = "NamespaceTerminating" if ending else "FailedCreate"
            self._announcer.tell(cron_job, [Notice("Warning", reason, f"Error creating job: {error}", once=str(error))])
            raise
        self._tell(cron_job, "SuccessfulCreate", f"Created job {name} for CronJob {cron_job.key}")
        return made

    def _tell(self, cron_job: AnyCronJob, reason: str, message: str) -> None:
        self._announcer.tell(cron_job, [Notice("Normal", reason, message)])

    def _changed(self, event_type: EventType, new: AnyCronJob, _old: AnyCronJob | None) -> None:
        if event_type == "DELETED":
            self._announcer.forget(new)


def _with(plan: CronPlan, made: AnyJob | None, family: Family) -> CronJobStatus | BatchCronJobStatus:
    """The status after the plan was carried out."""
    old = plan.status
    gone = {job.metadata.uid for job in plan.delete}
    active = [reference for reference in old.active or () if reference.uid not in gone]
    if made is None:
        return type(old)(
            active=active or None,
            last_schedule_time=old.last_schedule_time,
            last_successful_time=old.last_successful_time,
        )
    return type(old)(
        active=[*active, reference_to(made, family)],
        last_schedule_time=plan.scheduled,
        last_successful_time=old.last_successful_time,
    )


# Deletes finished jobs whose ``ttlSecondsAfterFinished`` is over.


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
