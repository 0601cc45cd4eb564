"""Verdicts name the object for which a filter refuses nodes, and near misses of what exists."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from test_plugins_volumes import claim, storage_class, user, volume, with_claims, world
from test_verdict_nowhere import nodes_like

from support.build import GANG, cluster, config, gang, group, node, pod, schedule
from unisono.api.annotations import GANG_PARTS
from unisono.api.core import Affinity, Toleration
from unisono.api.gang_parts import Part, encode_parts
from unisono.engine.changes import AddNodes, AddToleration, UseLabel, UseQueue, UseResource
from unisono.engine.verdict import Cause, Verdict
from unisono.engine.verdicts import drafts
from unisono.engine.verdicts.filter_causes import MOST_CLASSES


def verdict_of(*things: Any) -> Verdict:
    return schedule(cluster(things), GANG).verdicts["ns/j"]


def near(**labels: str) -> Affinity:
    """Required affinity to pods with these labels, on the same node."""
    key = labels.pop("topology", "kubernetes.io/hostname")
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": key}
    return msgspec.convert({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}, Affinity)


def above(label: str, bound: str) -> Affinity:
    """Required affinity to nodes whose label is a larger number."""
    term = {"matchExpressions": [{"key": label, "operator": "Gt", "values": [bound]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return msgspec.convert({"nodeAffinity": required}, Affinity)


ML = ("dedicated", "ml", "NoSchedule")
CASES: dict[str, tuple[list[Any], dict[str, Any], str]] = {
    "taint": ([node("a", taints=[ML]), node("b", taints=[ML])], {}, "dedicated=ml:NoSchedule of a and b"),
    "taint with another value": (
        [node("a", taints=[ML])],
        {"tolerations": [Toleration(key="dedicated", operator="Equal", value="m1")]},
        "dedicated=ml:NoSchedule of a (they tolerate dedicated=m1)",
    ),
    "taint where the label is": (
        [node("a", taints=[ML], labels={"pool": "ml"}), node("b")],
        {"selector": {"pool": "ml"}},
        "Only a has the label pool=ml; the pods do not tolerate the taint dedicated=ml:NoSchedule of a.",
    ),
    "label key": (
        [node("a", labels={"zone": "a"})],
        {"selector": {"zome": "a"}},
        "No node has the label zome=a (did you mean zone=a?).",
    ),
    "label value": (
        [node("a", labels={"gpu": "A100"})],
        {"selector": {"gpu": "a100"}},
        "No node has the label gpu=a100 (did you mean A100?).",
    ),
    "label value like no other": (
        [node("a", labels={"zone": "a"}), node("b", labels={"zone": "b"})],
        {"selector": {"zone": "c"}},
        "No node has the label zone=c (nodes have a and b).",
    ),
    "labels on different nodes": (
        [node("a", labels={"zone": "a"}), node("b", labels={"disk": "ssd"})],
        {"selector": {"zone": "a", "disk": "ssd"}},
        "No node has disk=ssd, zone=a.",
    ),
    "node affinity": (
        [node("a", labels={"zone": "east"})],
        {"affinity": nodes_like([("zone", "In", ["eats", "west"])])},
        "No node has zone in (eats, west) (did you mean east?).",
    ),
    "no pod to be near": (
        [node("a", labels={"kubernetes.io/hostname": "a"}), pod("x", node="a", labels={"app": "cache"})],
        {"affinity": near(app="cach")},
        "Pod affinity asks for a pod with app=cach, and no pod on a node has it (did you mean app=cache?).",
    ),
    "topology key": (
        [node("a"), pod("x", node="a", labels={"app": "cache"})],
        {"affinity": near(app="cache", topology="rack")},
        "Pod affinity asks for the topology key rack, which no node has.",
    ),
    "host port of other pods": (
        [node("a"), pod("x", node="a", ports=[6379])],
        {"ports": [6379]},
        "Host port 6379/TCP is held by pod ns/x on a.",
    ),
    "bound on a label that is no number": (
        [node("a", labels={"memory": "80Gi"})],
        {"affinity": above("memory", "40")},
        "The label memory must be above 40 (nodes have 80Gi, and only whole numbers count).",
    ),
    "affinity to its own pods": (
        [node("a", labels={"zone": "a"}, cpu=2), node("b", labels={"zone": "b"}, cpu=2)],
        {"affinity": near(topology="zone", app="t"), "labels": {"app": "t"}, "size": 3},
        "and its own are such pods: one zone has to hold them all.",
    ),
    "slices in place of GPUs": (
        [node("a", **{"nvidia.com/mig-1g.10gb": 7})],
        {"gpu": 1},
        "No node offers nvidia.com/gpu (nodes have nvidia.com/mig-1g.10gb).",
    ),
    "GPUs that are shared out": (
        [node("a", **{"nvidia.com/gpu.shared": 7})],
        {"gpu": 1},
        "No node offers nvidia.com/gpu (nodes have nvidia.com/gpu.shared).",
    ),
    "number of pods": ([node("a", pods=1), pod("x", node="a")], {"cpu": 1}, "1 of at most 1 pods are on a."),
}


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_object_is_named(name: str) -> None:
    things, options, told = CASES[name]
    options = {"size": 1, **options}
    assert told in verdict_of(things, gang("j", options.pop("size"), **options)).message


def test_each_role_has_its_own_cause() -> None:
    roles = [pod("j-w-0", "j", role="w", selector={"gpu": "A100"}), pod("j-p-0", "j", role="p", cpu=16)]
    things = [node("a", cpu=8, labels={"gpu": "a100"}), node("b", cpu=32, taints=[ML]), group("j", 2), *roles]
    message = verdict_of(*things).message
    assert "No node has the label gpu=A100 (did you mean a100?)." in message
    assert "Nor does any take pods of role p: the pods do not tolerate the taint dedicated=ml:NoSchedule" in message


def test_a_role_that_uses_other_nodes_is_left_out_of_a_shortage() -> None:
    roles = [pod("j-m-0", "j", role="m", cpu=4, selector={"pool": "c"})]
    roles += [pod(f"j-w-{number}", "j", role="w", cpu=4, selector={"pool": "g"}) for number in range(2)]
    things = [node("c", cpu=8, labels={"pool": "c"}), node("g", cpu=8, labels={"pool": "g"}), group("j", 3), *roles]
    verdict = verdict_of(*things, pod("x", node="c", cpu=7))
    assert "role m: cpu 4 is asked for, and cpu 1 of 8 is free" in verdict.message
    assert "pod ns/x holds cpu 7" in verdict.message
    assert "empty" not in verdict.message
    assert verdict.need == {"cpu": 4000}


def test_the_pods_of_a_daemonset_come_with_a_new_node() -> None:
    labels = {"controller-revision-hash": "5d8f"}
    agents = [pod(f"agent-{name}", node=name, cpu=1, labels=labels, ports=[9100]) for name in ("a", "b")]
    nodes = [node(name, cpu=8) for name in ("a", "b")]
    whole = verdict_of(*nodes, *agents, gang("j", 1, cpu=8))
    assert not any(isinstance(change, AddNodes) for change in whole.changes)
    port = verdict_of(*nodes, *agents, gang("j", 1, ports=[9100]))
    assert "Host port 9100/TCP is held by daemonset ns/agent on a and b." in port.message
    assert not port.changes
    assert port.suggestion == "let its pods use other host ports than 9100 (not tried)"


def test_a_host_port_within_a_gang() -> None:
    verdict = verdict_of([node("a"), node("b")], gang("j", 3, ports=[8080]))
    assert "Host port 8080/TCP goes to one pod per node, and there are 2 nodes." in verdict.message
    assert verdict.suggestion == "lower minAvailable to 2, or add 1 node like a"


CLAIMS: dict[str, tuple[list[Any], str, str]] = {
    "class missing": (
        [storage_class("fast-sdd"), claim("data", cls="fast-ssd")],
        "(1Gi, ReadWriteOnce, storage class fast-ssd) is not bound: storage class fast-ssd does not exist "
        "(did you mean fast-sdd?).",
        "name storage class fast-sdd in claim data (not tried)",
    ),
    "no volume": (
        [storage_class("manual", mode="Immediate"), claim("data", "10Gi", cls="manual")],
        "Claim data (10Gi, ReadWriteOnce, storage class manual) is not bound",
        "create a volume that fits claim data (not tried)",
    ),
    "volume elsewhere": (
        [storage_class(), volume("disk", on="gone", claim="data"), claim("data", bound="disk")],
        "Volume disk of claim data is only on nodes with kubernetes.io/hostname=gone, and no node is there.",
        "use another claim than data, or add or free a node with kubernetes.io/hostname=gone (not tried)",
    ),
    "claim missing": (
        [claim("date")],
        'persistentvolumeclaim "data" not found. Did you mean date?',
        "name claim date in the pods",
    ),
    "claim of one pod": (
        [claim("data", cls="", phase="Bound", accessModes=["ReadWriteOncePod"]), *user("x", "data", node="n1")],
        "Claim data allows one pod (ReadWriteOncePod), and pod x has it.",
        "end ns/x",
    ),
}


@pytest.mark.parametrize("name", sorted(CLAIMS))
def test_the_claim_is_named(name: str) -> None:
    things, told, remedy = CLAIMS[name]
    state = world(node("n1"), *things, *user("j", "data"))
    verdict = schedule(state, GANG).verdicts["ns/j"]
    assert told in verdict.message
    assert verdict.suggestion == remedy
    assert (name in ("claim missing", "claim of one pod")) == bool(verdict.changes)
    assert verdict.suggestion.endswith(" (not tried)") != bool(verdict.changes)
    assert not verdict.untried or verdict.untried[0].text() in remedy


ADMITTING = config(("priority", "gang"), ("overcommit", "predicates", "nodeorder"))


def unmade(size: int, *claims: str) -> list[Any]:
    """A PodGroup whose pods of 1 CPU and these claims do not exist yet."""
    spec = with_claims(pod("j", "j", cpu=1), *claims).spec
    parts = {GANG_PARTS: encode_parts([Part("w", size, size, spec=spec)])}
    return [group("j", size, phase="Pending", resources={"cpu": size}, annotations=parts)]


@pytest.mark.parametrize(
    ("things", "times"),
    [
        pytest.param(user("j", "data"), 1, id="pods that no node takes"),
        pytest.param(user("j", "data", "more"), 2, id="two claims"),
        pytest.param(unmade(99, "data"), 1, id="no pods yet, and no room to admit them"),
    ],
)
def test_a_missing_claim_has_the_same_words_whenever_it_is_found(things: list[Any], times: int) -> None:
    message = schedule(world(node("n1"), *things), ADMITTING).verdicts["ns/j"].message
    assert message.count("persistentvolumeclaim") == message.count(" not found") == times, message
    assert 'persistentvolumeclaim "data" not found' in message
    assert "does not exist" not in message


def test_a_typo_becomes_no_label_and_no_queue() -> None:
    verdict = verdict_of(node("a", labels={"zone": "a"}), gang("j", 1, selector={"zome": "a"}))
    assert verdict.changes == (UseLabel("zone", "a", "zome", "a"),)
    assert verdict.suggestion == "select nodes by zone=a in place of zome=a"
    verdict = verdict_of(node("a"), gang("j", 1, queue="defualt"))
    assert verdict.changes == (UseQueue("default"),)
    assert verdict.message == "queue defualt does not exist (did you mean default?)"
    assert verdict.suggestion == "name queue default in spec.queue"


def test_a_resource_that_is_a_near_miss() -> None:
    verdict = verdict_of(node("a", gpu=4), gang("j", 1, **{"nvidia.com/gpus": 1}))
    assert "No node offers nvidia.com/gpus (did you mean nvidia.com/gpu?)." in verdict.message
    assert verdict.suggestion == "request nvidia.com/gpu in place of nvidia.com/gpus"
    assert verdict.changes == (UseResource("nvidia.com/gpus", "nvidia.com/gpu"),)


def test_a_toleration_is_offered_where_only_tainted_nodes_have_the_device() -> None:
    taint = ("nvidia.com/gpu", "present", "NoSchedule")
    things = [node(name, gpu=8, taints=[taint]) for name in ("g0", "g1")], node("c0"), node("c1")
    assert AddToleration(*taint) in verdict_of(*things, gang("j", 2, gpu=4)).changes


def test_a_label_that_no_node_has_comes_before_a_full_cluster() -> None:
    settings = config(("gang",), ("predicates", "overcommit"))
    things = [node("a", labels={"zone": "a"}), group("h", 1), pod("h-0", "h", node="a", cpu=8)]
    job = gang("j", 2, phase="Pending", min_resources=True, cpu=8, selector={"zome": "a"})
    verdict = schedule(cluster([*things, *job]), settings).verdicts["ns/j"]
    assert verdict.cause is Cause.FILTERS
    assert "No node has the label zome=a (did you mean zone=a?)." in verdict.message
    job = gang("j", 2, phase="Pending", min_resources=True, cpu=8, selector={"zone": "a"})
    assert schedule(cluster([*things, *job]), settings).verdicts["ns/j"].cause is Cause.CLUSTER_OVERCOMMITTED


def test_no_more_classes_than_the_bound_are_put_into_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drafts, "MOST_EXAMINED", 1_000_000)  # each job of another class may be explained
    jobs = [gang(f"j{at:03}", 1, selector={"zome": f"v{at}"}) for at in range(MOST_CLASSES + 5)]
    verdicts = schedule(cluster([node("a", labels={"zone": "a"}), *jobs]), GANG).verdicts.values()
    assert sum("No node has the label zome=" in one.message for one in verdicts) == MOST_CLASSES
    assert all("node(s) didn't match" in one.message for one in verdicts)
