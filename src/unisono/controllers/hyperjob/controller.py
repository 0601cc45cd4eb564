"""The hyper job controller: feeds ``decide`` from the caches and has its plans carried out."""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import suppress

from unisono.api.base import ObjectMeta
from unisono.api.groups.batch import Command, HyperJob, Job
from unisono.api.kind_families import HYPER_JOBS
from unisono.api.kinds import COMMANDS, JOBS
from unisono.controllers import owners
from unisono.controllers.hyperjob.decide import HyperPlan, decide, ended_states
from unisono.controllers.job_making import Departed
from unisono.controllers.objects import BeingDeleted, ForeignObject, LastWritten, create_once, delete_seen, write_status
from unisono.controllers.owners import index
from unisono.controllers.recorder import Announcer, Notice, Recorder
from unisono.errors import ApiError, NotFound
from unisono.kube.client import EventType
from unisono.kube.controller import Context, Controller

OWNER_INDEX = "controller-uid"
# Seconds until a name that is about to become free, or that another object has, is tried again.
_DELETION_RETRY = 1.0
_FOREIGN_RETRY = 60.0


class HyperJobController(Controller):
    """Runs ``training.volcano.sh`` HyperJobs within one cluster."""

    name = "hyperjob-controller"

    def __init__(self, recorder: Recorder) -> None:
        self._announcer = Announcer(recorder)
        self._written: LastWritten[HyperJob] = LastWritten()

    def setup(self, context: Context) -> None:
        """Watch hyper jobs and the jobs that they made."""
        self._hyper_jobs = context.watch(HYPER_JOBS, optional=True)
        self._hyper_jobs.on_change(self._changed)
        self._jobs = context.watch(JOBS, lambda job: owners.keys_of(HYPER_JOBS, job))
        index(self._jobs, OWNER_INDEX, owners.controller_keys)
        self._departed = Departed(HYPER_JOBS, self._hyper_jobs.get)
        self._jobs.on_change(self._departed.seen)

    async def reconcile(self, key: str) -> float | None:
        """Decide about one hyper job and carry the plan out."""
        hyper_job = self._written.newest(key, self._hyper_jobs.get(key))
        if hyper_job is None:
            return None
        jobs = self._jobs.by_index(OWNER_INDEX, owners.family(hyper_job))
        departed = self._departed.of(hyper_job, ended_states(hyper_job.status))
        plan = decide(hyper_job, departed | {job.metadata.name: job for job in jobs}, self._clock.time())
        try:
            self._written.keep(await write_status(self._client, HYPER_JOBS, hyper_job, plan.status))
        except NotFound:
            return None
        self._departed.written(hyper_job, departed)
        self._announcer.tell(hyper_job, plan.notices)
        return await self._carry_out(hyper_job, plan)

    async def _carry_out(self, hyper_job: HyperJob, plan: HyperPlan) -> float | None:
        """Do every step; one that fails does not keep the others from being done."""
        failures: list[ApiError] = []
        again: float | None = 0.0 if plan.more else None
        for job in plan.create:
            try:
                await self._step(hyper_job, "Create", job, self._create(hyper_job, job), failures)
            except BeingDeleted:
                again = _DELETION_RETRY
            except ForeignObject as error:
                notice = Notice("Warning", "FailedCreateVCJob", str(error), once=f"foreign/{job.metadata.name}")
                self._announcer.tell(hyper_job, [notice])
                again = again or _FOREIGN_RETRY
        for job, patch in plan.patch:
            work = self._client.patch(JOBS, job.metadata.name, patch, namespace=job.metadata.namespace)
            await self._step(hyper_job, "Update", job, work, failures)
        for job in plan.delete:
            await self._step(hyper_job, "Delete", job, delete_seen(self._client, JOBS, job), failures)
        for job in plan.terminate:
            with suppress(BeingDeleted):
                command = create_once(self._client, COMMANDS, _termination(job))
                await self._step(hyper_job, "Terminate", job, command, failures)
        if failures:
            raise failures[0]
        return again

    async def _create(self, hyper_job: HyperJob, job: Job) -> None:
        if await create_once(self._client, JOBS, job) is not None:
            self._announcer.tell(hyper_job, [Notice("Normal", "CreatedVCJob", f"Created job {job.metadata.name}")])

    async def _step(
        self, hyper_job: HyperJob, verb: str, job: Job, work: Awaitable[object], failures: list[ApiError]
    ) -> None:
        try:
            await work
        except NotFound:
            # It went by itself; the watch tells, and the next look starts from that.
            return
        except ApiError as error:
            message = f"Failed to {verb.lower()} job {job.metadata.name}: {error}"
            self._announcer.tell(hyper_job, [Notice("Warning", f"Failed{verb}VCJob", message, once=message)])
            failures.append(error)

    def _changed(self, event_type: EventType, new: HyperJob, _old: HyperJob | None) -> None:
        if event_type == "DELETED":
            self._announcer.forget(new)
            self._departed.forget(new)


def _termination(job: Job) -> Command:
    """The order to end a job for good; it goes with the job."""
    target = owners.owned_by(JOBS, job)
    name = f"{job.metadata.name}-terminate"
    metadata = ObjectMeta(name=name, namespace=job.metadata.namespace, owner_references=[target])
    return Command(metadata=metadata, action="TerminateJob", target=target)
