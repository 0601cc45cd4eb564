"""Exports the Services of parts of gangs to the ClusterSet of their members (Multi-Cluster Services)."""

from __future__ import annotations

from typing import Any, Final

from unisono.api.annotations import CLUSTER_ID
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


class Exports:
    """The Service of a part has the part's name, and so has its export, which belongs to the copy and goes with it."""

    def __init__(self, state: HubState) -> None:
        self._state = state
        self._done: dict[str, str] = {}

    def forget(self, key: str) -> None:
        """A part is gone."""
        self._done.pop(key, None)

    async def look(self, member: Member, copy: Copy, job: Job) -> str:
        """Export the Service of a part where its pods are to be found by names; answers why that cannot be.

        Raises:
            Busy: the member takes no writes now.

        """
        names = self._state.names
        if not has_names(job) or not self._state.label(copy.cluster, CLUSTER_ID) or self._done.get(job.key) == copy.uid:
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
            names.refused(copy.cluster, now=True)
            return (
                f"member {copy.cluster} takes no ServiceExport, and pods of other members cannot find its own: {error}"
            )
        names.refused(copy.cluster, now=False)
        self._done[job.key] = copy.uid
        return ""
