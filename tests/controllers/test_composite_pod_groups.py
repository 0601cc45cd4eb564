"""Trees of Kubernetes' groups: one gang for the scheduler, with a minimum and a topology at each level."""

from __future__ import annotations

from typing import Any

import pytest
from workload_world import WorkloadWorld, build

from support.build import cluster, config, node, schedule
from unisono.api.base import ObjectMeta
from unisono.api.groups.scheduling import PodGroup, PodGroupCondition
from unisono.api.groups.topology import ExactMatch, HyperNode, HyperNodeSpec, MemberSelector, MemberSpec
from unisono.api.keys import GROUP_NAME
from unisono.api.kind_families import COMPOSITE_POD_GROUPS, WORKLOAD_POD_GROUPS
from unisono.api.kinds import HYPER_NODES, POD_GROUPS, PODS
from unisono.controllers.builtin import builtin_controllers
from unisono.controllers.nodes import NodeLifecycleController
from unisono.controllers.podgroup.controller import PodGroupController
from unisono.controllers.podgroup.kubernetes import KubernetesGroupController

NAMES = ("volcano", "unisono")
GANGS = config(("priority", "gang"), ("predicates", "network-topology-aware"))
RACK, ZONE = "example.com/rack", "example.com/zone"


def _controllers(recorder: Any) -> list[Any]:
    plain = [each for each in builtin_controllers(recorder) if not isinstance(each, NodeLifecycleController)]
    return [*plain, PodGroupController(recorder, NAMES), KubernetesGroupController(NAMES)]


def domain(name: str, tier: int, tier_name: str, members: list[str]) -> HyperNode:
    of = "Node" if tier == 1 else "HyperNode"
    made = [MemberSpec(type=of, selector=MemberSelector(exact_match=ExactMatch(name=each))) for each in members]
    return HyperNode(metadata=ObjectMeta(name=name), spec=HyperNodeSpec(tier=tier, tier_name=tier_name, members=made))


RACKS = [domain(each, 1, RACK, [f"{each}0", f"{each}1"]) for each in "abcd"]
ZONES = [domain("east", 2, ZONE, ["a", "b"]), domain("west", 2, ZONE, ["c", "d"])]
NODES = [node(f"{rack}{index}", cpu=4) for rack in "abcd" for index in range(2)]


class TreeWorld(WorkloadWorld):
    """Groups and pods that somebody else makes."""

    controllers = staticmethod(_controllers)

    async def composite(
        self, name: str, minimum: int | None, parent: str | None = None, *, workload: str = "train", **spec: Any
    ) -> None:
        policy: dict[str, Any] = {"basic": {}} if minimum is None else {"gang": {"minGroupCount": minimum}}
        if parent:
            spec["parentCompositePodGroupName"] = parent
        spec["workloadRef"] = {"workloadName": workload, "templateName": name}
        await self.make(COMPOSITE_POD_GROUPS, build(COMPOSITE_POD_GROUPS, name, schedulingPolicy=policy, **spec))

    async def group(self, name: str, minimum: int, parent: str | None, pods: int | None = None, **spec: Any) -> None:
        if parent:
            spec["parentCompositePodGroupName"] = parent
        policy = {"gang": {"minCount": minimum}}
        await self.make(WORKLOAD_POD_GROUPS, build(WORKLOAD_POD_GROUPS, name, schedulingPolicy=policy, **spec))
        for index in range(minimum if pods is None else pods):
            container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "4"}}}
            group = {"podGroupName": name}
            spec_of_pod = {"containers": [container], "schedulerName": "unisono", "schedulingGroup": group}
            await self.make(PODS, build(PODS, f"{name}-{index}", **spec_of_pod))

    async def domains(self) -> None:
        for each in (*RACKS, *ZONES):
            await self.make(HYPER_NODES, each)

    def ours(self) -> PodGroup:
        (group,) = self.client.objects(POD_GROUPS)
        return group

    def told(self, name: str) -> tuple[str, str, str] | None:
        found: Any = self.client.find(COMPOSITE_POD_GROUPS, f"default/{name}")
        found = found or self.client.find(WORKLOAD_POD_GROUPS, f"default/{name}")
        assert found is not None
        for each in found.status.conditions or ():
            assert each.last_transition_time
            if each.type in ("PodGroupInitiallyScheduled", "CompositePodGroupInitiallyScheduled"):
                return each.status, each.reason or "", each.message or ""
        return None

    def bound(self, *nodes: Any) -> dict[str, str]:
        """Nodes that the engine binds pods to, once our PodGroup has been admitted."""
        group = self.ours()
        group.status.phase = "Inqueue"
        state = cluster([*nodes, group, *self.pods()])
        for each in self.client.objects(HYPER_NODES):
            state.apply("ADDED", HYPER_NODES, each)
        decisions = schedule(state, GANGS)
        assert not decisions.violations
        return {bind.pod: bind.node for bind in decisions.binds}


