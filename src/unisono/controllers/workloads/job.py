"""``batch/v1`` Jobs: pods that run to their end, and the PodGroup that ``spec.scheduling`` asks for."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from unisono.api.annotations import handed_down
from unisono.api.base import ObjectMeta
from unisono.api.core import Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod, PodSchedulingGroup
from unisono.api.groups import workload
from unisono.api.groups.batch_v1 import BatchJob
from unisono.api.keys import COMPLETION_INDEX
from unisono.api.kind import Kind
from unisono.api.kind_families import BATCH_JOBS, WORKLOAD_POD_GROUPS, WORKLOADS
from unisono.api.kinds import PODS
from unisono.controllers import owners
from unisono.controllers.objects import PATIENCE_SECONDS, LastWritten, for_each, remove_finalizer, to_json, write_status
from unisono.controllers.owners import index, owned_by
from unisono.controllers.recorder import Recorder
from unisono.controllers.workloads import job_decide
from unisono.controllers.workloads.dependents import Dependents, first_text, raise_first
from unisono.controllers.workloads.templates import generated_name, pod_from
from unisono.errors import AlreadyExists, Conflict, NotFound
from unisono.jobkinds.registry import handed_to
from unisono.jobkinds.workloads import at_once
from unisono.kube.controller import Context, Controller, sooner

_TEMPLATE = "pods"
_PREFIX = "volcano.sh/"


def group_name(job: BatchJob) -> str:
    """Of the PodGroup and the Workload; a Job that is made again has others."""
    return f"{job.metadata.name}-{(job.metadata.uid or '')[:8]}"


def policy_of(job: BatchJob) -> workload.PodGroupSchedulingPolicy:
    """Basic where the Job names none; a gang needs all pods that run at a time where it does not say how many."""
    scheduling = job.spec.scheduling
    policy = scheduling.scheduling_policy if scheduling is not None else None
    if policy is None or policy.gang is None:
        return workload.PodGroupSchedulingPolicy(basic=workload.BasicSchedulingPolicy())
    least = policy.gang.min_count or max(at_once(job.spec), 1)
    return workload.PodGroupSchedulingPolicy(gang=workload.GangSchedulingPolicy(min_count=least))


def group_of(job: BatchJob) -> workload.WorkloadPodGroup:
    """The PodGroup, which the Job controls."""
    scheduling = job.spec.scheduling
    assert scheduling is not None
    notes = job.metadata.annotations or {}
    handed = {key: value for key, value in notes.items() if key.startswith(_PREFIX)}
    return workload.WorkloadPodGroup(
        metadata=_meta(job, handed_down(notes, handed)),
        spec=workload.WorkloadPodGroupSpec(
            workload_ref=workload.WorkloadReference(workload_name=group_name(job), template_name=_TEMPLATE),
            scheduling_policy=policy_of(job),
            scheduling_constraints=scheduling.scheduling_constraints,
            disruption_mode=scheduling.disruption_mode,
            resource_claims=scheduling.resource_claims,
        ),
    )


def workload_of(job: BatchJob) -> workload.Workload:
    """The Workload whose one template the PodGroup is made after."""
    spec = group_of(job).spec
    template = workload.PodGroupTemplate(
        name=_TEMPLATE,
        scheduling_policy=spec.scheduling_policy,
        scheduling_constraints=spec.scheduling_constraints,
        disruption_mode=spec.disruption_mode,
        resource_claims=spec.resource_claims,
    )
    reference = workload.TypedLocalObjectReference(
        api_group=BATCH_JOBS.group, kind=BATCH_JOBS.kind, name=job.metadata.name
    )
    return workload.Workload(
        metadata=_meta(job, {}), spec=workload.WorkloadSpec(controller_ref=reference, pod_group_templates=[template])
    )


def _meta(job: BatchJob, annotations: dict[str, str]) -> ObjectMeta:
    return ObjectMeta(
        name=group_name(job),
        namespace=job.metadata.namespace,
        annotations=annotations or None,
        owner_references=[owned_by(BATCH_JOBS, job)],
    )


def join(pod: Pod, job: BatchJob) -> Pod:
    """The pod as a member of its Job's group, where the Job says how its pods are scheduled."""
    if job.spec.scheduling is not None:
        pod.spec.scheduling_group = PodSchedulingGroup(pod_group_name=group_name(job))
    return pod


