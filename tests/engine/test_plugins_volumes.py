"""Volumes of pods: which nodes their claims allow, what is chosen, and what is written before the bind."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from support.build import cluster, config, gang, group, node, pod, schedule
from unisono.api import kinds
from unisono.api.core import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimVolumeSource,
    Pod,
    StorageClass,
    Volume,
    VolumeAttachment,
)
from unisono.api.keys import CLASS_BETA
from unisono.cluster.state import ClusterState
from unisono.engine.decisions import Decisions, VolumeBind

SETTINGS = config(("gang",), ("predicates",))
_KINDS = {
    PersistentVolume: kinds.PERSISTENT_VOLUMES,
    PersistentVolumeClaim: kinds.PERSISTENT_VOLUME_CLAIMS,
    StorageClass: kinds.STORAGE_CLASSES,
    CSINode: kinds.CSI_NODES,
    CSIDriver: kinds.CSI_DRIVERS,
    CSIStorageCapacity: kinds.CSI_STORAGE_CAPACITIES,
    VolumeAttachment: kinds.VOLUME_ATTACHMENTS,
}
HOST = "kubernetes.io/hostname"


def volume(
    name: str, size: str = "10Gi", *, on: str = "", zone: str = "", cls: str = "late", claim: str = "", **spec: Any
) -> Any:
    terms = [{"matchExpressions": [{"key": HOST, "operator": "In", "values": [on]}]}]
    phase = spec.pop("phase", "Bound" if claim else "Available")
    return msgspec.convert(
        {
            "metadata": {
                "name": name,
                "resourceVersion": "7",
                "labels": {"topology.kubernetes.io/zone": zone} if zone else None,
            },
            "spec": {
                "capacity": {"storage": size},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": cls,
                "claimRef": {"namespace": "ns", "name": claim} if claim else None,
                "nodeAffinity": {"required": {"nodeSelectorTerms": terms}} if on else None,
                **spec,
            },
            "status": {"phase": phase},
        },
        PersistentVolume,
    )


def claim(name: str, size: str = "1Gi", *, cls: str | None = "late", bound: str = "", **parts: Any) -> Any:
    annotations = {"pv.kubernetes.io/bind-completed": "yes"} if bound else {}
    return msgspec.convert(
        {
            "metadata": {
                "name": name,
                "namespace": "ns",
                "uid": f"uid-{name}",
                "annotations": annotations | parts.pop("annotations", {}),
                "deletionTimestamp": parts.pop("deleted", None),
            },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": size}},
                "storageClassName": cls,
                "volumeName": bound or None,
                **parts,
            },
            "status": {"phase": parts.pop("phase", "Bound" if bound else "Pending")},
        },
        PersistentVolumeClaim,
    )


def older(one: PersistentVolume) -> PersistentVolume:
    """The volume with its class as it was written before Kubernetes 1.6."""
    one.metadata.annotations = {CLASS_BETA: "late"}
    return one


def storage_class(name: str = "late", *, mode: str = "WaitForFirstConsumer", maker: str = "", zones: Any = ()) -> Any:
    expressions = [{"key": "topology.kubernetes.io/zone", "values": list(zones)}]
    return msgspec.convert(
        {
            "metadata": {"name": name},
            "provisioner": maker or "kubernetes.io/no-provisioner",
            "volumeBindingMode": mode,
            "allowedTopologies": [{"matchLabelExpressions": expressions}] if zones else None,
        },
        StorageClass,
    )


def limits(name: str, driver: str, count: int) -> Any:
    drivers = [{"name": driver, "nodeID": name, "allocatable": {"count": count}}]
    return msgspec.convert({"metadata": {"name": name}, "spec": {"drivers": drivers}}, CSINode)


def with_claims(obj: Pod, *claims: str) -> Pod:
    obj.spec.volumes = [
        Volume(name=name, persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name=name)) for name in claims
    ]
    return obj


def user(name: str, *claims: str, **options: Any) -> list[Any]:
    """A PodGroup of one pod with claims."""
    return [group(name), with_claims(pod(name, name, cpu=1, **options), *claims)]


def world(*things: Any) -> ClusterState:
    stored = [thing for thing in things if type(thing) in _KINDS]
    state = cluster([thing for thing in things if type(thing) not in _KINDS])
    for thing in stored:
        state.apply("ADDED", _KINDS[type(thing)], thing)
    return state


NODES = [
    node("n1", labels={HOST: "n1", "topology.kubernetes.io/zone": "a"}),
    node("n2", labels={HOST: "n2", "topology.kubernetes.io/zone": "b"}),
    node("n3", labels={HOST: "n3"}),
]


def where(decisions: Decisions) -> dict[str, str]:
    assert not decisions.violations
    return {bind.pod: bind.node for bind in decisions.binds}


def why(decisions: Decisions, job: str = "p") -> dict[str, int]:
    return dict(decisions.verdicts[f"ns/{job}"].reasons)


PLACES: dict[str, tuple[list[Any], str]] = {
    "a bound volume of one node": ([volume("v", on="n2", claim="c"), claim("c", bound="v")], "n2"),
    "a bound volume of a zone": ([volume("v", zone="b", claim="c"), claim("c", bound="v")], "n2"),
    "a bound volume of two zones": ([volume("v", zone="b__c", claim="c"), claim("c", bound="v")], "n2"),
    "a free volume": ([storage_class(), volume("v", on="n3"), claim("c")], "n3"),
    "a class that makes volumes anywhere": ([storage_class(maker="x"), claim("c")], "n1"),
    "a class that makes volumes in a zone": ([storage_class(maker="x", zones=["b"]), claim("c")], "n2"),
    "a node that was chosen before": (
        [storage_class(maker="x"), claim("c", annotations={"volume.kubernetes.io/selected-node": "n3"})],
        "n3",
    ),
    "a volume that is kept for the claim": (
        [storage_class(), volume("v", on="n1"), volume("w", on="n2", claim="c"), claim("c")],
        "n1",
    ),
    "a class that is named by the older annotation": (
        [storage_class(maker="x", zones=["b"]), claim("c", cls=None, annotations={CLASS_BETA: "late"})],
        "n2",
    ),
    "a free volume of a class that both name by the older annotation": (
        [storage_class(), older(volume("v", on="n3", cls="")), claim("c", cls="", annotations={CLASS_BETA: "late"})],
        "n3",
    ),
    "a cluster that knows no storage": ([claim("c", cls="")], "n1"),
    "a directory of the node": ([claim("c", cls="", phase="Bound")], "n1"),
}


@pytest.mark.parametrize(("things", "place"), PLACES.values(), ids=PLACES)
def test_where_a_pod_goes(things: list[Any], place: str) -> None:
    assert where(schedule(world(*NODES, *things, *user("p", "c")), SETTINGS)) == {"p": place}


REFUSED: dict[str, tuple[list[Any], dict[str, int]]] = {
    "no such claim": ([], {'persistentvolumeclaim "c" not found': 3}),
    "a claim that goes": (
        [claim("c", deleted="2026-01-01T00:00:00Z")],
        {'persistentvolumeclaim "c" is being deleted': 3},
    ),
    "a claim that a controller should have bound": (
        [storage_class("now", mode="Immediate"), claim("c", cls="now")],
        {"pod has unbound immediate PersistentVolumeClaims": 3},
    ),
    "a lost volume": (
        [claim("c", bound="v")],
        {"node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)": 3},
    ),
    "a volume of a node that is gone": (
        [volume("v", on="n9", claim="c"), claim("c", bound="v")],
        {"node(s) didn't match PersistentVolume's node affinity": 3},
    ),
    "a zone without nodes": (
        [volume("v", zone="z", claim="c"), claim("c", bound="v")],
        {"node(s) had no available volume zone": 2},
    ),
    "no volume is large enough": (
        [storage_class(), volume("v", "1Gi"), claim("c", "2Gi")],
        {"node(s) didn't find available persistent volumes to bind": 3},
    ),
    "no volume has the mode": (
        [storage_class(), volume("v", volumeMode="Block"), claim("c")],
        {"node(s) didn't find available persistent volumes to bind": 3},
    ),
    "no volume has the access": (
        [storage_class(), volume("v"), claim("c", accessModes=["ReadWriteMany"])],
        {"node(s) didn't find available persistent volumes to bind": 3},
    ),
    "no volume is selected": (
        [storage_class(), volume("v"), claim("c", selector={"matchLabels": {"a": "b"}})],
        {"node(s) didn't find available persistent volumes to bind": 3},
    ),
    "the volume is somebody else's": (
        [storage_class(), volume("v", claim="d"), claim("c")],
        {"node(s) didn't find available persistent volumes to bind": 3},
    ),
}


@pytest.mark.parametrize(("things", "reasons"), REFUSED.values(), ids=REFUSED)
def test_why_a_pod_waits(things: list[Any], reasons: dict[str, int]) -> None:
    nodes = NODES[:2] if "node(s) had no available volume zone" in reasons else NODES
    assert why(schedule(world(*nodes, *things, *user("p", "c")), SETTINGS)) == reasons


def test_the_smallest_volume_is_chosen_and_written() -> None:
    volumes = [volume("big", "9Gi", on="n2"), volume("small", "2Gi", on="n2"), volume("tiny", "1Mi")]
    decisions = schedule(world(*NODES, storage_class(), *volumes, claim("c"), *user("p", "c")), SETTINGS)
    (bind,) = decisions.binds
    assert bind.preparations == (VolumeBind("ns", "c", "uid-c", "small", "n2", 600.0),)


def test_a_volume_to_be_made_is_written_as_the_chosen_node() -> None:
    decisions = schedule(world(*NODES, storage_class(maker="x"), claim("c"), *user("p", "c")), SETTINGS)
    assert decisions.binds[0].preparations == (VolumeBind("ns", "c", "uid-c", "", "n1", 600.0),)


def test_two_claims_get_two_volumes_and_pods_of_one_claim_share() -> None:
    volumes = [volume("v1", on="n1"), volume("v2", on="n2"), volume("v3", on="n2")]
    things = [*NODES, storage_class(), *volumes, claim("c"), claim("d"), claim("e")]
    decisions = schedule(world(*things, *user("p", "c", "d"), *user("q", "c"), *user("r", "e")), SETTINGS)
    assert where(decisions) == {"p": "n2", "q": "n2", "r": "n1"}
    chosen = {need.claim: need.volume for bind in decisions.binds for need in bind.preparations}  # type: ignore[union-attr]
    assert sorted(chosen) == ["c", "d", "e"]
    assert len(set(chosen.values())) == 3


def test_a_gang_that_fails_gives_its_volumes_back() -> None:
    things = [*NODES, storage_class(), volume("v1", on="n1"), claim("c1"), claim("c2")]
    members = [with_claims(pod(f"g-{i}", "g", cpu=1), f"c{i}") for i in (1, 2)]
    decisions = schedule(world(*things, group("g", 2), *members, *user("p", "c1", created=9.0)), SETTINGS)
    assert where(decisions) == {"p": "n1"}
    assert decisions.verdicts["ns/g"].tasks_placeable == 1


def test_limits_of_a_driver_count_each_volume_once() -> None:
    def attached(name: str, handle: str) -> list[Any]:
        csi = {"driver": "d", "volumeHandle": handle}
        return [volume(f"v-{name}", claim=name, csi=csi), claim(name, bound=f"v-{name}")]

    running = with_claims(pod("old", node="n1", cpu=1), "a")
    things = [node("n1", cpu=8), limits("n1", "d", 2), *attached("a", "A"), *attached("b", "B"), *attached("c", "C")]
    jobs = [*user("p", "b"), *user("q", "a", created=1.0), *user("r", "c", created=2.0)]
    decisions = schedule(world(*things, running, *jobs), SETTINGS)
    assert where(decisions) == {"p": "n1", "q": "n1"}
    assert why(decisions, "r") == {"node(s) exceed max volume count": 1}


def attachment(node: str, volume_name: str, driver: str = "d") -> VolumeAttachment:
    spec = {"attacher": driver, "nodeName": node, "source": {"persistentVolumeName": volume_name}}
    return msgspec.convert({"metadata": {"name": f"{node}-{volume_name}"}, "spec": spec}, VolumeAttachment)


@pytest.mark.parametrize(
    ("attached", "starts"),
    [
        pytest.param([], True, id="nothing is attached"),
        pytest.param([("n1", "v-a", "d")], False, id="a volume of a pod that is gone is still attached"),
        pytest.param([("n1", "v-b", "d")], True, id="the wanted volume itself is attached already"),
        pytest.param([("n1", "v-a", "other"), ("n2", "v-a", "d")], True, id="by another driver, or to another node"),
        pytest.param([("n1", "gone", "d")], True, id="a volume that nobody knows"),
    ],
)
def test_attached_volumes_count_towards_the_limit(attached: list[tuple[str, str, str]], starts: bool) -> None:
    volumes = [volume(f"v-{one}", claim=one, csi={"driver": "d", "volumeHandle": one.upper()}) for one in "ab"]
    things = [node("n1", cpu=8), limits("n1", "d", 1), *volumes, claim("b", bound="v-b")]
    decisions = schedule(world(*things, *(attachment(*one) for one in attached), *user("p", "b")), SETTINGS)
    assert ("p" in where(decisions)) is starts
    if not starts:
        assert why(decisions, "p") == {"node(s) exceed max volume count": 1}


def driver(name: str = "maker", *, reports: bool | None = True) -> CSIDriver:
    return msgspec.convert({"metadata": {"name": name}, "spec": {"storageCapacity": reports}}, CSIDriver)


def space(zone: str, size: str, *, cls: str = "late", **more: Any) -> CSIStorageCapacity:
    topology = {"matchLabels": {"topology.kubernetes.io/zone": zone}} if zone else None
    metadata = {"name": f"{cls}-{zone}", "namespace": "csi"}
    stated = {"metadata": metadata, "nodeTopology": topology, "storageClassName": cls, "capacity": size, **more}
    return msgspec.convert(stated, CSIStorageCapacity)


@pytest.mark.parametrize(
    ("things", "place"),
    [
        pytest.param([driver(), space("b", "10Gi")], "n2", id="space in one zone"),
        pytest.param([driver(), space("a", "4Gi"), space("b", "5Gi")], "n2", id="just enough"),
        pytest.param([driver(), space("b", "50Gi", maximumVolumeSize="4Gi")], "", id="no volume may be so large"),
        pytest.param([driver(), space("a", "4Gi", maximumVolumeSize="5Gi")], "n1", id="the largest volume counts"),
        pytest.param([driver(), space("b", "10Gi", cls="other")], "", id="space of another class"),
        pytest.param([driver(), space("", "10Gi")], "", id="for no node"),
        pytest.param([driver()], "", id="nothing is reported"),
        pytest.param([driver(reports=False)], "n1", id="the driver reports no space"),
        pytest.param([driver(reports=None), space("b", "10Gi")], "n1", id="the driver does not say"),
        pytest.param([space("b", "10Gi")], "n1", id="no such driver"),
        pytest.param([driver(), space("b", "10Gi"), volume("v1", on="n1", size="5Gi")], "n1", id="a volume at hand"),
    ],
)
def test_volumes_are_made_where_their_driver_has_space(things: list[Any], place: str) -> None:
    base = [*NODES, storage_class(maker="maker"), claim("c", "5Gi"), *user("p", "c")]
    decisions = schedule(world(*base, *things), SETTINGS)
    assert where(decisions).get("p", "") == place
    if not place:
        assert why(decisions, "p") == {"node(s) did not have enough free storage": 3}


def test_the_filters_can_be_switched_off() -> None:
    off = {f"predicate.{name}Enable": False for name in ("VolumeBinding", "VolumeZone", "NodeVolumeLimits")}
    settings = config(("gang",), ("predicates",), arguments={"predicates": off})
    decisions = schedule(world(*NODES, *user("p", "c")), settings)
    assert where(decisions) == {"p": "n1"}
    assert decisions.binds[0].preparations == ()


def test_pods_without_claims_do_not_notice() -> None:
    decisions = schedule(world(*NODES, storage_class(), *gang("g", 3)), SETTINGS)
    assert len(decisions.binds) == 3


def for_one_pod(*users: Any) -> list[Any]:
    """A claim with access mode ReadWriteOncePod that has its volume."""
    found = claim("c", bound="v")
    found.spec.access_modes = ["ReadWriteOncePod"]
    return [node("n1"), node("n2"), volume("v", claim="c", accessModes=["ReadWriteOncePod"]), found, *users]


@pytest.mark.parametrize("leaving", [False, True])
def test_a_claim_for_one_pod_is_used_by_one_pod_until_that_is_gone(leaving: bool) -> None:
    first = with_claims(pod("first", "first", node="n1", deleting=leaving, cpu=1), "c")
    decisions = schedule(world(*for_one_pod(group("first", 1), first, user("p", "c"))), SETTINGS)
    assert decisions.binds == []
    assert "ReadWriteOncePod" in decisions.verdicts["ns/p"].message


def test_of_two_pods_that_want_a_claim_for_one_pod_one_starts() -> None:
    things = for_one_pod(user("p", "c"), user("q", "c"))
    assert len(schedule(world(*things), SETTINGS).binds) == 1
    switched_off = config(
        ("gang",),
        ("predicates",),
        arguments={"predicates": {f"predicate.{name}Enable": False for name in _VOLUME_SWITCHES}},
    )
    assert len(schedule(world(*things), switched_off).binds) == 1


_VOLUME_SWITCHES = ("NodeVolumeLimits", "VolumeZone", "VolumeBinding")
