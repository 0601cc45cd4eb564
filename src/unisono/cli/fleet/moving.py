"""Draining members, and moving their jobs elsewhere."""

from __future__ import annotations

import click

from unisono.api.annotations import DRAINED
from unisono.api.fleet_kinds import ATTACHED_CLUSTERS
from unisono.cli.connection import connect
from unisono.cli.fleet.jobs import all_jobs
from unisono.cli.options import Where
from unisono.errors import Conflict, NotFound
from unisono.fleet.jobs.copies import placement_of
from unisono.jobkinds.registry import has_ended
from unisono.kube.client import Client

_TRIES = 5


async def drain(where: Where, name: str, namespace: str, *, undo: bool) -> None:
    """Let a member take no more work, or let it again."""
    async with connect(where) as hub:
        await _mark(hub, name, namespace, drained=not undo)
    click.echo(f"{name} takes work again." if undo else f"{name} takes no more work; what runs there goes on.")


async def failover(where: Where, name: str, namespace: str) -> None:
    """Drain a member, and take its jobs back to the hub, which sends them elsewhere."""
    async with connect(where) as hub:
        await _mark(hub, name, namespace, drained=True)
        moved = 0
        for kind, job in await all_jobs(hub):
            if placement_of(job).cluster != name or has_ended(job):
                continue
            for _ in range(_TRIES):
                try:
                    latest = await hub.get(kind, job.metadata.name, job.metadata.namespace)
                    placement = placement_of(latest)
                    if placement.cluster == name:
                        patch = placement.back().patch(latest.metadata.resource_version)
                        await hub.patch(kind, job.metadata.name, patch, namespace=job.metadata.namespace)
                        moved += 1
                    break
                except Conflict:
                    continue
                except NotFound:
                    break
    click.echo(f"{name} is drained, and {moved} of its jobs go elsewhere; 'fleet drain {name} --undo' ends that.")


async def _mark(hub: Client, name: str, namespace: str, *, drained: bool) -> None:
    marks = {"metadata": {"annotations": {DRAINED: "true" if drained else None}}}
    await hub.patch(ATTACHED_CLUSTERS, name, marks, namespace=namespace)
