"""Networks as UFM and collectors of LLDP neighbours tell them, and what becomes of their answers."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from controller_world import ControllerWorld
from hypothesis import given
from hypothesis import strategies as st

from support.plane import REPOSITORY
from unisono.api.base import ObjectMeta
from unisono.api.core import ConfigMap, Node, Secret
from unisono.api.groups.topology import HyperNode
from unisono.api.kinds import CONFIG_MAPS, HYPER_NODES, NODES, SECRETS
from unisono.api.topology_sources import Question, SourceFailed, Switch, TopologySource
from unisono.controllers.hypernode import sources
from unisono.controllers.hypernode.controller import HyperNodeSourceController
from unisono.controllers.hypernode.discovery import parse_config
from unisono.controllers.hypernode.sources import Resolver, find_source, of_cluster
from unisono.kube.controller import Controller

# ---- UFM


def port(system: str, peer: str, description: str = "Computer IB Port", number: int = 1) -> dict[str, Any]:
    """One port with the fields that UFM's REST interface gives it; the values are made up."""
    up = peer not in ("", "N/A")
    return {
        "description": description,
        "number": number,
        "external_number": number,
        "physical_state": "Link Up" if up else "Polling",
        "logical_state": "Active" if up else "Down",
        "path": f"default / Computer: {system} / NIC: mlx5_{number} / {system} HCA-{number}/1",
        "tier": 1,
        "lid": 7,
        "mtu": 4096,
        "active_speed": "NDR",
        "active_width": "4x",
        "guid": f"0x946dae03005c{number:04x}",
        "name": f"946dae03005c{number:04x}_1",
        "system_name": system,
        "node_description": f"{system} mlx5_{number}",
        "peer_node_name": peer,
        "peer_port_dname": "1/1/1",
        "capabilities": ["reset"],
        "module": None,
    }


FABRIC = [
    # Two rails: every computer is on two leaves.
    *(port(f"node{n}", f"leaf{leaf}", number=leaf) for n in (0, 1) for leaf in (0, 1)),
    *(port(f"node{n}", f"leaf{leaf}", number=leaf) for n in (2, 3) for leaf in (2, 3)),
    # Ports of switches, and a cable that is not plugged in.
    port("leaf0", "spine0", "Switch IB Port"),
    port("leaf2", "spine0", "Switch IB Port"),
    port("node0", "N/A", number=3),
    port("node3", "N/A", number=3),
    port("node1", "", number=4),
]


@pytest.mark.parametrize(
    ("ports", "switches"),
    [
        (
            FABRIC,
            {
                "leaf-hn-0": Switch(("node0", "node1")),
                "leaf-hn-1": Switch(("node2", "node3")),
                "spine-hn": Switch((), ("leaf-hn-0", "leaf-hn-1")),
            },
        ),
        # One that is on leaves of both sides joins them.
        (
            [*FABRIC, port("node4", "leaf1"), port("node4", "leaf2")],
            {
                "leaf-hn-0": Switch(("node0", "node1", "node2", "node3", "node4")),
                "spine-hn": Switch((), ("leaf-hn-0",)),
            },
        ),
        ([port("leaf0", "spine0", "Switch IB Port")], {}),
        ([{}, {"description": None}, {"description": "Computer IB Port"}], {}),
        ([], {}),
    ],
)
def test_ports_of_computers_become_leaves_below_a_spine(ports, switches):
    assert sources.switches_of_ports(json.dumps(ports).encode()) == switches


# ---- LLDP


def link(system: str, peer: str) -> dict[str, str]:
    return {"hostname": system, "ifname": "swp1", "peer_hostname": peer, "peer_ifname": "swp9"}


CLOS = [
    *(link(f"gpu{n}", f"leaf0{1 + n // 2}") for n in range(4)),
    link("leaf01", "gpu0"),
    *(link(leaf, spine) for leaf in ("leaf01", "leaf02") for spine in ("spine01", "spine02")),
    link("spine01", "leaf01"),
    link("spine01", "core"),
]


