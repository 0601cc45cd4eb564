"""Kubernetes' own PodGroups: what the scheduler is told of them, and what their status says."""

from __future__ import annotations

from typing import Any

import pytest
from workload_world import WorkloadWorld, build

from support.build import cluster, config, node, schedule
from unisono.api.annotations import USER
from unisono.api.base import ObjectMeta
from unisono.api.core import Namespace
from unisono.api.groups.scheduling import PodGroup, PodGroupCondition
from unisono.api.groups.topology import ExactMatch, HyperNode, HyperNodeSpec, MemberSelector, MemberSpec
from unisono.api.keys import POD_QUEUE
from unisono.api.kind_families import BATCH_JOBS, WORKLOAD_POD_GROUPS
from unisono.api.kinds import HYPER_NODES, NAMESPACES, POD_GROUPS, PODS
from unisono.controllers.builtin import builtin_controllers
from unisono.controllers.nodes import NodeLifecycleController
from unisono.controllers.podgroup.controller import PodGroupController
from unisono.controllers.podgroup.kubernetes import KubernetesGroupController

NAMES = ("volcano", "unisono")
LABELS = {"job-name": "work"}
GANGS = config(("priority", "gang"), ("predicates", "network-topology-aware"))


def hyper(name: str, nodes: list[str]) -> HyperNode:
    members = [MemberSpec(type="Node", selector=MemberSelector(exact_match=ExactMatch(name=each))) for each in nodes]
    spec = HyperNodeSpec(tier=1, tier_name="example.com/rack", members=members)
    return HyperNode(metadata=ObjectMeta(name=name), spec=spec)


def _controllers(recorder: Any) -> list[Any]:
    plain = [each for each in builtin_controllers(recorder) if not isinstance(each, NodeLifecycleController)]
    return [*plain, PodGroupController(recorder, NAMES), KubernetesGroupController(NAMES)]


class GroupWorld(WorkloadWorld):
    controllers = staticmethod(_controllers)

    async def group(self, minimum: int | None = 3, *, notes: dict[str, str] | None = None, **spec: Any) -> None:
        policy: dict[str, Any] = {"basic": {}} if minimum is None else {"gang": {"minCount": minimum}}
        meta = {"uid": "group-uid", "annotations": notes}
        await self.make(
            WORKLOAD_POD_GROUPS, build(WORKLOAD_POD_GROUPS, "work", metadata=meta, schedulingPolicy=policy, **spec)
        )

    async def job(self, pods: int = 3, *, scheduler: str = "unisono", group: str = "work") -> None:
        container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "4"}}}
        spec = {
            "containers": [container],
            "restartPolicy": "Never",
            "schedulerName": scheduler,
            "schedulingGroup": {"podGroupName": group},
        }
        template = {"metadata": {"labels": LABELS}, "spec": spec}
        made = build(
            BATCH_JOBS,
            "work",
            template=template,
            selector={"matchLabels": LABELS},
            manualSelector=True,
            completions=pods,
            parallelism=pods,
        )
        await self.make(BATCH_JOBS, made)

    def ours(self) -> PodGroup | None:
        return self.client.find(POD_GROUPS, "default/work")

    def told(self) -> tuple[str, str, str] | None:
        found = self.client.find(WORKLOAD_POD_GROUPS, "default/work")
        assert found is not None
        for each in found.status.conditions or ():
            assert each.type == "PodGroupInitiallyScheduled" and each.last_transition_time
            of_older = (found.status.conditions or [])[1]
            assert (of_older.type, of_older.status, of_older.message) == (
                "PodGroupScheduled",
                each.status,
                each.message,
            )
            return each.status, each.reason or "", each.message or ""
        return None

    def bound(self, *things: Any, hyper_nodes: Any = ()) -> list[str]:
        """Nodes that the engine binds the pods to, once our PodGroup has been admitted."""
        group = self.ours()
        assert group is not None
        group.status.phase = "Inqueue"
        state = cluster([*things, group, *self.pods()])
        for each in hyper_nodes:
            state.apply("ADDED", HYPER_NODES, each)
        return sorted(bind.node for bind in schedule(state, GANGS).binds)


async def test_pods_of_a_plain_job_are_a_gang() -> None:
    async with GroupWorld() as world:
        await world.group(3)
        await world.job(3)
        ours = world.ours()
        assert ours is not None and ours.spec.min_member == 3 and ours.spec.queue == "default"
        assert (ours.spec.min_resources or {})["cpu"] == "12"
        assert [each.kind for each in ours.metadata.owner_references or ()] == ["PodGroup"]
        assert [group.metadata.name for group in world.client.objects(POD_GROUPS)] == ["work"], "one group and no other"
        assert world.bound(node("a", cpu=4), node("b", cpu=4)) == []
        assert world.bound(node("a", cpu=4), node("b", cpu=8)) == ["a", "b", "b"]


