"""Revisions of StatefulSets and DaemonSets on the server."""

from __future__ import annotations

from typing import TypeVar

from unisono.api.groups.apps import ControllerRevision, DaemonSet, StatefulSet
from unisono.api.kind_families import CONTROLLER_REVISIONS
from unisono.controllers.workloads.dependents import Dependents, raise_first
from unisono.controllers.workloads.revisions import Revisions
from unisono.kube.client import Client

O = TypeVar("O", StatefulSet, DaemonSet)  # noqa: E741


async def bring_to_server(
    client: Client, dependents: Dependents[O, ControllerRevision], owner: O, revised: Revisions
) -> None:
    """Make or renumber the present template's revision, and delete those that are not needed.

    Raises:
        ApiError: the server refuses; the next look tries again.

    """
    if revised.create:
        raise_first(await dependents.create(owner, [revised.update]))
    elif revised.renumber:
        meta = revised.update.metadata
        patch = {"metadata": {"resourceVersion": meta.resource_version}, "revision": revised.renumber}
        await client.patch(CONTROLLER_REVISIONS, meta.name, patch, namespace=meta.namespace)
    raise_first(await dependents.delete(owner, revised.delete))
