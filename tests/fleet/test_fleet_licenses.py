"""Licences of a fleet: those of the hub are for all members together, others are the members' own."""

from __future__ import annotations

import pytest
from fleet_world import fleet, node

from unisono.api.annotations import LICENSES
from unisono.api.base import ObjectMeta
from unisono.api.groups.quota import FloatingResource, FloatingResourceSpec
from unisono.api.kinds import FLOATING_RESOURCES


@pytest.mark.parametrize(("amount", "dispatched"), [(1, 1), (2, 2), (None, 3)], ids=["one", "two", "the members' own"])
async def test_no_more_is_dispatched_than_the_hub_has_licences(amount: int | None, dispatched: int) -> None:
    async with fleet("a", "b") as world:
        if amount is not None:
            spec = FloatingResourceSpec(amount)
            world.hub_client.put(FLOATING_RESOURCES, FloatingResource(metadata=ObjectMeta(name="matlab"), spec=spec))
        for name in ("a", "b"):
            world.join(name, [node("n1", 8)])
        world.start()
        await world.run(30)
        for number in range(3):
            await world.job(f"j{number}", 2, annotations={LICENSES: "matlab"})
        await world.run(60)
        assert sum(len(names) for names in world.copies().values()) == dispatched
