"""What claims need is written before the bind, waited for, and taken back when the bind does not come about."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from scheduler_world import fill, node, pod, queue, world

from support.build import config
from support.memory import MemoryClient
from unisono.api.core import (
    DeviceClass,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimVolumeSource,
    PodResourceClaim,
    ResourceClaim,
    ResourceSlice,
    StorageClass,
    Volume,
)
from unisono.api.groups.scheduling import PodGroup, PodGroupSpec, PodGroupStatus
from unisono.api.kinds import (
    DEVICE_CLASSES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_GROUPS,
    PODS,
    QUEUES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    STORAGE_CLASSES,
)
from unisono.engine import run
from unisono.errors import Conflict, Invalid, NotFound
from unisono.scheduler.settings import FixedConfig

SELECTED = "volume.kubernetes.io/selected-node"


CONFIG = config(("gang",), ("predicates",))


def real(client: MemoryClient, **options: object) -> Any:
    return world(client, run, config=FixedConfig(CONFIG), **options)


def volume_world(maker: str = "x", *, volumes: int = 0, client: MemoryClient | None = None) -> MemoryClient:
    """Two nodes, a pod ``p`` with a claim ``c`` of a class that waits for it."""
    client = client or MemoryClient()
    fill(client)
    meta: dict[str, Any] = {"metadata": {"name": "late"}, "provisioner": maker}
    client.put(STORAGE_CLASSES, msgspec.convert({**meta, "volumeBindingMode": "WaitForFirstConsumer"}, StorageClass))
    for index in range(volumes):
        spec = {"capacity": {"storage": "1Gi"}, "storageClassName": "late"}
        made = {"metadata": {"name": f"v{index}"}, "spec": spec, "status": {"phase": "Available"}}
        client.put(PERSISTENT_VOLUMES, msgspec.convert(made, PersistentVolume))
    spec = {"storageClassName": "late", "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"metadata": {"name": "c", "namespace": "team"}, "spec": spec, "status": {"phase": "Pending"}}
    client.put(PERSISTENT_VOLUME_CLAIMS, msgspec.convert(claim, PersistentVolumeClaim))
    user(client, "p", volume="c")
    return client


def user(client: MemoryClient, name: str, *, volume: str = "", device: str = "") -> None:
    """A PodGroup of one pod with a claim."""
    meta = {"name": name, "namespace": "team"}
    group = PodGroup(spec=PodGroupSpec(min_member=1, queue="default"), status=PodGroupStatus(phase="Inqueue"))
    group.metadata = msgspec.convert(meta, type(group.metadata))
    client.put(POD_GROUPS, group)
    made = pod(name, name)
    if volume:
        source = PersistentVolumeClaimVolumeSource(claim_name=volume)
        made.spec.volumes = [Volume(name="data", persistent_volume_claim=source)]
    if device:
        made.spec.resource_claims = [PodResourceClaim(name="d", resource_claim_name=device)]
    client.put(PODS, made)


async def bind_volume(client: MemoryClient, name: str = "v") -> None:
    """What a volume controller does."""
    await client.patch(PERSISTENT_VOLUME_CLAIMS, "c", {"spec": {"volumeName": name}}, namespace="team")
    status = {"status": {"phase": "Bound"}}
    await client.patch(PERSISTENT_VOLUME_CLAIMS, "c", status, namespace="team", subresource="status")


def notes(client: MemoryClient) -> dict[str, str]:
    return client.raw(PERSISTENT_VOLUME_CLAIMS, "team/c")["metadata"].get("annotations") or {}


def order(client: MemoryClient) -> list[str]:
    """Resources written, in order, without reports."""
    kept = ("persistentvolumeclaims", "persistentvolumes", "resourceclaims.resource.k8s.io")
    return [w.resource for w in client.writes if w.resource in kept or w.operation == "bind"]


async def test_a_volume_is_made_for_the_node_before_the_pod_is_bound() -> None:
    client = volume_world()
    async with real(client) as it:
        await it.run(3)
        assert notes(client)[SELECTED] == "n0"
        assert it.nodes_of() == {"p": None}
        await bind_volume(client)
        await it.run(3)
        assert it.nodes_of() == {"p": "n0"}


async def test_a_volume_is_given_before_the_pod_is_bound() -> None:
    client = volume_world("kubernetes.io/no-provisioner", volumes=1)
    async with real(client) as it:
        await it.run(3)
        reference = client.raw(PERSISTENT_VOLUMES, "v0")["spec"]["claimRef"]
        assert (reference["namespace"], reference["name"]) == ("team", "c")
        assert it.nodes_of() == {"p": None}
        await bind_volume(client, "v0")
        await it.run(3)
        assert it.nodes_of() == {"p": "n0"}
        assert order(client).index("persistentvolumes") < len(order(client)) - 1


async def test_a_volume_that_is_not_bound_in_time_is_taken_back() -> None:
    client = volume_world("kubernetes.io/no-provisioner", volumes=1)
    async with real(client) as it:
        await it.run(3)
        assert "claimRef" in client.raw(PERSISTENT_VOLUMES, "v0")["spec"]
        client.remove(NODES, "n0")
        client.remove(NODES, "n1")
        await it.run(620)
        assert "claimRef" not in client.raw(PERSISTENT_VOLUMES, "v0")["spec"]
        assert it.nodes_of() == {"p": None}


async def test_a_failed_bind_gives_the_chosen_node_back() -> None:
    client = volume_world()
    refuse = True

    def intercept(operation: str, *_: Any) -> None:
        if refuse and operation == "bind":
            raise Invalid("not now")

    client.interceptor = intercept
    async with real(client) as it:
        await it.run(3)
        assert SELECTED in notes(client)
        client.remove(PODS, "team/p")
        await it.run(2)
        await bind_volume(client)
        await it.run(5)
        assert it.nodes_of() == {}


class Slow(MemoryClient):
    """Answers what it read a moment ago, so that two who read and write one object meet."""

    async def get(self, kind: Any, name: str, namespace: str | None = None) -> Any:
        found = await super().get(kind, name, namespace)
        await asyncio.sleep(0)
        return found


@pytest.mark.parametrize(("maker", "volumes"), [("x", 0), ("kubernetes.io/no-provisioner", 1)])
async def test_pods_that_share_a_volume_are_bound_at_once(maker: str, volumes: int) -> None:
    client = volume_world(maker, volumes=volumes, client=Slow())
    user(client, "q", volume="c")
    async with real(client) as it:
        await it.run(3)
        await bind_volume(client, "v0" if volumes else "v")
        await it.run(3)
        assert it.nodes_of() == {"p": "n0", "q": "n0"}


async def test_a_pod_that_is_refused_leaves_the_volume_to_the_one_it_shares_it_with() -> None:
    client = volume_world(client=Slow())
    user(client, "q", volume="c")
    refused = False

    def intercept(operation: str, *arguments: Any) -> None:
        nonlocal refused
        if operation == "patch" and not refused and "persistentvolumeclaims" in str(arguments):
            refused = True
            raise Invalid("not this one")

    client.interceptor = intercept
    async with real(client) as it:
        await it.run(3)
        assert refused
        assert notes(client)[SELECTED] == "n0"
        await bind_volume(client)
        await it.run(60)
        assert it.nodes_of() == {"p": "n0", "q": "n0"}


async def test_a_choice_that_somebody_takes_back_is_made_again() -> None:
    client = volume_world()
    async with real(client) as it:
        await it.run(3)
        patch = {"metadata": {"annotations": {SELECTED: None}}}
        await client.patch(PERSISTENT_VOLUME_CLAIMS, "c", patch, namespace="team")
        await it.run(30)
        chosen = notes(client)[SELECTED]
        await bind_volume(client)
        await it.run(3)
        assert it.nodes_of() == {"p": chosen}


def device_world(claims: tuple[str, ...] = ("c",), devices: int = 1, *, client: Any = None) -> Any:
    client = client or MemoryClient()
    client.put(QUEUES, queue())
    for name in ("n0", "n1"):
        client.put(NODES, node(name))
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d", "pool": pool, "nodeName": "n1", "devices": [{"name": f"g{i}"} for i in range(devices)]}
    client.put(RESOURCE_SLICES, msgspec.convert({"metadata": {"name": "s"}, "spec": spec}, ResourceSlice))
    client.put(DEVICE_CLASSES, msgspec.convert({"metadata": {"name": "gpu"}}, DeviceClass))
    for name in claims:
        requests = [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]
        made = {"metadata": {"name": name, "namespace": "team"}, "spec": {"devices": {"requests": requests}}}
        client.put(RESOURCE_CLAIMS, msgspec.convert(made, ResourceClaim))
    return client


def claim_of(client: MemoryClient, name: str = "c") -> dict[str, Any]:
    return client.raw(RESOURCE_CLAIMS, f"team/{name}")


async def test_devices_are_given_before_the_pod_is_bound() -> None:
    client = device_world()
    user(client, "p", device="c")
    async with real(client) as it:
        await it.run(3)
        assert it.nodes_of() == {"p": "n1"}
        status = claim_of(client)["status"]
        assert [r["device"] for r in status["allocation"]["devices"]["results"]] == ["g0"]
        assert [(u["resource"], u["name"]) for u in status["reservedFor"]] == [("pods", "p")]
        assert claim_of(client)["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
        assert order(client)[-1] == "pods"


def fabric_world() -> MemoryClient:
    """A device that its driver attaches to the node before the pod is bound."""
    client = device_world()
    found = msgspec.to_builtins(client.raw(RESOURCE_SLICES, "s"))
    found["spec"]["devices"] = [{"name": "g0", "bindingConditions": ["attached"], "bindingFailureConditions": ["lost"]}]
    client.put(RESOURCE_SLICES, msgspec.convert(found, ResourceSlice))
    user(client, "p", device="c")
    return client


async def driver_says(client: MemoryClient, condition: str) -> None:
    told = [{"type": condition, "status": "True", "reason": "R", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    entry = {"driver": "d", "pool": "n1", "device": "g0", "conditions": told}
    await client.patch(RESOURCE_CLAIMS, "c", {"status": {"devices": [entry]}}, namespace="team", subresource="status")


async def test_a_pod_is_bound_once_its_device_is_attached() -> None:
    client = fabric_world()
    async with real(client) as it:
        await it.run(30)
        (result,) = claim_of(client)["status"]["allocation"]["devices"]["results"]
        assert result["bindingConditions"] == ["attached"]
        assert it.nodes_of() == {"p": None}
        await driver_says(client, "attached")
        await it.run(5)
        assert it.nodes_of() == {"p": "n1"}


@pytest.mark.parametrize("fails", [True, False], ids=["the driver gives up", "nothing comes for ten minutes"])
async def test_a_device_that_is_not_attached_is_given_back(fails: bool) -> None:
    client = fabric_world()
    async with real(client) as it:
        await it.run(30)
        client.remove(RESOURCE_SLICES, "s")
        if fails:
            await driver_says(client, "lost")
        await it.run(5)
        assert ("allocation" in claim_of(client)["status"]) is not fails
        await it.run(600)
        assert {"allocation", "devices"}.isdisjoint(claim_of(client)["status"])
        assert it.nodes_of() == {"p": None}


async def test_two_pods_share_a_claim() -> None:
    client = device_world()
    for name in ("p", "q"):
        user(client, name, device="c")
    async with real(client) as it:
        await it.run(5)
        assert it.nodes_of() == {"p": "n1", "q": "n1"}
        assert sorted(u["name"] for u in claim_of(client)["status"]["reservedFor"]) == ["p", "q"]


async def test_a_device_is_not_given_twice_while_the_write_is_on_its_way() -> None:
    client = device_world(("c", "d"))
    user(client, "p", device="c")
    async with real(client) as it:
        await it.run(3)
        user(client, "q", device="d")
        await it.run(3)
        assert it.nodes_of() == {"p": "n1", "q": None}
        assert "allocation" not in claim_of(client, "d").get("status", {})


class Late(MemoryClient):
    """Writes of a status, or the news of them, come when the test says so."""

    def __init__(self, *, silent: bool = False) -> None:
        super().__init__()
        self.silent, self.go_on = silent, asyncio.Event()

    async def patch(self, kind: Any, name: str, patch: Any, **options: Any) -> Any:
        if options.get("subresource") == "status" and kind is RESOURCE_CLAIMS and not self.silent:
            await self.go_on.wait()
        return await super().patch(kind, name, patch, **options)

    async def watch(self, kind: Any, *arguments: Any, **options: Any) -> Any:
        async for event in super().watch(kind, *arguments, **options):
            if kind is RESOURCE_CLAIMS and self.silent and event.object.status.allocation is not None:
                await self.go_on.wait()
            yield event


@pytest.mark.parametrize("silent", [False, True], ids=["the write is slow", "the watch is slow"])
async def test_a_device_is_not_given_twice_between_the_finalizer_and_the_allocation(silent: bool) -> None:
    """The claim is told with its finalizer and without devices before it is told with devices."""
    client = Late(silent=silent)
    device_world(("c", "d"), client=client)
    user(client, "p", device="c")
    async with real(client) as it:
        await it.run(3)
        assert claim_of(client)["metadata"]["finalizers"]
        assert it.nodes_of() == {"p": "n1" if silent else None}
        user(client, "q", device="d")
        await it.run(10)
        client.go_on.set()
        await it.run(10)
        assert it.nodes_of() == {"p": "n1", "q": None}
        assert "allocation" not in claim_of(client, "d").get("status", {})
        # What is free again is given again.
        client.remove(PODS, "team/p")
        client.remove(RESOURCE_CLAIMS, "team/c")
        await it.run(10)
        assert it.nodes_of() == {"q": "n1"}


class Delaying(MemoryClient):
    """The first write of an allocation gets no answer; it arrives when the test says so. ``deaf``: nothing does.

    ``leaves``: the pod ``p``, for which it is, is deleted at that moment.
    """

    def __init__(self) -> None:
        super().__init__()
        self.late: tuple[Any, ...] | None = None
        self.deaf = self.leaves = False

    async def patch(self, kind: Any, name: str, patch: Any, **options: Any) -> Any:
        if kind is RESOURCE_CLAIMS and self.deaf:
            raise TimeoutError
        if kind is RESOURCE_CLAIMS and options.get("subresource") == "status" and self.late is None:
            self.late = kind, name, patch, options
            if self.leaves:
                self.remove(PODS, "team/p")
            raise TimeoutError
        return await super().patch(kind, name, patch, **options)

    async def get(self, kind: Any, name: str, *arguments: Any, **options: Any) -> Any:
        if kind is RESOURCE_CLAIMS and self.deaf:
            raise TimeoutError
        return await super().get(kind, name, *arguments, **options)

    async def arrive(self) -> None:
        assert self.late is not None
        kind, name, patch, options = self.late
        with suppress(Conflict):
            await super().patch(kind, name, patch, **options)

    def given(self) -> list[str]:
        """Devices of all claims."""
        allocations = [(claim_of(self, name).get("status") or {}).get("allocation") for name in ("c", "d")]
        return [each["device"] for found in allocations if found for each in found["devices"]["results"]]


@pytest.mark.parametrize("deaf", [False, True])
@pytest.mark.parametrize("later", [0.05, 0.2, 0.5, 1.0, 20.0])
@pytest.mark.parametrize("leaves", [False, True])
async def test_a_write_that_arrives_after_it_was_withdrawn_gives_no_device_twice(
    deaf: bool, later: float, leaves: bool
) -> None:
    """The device may go to another pod meanwhile; the late write would take it once more."""
    client = device_world(("c", "d"), client=Delaying())
    client.leaves = leaves
    for name, claim in (("p", "c"), ("q", "d")):
        user(client, name, device=claim)

    def intercept(*_: Any) -> None:
        client.deaf = deaf and client.late is not None

    client.interceptor = intercept
    async with real(client) as it:
        await it.run(later)
        assert client.late is not None
        await client.arrive()
        await it.run(30)
        client.interceptor, client.deaf = None, False
        await it.run(120)
        assert client.given() == ["g0"]
        assert sorted(node or "" for node in it.nodes_of().values()) == (["n1"] if leaves else ["", "n1"])


async def test_a_failed_bind_gives_the_devices_back() -> None:
    client = device_world()
    user(client, "p", device="c")
    refuse = True

    def intercept(operation: str, *_: Any) -> None:
        if refuse and operation == "bind":
            raise Invalid("not now")

    client.interceptor = intercept
    async with real(client) as it:
        await it.run(0.5)
        assert it.nodes_of() == {"p": None}
        status = claim_of(client).get("status", {})
        assert not status.get("allocation") and not status.get("reservedFor")
        assert not claim_of(client)["metadata"].get("finalizers")
        refuse = False
        await it.run(60)
        assert it.nodes_of() == {"p": "n1"}
        assert claim_of(client)["status"]["allocation"]


async def test_a_claim_that_was_given_elsewhere_meanwhile_stops_the_bind() -> None:
    client = device_world(devices=2)
    user(client, "p", device="c")
    done = False

    def intercept(operation: str, *arguments: Any) -> None:
        nonlocal done
        if operation == "get" and not done and "resourceclaims" in str(arguments):
            done = True
            claim = client.objects(RESOURCE_CLAIMS)[0]
            result = {"request": "r", "driver": "d", "pool": "n1", "device": "g1"}
            status = {"allocation": {"devices": {"results": [result]}}}
            client.put(
                RESOURCE_CLAIMS, msgspec.convert({**msgspec.to_builtins(claim), "status": status}, ResourceClaim)
            )

    client.interceptor = intercept
    async with real(client) as it:
        await it.run(60)
        assert done
        assert it.nodes_of()["p"] is not None
        assert [r["device"] for r in claim_of(client)["status"]["allocation"]["devices"]["results"]] == ["g1"]


async def test_a_cluster_without_devices_kinds_schedules_all_the_same() -> None:
    client = MemoryClient()
    fill(client, gangs={"a": 2})

    def intercept(operation: str, kind: Any, *_: Any) -> None:
        if "resource.k8s.io" in str(kind):
            raise NotFound("the server could not find the requested resource")

    client.interceptor = intercept
    async with real(client) as it:
        await it.run(3)
        assert None not in it.nodes_of().values()
