"""predicates: which nodes are refused, and with which words."""

from __future__ import annotations

from typing import Any

import pytest
from plugins_world import World, a_pod, class_of

AFFINITY = "node(s) didn't match Pod's node affinity/selector"
TAINT = "node(s) had untolerated taint(s)"
CORDONED = "node(s) were unschedulable"
FULL = "node(s) pod number exceeded"
PORTS = "node(s) didn't have free ports for the requested pod ports"


def refused(world: World, pod: dict[str, Any], **arguments: Any) -> dict[str, list[str]]:
    """Nodes by the reasons for which ``pod`` is refused there."""
    world.queue("q").job("j", pod)
    session, plugin = world.open("predicates", **arguments)
    pod_class, nodes = class_of(session, "j-0"), session.nodes
    vetoes = [*plugin.static_filter(pod_class, nodes), *plugin.filter(pod_class, nodes)]
    found: dict[str, list[str]] = {}
    for veto in vetoes:
        for name, hit in zip(nodes.names, veto.nodes.tolist(), strict=True):
            if hit:
                found.setdefault(veto.reason.text, []).append(name)
    return found


def required(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def labelled() -> World:
    return (
        World()
        .node("n1", {"zone": "a", "size": "4"})
        .node("n2", {"zone": "b", "size": "8"})
        .node("n3", {"zone": "a", "size": "large"})
        .node("n4")
    )


def where(*expressions: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": required({"matchExpressions": list(expressions)})}


SELECTORS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "nothing": ({}, []),
    "node selector": ({"nodeSelector": {"zone": "a"}}, ["n2", "n4"]),
    "node selector, two labels": ({"nodeSelector": {"zone": "a", "size": "4"}}, ["n2", "n3", "n4"]),
    "node selector nobody has": ({"nodeSelector": {"disk": "ssd"}}, ["n1", "n2", "n3", "n4"]),
    "a value nobody has": ({"nodeSelector": {"zone": "c"}}, ["n1", "n2", "n3", "n4"]),
    "In": (where(expression("zone", "In", "a", "c")), ["n2", "n4"]),
    "NotIn takes nodes without the key": (where(expression("zone", "NotIn", "a")), ["n1", "n3"]),
    "Exists": (where(expression("zone", "Exists")), ["n4"]),
    "DoesNotExist": (where(expression("zone", "DoesNotExist")), ["n1", "n2", "n3"]),
    "Gt": (where(expression("size", "Gt", "4")), ["n1", "n3", "n4"]),
    "Lt": (where(expression("size", "Lt", "8")), ["n2", "n3", "n4"]),
    "Gt of no number": (where(expression("size", "Gt", "x")), ["n1", "n2", "n3", "n4"]),
    "Gt of a key nobody has": (where(expression("age", "Gt", "1")), ["n1", "n2", "n3", "n4"]),
    "unknown operator": (where(expression("zone", "Near", "a")), ["n1", "n2", "n3", "n4"]),
    "expressions are joined by and": (
        where(expression("zone", "In", "a"), expression("size", "Gt", "1")),
        ["n2", "n3", "n4"],
    ),
    "terms are joined by or": (
        {
            "affinity": required(
                {"matchExpressions": [expression("zone", "In", "b")]},
                {"matchExpressions": [expression("size", "In", "4")]},
            )
        },
        ["n3", "n4"],
    ),
    "an empty term matches nothing": ({"affinity": required({})}, ["n1", "n2", "n3", "n4"]),
    "no term matches nothing": ({"affinity": required()}, ["n1", "n2", "n3", "n4"]),
    "selector and affinity": (
        {"nodeSelector": {"zone": "a"}, **where(expression("size", "In", "4", "8"))},
        ["n2", "n3", "n4"],
    ),
    "metadata.name In": (
        {"affinity": required({"matchFields": [expression("metadata.name", "In", "n2")]})},
        ["n1", "n3", "n4"],
    ),
    "metadata.name NotIn": (
        {"affinity": required({"matchFields": [expression("metadata.name", "NotIn", "n2")]})},
        ["n2"],
    ),
    "another field": (
        {"affinity": required({"matchFields": [expression("spec.x", "In", "n2")]})},
        ["n1", "n2", "n3", "n4"],
    ),
    "a name nobody has": (
        {"affinity": required({"matchFields": [expression("metadata.name", "In", "x")]})},
        ["n1", "n2", "n3", "n4"],
    ),
}


@pytest.mark.parametrize(("spec", "nodes"), SELECTORS.values(), ids=SELECTORS)
def test_node_selector_and_affinity(spec: dict[str, Any], nodes: list[str]) -> None:
    assert refused(labelled(), a_pod(**spec)) == ({AFFINITY: nodes} if nodes else {})


def test_affinity_can_be_switched_off() -> None:
    assert refused(labelled(), a_pod(nodeSelector={"zone": "c"}), predicate__NodeAffinityEnable=False) == {}


def taint(key: str = "k", value: str = "v", effect: str = "NoSchedule") -> dict[str, str]:
    return {"key": key, "value": value, "effect": effect}


TOLERATIONS: dict[str, tuple[dict[str, str], dict[str, str], bool]] = {
    "equal": (taint(), {"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}, True),
    "equal is the default": (taint(), {"key": "k", "value": "v"}, True),
    "other value": (taint(), {"key": "k", "value": "w"}, False),
    "other key": (taint(), {"key": "j", "value": "v"}, False),
    "other effect": (taint(), {"key": "k", "value": "v", "effect": "NoExecute"}, False),
    "exists": (taint(), {"key": "k", "operator": "Exists"}, True),
    "everything": (taint(), {"operator": "Exists"}, True),
    "no key with Equal compares values": (taint(), {"value": "v"}, True),
    "numbers are not compared": (taint(value="5"), {"key": "k", "operator": "Gt", "value": "1"}, False),
    "no value": (taint(value=""), {"key": "k"}, True),
}


@pytest.mark.parametrize(("on_node", "toleration", "fits"), TOLERATIONS.values(), ids=TOLERATIONS)
@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
def test_taints(on_node: dict[str, str], toleration: dict[str, str], fits: bool, effect: str) -> None:
    on_node = {**on_node, "effect": effect}
    if "effect" in toleration:
        toleration = {**toleration, "effect": effect if fits else "PreferNoSchedule"}
    world = World().node("n1", taints=[on_node]).node("n2")
    assert refused(world, a_pod(tolerations=[toleration])) == ({} if fits else {TAINT: ["n1"]})


def test_prefer_no_schedule_does_not_refuse() -> None:
    assert refused(World().node("n1", taints=[taint(effect="PreferNoSchedule")]), a_pod()) == {}


def test_taints_can_be_switched_off() -> None:
    assert refused(World().node("n1", taints=[taint()]), a_pod(), predicate__TaintTolerationEnable="false") == {}


def test_cordoned_nodes_need_a_toleration() -> None:
    world = World().node("n1", unschedulable=True).node("n2")
    assert refused(world, a_pod()) == {CORDONED: ["n1"]}
    tolerations = [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]
    assert refused(World().node("n1", unschedulable=True), a_pod(tolerations=tolerations)) == {}


def test_nodes_that_are_not_ready_are_refused() -> None:
    assert refused(World().node("n1", ready=False).node("n2"), a_pod()) == {"node(s) were not ready": ["n1"]}
    tolerations = [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]
    assert refused(World().node("n1", ready=False), a_pod(tolerations=tolerations)) == {}


def test_pod_count() -> None:
    world = World().node("n1", has={"pods": "1"}).node("n2", has={"pods": "2"}).node("n3", has={"pods": "0"})
    world.pod("x", **a_pod(node="n1")).pod("y", **a_pod(node="n2"))
    assert refused(world, a_pod(cpu="", memory="")) == {FULL: ["n1", "n3"]}


def port(number: int, protocol: str = "TCP", host_ip: str = "") -> dict[str, Any]:
    return {
        "containerPort": number,
        "hostPort": number,
        "protocol": protocol,
        **({"hostIP": host_ip} if host_ip else {}),
    }


@pytest.mark.parametrize(
    ("held", "wanted", "clash"),
    [
        (port(80), port(80), True),
        (port(80), port(81), False),
        (port(80), port(80, "UDP"), False),
        (port(80, host_ip="10.0.0.1"), port(80, host_ip="10.0.0.2"), False),
        (port(80, host_ip="10.0.0.1"), port(80), True),
        (port(80, host_ip="0.0.0.0"), port(80, host_ip="10.0.0.2"), True),
        ({"containerPort": 80}, {"containerPort": 80}, False),
    ],
)
def test_host_ports(held: dict[str, Any], wanted: dict[str, Any], clash: bool) -> None:
    world = World().node("n1").node("n2").pod("x", **a_pod(node="n1", ports=[held]))
    assert refused(world, a_pod(ports=[wanted])) == ({PORTS: ["n1"]} if clash else {})


def test_ports_can_be_switched_off() -> None:
    world = World().node("n1").pod("x", **a_pod(node="n1", ports=[port(80)]))
    assert refused(world, a_pod(ports=[port(80)]), predicate__NodePortsEnable=False) == {}


def test_a_part_of_the_nodes_gives_the_same_answers() -> None:
    import numpy as np

    from unisono.engine.session.node_view import NodeView

    world = labelled().queue("q").job("j", a_pod(nodeSelector={"zone": "a"}))
    session, plugin = world.open("predicates")
    every = session.nodes
    arrays = (every.allocatable, every.used, every.releasing, every.pipelined, every.nonzero)
    chosen = np.array([1, 2], dtype=np.intp)
    part = NodeView(every.table, chosen, tuple(a[:, chosen] for a in arrays), lambda _, c: np.zeros(len(c), dtype=bool))
    whole = [veto.nodes[chosen].tolist() for veto in plugin.static_filter(class_of(session, "j-0"), every)]
    assert [veto.nodes.tolist() for veto in plugin.static_filter(class_of(session, "j-0"), part)] == whole


def test_no_nodes() -> None:
    assert refused(World(), a_pod(nodeSelector={"zone": "a"})) == {}
