"""``batch/v1`` Jobs: pods that run to their end."""

from __future__ import annotations

import random
from collections.abc import Sequence

from msgspec.structs import replace

from unisono.api.core import Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod
from unisono.api.groups.batch_v1 import BatchJob
from unisono.api.keys import COMPLETION_INDEX, JOB_CONTROLLER
from unisono.api.kind_families import BATCH_JOBS
from unisono.api.kinds import PODS
from unisono.controllers import owners
from unisono.controllers.execution import retry_when_allowed
from unisono.controllers.objects import PATIENCE_SECONDS, LastWritten, for_each, remove_finalizer, write_status
from unisono.controllers.owners import index
from unisono.controllers.recorder import Recorder
from unisono.controllers.workloads.dependents import Dependents, raise_first
from unisono.controllers.workloads.job_decide import (
    FINALIZER,
    INDEX_FAILURES,
    JobPlan,
    Slot,
    decide,
    finished,
    is_tracked,
)
from unisono.controllers.workloads.job_groups import JobGroups, join
from unisono.controllers.workloads.templates import generated_name, pod_from
from unisono.errors import Conflict, NotFound
from unisono.kube.controller import Context, Controller, sooner

_JOB_INDEX = "batch-job"
_INDEX_VARIABLE = "JOB_COMPLETION_INDEX"


def pod_of(job: BatchJob, slot: Slot, source: random.Random) -> Pod:
    """The pod for a slot; the one of an Indexed Job knows its index from an annotation, a label and its environment."""
    name, number = job.metadata.name, slot.index
    if number is None:
        return pod_from(job.spec.template, BATCH_JOBS, job, generated_name(name, source), finalizers=[FINALIZER])
    notes = {COMPLETION_INDEX: str(number)}
    if slot.failures is not None:
        notes[INDEX_FAILURES] = str(slot.failures)
    made = pod_from(
        job.spec.template,
        BATCH_JOBS,
        job,
        generated_name(f"{name}-{number}", source),
        labels={COMPLETION_INDEX: str(number)},
        annotations=notes,
        finalizers=[FINALIZER],
    )
    made.metadata.generate_name = f"{name}-{number}-"
    made.spec.hostname = made.spec.hostname or f"{name}-{number}"
    made.spec.init_containers = _with_index(made.spec.init_containers)
    made.spec.containers = _with_index(made.spec.containers)
    return made


def _with_index(containers: list[Container] | None) -> list[Container] | None:
    """The containers with the index in their environment, unless they set that variable themselves."""
    field = ObjectFieldSelector(api_version="v1", field_path=f"metadata.annotations['{COMPLETION_INDEX}']")
    variable = EnvVar(name=_INDEX_VARIABLE, value_from=EnvVarSource(field_ref=field))
    return containers and [
        each
        if any(known.name == _INDEX_VARIABLE for known in each.env or ())
        else replace(each, env=[*(each.env or ()), variable])
        for each in containers
    ]


class BatchJobController(Controller):
    """Runs ``batch/v1`` Jobs."""

    name = "batch-job-controller"

    def __init__(self, recorder: Recorder, source: random.Random | None = None) -> None:
        """``source`` makes the ends of pods' names."""
        self._recorder, self._random = recorder, source or random.Random()  # noqa: S311  # nosec B311 # no secret
        self._written: LastWritten[BatchJob] = LastWritten()

    def setup(self, context: Context) -> None:
        """Watch Jobs and their pods."""
        self._client, self._clock = context.client, context.clock
        self._jobs = context.watch(BATCH_JOBS)
        retry_when_allowed(context, self._jobs)
        self._pods: Dependents[BatchJob, Pod] = Dependents(context, BATCH_JOBS, PODS, lambda job: job.spec.selector)
        self._groups = JobGroups(context)
        index(self._pods.informer, _JOB_INDEX, lambda pod: owners.keys_of(BATCH_JOBS, pod))

    async def reconcile(self, key: str) -> float | None:
        """Take the next step for one Job."""
        job = self._written.newest(key, self._jobs.get(key))
        strays = [
            pod
            for pod in self._pods.informer.by_index(_JOB_INDEX, key)
            if job is None or job.metadata.uid not in owners.controller_uids(pod)
        ]
        await self._release(strays)
        if job is None or job.spec.managed_by not in (None, JOB_CONTROLLER):
            return None
        pods = await self._pods.claim(job)
        settled = self._pods.settled(job)
        plan = decide(job, pods, self._clock.time(), settled=settled)
        if finished(job) is None and not job.spec.suspend:
            await self._groups.keep(job)
        errors = await self._carry_out(job, plan)
        try:
            self._written.keep(await write_status(self._client, BATCH_JOBS, job, plan.status))
        except NotFound:
            return None
        for notice in plan.notices:
            self._recorder.event(job, notice.type, notice.reason, notice.message)
        await self._release(plan.release)
        if plan.expired:
            meta = job.metadata
            try:
                await self._client.delete(BATCH_JOBS, meta.name, meta.namespace, uid=meta.uid, propagation="Foreground")
            except NotFound:
                return None
        raise_first(errors)
        return sooner(plan.requeue_after, None if self._pods.settled(job) else PATIENCE_SECONDS)

    async def _carry_out(self, job: BatchJob, plan: JobPlan) -> list[Exception]:
        fresh = [join(pod_of(job, slot, self._random), job) for slot in plan.create]
        errors = await self._pods.create(job, fresh)
        if errors:
            plan.status.active = max(0, (plan.status.active or 0) - len(plan.create)) or None
            self._recorder.event(job, "Warning", "FailedCreate", f"Error creating: {errors[0]}")
        for pod in fresh[:5] if not errors else ():
            self._recorder.event(job, "Normal", "SuccessfulCreate", f"Created pod: {pod.metadata.name}")
        # Without the finalizer the end of these pods does not count as a failure.
        await self._release(plan.withdraw)
        errors += await self._pods.delete(job, [*plan.delete, *plan.withdraw])
        for pod in (*plan.delete, *plan.withdraw)[:5]:
            self._recorder.event(job, "Normal", "SuccessfulDelete", f"Deleted pod: {pod.metadata.name}")
        return errors

    async def _release(self, pods: Sequence[Pod]) -> None:
        """Take the finalizer from the pods that carry it; those of a Job that has ended or gone are among them."""
        errors = await for_each(self._release_one, [pod for pod in pods if is_tracked(pod)])
        raise_first(errors)

    async def _release_one(self, pod: Pod) -> None:
        try:
            await remove_finalizer(self._client, PODS, pod, FINALIZER)
        except Conflict:
            await self._release_current(pod)

    async def _release_current(self, pod: Pod) -> None:
        """As above, from what the server has now."""
        try:
            live = await self._client.get(PODS, pod.metadata.name, pod.metadata.namespace)
        except NotFound:
            return
        if live.metadata.uid == pod.metadata.uid:
            await remove_finalizer(self._client, PODS, live, FINALIZER)