@pytest.mark.parametrize(
    ("links", "nodes", "switches"),
    [
        (
            CLOS,
            ["gpu0", "gpu1", "gpu2", "gpu3"],
            {
                "roce-leaf01": Switch(("gpu0", "gpu1")),
                "roce-leaf02": Switch(("gpu2", "gpu3")),
                "roce-spine01": Switch((), ("roce-leaf01", "roce-leaf02")),
                "roce-core": Switch((), ("roce-spine01",)),
            },
        ),
        # Names as the network has them: in capitals, or without the domain of the nodes.
        ([link("GPU0", "Leaf 1")], ["gpu0.example.com"], {"roce-leaf-1": Switch(("gpu0.example.com",))}),
        # Two switches whose names differ in what no HyperNode may have in its name.
        (
            [link("a", "leaf_1"), link("b", "leaf.1")],
            ["a", "b"],
            {"roce-leaf-1": Switch(("b",)), "roce-leaf-1-2": Switch(("a",))},
        ),
        # Nothing that the cluster knows.
        (CLOS, ["other"], {}),
        ([], ["gpu0"], {}),
    ],
)
def test_neighbours_become_tiers(links, nodes, switches):
    pairs = sources.links_of(json.dumps(links).encode(), {"system": "hostname", "peer": "peer_hostname"})
    assert sources.switches_of(pairs, nodes) == switches


@given(
    st.lists(
        st.tuples(st.sampled_from([*"abcd", "s1", "s2", "s3", "s4"]), st.sampled_from(["s1", "s2", "s3", "s4", "s5"])),
        max_size=20,
    )
)
def test_every_node_with_a_link_is_in_one_domain_of_each_tier(links):
    nodes = frozenset("abcd")
    found = of_cluster(sources.switches_of(links, nodes), nodes)
    linked = {one for one, _ in links if one in nodes}
    assert sorted(node for switch in found.values() for node in switch.nodes) == sorted(linked)
    children = [name for switch in found.values() for name in switch.switches]
    assert len(children) == len(set(children))


@pytest.mark.parametrize(
    ("names", "asked", "answer"),
    [
        (["a"], "a", "a"),
        (["a.x"], "A", "a.x"),
        (["a"], "a.x", "a"),
        (["a.x", "a.y"], "a", None),
        (["a.x", "a.y"], "a.y", "a.y"),
        (["a"], "b", None),
    ],
)
def test_nodes_by_names_of_the_network(names, asked, answer):
    assert Resolver(names).node(asked) == answer


# ---- sources


class Answers:
    """A network whose servers answer as they are told."""

    def __init__(self, **answers: Any) -> None:
        self.answers: dict[str, Any] = answers
        self.asked: list[tuple[str, Mapping[str, str], bool]] = []

    async def get(self, url: str, *, credentials: Mapping[str, str], verify: bool = True, most_bytes: int = 0) -> bytes:
        self.asked.append((url, dict(credentials), verify))
        answer = self.answers.get("body", b"[]")
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, bytes) else json.dumps(answer).encode()


LOGIN = {"username": "u", "password": "p"}


@pytest.mark.parametrize(
    ("source", "config", "credentials", "body", "told"),
    [
        ("ufm", {}, LOGIN, [], "config.endpoint"),
        ("ufm", {"endpoint": 7}, LOGIN, [], "config.endpoint"),
        ("ufm", {"endpoint": "u"}, {}, [], "keys username and password"),
        ("ufm", {"endpoint": "u"}, LOGIN, {"a": 1}, "a list of ports"),
        ("ufm", {"endpoint": "u"}, LOGIN, b"<html>", "a list of ports"),
        ("ufm", {"endpoint": "u"}, LOGIN, b"\xff", "a list of ports"),
        ("roce", {}, {}, [], "config.endpoint"),
        ("roce", {"endpoint": "u"}, {}, [1], "a list of links"),
        ("roce", {"endpoint": "u", "fields": {"host": "x"}}, {}, [], "only system and peer"),
        ("roce", {"endpoint": "u", "fields": {"peer": 1}}, {}, [], "must be texts"),
        ("roce", {"endpoint": "u", "ignore": "oob"}, {}, [], "config.ignore"),
    ],
)
async def test_what_a_source_cannot_work_with_is_named(source, config, credentials, body, told):
    question = Question(config, frozenset(), Answers(body=body), credentials)
    with pytest.raises(SourceFailed, match=told):
        await find_source(source).discover(question)


