"""Volumes and cards behind the claims of pods: what processes see of them, and what becomes of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from agent_node import Node, eventually, manifest

from support.memory import MemoryClient
from unisono.agent.devices.nvidia import Gpu
from unisono.agent.devices.slices import NVIDIA
from unisono.agent.machine.facts import Machine
from unisono.agent.simulated.specs import parse_devices
from unisono.api.core import (
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    Pod,
    ResourceClaim,
    StorageClass,
)
from unisono.api.keys import SELECTED_NODE, STORAGE_PROVISIONER
from unisono.api.kinds import (
    DEVICE_CLASSES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    STORAGE_CLASSES,
)
from unisono.api.volumes import PROVISIONER
from unisono.controllers.volumes.binder import standard_class
from unisono.errors import ConfigError

VOLUMES = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
MOUNT = {"volumeMounts": [{"name": "v", "mountPath": "/srv/data"}]}


def claim(node: str = "here", name: str = "c", **spec: Any) -> PersistentVolumeClaim:
    value = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"{name}-uid",
            "annotations": {STORAGE_PROVISIONER: PROVISIONER, SELECTED_NODE: node},
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "standard",
            "resources": {"requests": {"storage": "1Gi"}},
        }
        | spec,
        "status": {"phase": "Pending"},
    }
    return msgspec.convert(value, PersistentVolumeClaim)


def bind(node: Node, name: str) -> None:
    """As the binder of claims does."""
    found = node.client.find(PERSISTENT_VOLUME_CLAIMS, "default/c")
    volume = node.client.find(PERSISTENT_VOLUMES, name)
    assert found is not None
    assert volume is not None
    found.spec.volume_name, found.status.phase = name, "Bound"
    volume.status.phase = "Bound"
    node.client.put(PERSISTENT_VOLUME_CLAIMS, found)
    node.client.put(PERSISTENT_VOLUMES, volume)


async def provisioned(node: Node, storage_class: StorageClass | None = None, **spec: Any) -> PersistentVolume:
    node.client.put(STORAGE_CLASSES, storage_class or standard_class())
    node.client.put(PERSISTENT_VOLUME_CLAIMS, claim(**spec))
    (volume,) = await eventually(lambda: node.client.objects(PERSISTENT_VOLUMES))
    return volume


async def test_a_claim_is_a_folder_of_this_node_that_outlives_pods_and_goes_with_it(node: Node) -> None:
    volume = await provisioned(node)
    assert volume.metadata.name == "pvc-c-uid"
    assert volume.spec.local is not None
    folder = Path(volume.spec.local.path)
    assert folder.is_relative_to(node.data_dir)
    assert volume.spec.node_affinity is not None
    (term,) = volume.spec.node_affinity.required.node_selector_terms or ()
    (wanted,) = term.match_expressions or ()
    assert (wanted.key, wanted.values) == ("kubernetes.io/hostname", ["here"])

    bind(node, "pvc-c-uid")
    node.run(manifest("w", ["sh", "-c", "echo kept > /srv/data/f"], container=MOUNT, volumes=VOLUMES))
    await node.phase("w", "Succeeded")
    node.run(manifest("r", ["cat", "/srv/data/f"], container=MOUNT, volumes=VOLUMES))
    await node.phase("r", "Succeeded")
    assert await node.log("r") == "kept\n"

    found = node.client.find(PERSISTENT_VOLUMES, "pvc-c-uid")
    assert found is not None
    found.status.phase = "Released"
    node.client.put(PERSISTENT_VOLUMES, found)
    await eventually(lambda: not node.client.objects(PERSISTENT_VOLUMES))
    assert not folder.exists()


async def test_a_retained_volume_keeps_its_folder(node: Node) -> None:
    retaining = standard_class()
    retaining.reclaim_policy = "Retain"
    volume = await provisioned(node, retaining)
    assert volume.spec.local is not None
    volume.status.phase = "Released"
    node.client.put(PERSISTENT_VOLUMES, volume)
    await node.client.delete(PERSISTENT_VOLUMES, volume.metadata.name)
    await eventually(lambda: not node.client.objects(PERSISTENT_VOLUMES))
    assert Path(volume.spec.local.path).is_dir()


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"volumeMode": "Block"}, "a folder cannot be a block device: set volumeMode to Filesystem"),
        (
            {"dataSource": {"kind": "PersistentVolumeClaim", "name": "x"}},
            "folders begin empty: remove dataSource and dataSourceRef",
        ),
    ],
)
async def test_what_a_folder_cannot_be_is_said(node: Node, spec: dict[str, Any], text: str) -> None:
    node.client.put(STORAGE_CLASSES, standard_class())
    node.client.put(PERSISTENT_VOLUME_CLAIMS, claim(**spec))
    (event,) = await eventually(lambda: node.events("ProvisioningFailed"))
    assert event.message == f'failed to provision volume with StorageClass "standard": {text}'
    assert node.client.objects(PERSISTENT_VOLUMES) == []


async def test_volumes_of_other_nodes_are_left_to_them(node: Node) -> None:
    node.client.put(STORAGE_CLASSES, standard_class())
    node.client.put(PERSISTENT_VOLUME_CLAIMS, claim("elsewhere"))
    node.client.put(PERSISTENT_VOLUME_CLAIMS, claim(name="second"))
    await eventually(lambda: node.client.objects(PERSISTENT_VOLUMES))
    assert [each.metadata.name for each in node.client.objects(PERSISTENT_VOLUMES)] == ["pvc-second-uid"]


async def test_a_pod_waits_for_its_claim_to_be_bound_and_a_read_only_claim_cannot_be_written(
    node: Node, tmp_path: Path
) -> None:
    node.client.put(PERSISTENT_VOLUME_CLAIMS, claim("elsewhere"))
    read_only = [{"name": "v", "persistentVolumeClaim": {"claimName": "c", "readOnly": True}}]
    node.run(manifest("w", ["sh", "-c", "touch /srv/data/f"], container=MOUNT, volumes=read_only))
    await node.until("w", lambda pod: pod.status.container_statuses)
    waiting = await node.until("w", lambda pod: pod.status.container_statuses[0].state.waiting.message)
    assert waiting.status.container_statuses[0].state.waiting.message == 'persistentvolumeclaim "c" is not bound'
    (tmp_path / "disk").mkdir()
    value = {
        "metadata": {"name": "v"},
        "spec": {"hostPath": {"path": str(tmp_path / "disk")}, "claimRef": {"uid": "c-uid"}},
    }
    node.client.put(PERSISTENT_VOLUMES, msgspec.convert(value, PersistentVolume))
    bind(node, "v")
    await node.phase("w", "Failed")
    assert list((tmp_path / "disk").iterdir()) == []


async def test_an_ephemeral_volume_is_the_claim_that_was_made_for_the_pod(node: Node) -> None:
    made = PersistentVolumeClaim(spec=PersistentVolumeClaimSpec(access_modes=["ReadWriteOnce"]))
    made.metadata.name, made.metadata.namespace = "p-v", "default"
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    volumes = [{"name": "v", "ephemeral": {"volumeClaimTemplate": template}}]
    node.client.put(PERSISTENT_VOLUME_CLAIMS, made)
    node.run(manifest("p", ["true"], container=MOUNT, volumes=volumes))
    pod = await node.until("p", lambda pod: pod.status.container_statuses)
    assert pod.status.container_statuses[0].state.waiting.message == (
        "PVC default/p-v was not created for pod default/p (pod is not owner)"
    )


# --- cards ------------------------------------------------------------------------------------------------------------

CARDS = tuple(Gpu(f"GPU-{index}", "NVIDIA Test", 80 << 30, "550.54.14", (9, 0)) for index in range(2))
MACHINE = Machine("here", 4000, 8 << 30, 64 << 30, ("127.0.0.1",), gpus=CARDS)


@pytest.fixture
async def gpu_node(tmp_path: Path) -> AsyncIterator[Node]:
    """An agent of a machine with two cards."""
    node = Node(MemoryClient(), tmp_path / "agent", machine=MACHINE)
    await node.start()
    yield node
    await node.stop()


def devices(name: str, **given: str) -> ResourceClaim:
    """A claim that has devices by request."""
    results = [
        {"request": request, "driver": NVIDIA, "pool": "here", "device": device} for request, device in given.items()
    ]
    users = [{"resource": "pods", "name": "p", "uid": "p-uid"}]
    value = {
        "metadata": {"name": name, "namespace": "default"},
        "status": {"allocation": {"devices": {"results": results}}, "reservedFor": users},
    }
    return msgspec.convert(value, ResourceClaim)


async def test_a_machine_offers_its_cards(gpu_node: Node) -> None:
    (offered,) = await eventually(lambda: gpu_node.client.objects(RESOURCE_SLICES))
    assert (offered.spec.driver, offered.spec.pool.name, offered.spec.node_name) == (NVIDIA, "here", "here")
    first = (offered.spec.devices or [])[0]
    assert first.name == "gpu-0"
    assert first.attributes is not None
    assert first.attributes["uuid"].string_value == "GPU-0"
    assert first.attributes["driverVersion"].version_value == "550.54.14"
    assert [each.metadata.name for each in gpu_node.client.objects(DEVICE_CLASSES)] == [NVIDIA]
    # Somebody deletes it, and it is there again.
    gpu_node.client.remove(RESOURCE_SLICES, offered.key)
    await eventually(lambda: gpu_node.client.objects(RESOURCE_SLICES))


@pytest.mark.parametrize(
    ("wanted", "shown"),
    [([{"name": "g"}], "GPU-1,GPU-0"), ([{"name": "g", "request": "b"}], "GPU-0"), ([], "")],
)
async def test_a_container_sees_the_cards_of_the_claims_that_it_names(
    gpu_node: Node, wanted: list[dict[str, str]], shown: str
) -> None:
    gpu_node.client.put(RESOURCE_CLAIMS, devices("claim", a="gpu-1", b="gpu-0"))
    container = {"resources": {"claims": wanted}}
    command = ["sh", "-c", "echo cards:$CUDA_VISIBLE_DEVICES"]
    entries = [{"name": "g", "resourceClaimName": "claim"}]
    gpu_node.run(manifest("p", command, container=container, resourceClaims=entries, metadata={"uid": "p-uid"}))
    await gpu_node.phase("p", "Succeeded")
    assert await gpu_node.log("p") == f"cards:{shown}\n"


async def test_a_card_that_a_claim_has_is_given_to_nobody_else_also_after_a_restart(gpu_node: Node) -> None:
    gpu_node.client.put(RESOURCE_CLAIMS, devices("claim", a="gpu-0"))
    container = {"resources": {"claims": [{"name": "g"}]}}
    entries = [{"name": "g", "resourceClaimName": "claim"}]
    pod = manifest("p", ["sleep", "1000"], container=container, resourceClaims=entries, metadata={"uid": "p-uid"})
    gpu_node.run(pod)
    await gpu_node.phase("p", "Running")
    gpu_node.abandon()
    await asyncio.sleep(0)
    await gpu_node.start()
    limit = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    gpu_node.run(manifest("q", ["sh", "-c", "echo $CUDA_VISIBLE_DEVICES"], container=limit))
    await gpu_node.phase("q", "Succeeded")
    assert await gpu_node.log("q") == "GPU-1\n"


async def test_a_container_sees_the_cards_of_the_claim_that_stands_for_its_limits(gpu_node: Node) -> None:
    gpu_node.client.put(RESOURCE_CLAIMS, devices("claim", **{"container-0-request-0": "gpu-1"}))
    mapping = {"containerName": "main", "resourceName": "nvidia.com/gpu", "requestName": "container-0-request-0"}
    status = {"extendedResourceClaimStatus": {"requestMappings": [mapping], "resourceClaimName": "claim"}}
    limit = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    command = ["sh", "-c", "echo cards:$CUDA_VISIBLE_DEVICES"]
    pod = msgspec.to_builtins(manifest("p", command, container=limit, metadata={"uid": "p-uid"}))
    gpu_node.run(msgspec.convert(pod | {"status": status}, Pod))
    await gpu_node.phase("p", "Succeeded")
    assert await gpu_node.log("p") == "cards:GPU-1\n"


async def test_a_card_that_a_pod_has_by_a_limit_is_tainted_and_taints_of_users_are_kept(gpu_node: Node) -> None:
    def taints() -> list[list[str]]:
        offered = gpu_node.client.objects(RESOURCE_SLICES)
        found = (offered[0].spec.devices or []) if offered else []
        return [[taint.key for taint in each.taints or ()] for each in found]

    await eventually(lambda: taints() == [[], []])
    (offered,) = gpu_node.client.objects(RESOURCE_SLICES)
    value = msgspec.to_builtins(offered)
    value["spec"]["devices"][1]["taints"] = [{"key": "example.com/hot", "effect": "NoExecute"}]
    gpu_node.client.put(RESOURCE_SLICES, msgspec.convert(value, type(offered)))
    limit = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    gpu_node.run(manifest("q", ["sleep", "1000"], container=limit))
    await gpu_node.phase("q", "Running")
    await eventually(lambda: taints() == [["unisono.io/given-by-limit"], ["example.com/hot"]])


# --- simulated devices ------------------------------------------------------------------------------------------------


def test_devices_of_simulated_nodes() -> None:
    short = parse_devices({NVIDIA: 2}, "devices")
    assert [each.name for each in short[NVIDIA]] == ["gpu-0", "gpu-1"]
    long = parse_devices(
        [
            {"driver": "x.io", "count": 1, "attributes": {"fast": True, "v": {"version": "1.0.0"}}},
            {"driver": "x.io", "capacity": {"memory": "1Gi"}},
        ],
        "devices",
    )
    assert [each.name for each in long["x.io"]] == ["device-0", "device-1"]
    assert (long["x.io"][0].attributes or {})["fast"].bool_value is True
    assert (long["x.io"][0].attributes or {})["v"].version_value == "1.0.0"
    assert (long["x.io"][1].capacity or {})["memory"].value == "1Gi"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "devices: write devices as driver: number, or as a list."),
        ({"x": 0}, "devices[0].count: 0 is not a number from 1 to 128."),
        ({"X": 1}, "devices[0].driver: 'X' is not the name of a driver"),
        ([{"driver": "x", "size": 1}], "devices[0].size: unknown field"),
        ([{"driver": "x", "count": 100}, {"driver": "x", "count": 29}], "devices[1].count: a node has at most 128"),
        ([{"driver": "x", "attributes": {"a": 1.5}}], "devices[0].attributes.a: 1.5 is not a text"),
        ([{"driver": "x", "capacity": {"m": "lots"}}], "devices[0].capacity.m: "),
    ],
)
def test_wrong_devices_name_their_field(value: Any, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_devices(value, "devices")
    assert text in str(caught.value)
