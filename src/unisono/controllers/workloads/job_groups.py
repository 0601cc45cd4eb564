"""The PodGroup of ``scheduling.k8s.io`` of a ``batch/v1`` Job that says how its pods are scheduled."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from unisono.api.annotations import handed_down
from unisono.api.base import ObjectMeta
from unisono.api.core.pod import Pod, PodSchedulingGroup
from unisono.api.groups.batch_v1 import BatchJob
from unisono.api.groups.workload import (
    BasicSchedulingPolicy,
    GangSchedulingPolicy,
    PodGroupSchedulingPolicy,
    PodGroupTemplate,
    TypedLocalObjectReference,
    Workload,
    WorkloadPodGroup,
    WorkloadPodGroupSpec,
    WorkloadReference,
    WorkloadSpec,
)
from unisono.api.kind import Kind
from unisono.api.kind_families import BATCH_JOBS, WORKLOAD_POD_GROUPS, WORKLOADS
from unisono.controllers import owners
from unisono.controllers.objects import to_json
from unisono.controllers.owners import owned_by
from unisono.errors import AlreadyExists, NotFound
from unisono.jobkinds.workloads import at_once
from unisono.kube.controller import Context

_TEMPLATE = "pods"
_PREFIX = "volcano.sh/"


def group_name(job: BatchJob) -> str:
    """Of the PodGroup and the Workload; a Job that is made again has others."""
    return f"{job.metadata.name}-{(job.metadata.uid or '')[:8]}"


def policy_of(job: BatchJob) -> PodGroupSchedulingPolicy:
    """Basic where the Job names none; a gang needs all pods that run at a time where it does not say how many."""
    scheduling = job.spec.scheduling
    policy = scheduling.scheduling_policy if scheduling is not None else None
    if policy is None or policy.gang is None:
        return PodGroupSchedulingPolicy(basic=BasicSchedulingPolicy())
    least = policy.gang.min_count or max(at_once(job.spec), 1)
    return PodGroupSchedulingPolicy(gang=GangSchedulingPolicy(min_count=least))


def group_of(job: BatchJob) -> WorkloadPodGroup:
    """The PodGroup, which the Job controls."""
    scheduling = job.spec.scheduling
    assert scheduling is not None
    notes = job.metadata.annotations or {}
    handed = {key: value for key, value in notes.items() if key.startswith(_PREFIX)}
    return WorkloadPodGroup(
        metadata=_meta(job, handed_down(notes, handed)),
        spec=WorkloadPodGroupSpec(
            workload_ref=WorkloadReference(workload_name=group_name(job), template_name=_TEMPLATE),
            scheduling_policy=policy_of(job),
            scheduling_constraints=scheduling.scheduling_constraints,
            disruption_mode=scheduling.disruption_mode,
            resource_claims=scheduling.resource_claims,
        ),
    )


def workload_of(job: BatchJob) -> Workload:
    """The Workload whose one template the PodGroup is made after."""
    spec = group_of(job).spec
    template = PodGroupTemplate(
        name=_TEMPLATE,
        scheduling_policy=spec.scheduling_policy,
        scheduling_constraints=spec.scheduling_constraints,
        disruption_mode=spec.disruption_mode,
        resource_claims=spec.resource_claims,
    )
    reference = TypedLocalObjectReference(api_group=BATCH_JOBS.group, kind=BATCH_JOBS.kind, name=job.metadata.name)
    return Workload(
        metadata=_meta(job, {}), spec=WorkloadSpec(controller_ref=reference, pod_group_templates=[template])
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
            wanted: tuple[tuple[Kind[Any], Any], ...] = (
                (WORKLOADS, workload_of(job)),
                (WORKLOAD_POD_GROUPS, group_of(job)),
            )
            for kind, made in wanted:
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


def _jobs_of(group: WorkloadPodGroup) -> Iterator[str]:
    yield from owners.keys_of(BATCH_JOBS, group)