async def test_neighbours_in_other_words_and_without_the_network_that_manages():
    body = [{"a": "n", "b": "leaf"}, {"a": "n", "b": "oob-switch"}, {"a": "m", "b": "oob-switch"}, {"a": "m", "b": "x"}]
    config = {"endpoint": "https://c/lldp/", "fields": {"system": "a", "peer": "b"}, "ignore": ["oob-*", "x"]}
    answers = Answers(body=body)
    found = await find_source("roce").discover(Question(config, frozenset("nm"), answers, {"token": "t"}))
    assert found == {"roce-leaf": Switch(("n",))}
    assert answers.asked == [("https://c/lldp", {"token": "t"}, True)]


async def test_a_certificate_is_left_unchecked_only_by_a_plain_true():
    for value, verify in ((True, False), ("true", True), (1, True), (None, True)):
        answers = Answers()
        await find_source("ufm").discover(
            Question({"endpoint": "u", "insecureSkipVerify": value}, frozenset(), answers, LOGIN)
        )
        assert answers.asked == [("https://u/ufmRest/resources/ports", LOGIN, verify)]


def test_an_unknown_source_is_told_what_there_is():
    with pytest.raises(SourceFailed, match='"netbox" is not supported; use one of label, file, ufm, roce'):
        find_source("netbox")


@pytest.mark.parametrize(
    ("switches", "told"),
    [
        ({"S": Switch(("n",))}, "not a name"),
        ({"s": Switch((), ("gone",))}, "names switch gone"),
        ({"a": Switch((), ("b",)), "b": Switch((), ("a",))}, "circle"),
        ({"s": Switch(tuple(map(str, range(100_001))))}, "more than 100000"),
    ],
)
def test_answers_that_cannot_be_hyper_nodes(switches, told):
    with pytest.raises(SourceFailed, match=told):
        of_cluster(switches, frozenset({"n"}))


def test_only_what_concerns_the_cluster_is_kept():
    told = {"l0": Switch(("n0", "foreign")), "l1": Switch(("foreign",)), "s": Switch((), ("l0", "l1"))}
    assert of_cluster(told, frozenset({"n0"})) == {"l0": Switch(("n0",)), "s": Switch((), ("l0",))}


# ---- configuration


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"source": "ufm", "interval": "often"}, 'interval: "often" is not a duration'),
        ({"source": "ufm", "interval": "-1m"}, "is not a duration"),
        ({"source": "ufm", "config": "x"}, "config: must map"),
        ({"source": "ufm", "credentials": {"secretRef": {}}}, "credentials.secretRef"),
        ({"source": "ufm", "credentials": "x"}, "credentials.secretRef"),
        ({"source": 5}, "source: it must be the name"),
        ({"source": "Über"}, "source: it must be the name"),
        ({}, "source: it must be the name"),
    ],
)
def test_mistakes_are_named_with_their_place(entry, problem):
    found = parse_config(json.dumps({"networkTopologyDiscovery": [{"enabled": True, **entry}]}))
    assert len(found.problems) == 1
    assert found.problems[0].startswith("networkTopologyDiscovery[0].")
    assert problem in found.problems[0]


def test_a_source_that_is_configured_twice_counts_once():
    entries = [{"source": "ufm", "enabled": True, "config": {"endpoint": each}} for each in "ab"]
    found = parse_config(json.dumps({"networkTopologyDiscovery": entries}))
    assert found.asked["ufm"].config == {"endpoint": "a"}
    assert "configured twice" in found.problems[0]


