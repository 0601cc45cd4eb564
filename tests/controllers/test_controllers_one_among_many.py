"""Controllers that look at many objects under one key set one bad object aside, and the rest goes on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from controller_world import Recorder
from test_node_scaling_controller import World, deployment, pool

from support.memory import MemoryClient
from support.virtual_clock import settle
from unisono.api.core import ConfigMap, Node, Pod
from unisono.api.groups.autoscaling import MACHINE_DEPLOYMENTS
from unisono.api.groups.topology import HyperNode
from unisono.api.kinds import CONFIG_MAPS, HYPER_NODES, NODES, POD_GROUPS, PODS
from unisono.controllers.hypernode import controller as discovery_controllers
from unisono.controllers.hypernode.discovery import KEY
from unisono.controllers.keeper import ObjectKeeper
from unisono.controllers.node_scaling import decide
from unisono.controllers.node_scaling.controller import NodeScalingController
from unisono.controllers.node_scaling.decide import Demand, wanted
from unisono.controllers.nodes import NodeLifecycleController
from unisono.errors import ApiError, Invalid
from unisono.kube.controller import Controller, Manager

HUGE = 2**31 - 1


@asynccontextmanager
async def running(client: MemoryClient, recorder: Recorder, controller: Controller) -> AsyncIterator[Manager]:
    keeper = ObjectKeeper(client, recorder, clock=client.clock)
    manager = Manager(client, clock=client.clock, keeper=keeper)
    task = asyncio.create_task(manager.run([controller]))
    await settle(60)
    try:
        yield manager
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


# ---- machines for gangs


async def test_a_gang_that_cannot_be_read_is_told_and_others_get_machines() -> None:
    made = World()
    made.client.put(MACHINE_DEPLOYMENTS, deployment())
    async with running(made.client, made.recorder, NodeScalingController(made.recorder)):
        await made.gang("bad", 0, cause="ClusterOvercommitted")
        await made.client.patch(POD_GROUPS, "bad", {"spec": {"minResources": {"cpu": "lots"}}}, namespace="default")
        await made.gang("good", 5)
        await made.advance(60)
        assert await made.replicas() == 3
        assert len(made.recorder.of("ReconcileFailed")) == 1
        bad = await made.client.get(POD_GROUPS, "bad", "default")
        assert [(each.type, each.reason) for each in bad.status.conditions or ()] == [
            ("ReconcileFailed", "ReconcileFailed")
        ]
        await made.client.patch(POD_GROUPS, "bad", {"spec": {"minResources": {"cpu": "4"}}}, namespace="default")
        await made.advance(20)
        assert not (await made.client.get(POD_GROUPS, "bad", "default")).status.conditions


async def test_a_pool_that_the_server_refuses_to_grow_is_told_and_others_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    made = World()
    for name in ("a", "b"):
        made.client.put(MACHINE_DEPLOYMENTS, deployment(name))
    patch = made.client.patch

    async def refusing(kind: Any, name: str, *rest: Any, **named: Any) -> Any:
        if kind is MACHINE_DEPLOYMENTS and name == "a":
            raise ApiError("no more machines here", code=403, reason="Forbidden")
        return await patch(kind, name, *rest, **named)

    monkeypatch.setattr(made.client, "patch", refusing)
    async with running(made.client, made.recorder, NodeScalingController(made.recorder)) as manager:
        await made.gang("g", 13)
        await made.advance(60)
        assert await made.replicas("a") == 0
        assert await made.replicas("b") == 2
        assert "no more machines here" in made.recorder.of("FailedScaleUp")[0]
        assert manager.statistics()["machines-controller"].failures == 0


def test_a_gang_of_any_size_is_counted_and_not_listed() -> None:
    # Four fit on a machine: most is far from enough, and nothing is planned.
    assert wanted([[Demand({"cpu": 1000}, count=HUGE)]], [pool(most=10)]) == {}
    assert wanted([[Demand({"cpu": 1000}, count=HUGE)]], [pool(most=HUGE)]) == {}
    assert wanted([[Demand({"cpu": 1000}, count=400)]], [pool(most=HUGE)]) == {"a": 100}
    assert wanted([[Demand({}, count=HUGE)]], [pool(most=HUGE)]) == {"a": 1}


def test_machines_that_boot_without_end_are_not_listed_either() -> None:
    booting = pool(replicas=HUGE, booting=HUGE, most=HUGE)
    assert wanted([[Demand({"cpu": 1000}, count=20_000)]], [booting]) == {}


def test_a_gang_that_takes_too_long_to_place_gets_nothing_and_the_next_one_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decide, "MOST_TRIES", 100)
    many = [Demand({"cpu": 4000 - number}) for number in range(50)]
    assert wanted([many, [Demand({"cpu": 1000})]], [pool(most=HUGE)]) == {"a": 1}


# ---- pods of one node


def node(name: str, **labels: str) -> Node:
    return msgspec.convert({"metadata": {"name": name, "labels": labels}}, Node)


def bound(name: str, **spec: Any) -> Pod:
    containers = [{"name": "c", "image": "i"}]
    value = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": containers, "nodeName": "n", **spec},
    }
    return msgspec.convert(value, Pod)


async def test_a_pod_that_cannot_be_looked_at_does_not_keep_others_on_a_tainted_node() -> None:
    client, recorder = MemoryClient(seed=0), Recorder()
    tainted = node("n")
    tainted.spec = msgspec.convert({"taints": [{"key": "k", "effect": "NoExecute"}]}, type(tainted.spec))
    client.put(NODES, tainted)
    # Too large for a float: no time can be reckoned with it.
    endless = [{"operator": "Exists", "tolerationSeconds": 10**400}]
    client.put(PODS, bound("a-bad", tolerations=endless))
    client.put(PODS, bound("b-good"))
    async with running(client, recorder, NodeLifecycleController(recorder)):
        await client.clock.advance(30)
        await settle(60)
        bad, good = (client.find(PODS, f"default/{name}") for name in ("a-bad", "b-good"))
        assert bad is not None
        assert not bad.metadata.deletion_timestamp
        assert good is None or good.metadata.deletion_timestamp
        assert len(recorder.of("ReconcileFailed")) == 1


async def test_a_pod_that_the_server_does_not_delete_does_not_keep_other_orphans(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client, recorder = MemoryClient(seed=0), Recorder()
    for name in ("a-bad", "b-good"):
        client.put(PODS, bound(name))
    delete = client.delete

    async def refusing(kind: Any, name: str, *rest: Any, **named: Any) -> Any:
        if name == "a-bad":
            raise ApiError("no", code=403, reason="Forbidden")
        return await delete(kind, name, *rest, **named)

    monkeypatch.setattr(client, "delete", refusing)
    async with running(client, recorder, NodeLifecycleController(recorder)):
        for _ in range(10):
            await client.clock.advance(10)
            await settle(60)
        assert client.find(PODS, "default/b-good") is None


# ---- HyperNodes made from labels


async def test_a_hyper_node_that_the_server_refuses_does_not_keep_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    client, recorder = MemoryClient(seed=0), Recorder()
    text = (
        "networkTopologyDiscovery:\n- source: label\n  enabled: true\n  config:\n"
        "    networkTopologyTypes:\n      net:\n      - nodeLabel: rack\n"
    )
    config = {"metadata": {"name": "cm", "namespace": "volcano-system"}, "data": {KEY: text}}
    client.put(CONFIG_MAPS, msgspec.convert(config, ConfigMap))
    for rack in ("r1", "r2", "r3"):
        client.put(NODES, node(f"node-{rack}", rack=rack))
    create = client.create

    async def refusing(kind: Any, obj: Any, *rest: Any, **named: Any) -> Any:
        if isinstance(obj, HyperNode) and "r1" in (obj.metadata.labels or {}).values():
            raise Invalid("not this one", code=422, reason="Invalid")
        return await create(kind, obj, *rest, **named)

    monkeypatch.setattr(client, "create", refusing)
    controller = discovery_controllers.HyperNodeDiscoveryController(recorder, ("volcano-system", "cm"))
    async with running(client, recorder, controller) as manager:
        await client.clock.advance(5)
        await settle(60)
        found = await client.list(HYPER_NODES)
        assert sorted((each.metadata.labels or {})["rack"] for each in found.items) == ["r2", "r3"]
        assert manager.statistics()[controller.name].failures == 0
