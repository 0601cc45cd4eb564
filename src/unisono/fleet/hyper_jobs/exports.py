"""Exports the Services of parts of gangs to the ClusterSet of their members (Multi-Cluster Services)."""

from __future__ import annotations

from typing import Any, Final

from unisono.api.base import Object, ObjectMeta
from unisono.api.groups.batch import Job
from unisono.api.kind import Kind
from unisono.api.kinds import JOBS
from unisono.controllers.owners import owned_by
from unisono.errors import AlreadyExists, ApiError, NotFound
from unisono.fleet.hub_state import HubState
from unisono.fleet.hyper_jobs.work import has_names
from unisono.fleet.jobs.copies import Copy
from unisono.fleet.members.joining import is_refusal
from unisono.fleet.members.member import Member


class ServiceExport(Object):
    """That a Service of its name is known in all clusters of the ClusterSet."""


SERVICE_EXPORTS: Final[Kind[Any]] = Kind(
    "multicluster.x-k8s.io", "v1alpha1", "ServiceExport", "serviceexports", ServiceExport
)


def is_to_be_exported(state: HubState, cluster: str, job: Job) -> bool:
    """Whether pods of a part in a member are to have names that all members know."""
    return has_names(job) and bool(state.names.of(cluster))


async def export(state: HubState, member: Member, copy: Copy, job: Job, now: float) -> str:
    """Export the Service of a part where its pods are to be found by names; answers why that cannot be.

    The export has the part's name, as its Service does, and belongs to the copy: it goes with it.

    Raises:
        Busy: the member takes no writes now.
    """
    if not is_to_be_exported(state, copy.cluster, job) or state.names.is_exported(job.key, copy.uid):
        return ""
    owner = Job(metadata=ObjectMeta(name=copy.name, namespace=copy.namespace, uid=copy.uid))
    meta = ObjectMeta(name=copy.name, namespace=copy.namespace, owner_references=[owned_by(JOBS, owner)])
    try:
        async with member.writing() as client:
            await client.create(SERVICE_EXPORTS, ServiceExport(metadata=meta))
    except AlreadyExists:
        pass
    except ApiError as error:
        if not isinstance(error, NotFound) and not is_refusal(error):
            raise
        state.names.refused(copy.cluster, now)
        return f"member {copy.cluster} takes no ServiceExport, and without it pods do not find each other: {error}"
    state.names.exported(job.key, copy.uid)
    return ""
