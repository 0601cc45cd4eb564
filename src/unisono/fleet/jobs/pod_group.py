"""The PodGroup that stands for a job or a HyperJob on the hub."""

from __future__ import annotations

from contextlib import suppress

from unisono.api.kinds import POD_GROUPS
from unisono.api.scheduling import PodGroup
from unisono.controllers.pod_groups import spec_patch
from unisono.errors import AlreadyExists
from unisono.kube.client import Client


async def bring_group(client: Client, found: PodGroup | None, wanted: PodGroup) -> None:
    """Create the PodGroup, or bring its spec to what is wanted; one that is being deleted is left alone.

    Args:
        client: of the hub.
        found: the PodGroup of that name, as it is known; one that has come since then is left for the next look.
        wanted: as the job asks for it.

    """
    meta = wanted.metadata
    if found is None:
        with suppress(AlreadyExists):
            await client.create(POD_GROUPS, wanted)
    elif found.metadata.deletion_timestamp is None and (patch := spec_patch(found, wanted)):
        await client.patch(POD_GROUPS, meta.name, {"spec": patch}, namespace=meta.namespace)