# ---- the controller

CONFIG = """
networkTopologyDiscovery:
- source: ufm
  enabled: true
  interval: 10m
  credentials:
    secretRef: {name: ufm, namespace: volcano-system}
  config:
    endpoint: https://ufm.example.com
- source: own
  enabled: true
  config: {site: a}
"""


class Own:
    """A source of another package."""

    def __init__(self) -> None:
        self.answer: Any = {"rack-1": Switch(("node0", "node3"))}
        self.questions: list[Question] = []

    async def discover(self, question: Question) -> Mapping[str, Switch]:
        self.questions.append(question)
        if self.answer is None:
            await asyncio.Event().wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        answer: dict[str, Switch] = self.answer
        return answer


class Told:
    """UFM whose answer is read at once: virtual time does not wait for threads."""

    async def discover(self, question: Question) -> Mapping[str, Switch]:
        url = f"{question.config['endpoint']}/ports"
        return sources.switches_of_ports(await question.fetch.get(url, credentials=question.credentials))


class World(ControllerWorld):
    def __init__(self) -> None:
        super().__init__()
        self.network, self.own = Answers(body=FABRIC), Own()

    def find(self, name: str) -> TopologySource:
        if name == "own":
            return self.own
        return Told() if name == "ufm" else find_source(name)

    def make_controllers(self) -> list[Controller]:
        place = ("volcano-system", "volcano-controller-configmap")
        return [HyperNodeSourceController(self.recorder, self.network, place, self.find)]

    async def begin(self, text: str = CONFIG, **secret: str) -> None:
        meta = ObjectMeta(name="volcano-controller-configmap", namespace="volcano-system")
        data = {key: base64.b64encode(value.encode()).decode() for key, value in (secret or LOGIN).items()}
        self.client.put(SECRETS, Secret(metadata=ObjectMeta(name="ufm", namespace="volcano-system"), data=data))
        self.client.put(CONFIG_MAPS, ConfigMap(metadata=meta, data={"volcano-controller.conf": text}))
        for number in range(4):
            await self.client.create(NODES, Node(metadata=ObjectMeta(name=f"node{number}")))
        await self.advance(61)

    def made(self, source: str) -> dict[str, list[str]]:
        return {
            each.metadata.name: [one.selector.exact_match.name for one in each.spec.members]
            for each in self.client.objects(HYPER_NODES)
            if (each.metadata.labels or {}).get("volcano.sh/network-topology-source") == source
        }


UFM_MADE = {
    "leaf-hn-0": ["node0", "node1"],
    "leaf-hn-1": ["node2", "node3"],
    "spine-hn": ["leaf-hn-0", "leaf-hn-1"],
}


async def test_answers_become_hyper_nodes_and_follow_the_network():
    async with World() as world:
        await world.begin()
        assert world.made("ufm") == UFM_MADE
        assert world.made("own") == {"rack-1": ["node0", "node3"]}
        assert [each.spec.tier for each in world.client.objects(HYPER_NODES)] == [1, 1, 1, 2]
        assert world.network.asked[0][1] == LOGIN
        assert world.own.questions[-1].config == {"site": "a"}
        assert "secret-word" not in repr(Question({}, frozenset(), world.network, {"password": "secret-word"}))
        # A computer that moved, at the next look and not before.
        asked = len(world.network.asked)
        world.network.answers["body"] = [each for each in FABRIC if each["system_name"] != "node1"]
        await world.advance(300)
        assert (len(world.network.asked), world.made("ufm")) == (asked, UFM_MADE)
        await world.advance(400)
        assert world.made("ufm")["leaf-hn-0"] == ["node0"]
        # One that a user deletes comes back.
        await world.client.delete(HYPER_NODES, "leaf-hn-1")
        await world.advance(5)
        assert world.made("ufm")["leaf-hn-1"] == ["node2", "node3"]
        # A source that is switched off leaves what it made.
        off = CONFIG.replace("enabled: true", "enabled: false")
        await world.client.patch(
            CONFIG_MAPS,
            "volcano-controller-configmap",
            {"data": {"volcano-controller.conf": off}},
            namespace="volcano-system",
        )
        asked = len(world.network.asked)
        await world.advance(7200)
        assert len(world.network.asked) == asked
        assert world.made("own")


