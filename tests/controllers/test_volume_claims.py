"""Claims and volumes: who gets which, their phases, what protects them, and how they grow."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from controller_world import ControllerWorld

from unisono.api.core import Node, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass
from unisono.api.keys import PROVISIONED_BY, SELECTED_NODE, STORAGE_PROVISIONER
from unisono.api.kinds import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, STORAGE_CLASSES
from unisono.api.volumes import PROVISIONER
from unisono.controllers.builtin import builtin_controllers
from unisono.controllers.volumes.binder import STANDARD
from unisono.kube.controller import Controller

GIB = "Gi"
RWO = ["ReadWriteOnce"]


class VolumeWorld(ControllerWorld):
    """An API server with the controllers of volumes."""

    def make_controllers(self) -> list[Controller]:
        ours = ("persistentvolume", "pvc-", "pv-", "ephemeral-")
        return [each for each in builtin_controllers(self.recorder) if each.name.startswith(ours)]

    async def put(self, *objects: Any) -> None:
        for obj in objects:
            self.client.put(KINDS[type(obj)], obj)
        await self.settle()

    def claim(self, name: str = "c") -> PersistentVolumeClaim:
        found = self.client.find(PERSISTENT_VOLUME_CLAIMS, f"default/{name}")
        assert found is not None
        return found

    def volume(self, name: str = "v") -> PersistentVolume:
        found = self.client.find(PERSISTENT_VOLUMES, name)
        assert found is not None
        return found

    def bound(self) -> dict[str, str]:
        """Claim to volume, of those that are bound."""
        claims = self.client.objects(PERSISTENT_VOLUME_CLAIMS)
        return {each.metadata.name: each.spec.volume_name or "" for each in claims if each.status.phase == "Bound"}


KINDS: dict[type, Any] = {
    PersistentVolumeClaim: PERSISTENT_VOLUME_CLAIMS,
    PersistentVolume: PERSISTENT_VOLUMES,
    StorageClass: STORAGE_CLASSES,
    Node: NODES,
    Pod: PODS,
}


def volume(name: str = "v", size: int = 10, of: str = "", **given: Any) -> PersistentVolume:
    metadata = {"name": name, "labels": given.pop("labels", None), "annotations": given.pop("annotations", None)}
    spec = {
        "capacity": {"storage": f"{size}{GIB}"},
        "accessModes": RWO,
        "hostPath": {"path": "/x"},
        "storageClassName": of or None,
        "persistentVolumeReclaimPolicy": "Retain",
    }
    return msgspec.convert({"metadata": metadata, "spec": spec | given}, PersistentVolume)


def claim(name: str = "c", size: int = 5, of: str | None = "", **given: Any) -> PersistentVolumeClaim:
    spec = {"accessModes": RWO, "resources": {"requests": {"storage": f"{size}{GIB}"}}, "storageClassName": of}
    metadata = {"name": name, "namespace": "default", "annotations": given.pop("annotations", None)}
    value = {"metadata": metadata, "spec": spec | given, "status": {"phase": "Pending"}}
    return msgspec.convert(value, PersistentVolumeClaim)


def storage_class(name: str, mode: str = "Immediate", **given: Any) -> StorageClass:
    value = {"metadata": {"name": name}, "provisioner": PROVISIONER, "volumeBindingMode": mode}
    return msgspec.convert(value | given, StorageClass)


def node(name: str, **labels: str) -> Node:
    value = {
        "metadata": {"name": name, "labels": labels},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    return msgspec.convert(value, Node)


def user(name: str = "p", node_name: str | None = None, **source: Any) -> Pod:
    value = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "nodeName": node_name,
            "containers": [{"name": "main"}],
            "volumes": [{"name": "data"} | (source or {"persistentVolumeClaim": {"claimName": "c"}})],
        },
    }
    return msgspec.convert(value, Pod)


OTHERS = {"namespace": "default", "name": "other", "uid": "other-uid"}
MINE = {"namespace": "default", "name": "c"}

# What there is, and which claim gets which volume.
MATCHES: dict[str, tuple[list[Any], dict[str, str]]] = {
    "the smallest that is large enough": (
        [volume("big", 50), volume("fits", 6), volume("small", 1), claim()],
        {"c": "fits"},
    ),
    "equal ones by name": ([volume("b"), volume("a"), claim()], {"c": "a"}),
    "none is large enough": ([volume(size=4), claim()], {}),
    "two claims, two volumes": ([volume("a"), volume("b"), claim("c"), claim("d")], {"c": "a", "d": "b"}),
    "two claims, one volume": ([volume("a"), claim("c"), claim("d")], {"c": "a"}),
    "of the same class": ([volume("a", of="fast"), claim()], {}),
    "of the class that is named": ([volume("a"), volume("b", of="fast"), claim(of="fast")], {"c": "b"}),
    "access modes": (
        [
            volume("a"),
            volume("b", accessModes=["ReadWriteOnce", "ReadWriteMany"]),
            claim(accessModes=["ReadWriteMany"]),
        ],
        {"c": "b"},
    ),
    "volume mode": ([volume("a", volumeMode="Block"), claim()], {}),
    "selector": (
        [volume("a"), volume("b", labels={"disk": "ssd"}), claim(selector={"matchLabels": {"disk": "ssd"}})],
        {"c": "b"},
    ),
    "kept for the claim": ([volume("a", 5), volume("kept", 50, claimRef=MINE), claim()], {"c": "kept"}),
    "kept for another": ([volume("a", claimRef=OTHERS), claim()], {}),
    "asked for by name": ([volume("a", 5), volume("b", 50), claim(volumeName="b")], {"c": "b"}),
    "asked for, and too small": ([volume("b", 1), claim(volumeName="b")], {}),
    "asked for, and somebody else's": ([volume("b", claimRef=OTHERS), claim(volumeName="b")], {}),
}


@pytest.mark.parametrize(("things", "wanted"), MATCHES.values(), ids=MATCHES)
@pytest.mark.parametrize("claims_first", [False, True])
async def test_which_claim_gets_which_volume(things: list[Any], wanted: dict[str, str], claims_first: bool) -> None:
    async with VolumeWorld() as world:
        await world.put(storage_class("fast", "Immediate", provisioner="kubernetes.io/no-provisioner"))
        order = sorted(things, key=lambda each: isinstance(each, PersistentVolume) is claims_first)
        for each in order:
            world.client.put(KINDS[type(each)], each)
        await world.settle()
        assert world.bound() == wanted


async def test_both_sides_say_that_they_are_bound() -> None:
    async with VolumeWorld() as world:
        await world.put(volume(), claim())
        bound, given = world.claim(), world.volume()
        assert (bound.status.phase, given.status.phase) == ("Bound", "Bound")
        assert bound.status.capacity == {"storage": "10Gi"}
        assert bound.status.access_modes == RWO
        assert given.spec.claim_ref is not None
        assert given.spec.claim_ref.uid == bound.metadata.uid
        for each in (bound, given):
            assert (each.metadata.annotations or {})["pv.kubernetes.io/bound-by-controller"] == "yes"
        assert (bound.metadata.annotations or {})["pv.kubernetes.io/bind-completed"] == "yes"
        # What is bound stays as it is.
        writes = len(world.client.writes)
        await world.restart()
        assert [write for write in world.client.writes[writes:] if write.resource != "storageclasses"] == []


async def test_a_stop_in_the_middle_of_a_bind_is_made_good() -> None:
    async with VolumeWorld() as world:

        def die(operation: str, resource: str, namespace: str, name: str) -> None:
            if (operation, resource) == ("patch", "persistentvolumeclaims"):
                raise ConnectionError("gone")

        world.client.interceptor = die
        await world.put(volume(), claim())
        assert world.bound() == {}
        world.client.interceptor = None
        await world.restart()
        assert world.bound() == {"c": "v"}


@pytest.mark.parametrize(
    ("things", "reason", "text"),
    [
        ([claim()], "FailedBinding", "no persistent volumes available for this claim and no storage class is set"),
        ([claim(of="nope")], "ProvisioningFailed", 'storageclass.storage.k8s.io "nope" not found'),
        (
            [volume("b", 1), claim(volumeName="b")],
            "VolumeMismatch",
            'Cannot bind to requested volume "b": requested PV is too small',
        ),
        (
            [volume("b", claimRef=OTHERS), claim(volumeName="b")],
            "FailedBinding",
            'volume "b" already bound to a different claim.',
        ),
        (
            [claim(of=STANDARD)],
            "WaitForFirstConsumer",
            "waiting for first consumer to be created before binding",
        ),
        ([claim(of=STANDARD), user()], "WaitForPodScheduled", "waiting for pod p to be scheduled"),
    ],
)
async def test_why_a_claim_waits(things: list[Any], reason: str, text: str) -> None:
    async with VolumeWorld() as world:
        await world.put(*things)
        assert world.recorder.of(reason) == [text]
        assert world.claim().status.phase == "Pending"


async def test_claims_without_a_class_get_the_default_one_when_it_comes() -> None:
    async with VolumeWorld() as world:
        found = world.client.find(STORAGE_CLASSES, STANDARD)
        assert found is not None
        world.client.remove(STORAGE_CLASSES, STANDARD)
        await world.put(claim("c", of=None), claim("none", of=""))
        assert world.claim().spec.storage_class_name is None
        await world.put(found)
        assert world.claim().spec.storage_class_name == STANDARD
        assert world.claim("none").spec.storage_class_name == ""


async def test_the_scheduler_says_for_which_node_a_volume_is_made() -> None:
    async with VolumeWorld() as world:
        await world.put(node("n1"), claim(of=STANDARD), user())
        assert STORAGE_PROVISIONER not in (world.claim().metadata.annotations or {})
        notes = {"metadata": {"annotations": {SELECTED_NODE: "n1"}}}
        await world.client.patch(PERSISTENT_VOLUME_CLAIMS, "c", notes, namespace="default")
        await world.settle()
        assert (world.claim().metadata.annotations or {})[STORAGE_PROVISIONER] == PROVISIONER
        made = volume("pvc-1", 5, STANDARD, claimRef=MINE | {"uid": world.claim().metadata.uid})
        await world.put(made)
        assert world.bound() == {"c": "pvc-1"}


async def test_a_node_that_is_gone_is_chosen_anew() -> None:
    async with VolumeWorld() as world:
        await world.put(node("n1"), claim(of=STANDARD, annotations={SELECTED_NODE: "n1"}))
        world.client.remove(NODES, "n1")
        await world.settle()
        assert SELECTED_NODE not in (world.claim().metadata.annotations or {})
        assert world.recorder.of("ProvisioningFailed")


@pytest.mark.parametrize(
    ("nodes", "given", "chosen"),
    [
        ([node("b"), node("a")], {}, "a"),
        ([node("a", **{"unisono.io/simulated": "true"}), node("b")], {}, "b"),
        ([node("a"), node("b", zone="z")], {"allowedTopologies": "z"}, "b"),
        ([], {}, None),
    ],
)
async def test_where_volumes_of_immediate_classes_are_made(
    nodes: list[Node], given: dict[str, Any], chosen: str | None
) -> None:
    if given:
        given = {"allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["z"]}]}]}
    async with VolumeWorld() as world:
        await world.put(*nodes, storage_class("now", **given), claim(of="now"))
        assert (world.claim().metadata.annotations or {}).get(SELECTED_NODE) == chosen


async def test_a_volume_for_several_nodes_does_not_wait_for_the_first_pod() -> None:
    async with VolumeWorld() as world:
        await world.put(node("n1"), claim(of=STANDARD, accessModes=["ReadWriteMany"]))
        assert (world.claim().metadata.annotations or {}).get(SELECTED_NODE) == "n1"


RECLAIMED: dict[str, tuple[dict[str, Any], str]] = {
    "kept": ({}, "Released"),
    "deleted by its provisioner": (
        {"persistentVolumeReclaimPolicy": "Delete", "annotations": {PROVISIONED_BY: PROVISIONER}},
        "Released",
    ),
    "made by hand, and nobody deletes it": ({"persistentVolumeReclaimPolicy": "Delete"}, "Failed"),
    "nobody recycles": ({"persistentVolumeReclaimPolicy": "Recycle"}, "Failed"),
}


@pytest.mark.parametrize(("given", "phase"), RECLAIMED.values(), ids=RECLAIMED)
async def test_what_becomes_of_a_volume_without_its_claim(given: dict[str, Any], phase: str) -> None:
    async with VolumeWorld() as world:
        await world.put(volume(**given))
        assert world.volume().status.phase == "Available"
        await world.put(claim())
        assert world.volume().status.phase == "Bound"
        await world.client.delete(PERSISTENT_VOLUME_CLAIMS, "c", "default")
        await world.settle()
        assert world.volume().status.phase == phase
        # Another claim of that name does not get what was the first one's.
        await world.put(claim())
        assert world.bound() == {}


async def test_a_claim_loses_its_volume_once_and_for_all() -> None:
    async with VolumeWorld() as world:
        await world.put(volume(), claim())
        world.client.remove(PERSISTENT_VOLUMES, "v")
        await world.settle()
        assert world.claim().status.phase == "Lost"
        assert world.recorder.of("ClaimLost") == [
            "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
        ]


async def test_a_claim_stays_while_pods_on_nodes_use_it_and_its_volume_as_long_as_it() -> None:
    async with VolumeWorld() as world:
        await world.put(volume(), claim(), user("runs", "n1"), user("waits"))
        await world.client.delete(PERSISTENT_VOLUMES, "v")
        await world.client.delete(PERSISTENT_VOLUME_CLAIMS, "c", "default")
        await world.settle()
        assert world.claim().metadata.deletion_timestamp
        world.client.remove(PODS, "default/runs")
        await world.settle()
        assert world.client.objects(PERSISTENT_VOLUME_CLAIMS) == []
        assert world.client.objects(PERSISTENT_VOLUMES) == []


async def test_folders_grow_and_other_volumes_wait_for_their_driver() -> None:
    async with VolumeWorld() as world:
        await world.put(volume("folder", 5, annotations={PROVISIONED_BY: PROVISIONER}), claim("c"))
        await world.put(volume("disk", 5), claim("d"))
        for name in ("c", "d"):
            patch = {"spec": {"resources": {"requests": {"storage": "8Gi"}}}}
            await world.client.patch(PERSISTENT_VOLUME_CLAIMS, name, patch, namespace="default")
        await world.settle()
        assert world.claim("c").status.capacity == {"storage": "8Gi"}
        assert world.volume("folder").spec.capacity == {"storage": "8Gi"}
        assert world.claim("d").status.capacity == {"storage": "5Gi"}
        assert world.recorder.of("VolumeResizeSuccessful") == ["Resize volume succeeded"]
        assert world.recorder.of("ExternalExpanding")


EPHEMERAL = {"ephemeral": {"volumeClaimTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {"accessModes": RWO}}}}


async def test_an_ephemeral_volume_is_a_claim_that_its_pod_owns() -> None:
    async with VolumeWorld() as world:
        await world.put(user("p", **EPHEMERAL))
        made = world.claim("p-data")
        (owner,) = made.metadata.owner_references or ()
        assert (owner.kind, owner.name, owner.controller) == ("Pod", "p", True)
        assert made.metadata.labels == {"a": "b"}
        assert made.spec.access_modes == RWO
        # Deleted by mistake, it is made again.
        world.client.remove(PERSISTENT_VOLUME_CLAIMS, "default/p-data")
        await world.settle()
        assert world.claim("p-data").metadata.uid != made.metadata.uid


async def test_an_ephemeral_volume_takes_nobody_elses_claim() -> None:
    async with VolumeWorld() as world:
        await world.put(claim("p-data"), user("p", **EPHEMERAL))
        assert world.recorder.of("FailedBinding")[-1] == (
            "ephemeral volume data: PVC default/p-data was not created for pod default/p (pod is not owner)"
        )
