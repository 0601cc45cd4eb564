"""Warnings to the author of an object that this machine stores: what controllers make of it, or that none does."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from unisono.api.fleet_kinds import FLEET_KINDS, PLACEMENT_KINDS
from unisono.api.keys import CONFIG_MAP_NAMES, CONFIG_MAP_SUFFIX
from unisono.api.kinds import CONFIG_MAPS
from unisono.apiserver.admission import Adviser, Request

NO_HUB = "nothing acts on this object here: only a hub does, which 'unisono up --fleet' starts"


def advisers(*, fleet: bool) -> Mapping[str, Adviser]:
    """By resource.

    Args:
        fleet: the control plane is a hub.

    """
    found: dict[str, Adviser] = {CONFIG_MAPS.resource: _of_configuration}
    if not fleet:
        found |= {kind.resource: _of_fleets for kind in (*FLEET_KINDS, *PLACEMENT_KINDS)}
    return found


async def _of_fleets(request: Request) -> list[str]:
    return [NO_HUB]


async def _of_configuration(request: Request) -> list[str]:
    """What the scheduler makes of its configuration in a ConfigMap; beside the event loop."""
    if request.name not in CONFIG_MAP_NAMES and not request.name.endswith(CONFIG_MAP_SUFFIX):
        return []

    def advise() -> list[str]:
        # Large, and only for those who write such a thing.
        from unisono.scheduler.config_advice import advice

        return advice(request.object)

    return await asyncio.to_thread(advise)
