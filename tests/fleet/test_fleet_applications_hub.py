"""Applications of a hub over in-memory members: sync, loss of a member, what leaves, and deletion."""

from __future__ import annotations

from typing import Any

from fleet_world import NAMESPACE, World, fleet, node

from unisono.api.decode import decode
from unisono.api.groups.fleet import Application
from unisono.api.kind_families import APPLICATIONS, FLEETS
from unisono.api.kinds import JOBS


def queue(name: str) -> dict[str, Any]:
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}


def form_fleet(world: World, *members: str) -> None:
    value = {"metadata": {"name": "f", "namespace": NAMESPACE}, "spec": {"clusters": [{"name": m} for m in members]}}
    world.hub_client.put(FLEETS, decode(FLEETS, value).obj)


async def bring(world: World, *queues: str, **spec: Any) -> None:
    whole = {"source": {"manifests": [queue(name) for name in queues]}, "syncPolicies": [{}], **spec}
    whole.setdefault("destination", {"fleet": "f"})
    await world.create(APPLICATIONS, {"metadata": {"name": "app", "namespace": NAMESPACE}, "spec": whole})


async def change(world: World, spec: dict[str, Any]) -> None:
    meta = {"generation": (app(world).metadata.generation or 0) + 1}
    await world.hub_client.patch(APPLICATIONS, "app", {"spec": spec, "metadata": meta}, namespace=NAMESPACE)


def app(world: World) -> Application:
    return world.hub_client.find(APPLICATIONS, f"{NAMESPACE}/app")


def rows(world: World) -> dict[str, tuple[bool, int, str]]:
    return {
        row.cluster or "": (bool(row.synced), row.objects or 0, row.message or "")
        for row in app(world).status.clusters or ()
    }


def ready(world: World) -> tuple[str, str]:
    found = (app(world).status.conditions or [])[0]
    return found.status or "", found.message or ""


def queues(world: World) -> dict[str, set[str]]:
    return {name: target.names("Queue") for name, target in world.targets.items()}


async def test_every_cluster_gets_the_objects() -> None:
    async with fleet("a", "b") as world:
        for name in ("a", "b"):
            world.join(name, [node("n1")])
        form_fleet(world, "a", "b")
        world.start()
        await bring(world, "research")
        await world.run(20)
        assert queues(world) == {"a": {"research"}, "b": {"research"}}
        assert ready(world) == ("True", "")
        assert rows(world) == {"a": (True, 1, ""), "b": (True, 1, "")}


async def test_a_lost_cluster_does_not_hinder_the_others_and_catches_up() -> None:
    async with fleet("a", "b") as world:
        for name in ("a", "b"):
            world.join(name, [node("n1")])
        form_fleet(world, "a", "b")
        world.lose("b")
        world.start()
        await bring(world, "research")
        await world.run(60)
        assert queues(world) == {"a": {"research"}, "b": set()}
        assert ready(world)[0] == "False"
        assert "the cluster is not reachable" in rows(world)["b"][2]
        world.find("b")
        await world.run(60)
        assert queues(world)["b"] == {"research"}
        assert ready(world)[0] == "True"


async def test_objects_that_are_no_longer_wanted_go() -> None:
    async with fleet("a") as world:
        world.join("a", [node("n1")])
        form_fleet(world, "a")
        world.start()
        await bring(world, "old", "kept")
        await world.run(20)
        await change(world, {"source": {"manifests": [queue("kept"), queue("new")]}})
        await world.run(20)
        assert queues(world) == {"a": {"kept", "new"}}
        assert rows(world)["a"][:2] == (True, 2)


async def test_a_cluster_that_leaves_the_fleet_loses_them() -> None:
    async with fleet("a", "b") as world:
        for name in ("a", "b"):
            world.join(name, [node("n1")])
        form_fleet(world, "a", "b")
        world.start()
        await bring(world, "research")
        await world.run(20)
        form_fleet(world, "a")
        await world.run(20)
        assert queues(world) == {"a": {"research"}, "b": set()}
        assert set(rows(world)) == {"a"}
        form_fleet(world, "a", "b")
        await world.run(20)
        assert queues(world)["b"] == {"research"}