async def test_with_the_basic_policy_each_pod_starts_on_its_own() -> None:
    async with GroupWorld() as world:
        await world.group(None)
        await world.job(3)
        assert world.bound(node("a", cpu=4), node("b", cpu=4)) == ["a", "b"]


async def test_a_topology_key_keeps_the_gang_in_one_domain() -> None:
    async with GroupWorld() as world:
        await world.group(3, schedulingConstraints={"topology": [{"key": "example.com/rack"}]})
        await world.job(3)
        told = world.told()
        assert world.ours() is None and told is not None and told[:2] == ("False", "Unschedulable")
        assert "no HyperNode has tierName example.com/rack" in told[2]
        nodes = [node(name, cpu=4) for name in ("a1", "a2", "b1", "b2", "b3")]
        racks = [hyper("rack-a", ["a1", "a2"]), hyper("rack-b", ["b1", "b2", "b3"])]
        for rack in racks:
            await world.make(HYPER_NODES, rack)
        assert world.bound(*nodes, hyper_nodes=racks) == ["b1", "b2", "b3"]
        assert world.bound(*nodes[:-1], hyper_nodes=racks) == []
        for rack in racks:
            world.client.remove(HYPER_NODES, rack.metadata.name)
        await world.settle()
        assert world.ours() is None, "the bound would not hold"


async def test_the_status_says_when_the_gang_has_its_nodes() -> None:
    async with GroupWorld() as world:
        await world.group(2)
        await world.job(3)
        assert world.told() is None
        ours = world.ours()
        assert ours is not None
        ours.status.conditions = [PodGroupCondition(type="Unschedulable", status="True", message="too few nodes")]
        world.client.put(POD_GROUPS, ours)
        await world.settle()
        assert world.told() == ("False", "Unschedulable", "too few nodes")
        names = sorted(world.names())
        await world.ready(names[0])
        assert world.told() == ("False", "Unschedulable", "too few nodes")
        await world.ready(names[1])
        assert world.told() == ("True", "Scheduled", "")
        world.client.remove(PODS, f"default/{names[0]}")
        await world.settle()
        assert world.told() == ("True", "Scheduled", ""), "it tells of the first placement only"


@pytest.mark.parametrize("mode", ["PodGroup", {"all": {}}])
async def test_a_group_that_is_disrupted_as_a_whole_has_all_its_pods_as_its_minimum(mode: Any) -> None:
    async with GroupWorld() as world:
        await world.group(2, disruptionMode=mode)
        await world.job(3)
        before = world.ours()
        assert before is not None and before.spec.min_member == 2
        await world.ready()
        after = world.ours()
        assert after is not None and after.spec.min_member == 3
        await world.pod(sorted(world.names())[0], "Succeeded")
        ended = world.ours()
        assert ended is not None and ended.spec.min_member == 2


@pytest.mark.parametrize(
    ("notes", "namespace", "wanted"),
    [(None, None, "default"), (None, "research", "research"), ({POD_QUEUE: "mine"}, "research", "mine")],
)
async def test_the_queue(notes: dict[str, str] | None, namespace: str | None, wanted: str) -> None:
    async with GroupWorld() as world:
        marks = {POD_QUEUE: namespace} if namespace else None
        await world.make(NAMESPACES, Namespace(metadata=ObjectMeta(name="default", annotations=marks)))
        given = {**(notes or {}), USER: "ann", "unisono.io/verdict": "{}", "volcano.sh/preemptable": "true"}
        await world.group(3, notes=given)
        await world.job(3)
        ours = world.ours()
        assert ours is not None and ours.spec.queue == wanted
        assert ours.metadata.annotations == {USER: "ann", "volcano.sh/preemptable": "true"}


async def test_pods_of_other_schedulers_and_other_groups_are_left_alone() -> None:
    async with GroupWorld() as world:
        await world.group(3)
        await world.job(3, scheduler="default-scheduler")
        assert world.client.objects(POD_GROUPS) == [] and world.told() is None


async def test_pods_of_a_group_that_does_not_exist_wait() -> None:
    async with GroupWorld() as world:
        await world.job(3, group="absent")
        assert world.client.objects(POD_GROUPS) == []
        state = cluster([node("a", cpu=64), *world.pods()])
        assert schedule(state, GANGS).binds == []


async def test_a_name_that_is_taken_is_told_of() -> None:
    async with GroupWorld() as world:
        await world.make(POD_GROUPS, PodGroup(metadata=ObjectMeta(name="work", namespace="default")))
        await world.group(3)
        await world.job(3)
        told = world.told()
        assert told is not None and told[:2] == ("False", "Unschedulable") and "belongs to something else" in told[2]


async def test_it_goes_on_after_a_restart_and_when_ours_is_deleted() -> None:
    async with GroupWorld() as world:
        await world.group(3)
        await world.job(3)
        await world.restart()
        world.client.remove(POD_GROUPS, "default/work")
        await world.settle()
        assert world.ours() is not None
        assert len(world.client.objects(POD_GROUPS)) == 1
