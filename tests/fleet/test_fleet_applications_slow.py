"""Sources of Applications that take long: those of one namespace hold up no other."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from fleet_world import NAMESPACE, World, fleet, kubeconfig, node

from unisono.api.base import ObjectMeta
from unisono.api.core import Secret
from unisono.api.decode import decode
from unisono.api.groups.fleet import Application, AttachedCluster, AttachedClusterSpec
from unisono.api.kind_families import APPLICATIONS, ATTACHED_CLUSTERS, FLEETS
from unisono.api.kinds import SECRETS
from unisono.fleet.applications import rendering
from unisono.fleet.applications.controller import MOST_READ

OTHER = "others"


class Sources:
    """Reads of sources; those with an object called ``slow`` end when they are told to."""

    def __init__(self) -> None:
        self.end = asyncio.Event()
        self.reading = 0

    async def transformed(self, objects: Sequence[Mapping[str, Any]], *_: Any) -> list[Mapping[str, Any]]:
        if objects[0]["metadata"]["name"] == "slow":
            self.reading += 1
            try:
                await self.end.wait()
            finally:
                self.reading -= 1
        return list(objects)


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch) -> Sources:
    found = Sources()
    monkeypatch.setattr(rendering, "transformed", found.transformed)
    return found


def form_fleet(world: World, namespace: str, member: str) -> None:
    value = {"metadata": {"name": "f", "namespace": namespace}, "spec": {"clusters": [{"name": member}]}}
    world.hub_client.put(FLEETS, decode(FLEETS, value).obj)


async def bring(world: World, namespace: str, name: str, queue: str) -> None:
    manifest = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": queue}}
    spec = {"source": {"manifests": [manifest]}, "syncPolicies": [{}], "destination": {"fleet": "f"}}
    await world.create(APPLICATIONS, {"metadata": {"name": name, "namespace": namespace}, "spec": spec})


def status(world: World, namespace: str, name: str) -> tuple[bool, str]:
    found: Application = world.hub_client.find(APPLICATIONS, f"{namespace}/{name}")
    row = (found.status.clusters or [])[0]
    return bool(row.synced), row.message or ""


def join_other(world: World, name: str) -> None:
    """The same member, for the authors of another namespace."""
    world.join(name, [node("n1")])
    meta = ObjectMeta(name=name, namespace=OTHER)
    world.hub_client.put(SECRETS, Secret(metadata=meta, data={"value": kubeconfig(name)}))
    spec = AttachedClusterSpec(kubeconfig_secret_ref=name)
    world.hub_client.put(ATTACHED_CLUSTERS, AttachedCluster(metadata=meta, spec=spec))


async def test_slow_sources_of_one_namespace_hold_up_no_other(sources: Sources) -> None:
    async with fleet("a", "b") as world:
        world.join("a", [node("n1")])
        join_other(world, "b")
        form_fleet(world, NAMESPACE, "a")
        form_fleet(world, OTHER, "b")
        world.start()
        for number in range(20):
            await bring(world, OTHER, f"app-{number}", "slow")
        await world.run(30)
        assert sources.reading == MOST_READ
        assert status(world, OTHER, "app-0") == (False, "its source is being read")
        await bring(world, NAMESPACE, "app", "research")
        await world.run(30)
        assert world.targets["a"].names("Queue") == {"research"}
        sources.end.set()
        await world.run(30)
        assert status(world, OTHER, "app-0")[0]


async def test_a_source_that_is_read_again_leaves_the_status_as_it_is_and_ends_with_the_application(
    sources: Sources,
) -> None:
    async with fleet("a") as world:
        world.join("a", [node("n1")])
        form_fleet(world, NAMESPACE, "a")
        world.start()
        sources.end.set()
        await bring(world, NAMESPACE, "app", "slow")
        await world.run(30)
        assert status(world, NAMESPACE, "app") == (True, "")
        sources.end.clear()
        await world.run(1000)
        assert sources.reading == 1
        assert status(world, NAMESPACE, "app") == (True, "")
        await world.hub_client.delete(APPLICATIONS, "app", NAMESPACE)
        await world.run(60)
        assert sources.reading == 0
