"""Claims that stand for limits, and pods that leave devices with NoExecute taints."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from controller_world import ControllerWorld

from unisono.api.core import DeviceClass, Node, Pod, ResourceClaim, ResourceSlice
from unisono.api.keys import DELETE_PROTECTION
from unisono.api.kinds import DEVICE_CLASSES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from unisono.api.times import rfc3339
from unisono.controllers.builtin import builtin_controllers
from unisono.controllers.registry import all_controllers
from unisono.kube.controller import Controller

GPU = "example.com/gpu"
DRIVER = "gpu.example.com"


class DeviceWorld(ControllerWorld):
    """An API server with the controllers of resource claims."""

    def make_controllers(self) -> list[Controller]:
        every = [*builtin_controllers(self.recorder), *all_controllers(self.recorder)]
        return [each for each in every if "claim" in each.name or "device" in each.name]

    async def submit(self, *pods: Pod) -> None:
        for pod in pods:
            await self.client.create(PODS, pod)
        await self.settle()

    async def serve(self, resource: str = GPU, name: str = "gpu", created: str | None = None) -> None:
        meta = {"name": name, "creationTimestamp": created}
        value = {"metadata": meta, "spec": {"extendedResourceName": resource}}
        self.client.put(DEVICE_CLASSES, msgspec.convert(value, DeviceClass))
        await self.settle()

    async def offer(self, *taints: dict[str, Any], generation: int = 1) -> None:
        """One node with one device."""
        spec = {
            "driver": DRIVER,
            "nodeName": "n",
            "pool": {"name": "n", "generation": generation, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0", "taints": list(taints)}, {"name": "gpu-1"}],
        }
        value = {"metadata": {"name": "slice"}, "spec": spec}
        self.client.put(RESOURCE_SLICES, msgspec.convert(value, ResourceSlice))
        await self.settle()

    async def give(self, *tolerations: dict[str, Any], device: str = "gpu-0", pod: str = "p") -> None:
        """As the scheduler does."""
        result = {"request": "r", "driver": DRIVER, "pool": "n", "device": device, "tolerations": list(tolerations)}
        user = {"resource": "pods", "name": pod, "uid": self.find_pod(pod).metadata.uid}
        value = {
            "metadata": {"name": "c", "namespace": "default", "uid": "uid-c", "finalizers": [DELETE_PROTECTION]},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
            "status": {"allocation": {"devices": {"results": [result]}}, "reservedFor": [user]},
        }
        self.client.put(RESOURCE_CLAIMS, msgspec.convert(value, ResourceClaim))
        await self.settle()

    def claims(self) -> list[ResourceClaim]:
        return self.client.objects(RESOURCE_CLAIMS)

    def alive(self) -> bool:
        return any(pod.metadata.name == "p" and not pod.metadata.deletion_timestamp for pod in self.pods())


def asks(name: str = "p", *amounts: dict[str, Any], scheduler: str = "volcano", node: str | None = None) -> Pod:
    containers = [
        {"name": f"c{number}", "resources": {"limits": each}} for number, each in enumerate(amounts or ({GPU: 2},))
    ]
    value = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulerName": scheduler, "nodeName": node, "containers": containers},
        "status": {"phase": "Running" if node else "Pending"},
    }
    return msgspec.convert(value, Pod)


async def test_a_pod_gets_the_claim_that_stands_for_its_limits() -> None:
    async with DeviceWorld() as world:
        await world.serve()
        await world.submit(asks("p", {GPU: 2}, {"cpu": "1"}, {GPU: "1"}))
        (made,) = world.claims()
        assert made.metadata.name.startswith("p-extended-resources-")
        assert made.metadata.annotations == {"resource.kubernetes.io/extended-resource-claim": "true"}
        (owner,) = made.metadata.owner_references or ()
        assert (owner.kind, owner.name, owner.controller) == ("Pod", "p", True)
        wanted = [(r.name, r.exactly) for r in made.spec.devices.requests or ()]
        assert [(name, r and r.device_class_name, r and r.count) for name, r in wanted] == [
            ("container-0-request-0", "gpu", 2),
            ("container-2-request-0", "gpu", 1),
        ]
        told = world.find_pod("p").status.extended_resource_claim_status
        assert told is not None
        assert told.resource_claim_name == made.metadata.name
        assert [(m.container_name, m.resource_name, m.request_name) for m in told.request_mappings or ()] == [
            ("c0", GPU, "container-0-request-0"),
            ("c2", GPU, "container-2-request-0"),
        ]


@pytest.mark.parametrize(
    ("pod", "plugged"),
    [
        (asks("p", {"cpu": "1"}), False),
        (asks("p", {"other.example.com/gpu": 1}), False),
        (asks(scheduler="default-scheduler"), False),
        (asks(node="n"), False),
        (asks(), True),
    ],
    ids=["no device", "another resource", "another scheduler", "has a node", "a device plugin reports it"],
)
async def test_no_claim_is_made(pod: Pod, plugged: bool) -> None:
    async with DeviceWorld() as world:
        allocatable = {GPU: "4"} if plugged else {}
        value = {"metadata": {"name": "n"}, "status": {"allocatable": allocatable}}
        world.client.put(NODES, msgspec.convert(value, Node))
        await world.serve()
        await world.submit(pod)
        assert world.claims() == []


async def test_the_class_may_come_later_and_the_newest_one_serves() -> None:
    async with DeviceWorld() as world:
        await world.submit(asks("p"))
        assert world.claims() == []
        await world.serve(name="old", created="2026-01-01T00:00:00Z")
        (first,) = world.claims()
        await world.serve(name="new", created="2026-02-01T00:00:00Z")
        await world.submit(asks("q"))
        (second,) = (one for one in world.claims() if one.metadata.name != first.metadata.name)
        names = [one.spec.devices.requests[0].exactly.device_class_name for one in (first, second)]  # type: ignore[index,union-attr]
        assert names == ["old", "new"]


async def test_a_pod_that_asks_for_too_much_hears_so() -> None:
    async with DeviceWorld() as world:
        await world.serve()
        await world.submit(asks("p", {GPU: 33}))
        assert world.claims() == []
        assert world.recorder.of("FailedResourceClaimCreation") == [
            "the pod asks for more than 32 devices, and a claim can have no more"
        ]


async def test_a_stop_between_claim_and_pod_makes_no_second_claim() -> None:
    async with DeviceWorld() as world:
        await world.serve()

        def die(operation: str, resource: str, namespace: str, name: str) -> None:
            if (operation, resource) == ("patch", "pods"):
                raise ConnectionError("cut")

        world.client.on_request = die
        await world.submit(asks("p"))
        world.client.on_request = None
        await world.restart()
        await world.settle()
        assert len(world.claims()) == 1
        assert world.find_pod("p").status.extended_resource_claim_status is not None


async def test_the_claim_goes_when_its_pod_has_ended() -> None:
    async with DeviceWorld() as world:
        await world.serve()
        await world.submit(asks("p"))
        assert len(world.claims()) == 1
        await world.pod("p", "Succeeded")
        await world.settle()
        assert world.claims() == []


BROKEN = {"key": "example.com/broken", "effect": "NoExecute"}
ENDURED: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]], str, float | None]] = {
    # taints, tolerations, device, seconds after which the pod goes
    "at once": ([BROKEN], [], "gpu-0", 0.0),
    "another device": ([BROKEN], [], "gpu-1", None),
    "no new pods only": ([BROKEN | {"effect": "NoSchedule"}], [], "gpu-0", None),
    "tolerated": ([BROKEN], [{"operator": "Exists"}], "gpu-0", None),
    "tolerated for a while": ([BROKEN], [{"operator": "Exists", "tolerationSeconds": 60}], "gpu-0", 60.0),
    "the shortest toleration counts": (
        [BROKEN],
        [{"operator": "Exists", "tolerationSeconds": seconds} for seconds in (60, 20)],
        "gpu-0",
        20.0,
    ),
    "another value": (
        [BROKEN | {"value": "a"}],
        [{"key": BROKEN["key"], "operator": "Equal", "value": "b"}],
        "gpu-0",
        0.0,
    ),
    "two taints, one tolerated": (
        [BROKEN, BROKEN | {"key": "example.com/hot"}],
        [{"key": "example.com/hot", "operator": "Exists"}],
        "gpu-0",
        0.0,
    ),
}


@pytest.mark.parametrize(("taints", "tolerations", "device", "after"), ENDURED.values(), ids=ENDURED)
async def test_pods_leave_devices_that_they_do_not_endure(
    taints: list[dict[str, Any]], tolerations: list[dict[str, Any]], device: str, after: float | None
) -> None:
    async with DeviceWorld() as world:
        await world.offer()
        await world.submit(asks(node="n"))
        await world.give(*tolerations, device=device)
        assert world.alive()
        stamp = rfc3339(world.clock.time())
        await world.offer(*({"timeAdded": stamp} | taint for taint in taints), generation=2)
        if after is None:
            await world.advance(3600)
            assert world.alive()
            return
        if after:
            await world.advance(after - 1)
            assert world.alive()
            await world.advance(2)
        assert not world.alive()
        assert world.recorder.of("DeviceTaintManagerEviction") == ["Marking for deletion"]


async def test_a_taint_that_goes_in_time_evicts_nobody() -> None:
    async with DeviceWorld() as world:
        await world.submit(asks(node="n"))
        await world.offer()
        await world.give({"operator": "Exists", "tolerationSeconds": 60})
        await world.offer(BROKEN, generation=2)
        await world.advance(50)
        await world.offer(generation=3)
        await world.advance(50)
        await world.offer(BROKEN, generation=4)
        await world.advance(50)
        assert world.alive()
        await world.advance(20)
        assert not world.alive()


async def test_the_pod_says_why_it_was_evicted() -> None:
    async with DeviceWorld() as world:
        await world.offer(BROKEN)
        pod = asks(node="n")
        pod.metadata.finalizers = ["example.com/keep"]
        await world.submit(pod)
        await world.give()
        conditions = world.find_pod("p").status.conditions or []
        assert [(one.type, one.status, one.reason) for one in conditions] == [
            ("DisruptionTarget", "True", "DeletionByDeviceTaintManager")
        ]