async def test_a_new_node_is_asked_for_before_the_interval_is_over():
    async with World() as world:
        await world.begin(CONFIG.replace("interval: 10m", "interval: 24h"))
        asked = len(world.network.asked)
        world.network.answers["body"] = [*FABRIC, port("node9", "leaf0")]
        await world.client.create(NODES, Node(metadata=ObjectMeta(name="node9")))
        await world.advance(200)
        assert len(world.network.asked) == asked
        await world.advance(200)
        assert world.made("ufm")["leaf-hn-0"] == ["node0", "node1", "node9"]
        # One that goes needs no question.
        asked = len(world.network.asked)
        await world.client.delete(NODES, "node9")
        await world.advance(5)
        assert world.made("ufm") == UFM_MADE
        assert len(world.network.asked) == asked


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (SourceFailed("it is asleep"), "networkTopologyDiscovery[1] (own): it is asleep"),
        (ZeroDivisionError("x"), "the source failed: ZeroDivisionError: x"),
        ({"Rack": Switch(("node0",))}, "'Rack' is not a name"),
    ],
)
async def test_a_source_that_fails_keeps_what_it_told_and_stops_no_other(answer, told):
    async with World() as world:
        await world.begin()
        world.own.answer = answer
        await world.advance(3600)
        assert world.made("own") == {"rack-1": ["node0", "node3"]}
        assert world.made("ufm") == UFM_MADE
        (message,) = world.recorder.of("TopologyNotDiscovered")
        assert told in message
        # It is asked again soon, and told once.
        asked = len(world.own.questions)
        world.own.answer = {"rack-2": Switch(("node1",))}
        await world.advance(61)
        assert len(world.own.questions) == asked + 1
        assert world.made("own") == {"rack-2": ["node1"]}


@pytest.mark.parametrize(
    ("text", "secret", "told"),
    [
        (CONFIG.replace("name: ufm,", "name: gone,"), {}, "there is no Secret volcano-system/gone"),
        (
            CONFIG.replace("namespace: volcano-system", "namespace: kube-system"),
            {},
            "must be in namespace volcano-system",
        ),
        (CONFIG.replace("source: own", "source: netbox"), LOGIN, '"netbox" is not supported'),
    ],
)
async def test_what_is_wrong_is_told_at_the_config_map(text, secret, told):
    async with World() as world:
        await world.begin(text, **secret)
        assert any(told in message for message in world.recorder.of("TopologyNotDiscovered"))


async def test_hyper_nodes_of_others_are_left_alone():
    async with World() as world:
        by_hand = {"metadata": {"name": "leaf-hn-0"}, "spec": {"tier": 3, "members": []}}
        world.client.put(HYPER_NODES, msgspec.convert(by_hand, HyperNode))
        await world.begin()
        assert world.client.find(HYPER_NODES, "leaf-hn-0").spec.tier == 3
        assert world.made("ufm")["leaf-hn-1"] == ["node2", "node3"]


async def test_the_example_of_the_documentation_is_a_source():
    text = (REPOSITORY / "docs" / "network-topology.md").read_text()
    (code,) = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    source: TopologySource = names["Racks"]()
    nodes = frozenset({"gpu-07-00", "gpu-07-01", "gpu-08-00"})
    found = of_cluster(await source.discover(Question({"site": "ams"}, nodes, Answers())), nodes)
    assert found == {
        "ams-rack-07": Switch(("gpu-07-00", "gpu-07-01")),
        "ams-rack-08": Switch(("gpu-08-00",)),
        "ams": Switch((), found["ams"].switches),
    }
    with pytest.raises(SourceFailed, match=r"config\.site"):
        await source.discover(Question({}, nodes, Answers()))
