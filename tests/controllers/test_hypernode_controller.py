"""HyperNodes: how many members they have, and those that labels of nodes make."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from job_world import World

from unisono.api.base import ObjectMeta
from unisono.api.core import ConfigMap, Node
from unisono.api.groups.topology import HyperNode
from unisono.api.kinds import CONFIG_MAPS, HYPER_NODES, NODES
from unisono.controllers.hypernode.controller import count_members
from unisono.controllers.hypernode.discovery import (
    TopologyError,
    find_domains,
    parse_config,
    read_switches,
    wanted_hyper_nodes,
)

CONFIG = """
networkTopologyDiscovery:
- source: label
  enabled: true
  config:
    networkTopologyTypes:
      roce:
      - nodeLabel: spine
      - nodeLabel: leaf
      - nodeLabel: kubernetes.io/hostname
"""


def node(name: str, **labels: str) -> Node:
    return Node(metadata=ObjectMeta(name=name, labels=labels))


def hyper(name: str, *members: dict[str, Any], tier: int = 1, labels: dict[str, str] | None = None) -> HyperNode:
    value = {"metadata": {"name": name, "labels": labels}, "spec": {"tier": tier, "members": list(members)}}
    return msgspec.convert(value, HyperNode)


def exact(name: str, kind: str = "Node") -> dict[str, Any]:
    return {"type": kind, "selector": {"exactMatch": {"name": name}}}


@pytest.mark.parametrize(
    ("members", "number"),
    [
        ([exact("a-0"), exact("a-1"), exact("gone")], 2),
        ([{"type": "Node", "selector": {"regexMatch": {"pattern": "a-"}}}], 2),
        ([{"type": "Node", "selector": {"regexMatch": {"pattern": "("}}}], 0),
        ([{"type": "Node", "selector": {"labelMatch": {"matchLabels": {"rack": "1"}}}}, exact("b-0")], 2),
        ([{"type": "Node", "selector": {"labelMatch": {}}}], 0),
        ([exact("leaf", "HyperNode"), exact("none", "HyperNode")], 1),
        ([exact("a-0"), {"type": "Node", "selector": {"regexMatch": {"pattern": "^a-0$"}}}], 1),
    ],
)
def test_members_that_exist(members, number):
    nodes = {each.metadata.name: each for each in (node("a-0"), node("a-1"), node("b-0", rack="1"), node("b-1"))}
    nodes["b-1"].metadata.labels = {"rack": "1"} if number == 2 and "labelMatch" in str(members) else {}
    assert count_members(hyper("h", *members), nodes, ["leaf", "h"]) == number


async def test_the_count_follows_the_nodes():
    async with World() as world:
        world.client.put(NODES, node("a-0", rack="1"))
        await world.client.create(
            HYPER_NODES, hyper("h", {"type": "Node", "selector": {"labelMatch": {"matchLabels": {"rack": "1"}}}})
        )
        await world.settle()
        assert world.client.find(HYPER_NODES, "h").status.node_count == 1
        world.client.put(NODES, node("a-1", rack="1"))
        await world.settle()
        assert world.client.find(HYPER_NODES, "h").status.node_count == 2
        world.client.remove(NODES, "a-0")
        await world.settle()
        assert world.client.find(HYPER_NODES, "h").status.node_count == 1


async def discovered(world: World) -> dict[str, list[str]]:
    """Members by label value."""
    await world.advance(61)
    return {
        (each.metadata.labels or {})[each.spec.tier_name]: [one.selector.exact_match.name for one in each.spec.members]
        for each in world.client.objects(HYPER_NODES)
        if each.spec.tier_name
    }


async def test_a_mistake_is_told_at_the_config_map_once():
    async with World() as world:
        config = ConfigMap(
            metadata=ObjectMeta(name="volcano-controller-configmap", namespace="volcano-system"),
            data={"volcano-controller.conf": CONFIG.replace("nodeLabel: leaf", "label: leaf")},
        )
        await world.client.create(CONFIG_MAPS, config)
        await world.advance(600)
        (message,) = world.recorder.of("TopologyNotDiscovered")
        assert message.endswith("networkTopologyTypes.roce: every level needs a nodeLabel")


async def test_labels_of_nodes_become_hyper_nodes_and_follow_them():
    async with World() as world:
        config = ConfigMap(
            metadata=ObjectMeta(name="volcano-controller-configmap", namespace="volcano-system"),
            data={"volcano-controller.conf": CONFIG},
        )
        await world.client.create(CONFIG_MAPS, config)
        await world.client.create(HYPER_NODES, hyper("by-hand", exact("n0")))
        for number, leaf in enumerate("aabb"):
            await world.client.create(NODES, node(f"n{number}", leaf=leaf, spine="s"))
        await world.client.create(NODES, node("loose", spine="s"))
        found = await discovered(world)
        assert (found["a"], found["b"]) == (["n0", "n1"], ["n2", "n3"])
        assert len(found["s"]) == 2
        spine = next(each for each in world.client.objects(HYPER_NODES) if each.spec.tier_name == "spine")
        assert spine.spec.tier == 2
        assert spine.metadata.name.startswith("hypernode-roce-tier2-")
        assert spine.metadata.labels["volcano.sh/network-topology-source"] == "label"
        names = {each.metadata.name for each in world.client.objects(HYPER_NODES)}
        await world.client.patch(NODES, "n2", {"metadata": {"labels": {"leaf": "a"}}})
        await world.client.patch(NODES, "n3", {"metadata": {"labels": {"leaf": "a"}}})
        await world.client.delete(HYPER_NODES, spine.metadata.name)
        found = await discovered(world)
        assert found["a"] == ["n0", "n1", "n2", "n3"]
        assert "b" not in found
        after = {each.metadata.name for each in world.client.objects(HYPER_NODES)}
        assert after < names
        assert "by-hand" in after
        assert spine.metadata.name in after


@pytest.mark.parametrize(
    ("text", "types", "problem"),
    [
        (CONFIG, {"roce": ("leaf", "spine")}, None),
        (CONFIG.replace("enabled: true", "enabled: false"), None, None),
        ("", None, None),
        ("a: [", None, "volcano-controller.conf:2: "),
        (CONFIG.replace("source: label", "source: 7"), None, "must be the name of a source"),
        (CONFIG.replace("roce", "r" * 21), {}, "at most 20 characters"),
        (CONFIG.replace("nodeLabel: leaf", "label: leaf"), {}, "every level needs a nodeLabel"),
    ],
)
def test_the_configuration(text, types, problem):
    found = parse_config(text)
    assert found.types == types
    assert bool(found.problems) == bool(problem)
    assert problem is None or problem in found.problems[0]


@given(
    st.lists(
        st.fixed_dictionaries({}, optional={"leaf": st.sampled_from("abc"), "spine": st.sampled_from("xy")}),
        max_size=12,
    )
)
def test_every_node_with_a_leaf_is_in_one_domain_and_a_second_look_changes_nothing(labels):
    nodes = [node(f"n{number}", **each) for number, each in enumerate(labels)]
    types = {"roce": ("leaf", "spine")}
    first = wanted_hyper_nodes(find_domains(types, nodes), [], "label")
    members = [m.selector.exact_match.name for each in first.values() if each.spec.tier == 1 for m in each.spec.members]
    assert sorted(members) == sorted(each.metadata.name for each in nodes if "leaf" in each.metadata.labels)
    children = {
        m.selector.exact_match.name for each in first.values() if each.spec.tier == 2 for m in each.spec.members
    }
    assert children <= set(first)
    assert wanted_hyper_nodes(find_domains(types, nodes), first.values(), "label") == first


# ---- from a file

FILE = """
networkTopologyDiscovery:
- source: file
  enabled: true
  config:
    topology: |
      # two leaves of two nodes each below a spine
      SwitchName=leaf[0-1] Nodes=n[0-1],n02 LinkSpeed=400
      SwitchName=spine Switches=leaf[0-1]