async def test_deletion_takes_everything_away_and_waits_for_lost_clusters() -> None:
    async with fleet("a", "b") as world:
        for name in ("a", "b"):
            world.join(name, [node("n1")])
        form_fleet(world, "a", "b")
        world.start()
        await bring(world, "research")
        await world.run(20)
        world.lose("b")
        await world.run(40)
        await world.hub_client.delete(APPLICATIONS, "app", NAMESPACE)
        await world.run(20)
        assert queues(world) == {"a": set(), "b": {"research"}}
        assert app(world) is not None
        world.find("b")
        await world.run(60)
        assert queues(world)["b"] == set()
        assert app(world) is None


async def test_a_restart_of_the_hub_forgets_nothing() -> None:
    async with fleet("a", "b") as world:
        for name in ("a", "b"):
            world.join(name, [node("n1")])
        form_fleet(world, "a", "b")
        world.start()
        await bring(world, "old", "kept")
        await world.run(20)
        await world.stop()
        form_fleet(world, "a")
        await change(world, {"source": {"manifests": [queue("kept")]}})
        world.start()
        await world.run(30)
        assert queues(world) == {"a": {"kept"}, "b": set()}


async def test_one_bad_source_is_told_and_leaves_what_is_there() -> None:
    async with fleet("a") as world:
        world.join("a", [node("n1")])
        form_fleet(world, "a")
        world.start()
        await bring(world, "kept")
        await world.run(20)
        await change(world, {"source": {"manifests": [{"kind": "Queue"}]}})
        await world.run(20)
        assert queues(world) == {"a": {"kept"}}
        assert "apiVersion must be set" in ready(world)[1]


async def test_the_chart_volcano_is_built_in_where_unisono_runs() -> None:
    async with fleet("a") as world:
        world.join("a", [node("n1")])
        form_fleet(world, "a")
        world.start()
        chart = {"chart": {"spec": {"chart": "volcano"}}, "interval": "30m"}
        source = {"helmRepository": {"url": "https://charts.example.com", "interval": "10m"}}
        await bring(world, source=source, syncPolicies=[{"helm": chart}])
        await world.run(20)
        assert ready(world) == ("True", "")
        assert "built in" in rows(world)["a"][2]


async def test_policies_wait_for_those_that_they_depend_on() -> None:
    async with fleet("a") as world:
        world.join("a", [node("n1")])
        form_fleet(world, "a")
        world.targets["a"].refused["first"] = "not yet"
        world.start()
        order = [
            {"name": "second", "kustomization": {"dependsOn": [{"name": "first"}], "interval": "1m", "prune": True}},
            {"name": "first"},
        ]
        await bring(world, "first", syncPolicies=order)
        await world.run(20)
        found = {row.policy: row.message for row in app(world).status.clusters or ()}
        assert found["second"] == "it waits for the policy first"
        assert "not yet" in (found["first"] or "")


async def test_a_cluster_of_another_namespace_is_not_reached_by_its_name() -> None:
    async with fleet("a") as world:
        world.join("a", [node("n1")])
        world.start()
        value = {"metadata": {"name": "f", "namespace": "default"}, "spec": {"clusters": [{"name": "a"}]}}
        world.hub_client.put(FLEETS, decode(FLEETS, value).obj)
        whole = {"source": {"manifests": [queue("x")]}, "syncPolicies": [{}], "destination": {"fleet": "f"}}
        await world.create(APPLICATIONS, {"metadata": {"name": "app", "namespace": "default"}, "spec": whole})
        await world.run(30)
        found = world.hub_client.find(APPLICATIONS, "default/app").status.clusters
        assert [row.message for row in found] == ["there is no AttachedCluster default/a"]
        assert queues(world) == {"a": set()}


async def test_jobs_go_on_beside_an_application_that_cannot_be_brought() -> None:
    async with fleet("a") as world:
        world.join("a", [node("n1", 4)])
        form_fleet(world, "a")
        world.targets["a"].fails_after = 0
        world.start()
        await bring(world, "research")
        await world.job("train", 2)
        await world.run(20)
        assert world.where(JOBS) == {"train": "a"}
        assert "connection is lost" in ready(world)[1]