async def _three_levels(world: TreeWorld) -> None:
    """The job needs both sides; each side needs two groups of two pods, and has three on the right."""
    await world.composite("job", 2)
    await world.composite("left", 2, "job")
    await world.composite("right", 2, "job")
    for name in ("l0", "l1"):
        await world.group(name, 2, "left")
    for name in ("r0", "r1", "r2"):
        await world.group(name, 2, "right")


async def test_a_tree_is_one_gang_with_a_policy_for_each_group() -> None:
    async with TreeWorld() as world:
        await _three_levels(world)
        spec = world.ours().spec
        assert (spec.min_member, (spec.min_resources or {})["cpu"]) == (8, "32")
        told = [
            (each.name, each.parent, each.min_sub_groups, each.sub_group_size) for each in spec.sub_group_policy or ()
        ]
        assert told == [
            ("job", None, 2, 1),
            ("left", "job", 2, 1),
            ("l0", "left", None, 2),
            ("l1", "left", None, 2),
            ("right", "job", 2, 1),
            ("r0", "right", None, 2),
            ("r1", "right", None, 2),
            ("r2", "right", None, 2),
        ]
        assert {(pod.metadata.annotations or {})[GROUP_NAME] for pod in world.pods()} == {"job"}
        (owner,) = world.ours().metadata.owner_references or ()
        assert (owner.kind, owner.api_version) == ("CompositePodGroup", "scheduling.k8s.io/v1alpha3")


@pytest.mark.parametrize(("nodes", "expected"), [(7, 0), (8, 8), (9, 8), (10, 10)])
async def test_three_levels_start_whole_or_not_at_all(nodes: int, expected: int) -> None:
    async with TreeWorld() as world:
        await _three_levels(world)
        found = world.bound(*(node(f"n{index}", cpu=4) for index in range(nodes)))
        assert len(found) == expected
        if expected == 8:
            assert sum(name.startswith("l") for name in found) == 4, "two groups of each side"


async def test_each_level_keeps_its_topology() -> None:
    async with TreeWorld() as world:
        await world.domains()
        zone, rack = ({"schedulingConstraints": {"topology": [{"key": key}]}} for key in (ZONE, RACK))
        await world.composite("job", 2)
        for side in ("left", "right"):
            await world.composite(side, 2, "job", **zone)
            for index in range(2):
                await world.group(f"{side}-{index}", 2, side, **rack)
        found = world.bound(*NODES)
        assert len(found) == 8
        racks: dict[str, set[str]] = {}
        for pod, at in found.items():
            racks.setdefault(pod.rpartition("-")[0], set()).add(at[0])
        assert all(len(each) == 1 for each in racks.values()), "a group in one rack"
        zones = {frozenset({"a", "b"}), frozenset({"c", "d"})}
        assert {frozenset(racks[f"{side}-0"] | racks[f"{side}-1"]) for side in ("left", "right")} == zones
        assert world.bound(*NODES[:-1]) == {}


async def test_the_topology_of_the_top_binds_all() -> None:
    async with TreeWorld() as world:
        await world.domains()
        await world.composite("job", 2, schedulingConstraints={"topology": [{"key": ZONE}]})
        await world.group("x", 2, "job")
        await world.group("y", 2, "job")
        topology = world.ours().spec.network_topology
        assert topology is not None and topology.highest_tier_name == ZONE
        found = {at[0] for at in world.bound(*NODES).values()}
        assert found in ({"a", "b"}, {"c", "d"})
        assert world.bound(*NODES[:3], *NODES[4:7]) == {}


async def test_a_topology_that_is_not_known_is_told_at_all_levels() -> None:
    async with TreeWorld() as world:
        await world.composite("job", 1)
        await world.group("x", 2, "job", schedulingConstraints={"topology": [{"key": "example.com/row"}]})
        assert world.client.objects(POD_GROUPS) == []
        for name in ("job", "x"):
            told = world.told(name)
            assert told is not None and told[:2] == ("False", "Unschedulable") and "example.com/row" in told[2]