"""


@pytest.mark.parametrize(
    ("text", "switches"),
    [
        ("SwitchName=s Nodes=a", {"s": (("a",), ())}),
        ("switchname=s nodes=a[08-10],b", {"s": (("a08", "a09", "a10", "b"), ())}),
        ("SwitchName=s Nodes=a[1-2]x[1,3]", {"s": (("a1x1", "a1x3", "a2x1", "a2x3"), ())}),
        ("SwitchName=l Nodes=a\nSwitchName=s Switches=l Nodes=b", {"l": (("a",), ()), "s": (("b",), ("l",))}),
        ("# nothing\n\n", {}),
    ],
)
def test_switches_of_a_topology_file(text, switches):
    assert {name: (one.nodes, one.switches) for name, one in read_switches(text).items()} == switches


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Nodes=a", "line 1: SwitchName=NAME is missing"),
        ("SwitchName=s Hosts=a", "line 1: unknown key hosts"),
        ("SwitchName=s Nodes=a\nSwitchName=s Nodes=b", "line 2: switch s is listed twice"),
        ("SwitchName=s Switches=gone", "switch s names switch gone, which is not listed"),
        ("SwitchName=s Nodes=a[1-", "brackets do not match"),
        ("SwitchName=s Nodes=a[[1-2]]", "brackets do not match"),
        ("SwitchName=s Nodes=a[2-1]", "not a range"),
        ("SwitchName=s Nodes=a[x]", "not a range"),
        ("SwitchName=s Nodes=a[1-999999999]", "not a range"),
        ("SwitchName=s Nodes=a[0-9999]b[0-9999]c[0-9999]", "names at most"),
        ("SwitchName=Leaf_1 Nodes=a", "'Leaf_1' is not a name"),
    ],
)
def test_mistakes_in_a_topology_file_are_named(text, problem):
    with pytest.raises(TopologyError, match=re.escape(problem)):
        read_switches(text)


def test_switches_in_a_circle_are_told_and_the_file_is_left_out():
    circle = "SwitchName=a Switches=b\n      SwitchName=b Switches=a"
    found = parse_config(FILE.replace("SwitchName=spine Switches=leaf[0-1]", circle))
    assert found.switches is None
    assert "form a circle: a, b" in found.problems[0]


async def test_a_topology_file_becomes_hyper_nodes_and_those_of_labels_stay():
    async with World() as world:
        config = ConfigMap(
            metadata=ObjectMeta(name="volcano-controller-configmap", namespace="volcano-system"),
            data={"volcano-controller.conf": FILE + CONFIG.partition(":")[2].lstrip("\n")},
        )
        await world.client.create(CONFIG_MAPS, config)
        await world.client.create(HYPER_NODES, hyper("by-hand", exact("n0")))
        await world.client.create(NODES, node("n0", leaf="a"))
        await world.advance(61)
        made = {each.metadata.name: each for each in world.client.objects(HYPER_NODES)}
        assert [made[name].spec.tier for name in ("leaf0", "leaf1", "spine")] == [1, 1, 2]
        assert [one.selector.exact_match.name for one in made["leaf0"].spec.members] == ["n0", "n02", "n1"]
        assert [(one.type, one.selector.exact_match.name) for one in made["spine"].spec.members] == [
            ("HyperNode", "leaf0"),
            ("HyperNode", "leaf1"),
        ]
        assert len(made) == 5  # by hand, and one of the label
        await world.client.delete(HYPER_NODES, "spine")
        smaller = {"volcano-controller.conf": config.data["volcano-controller.conf"].replace("leaf[0-1]", "leaf0")}
        await world.client.patch(CONFIG_MAPS, config.metadata.name, {"data": smaller}, namespace="volcano-system")
        await world.advance(61)
        after = {each.metadata.name for each in world.client.objects(HYPER_NODES)}
        assert after == set(made) - {"leaf1"}