class JobGroups:
    """Makes the groups of Jobs, and keeps their minimums."""

    def __init__(self, context: Context) -> None:
        """Watch the PodGroups."""
        self._client = context.client
        self._groups = context.watch(WORKLOAD_POD_GROUPS, _jobs_of, optional=True)

    async def keep(self, job: BatchJob) -> None:
        """Make what is not there; the minimum of the gang follows the Job."""
        if job.spec.scheduling is None:
            return
        meta = job.metadata
        have = self._groups.get(f"{meta.namespace}/{group_name(job)}")
        if have is None:
            missing: tuple[tuple[Kind[Any], Any], ...] = (
                (WORKLOADS, workload_of(job)),
                (WORKLOAD_POD_GROUPS, group_of(job)),
            )
            for kind, made in missing:
                with contextlib.suppress(AlreadyExists):
                    await self._client.create(kind, made)
            return
        policy = policy_of(job)
        if meta.uid not in owners.controller_uids(have) or have.spec.scheduling_policy == policy:
            return
        changes: tuple[tuple[Kind[Any], Any], ...] = (
            (WORKLOADS, {"podGroupTemplates": to_json(workload_of(job).spec)["podGroupTemplates"]}),
            (WORKLOAD_POD_GROUPS, {"schedulingPolicy": to_json(policy)}),
        )
        for kind, spec in changes:
            with contextlib.suppress(NotFound):
                await self._client.patch(kind, group_name(job), {"spec": spec}, namespace=meta.namespace)


def _jobs_of(group: workload.WorkloadPodGroup) -> Iterator[str]:
    yield from owners.keys_of(BATCH_JOBS, group)


_JOB_INDEX = "batch-job"
_INDEX_VARIABLE = "JOB_COMPLETION_INDEX"


def pod_of(job: BatchJob, slot: job_decide.Slot, source: random.Random) -> Pod:
    """The pod for a slot; the one of an Indexed Job knows its index from an annotation, a label and its environment."""
    name, number = job.metadata.name, slot.index
    if number is None:
        return pod_from(
            job.spec.template, BATCH_JOBS, job, generated_name(name, source), finalizers=[job_decide.FINALIZER]
        )
    notes = {COMPLETION_INDEX: str(number)}
    if slot.failures is not None:
        notes[job_decide.INDEX_FAILURES] = str(slot.failures)
    made = pod_from(
        job.spec.template,
        BATCH_JOBS,
        job,
        generated_name(f"{name}-{number}", source),
        labels={COMPLETION_INDEX: str(number)},
        annotations=notes,
        finalizers=[job_decide.FINALIZER],
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
        self._jobs = context.watch(BATCH_JOBS)
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
        if job is None or handed_to(job)[1]:
            return None
        pods = await self._pods.claim(job)
        settled = self._pods.settled(job)
        plan = job_decide.decide(job, pods, self._clock.time(), settled=settled)
        if job_decide.finished(job) is None and not job.spec.suspend:
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

    async def _carry_out(self, job: BatchJob, plan: job_decide.JobPlan) -> list[Exception]:
        fresh = [join(pod_of(job, slot, self._random), job) for slot in plan.create]
        errors = await self._pods.create(job, fresh)
        if errors:
            plan.status.active = max(0, (plan.status.active or 0) - len(plan.create)) or None
            self._recorder.event(job, "Warning", "FailedCreate", f"Error creating: {first_text(errors, fresh)}")
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
        errors = await for_each(self._release_one, [pod for pod in pods if job_decide.is_tracked(pod)])
        raise_first(errors)

    async def _release_one(self, pod: Pod) -> None:
        try:
            await remove_finalizer(self._client, PODS, pod, job_decide.FINALIZER)
        except Conflict:
            await self._release_current(pod)

    async def _release_current(self, pod: Pod) -> None:
        """As above, from what the server has now."""
        try:
            live = await self._client.get(PODS, pod.metadata.name, pod.metadata.namespace)
        except NotFound:
            return
        if live.metadata.uid == pod.metadata.uid:
            await remove_finalizer(self._client, PODS, live, job_decide.FINALIZER)
