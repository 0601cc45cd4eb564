"""Objects of a live cluster, listed once."""

from __future__ import annotations

from unisono.api.kinds import JOBS
from unisono.errors import NotFound
from unisono.kube.client import Client
from unisono.scheduler.feed import KINDS, OPTIONAL
from unisono.simulator.forecast.live import LiveObjects


async def list_objects(client: Client) -> LiveObjects:
    """What the scheduler reads of a cluster.

    Raises:
        ApiError: a list cannot be read; kinds that a cluster may lack are left out.

    """
    found = LiveObjects()
    for kind in (*KINDS, JOBS):
        try:
            listed = await client.list(kind)
        except NotFound:
            if kind not in OPTIONAL and kind is not JOBS:
                raise
            continue
        found.add(kind, listed.items)
    return found