async def test_the_status_of_each_level() -> None:
    async with TreeWorld() as world:
        await world.composite("job", 2)
        await world.composite("side", 1, "job")
        await world.group("x", 2, "side")
        await world.group("y", 1, "job")
        assert world.told("job") is None
        ours = world.ours()
        ours.status.conditions = [PodGroupCondition(type="Unschedulable", status="True", message="too few nodes")]
        world.client.put(POD_GROUPS, ours)
        await world.settle()
        waits = ("False", "Unschedulable", "too few nodes")
        assert {name: world.told(name) for name in ("job", "side", "x", "y")} == dict.fromkeys(
            ("job", "side", "x", "y"), waits
        )
        await world.ready("x-0", "x-1")
        placed = ("True", "Scheduled", "")
        assert [world.told(name) for name in ("x", "side", "y", "job")] == [placed, placed, waits, waits]
        await world.ready("y-0")
        assert [world.told(name) for name in ("y", "job")] == [placed, placed]
        world.client.remove(PODS, "default/y-0")
        await world.settle()
        assert world.told("job") == placed, "it tells of the first placement only"


async def test_a_lost_member_comes_back_alone() -> None:
    async with TreeWorld() as world:
        await world.domains()
        await world.composite("job", 2, schedulingConstraints={"topology": [{"key": ZONE}]})
        await world.group("x", 2, "job")
        await world.group("y", 2, "job")
        for name, at in (("x-0", "a0"), ("x-1", "a1"), ("y-0", "b0")):
            await world.ready(name, node=at)
        assert world.bound(*NODES) == {"y-1": "b1"}
        assert world.bound(*(each for each in NODES if each.metadata.name != "b1")) == {}


@pytest.mark.parametrize(
    ("at", "members", "groups", "sizes"), [("job", 6, 2, [3, 3]), ("x", 2, 1, [2, 3]), (None, 2, 1, [2, 2])]
)
async def test_what_is_disrupted_as_a_whole_needs_all_that_runs(
    at: str | None, members: int, groups: int, sizes: list[int]
) -> None:
    """Of 3 + 3 pods; the groups need 2 each, and the job one group."""
    async with TreeWorld() as world:
        whole = {"disruptionMode": {"all": {}}}
        await world.composite("job", 1, **(whole if at == "job" else {}))
        await world.group("x", 2, "job", 3, **(whole if at == "x" else {}))
        await world.group("y", 2, "job", 3)
        assert world.ours().spec.min_member == 2
        await world.ready()
        spec = world.ours().spec
        policies = spec.sub_group_policy or []
        assert (spec.min_member, policies[0].min_sub_groups) == (members, groups)
        assert sorted(each.sub_group_size or 0 for each in policies if each.pod_group_name) == sizes


@pytest.mark.parametrize(
    ("groups", "reason", "message"),
    [
        ([("a", "b"), ("b", "a")], "Invalid", "the groups form a cycle"),
        ([("a", None), ("b", "a"), ("c", "b"), ("d", "c")], "Invalid", "there may be 4 levels"),
        ([("d", "lost")], "Unschedulable", "CompositePodGroup lost, which it names as its parent, does not exist"),
    ],
    ids=["a cycle", "too deep", "no parent"],
)
async def test_a_tree_that_is_none(groups: list[tuple[str, str | None]], reason: str, message: str) -> None:
    async with TreeWorld() as world:
        for name, parent in groups:
            await world.composite(name, 1, parent)
        await world.group("x", 1, groups[-1][0])
        assert world.client.objects(POD_GROUPS) == []
        told = world.told("x")
        assert told is not None and told[:2] == ("False", reason) and message in told[2]
        assert world.told(groups[0][0]) == told


async def test_groups_of_several_workloads_are_no_tree() -> None:
    async with TreeWorld() as world:
        await world.composite("job", 1)
        await world.composite("side", 1, "job", workload="other")
        await world.group("x", 1, "side")
        assert world.told("job") == ("False", "Invalid", "its groups are of several Workloads: other, train")


async def test_a_tree_whose_parts_come_in_any_order() -> None:
    async with TreeWorld() as world:
        await world.group("x", 2, "side")
        assert (world.told("x") or ("",))[0] == "False"
        await world.composite("side", 1, "job")
        assert "job, which it names as its parent" in (world.told("side") or ("", "", ""))[2]
        await world.composite("job", 1)
        assert [each.name for each in world.ours().spec.sub_group_policy or ()] == ["job", "side", "x"]
        await world.restart()
        await world.group("y", 1, "job")
        assert [each.name for each in world.ours().spec.sub_group_policy or ()] == ["job", "side", "x", "y"]
        world.client.remove(POD_GROUPS, "default/job")
        await world.settle()
        assert world.ours().spec.min_member == 1


async def test_a_group_with_the_name_of_what_it_is_part_of() -> None:
    async with TreeWorld() as world:
        await world.composite("job", 1)
        await world.group("job", 2, "job")
        policies = world.ours().spec.sub_group_policy or []
        assert [(each.name, each.parent) for each in policies] == [
            ("compositepodgroup/job", None),
            ("job", "compositepodgroup/job"),
        ]
        assert len(world.bound(*NODES[:2])) == 2
