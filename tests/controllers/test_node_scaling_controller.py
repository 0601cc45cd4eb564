"""Machines are added for whole gangs, within bounds, once, and of the kind that the pods can use."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from controller_world import Recorder
from hypothesis import given
from hypothesis import strategies as st

from support.memory import MemoryClient
from support.virtual_clock import settle
from unisono.api.annotations import GANG_PARTS, VERDICT
from unisono.api.core import Container, Pod, PodSpec, ResourceRequirements, Taint, Toleration
from unisono.api.gang_parts import Part, encode_parts
from unisono.api.groups.autoscaling import MACHINE_DEPLOYMENTS, MachineDeployment
from unisono.api.groups.scheduling import PodGroup
from unisono.api.keys import GROUP_NAME
from unisono.api.kinds import POD_GROUPS, PODS
from unisono.api.times import rfc3339
from unisono.controllers.node_scaling.controller import NodeScalingController
from unisono.controllers.node_scaling.decide import Demand, Pool, wanted
from unisono.controllers.node_scaling.provisioning import pool_of
from unisono.errors import Conflict
from unisono.kube.controller import Manager

CPU, GPU = 1000, 1000


def pod(cpu: int = 1, gpu: int = 0, **more: Any) -> Demand:
    return Demand({"cpu": cpu * CPU} | ({"nvidia.com/gpu": gpu * GPU} if gpu else {}), **more)


def pool(name: str = "a", replicas: int = 0, most: int = 10, cpu: int = 4, gpu: int = 0, **more: Any) -> Pool:
    offers = {"cpu": cpu * CPU} | ({"nvidia.com/gpu": gpu * GPU} if gpu else {})
    return Pool(name, replicas, more.pop("booting", 0), most, offers, **more)


SPOT = Taint(key="spot", value="yes", effect="NoSchedule")


@pytest.mark.parametrize(
    ("what", "gangs", "pools", "expected"),
    [
        ("nobody waits", [], [pool()], {}),
        ("one machine holds four", [[pod()] * 4], [pool()], {"a": 1}),
        ("five need two", [[pod()] * 5], [pool(replicas=3)], {"a": 5}),
        ("half a gang gets nothing", [[pod(4)] * 3], [pool(most=2)], {}),
        ("the next gang may get what the large one cannot use", [[pod(4)] * 3, [pod(4)]], [pool(most=2)], {"a": 1}),
        ("what boots already counts", [[pod()] * 5], [pool(replicas=2, booting=2)], {}),
        ("a pod that fits no machine", [[pod(5)]], [pool()], {}),
        ("gpus only for those who ask", [[pod()], [pod(gpu=1)]], [pool("a", gpu=8), pool("b")], {"a": 1, "b": 1}),
        ("a gang over two pools", [[pod(4)] * 3], [pool("a", most=2), pool("b", most=2)], {"a": 2, "b": 1}),
        ("labels", [[pod(selector={"zone": "1"})]], [pool("a"), pool("b", labels={"zone": "1"})], {"b": 1}),
        ("a taint keeps away", [[pod()]], [pool(taints=(SPOT,))], {}),
        (
            "a toleration lets in",
            [[pod(tolerations=(Toleration(key="spot", operator="Exists"),))]],
            [pool(taints=(SPOT,))],
            {"a": 1},
        ),
        ("the full pool is passed by", [[pod()]], [pool("a", replicas=10), pool("b")], {"b": 1}),
    ],
)
def test_machines_for_gangs(what: str, gangs: list[list[Demand]], pools: list[Pool], expected: dict[str, int]) -> None:
    assert wanted(gangs, pools) == expected, what


demands = st.builds(pod, st.integers(1, 6), st.integers(0, 2))
pools_of = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 6), st.integers(1, 6), st.integers(0, 4)), min_size=1, max_size=3
)


@given(st.lists(st.lists(demands, max_size=5), max_size=4), pools_of)
def test_bounds_hold_and_nothing_shrinks(gangs: list[list[Demand]], shapes: list[tuple[int, int, int, int]]) -> None:
    pools = [
        pool(f"p{number}", replicas, max(replicas, most), cpu, gpu)
        for number, (replicas, most, cpu, gpu) in enumerate(shapes)
    ]
    by_name = {each.name: each for each in pools}
    decided = wanted(gangs, pools)
    for name, replicas in decided.items():
        assert by_name[name].replicas < replicas <= by_name[name].most
    new = {
        resource: sum(
            (decided.get(each.name, each.replicas) - each.replicas) * each.offers.get(resource, 0) for each in pools
        )
        for resource in ("cpu", "nvidia.com/gpu")
    }
    asked = {resource: sum(one.requests.get(resource, 0) for gang in gangs for one in gang) for resource in new}
    assert not decided or any(amount for amount in asked.values())
    served = [gang for gang in gangs if gang and all(any(each.takes(one) for each in pools) for one in gang)]
    assert served or not decided
    assert sum(decided.get(each.name, each.replicas) - each.replicas for each in pools) <= sum(map(len, gangs))


# ---- the controller, with a provider that makes machines


class Provider:
    """Makes the machines that a MachineDeployment asks for; each becomes a node when it is told to."""

    def __init__(self, client: MemoryClient) -> None:
        self.client = client
        self.history: list[int] = []

    async def boot(self, name: str) -> None:
        found = await self.client.get(MACHINE_DEPLOYMENTS, name, "capi")
        self.history.append(found.spec.replicas or 0)
        status = {"replicas": found.spec.replicas, "readyReplicas": found.spec.replicas}
        await self.client.patch(MACHINE_DEPLOYMENTS, name, {"status": status}, namespace="capi", subresource="status")


def deployment(name: str = "md", replicas: int = 0, ready: int = 0, **notes: str) -> MachineDeployment:
    bounds = {"cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": "5"}
    offered = {
        "capacity.cluster-autoscaler.kubernetes.io/cpu": "4",
        "capacity.cluster-autoscaler.kubernetes.io/memory": "16Gi",
    }
    value = {
        "metadata": {"name": name, "namespace": "capi", "annotations": bounds | offered | notes},
        "spec": {"replicas": replicas},
        "status": {"readyReplicas": ready},
    }
    return msgspec.convert(value, MachineDeployment)


class World:
    def __init__(self) -> None:
        self.client = MemoryClient(seed=0)
        self.recorder = Recorder()
        self.provider = Provider(self.client)

    async def gang(
        self, name: str, pods: int, cpu: str = "2", cause: str = "NodesFull", owner: str = "", **verdict: Any
    ) -> None:
        text = json.dumps({"cause": cause, **verdict})
        group = {
            "metadata": {"name": name, "namespace": "default", "annotations": {VERDICT: text}},
            "spec": {"minMember": 1 if owner else pods or 2, "minResources": {"cpu": "4"}},
            "status": {"phase": "Inqueue"},
        }
        if owner:
            of = {"apiVersion": "apps/v1", "kind": owner, "name": "web", "uid": "u", "controller": True}
            group["metadata"]["ownerReferences"] = [of]
        await self.client.create(POD_GROUPS, msgspec.convert(group, PodGroup))
        for number in range(pods):
            container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
            value = {
                "metadata": {"name": f"{name}-{number}", "namespace": "default", "annotations": {GROUP_NAME: name}},
                "spec": {"containers": [container]},
                "status": {"phase": "Pending"},
            }
            await self.client.create(PODS, msgspec.convert(value, Pod))

    async def told(self, name: str, cause: str, **verdict: Any) -> None:
        """The scheduler has another verdict on a gang."""
        patch = {"metadata": {"annotations": {VERDICT: json.dumps({"cause": cause, **verdict})}}}
        await self.client.patch(POD_GROUPS, name, patch, namespace="default")
        await self.advance(10)

    async def replicas(self, name: str = "md") -> int:
        return (await self.client.get(MACHINE_DEPLOYMENTS, name, "capi")).spec.replicas or 0

    async def advance(self, seconds: float) -> None:
        for _ in range(int(seconds // 10)):
            await self.client.clock.advance(10)
            await settle(60)


@asynccontextmanager
async def world(*deployments: MachineDeployment) -> AsyncIterator[World]:
    made = World()
    for each in deployments:
        made.client.put(MACHINE_DEPLOYMENTS, each)
    manager = Manager(made.client, clock=made.client.clock)
    running = asyncio.create_task(manager.run([NodeScalingController(made.recorder)]))
    await settle(60)
    try:
        yield made
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


async def test_a_gang_that_waits_gets_machines_once_and_somebody_is_told() -> None:
    async with world(deployment()) as made:
        await made.gang("g", 5)
        await made.advance(10)
        assert await made.replicas() == 0
        await made.advance(20)
        assert await made.replicas() == 3
        [text] = made.recorder.of("ScaledUp")
        assert text.startswith("machines: 0 -> 3, for waiting gangs: 3 on-demand machines at ")
        await made.advance(200)
        assert await made.replicas() == 3


@pytest.mark.parametrize("verdict", [{}, {"tasksNeeded": 1}])
async def test_replicas_get_machines_beyond_the_minimum_of_their_group_one_by_one(verdict: dict[str, int]) -> None:
    async with world(deployment()) as made:
        await made.gang("web", 12, owner="ReplicaSet", **verdict)
        await made.advance(30)
        # Ten find room on as many machines as there may be; the others do without.
        assert await made.replicas() == 5


async def test_machines_that_came_in_vain_come_again_after_a_pause() -> None:
    """With them the gang waits for licences: they are given back, and it seems to lack nothing but nodes again."""
    async with world(deployment()) as made:
        await made.gang("g", 2)
        await made.advance(30)
        assert await made.replicas() == 1
        await made.provider.boot("md")
        await made.told("g", "Licenses")
        await made.client.patch(MACHINE_DEPLOYMENTS, "md", {"spec": {"replicas": 0}}, namespace="capi")
        await made.told("g", "NodesFull")
        await made.advance(1500)
        assert await made.replicas() == 0
        await made.advance(300)
        assert await made.replicas() == 1


async def came_in_vain(made: World, *causes: str) -> None:
    """A machine comes for a gang, which then waits for these causes; it goes, and the gang lacks nodes again."""
    await made.gang("g", 2)
    await made.advance(30)
    await made.provider.boot("md")
    for cause in causes:
        await made.told("g", cause)
    await made.client.patch(MACHINE_DEPLOYMENTS, "md", {"spec": {"replicas": 0}}, namespace="capi")
    await made.told("g", "NodesFull")
    await made.advance(200)


@pytest.mark.parametrize(
    "cause",
    ["NotTried", "WaitingForVictims", "TooFewPods", "BindFailed", "PluginFailed", "Reserved", "OfALaterVersion"],
)
async def test_a_cause_that_passes_does_not_make_machines_vain(cause: str) -> None:
    async with world(deployment()) as made:
        await came_in_vain(made, cause)
        assert await made.replicas() == 1
        assert not made.recorder.of("NoMachines")


@pytest.mark.parametrize("causes", [("Licenses",), ("OverShare", "NotTried"), ("Topology",), ("Quota",), ("Budget",)])
async def test_a_gang_is_told_until_when_no_machines_come_and_why(causes: tuple[str, ...]) -> None:
    async with world(deployment()) as made:
        await came_in_vain(made, *causes)
        assert await made.replicas() == 0
        [text] = made.recorder.of("NoMachines")
        assert text.startswith("no machines before 20") and text.endswith(f"something else ({causes[0]})")


async def test_who_lacks_nodes_while_its_machines_are_there_gets_more_at_once() -> None:
    """Others have taken them, and the licences are there by now."""
    async with world(deployment()) as made:
        await made.gang("g", 2)
        await made.advance(30)
        await made.provider.boot("md")
        await made.told("g", "Licenses")
        await made.told("g", "NodesFull")
        await made.advance(200)
        assert await made.replicas() == 2


async def test_machines_that_were_refused_were_not_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    async with world(deployment()) as made:
        with monkeypatch.context() as broken:
            broken.setattr(made.client, "patch", refusing(made.client.patch, "MachineDeployment"))
            await made.gang("g", 2)
            await made.advance(30)
        assert await made.replicas() == 0
        await made.told("g", "Licenses")
        await made.told("g", "NodesFull")
        await made.advance(30)
        assert await made.replicas() == 1


def refusing(patch: Any, kind: str) -> Any:
    """A method ``patch`` by which nothing of this kind is ever written."""

    async def refuse(of: Any, *arguments: Any, **more: Any) -> Any:
        if of.kind == kind:
            raise Conflict("the object has been modified")
        return await patch(of, *arguments, **more)

    return refuse


async def test_nodes_that_are_new_get_time_to_be_taken() -> None:
    async with world(deployment()) as made:
        await made.gang("g", 5)
        await made.advance(30)
        await made.provider.boot("md")
        await made.advance(60)
        assert await made.replicas() == 3


@pytest.mark.parametrize("cause", ["OverCapability", "OverShare", "QueueClosed", "Gated", "WaitingForVictims"])
async def test_what_machines_cannot_change_makes_none(cause: str) -> None:
    async with world(deployment()) as made:
        await made.gang("g", 2, cause=cause)
        await made.advance(60)
        assert await made.replicas() == 0


async def test_only_what_the_gang_lacks_is_made() -> None:
    async with world(deployment()) as made:
        await made.gang("g", 6, tasksNeeded=4, tasksPlaceable=2)
        await made.advance(60)
        assert await made.replicas() == 1


async def test_a_gang_whose_pods_are_made_later_counts_with_its_minimum() -> None:
    async with world(deployment()) as made:
        await made.gang("g", 0, cause="ClusterOvercommitted")
        await made.advance(60)
        assert await made.replicas() == 1


async def test_what_only_quotas_know_is_asked_of_no_machine() -> None:
    async with world(deployment()) as made:
        await made.gang("g", 0, cause="ClusterOvercommitted")
        quota = {"pods": "2", "count/pods": "2", "cpu": "4", "requests.cpu": "4", "limits.cpu": "4"}
        await made.client.patch(POD_GROUPS, "g", {"spec": {"minResources": quota}}, namespace="default")
        await made.advance(60)
        assert await made.replicas() == 1


async def test_a_gang_of_unequal_parts_is_counted_part_by_part() -> None:
    async with world(deployment()) as made:
        await made.gang("g", 0, cause="ClusterOvercommitted")
        specs = [PodSpec(containers=[Container(resources=ResourceRequirements(requests={"cpu": n}))]) for n in "31"]
        parts = encode_parts(Part(role=str(n), count=2, replicas=2, spec=spec) for n, spec in enumerate(specs))
        patch = {"metadata": {"annotations": {GANG_PARTS: parts}}}
        await made.client.patch(POD_GROUPS, "g", patch, namespace="default")
        await made.advance(60)
        assert await made.replicas() == 2


async def test_a_deployment_without_bounds_is_left_alone() -> None:
    free = deployment("free")
    free.metadata.annotations = {}
    async with world(free) as made:
        await made.gang("g", 2)
        await made.advance(60)
        assert await made.replicas("free") == 0


def test_what_annotations_say_of_a_machine() -> None:
    key = "capacity.cluster-autoscaler.kubernetes.io"
    found = pool_of(
        deployment(
            replicas=3,
            ready=1,
            **{
                f"{key}/gpu-count": "8",
                f"{key}/gpu-type": "amd.com/gpu",
                f"{key}/labels": "zone=1,tier=a",
                f"{key}/taints": "spot=yes:NoSchedule,x:NoExecute",
            },
        )
    )
    assert found is not None
    assert (found.replicas, found.booting, found.most) == (3, 2, 5)
    assert found.offers["amd.com/gpu"] == 8000
    assert found.offers["cpu"] == 4000
    assert found.labels == {"zone": "1", "tier": "a"}
    assert [(taint.key, taint.value, taint.effect) for taint in found.taints] == [
        ("spot", "yes", "NoSchedule"),
        ("x", "", "NoExecute"),
    ]


async def test_a_new_leader_keeps_the_pause() -> None:
    recent = deployment()
    async with world(recent) as made:
        notes = {"unisono.io/scaled-at": rfc3339(made.client.clock.time())}
        await made.client.patch(MACHINE_DEPLOYMENTS, "md", {"metadata": {"annotations": notes}}, namespace="capi")
        await made.gang("g", 2)
        await made.advance(60)
        assert await made.replicas() == 0
        await made.advance(80)
        assert await made.replicas() == 1
