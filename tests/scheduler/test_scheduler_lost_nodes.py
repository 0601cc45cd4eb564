"""Nodes are lost under 40 gangs on 500 nodes: what is touched gets new places in its domain, or moves whole."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable
from random import Random

import msgspec
import pytest
from scheduler_world import World, queue, unadvised, world

from support.memory import MemoryClient
from unisono.api.annotations import RELOCATE_AFTER
from unisono.api.base import ObjectMeta
from unisono.api.core import Node
from unisono.api.groups.batch import Job
from unisono.api.groups.topology import ExactMatch, HyperNode, HyperNodeSpec, MemberSelector, MemberSpec
from unisono.api.kinds import HYPER_NODES, JOBS, NODES, POD_GROUPS, PODS, QUEUES
from unisono.controllers.registry import all_controllers
from unisono.engine.config_file.reader import default_config
from unisono.kube.controller import Manager
from unisono.scheduler.settings import FixedConfig


class Recorder:
    def event(self, *_: object) -> None:
        """Events of controllers are not looked at here."""


def machine(name: str) -> Node:
    amounts = {"cpu": "8", "memory": "64Gi", "pods": "20"}
    status = {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    return msgspec.convert({"metadata": {"name": name}, "status": status}, Node)


def domain(name: str, tier: int, members: Iterable[str], of: str) -> HyperNode:
    selected = [MemberSpec(type=of, selector=MemberSelector(exact_match=ExactMatch(name=each))) for each in members]
    return HyperNode(metadata=ObjectMeta(name=name), spec=HyperNodeSpec(tier=tier, members=selected))


def gang(name: str, size: int, after: str = "") -> Job:
    """Pods of a whole node each, all in one rack; nothing is said about what happens when one is lost."""
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "8"}}}
    spec = {
        "schedulerName": "volcano",
        "queue": "default",
        "minAvailable": size,
        "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
        "tasks": [{"name": "w", "replicas": size, "template": {"spec": {"containers": [container]}}}],
    }
    notes = {RELOCATE_AFTER: after} if after else {}
    return msgspec.convert(
        {"metadata": {"name": name, "namespace": "default", "annotations": notes}, "spec": spec}, Job
    )


class Site:
    """Racks of nodes, gangs on them, and hands that play kubelets and bad luck."""

    def __init__(self, it: World) -> None:
        self.it, self.client = it, it.client

    async def live(self, seconds: int) -> None:
        for _ in range(seconds):
            await self.it.run(1.0)
            for pod in self.client.objects(PODS):
                name = pod.metadata.name
                if pod.spec.node_name and pod.metadata.deletion_timestamp:
                    self.client.remove(PODS, pod.key)
                elif pod.spec.node_name and pod.status.phase in (None, "", "Pending"):
                    patch = {"status": {"phase": "Running"}}
                    await self.client.patch(PODS, name, patch, namespace="default", subresource="status")

    def places(self) -> dict[str, tuple[str, str]]:
        """Gang and node of each pod, by UID."""
        return {
            pod.metadata.uid or "": (pod.metadata.name.rpartition("-w-")[0], pod.spec.node_name or "")
            for pod in self.client.objects(PODS)
        }

    def racks(self) -> dict[str, set[str]]:
        """Racks in which each gang has pods; "" where one has no node."""
        found: dict[str, set[str]] = defaultdict(set)
        for job, node in self.places().values():
            found[job].add(node.partition(".")[0])
        return found

    def lose(self, nodes: Iterable[str]) -> set[str]:
        """Nodes go, and their pods with them; answers UIDs of these."""
        lost = set(nodes)
        gone = {uid for uid, (_, node) in self.places().items() if node in lost}
        for name in lost:
            self.client.remove(NODES, name)
        for pod in self.client.objects(PODS):
            if pod.metadata.uid in gone:
                self.client.remove(PODS, pod.key)
        return gone


@contextlib.asynccontextmanager
async def site(racks: int, nodes: int) -> AsyncIterator[Site]:
    client = MemoryClient()
    client.put(QUEUES, queue())
    for rack in range(racks):
        names = [f"r{rack:02}.{number:02}" for number in range(nodes)]
        for name in names:
            client.put(NODES, machine(name))
        client.put(HYPER_NODES, domain(f"rack-{rack:02}", 1, names, "Node"))
    client.put(HYPER_NODES, domain("spine", 2, [f"rack-{rack:02}" for rack in range(racks)], "HyperNode"))
    manager = Manager(client, clock=client.clock)
    running = asyncio.create_task(manager.run(all_controllers(Recorder())))  # type: ignore[arg-type]
    async with world(client, unadvised, config=FixedConfig(default_config())) as it:
        yield Site(it)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


async def test_ten_times_eight_of_500_nodes_are_lost_under_40_gangs() -> None:
    luck = Random(1)
    async with site(20, 25) as it:
        for number in range(40):
            await it.client.create(JOBS, gang(f"gang-{number:02}", 10))
        await it.live(30)
        start = it.racks()
        assert all(len(racks) == 1 and "" not in racks for racks in start.values()) and len(start) == 40
        for _ in range(10):
            before = it.places()
            lost = luck.sample(sorted(node.metadata.name for node in it.client.objects(NODES)), 8)
            gone = it.lose(lost)
            await it.live(12)
            after = it.places()
            assert {uid: place for uid, place in after.items() if uid in before} == {
                uid: place for uid, place in before.items() if uid not in gone
            }, "nothing but the pods of the lost nodes is touched"
            assert len(after) == 400 and it.racks() == start
            for name in lost:
                it.client.put(NODES, machine(name))
            await it.live(3)


async def test_gangs_of_full_racks_move_whole_one_after_the_other() -> None:
    """Two racks are full with two gangs each, and a third one has room for two; a node of both full ones is lost."""
    async with site(3, 8) as it:
        for number in range(4):
            await it.client.create(JOBS, gang(f"gang-{number}", 4, after="20s"))
        await it.live(15)
        start = it.racks()
        assert Counter(rack for racks in start.values() for rack in racks) == {"r00": 2, "r01": 2}
        before = it.places()
        gone = it.lose(["r00.01", "r01.02"])
        touched = {before[uid][0] for uid in gone}
        assert len(touched) == 2
        await it.live(15)
        assert all("" in it.racks()[job] for job in touched), "a node that comes back in time brings the place along"
        await it.live(60)
        now = it.racks()
        assert {job: racks for job, racks in now.items() if job not in touched} == {
            job: racks for job, racks in start.items() if job not in touched
        }
        assert all(now[job] == {"r02"} for job in touched)
        kept = [uid for uid, (job, _) in before.items() if job not in touched]
        assert all(it.places().get(uid) == before[uid] for uid in kept)


@pytest.mark.parametrize("after", ["", "20s"])
async def test_a_gang_that_would_start_nowhere_else_stays_and_says_so(after: str) -> None:
    async with site(2, 4) as it:
        for number in range(2):
            await it.client.create(JOBS, gang(f"gang-{number}", 4, after))
        await it.live(15)
        before = it.places()
        gone = it.lose(["r00.01"])
        await it.live(90)
        assert {uid: place for uid, place in it.places().items() if uid in before} == {
            uid: place for uid, place in before.items() if uid not in gone
        }
        assert not it.it.writes("delete", "pods")


async def test_without_the_annotation_the_gang_stays_and_its_group_says_what_would_help() -> None:
    async with site(2, 4) as it:
        await it.client.create(JOBS, gang("gang", 4))
        await it.live(15)
        (rack,) = it.racks()["gang"]
        it.lose([f"{rack}.01"])
        await it.live(90)
        assert it.racks()["gang"] == {rack, ""} and not it.it.writes("delete", "pods")
        (group,) = it.client.objects(POD_GROUPS)
        told = " ".join(each.message or "" for each in group.status.conditions or ())
        assert f"has room for all of them together (annotation {RELOCATE_AFTER} does that)" in told


async def test_a_node_that_comes_back_in_time_ends_the_wait() -> None:
    async with site(2, 4) as it:
        await it.client.create(JOBS, gang("gang", 4, after="60s"))
        await it.live(15)
        (rack,) = it.racks()["gang"]
        it.lose([f"{rack}.01"])
        await it.live(30)
        it.client.put(NODES, machine(f"{rack}.01"))
        await it.live(90)
        assert it.racks()["gang"] == {rack} and not it.it.writes("delete", "pods")
