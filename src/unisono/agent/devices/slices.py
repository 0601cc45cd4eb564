"""Devices that nodes offer to resource claims, as ResourceSlices, with a DeviceClass for each driver."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from unisono.agent.devices.nvidia import Gpu
from unisono.agent.environment import MissingSource
from unisono.api import core
from unisono.api.base import ObjectMeta, OwnerReference
from unisono.api.keys import NVIDIA_GPU
from unisono.api.kinds import DEVICE_CLASSES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from unisono.errors import AlreadyExists, NotFound
from unisono.kube.client import Client, EventType
from unisono.kube.controller import Context, Controller

NVIDIA = "gpu.nvidia.com"
"""Driver and class of NVIDIA's cards, as NVIDIA's own driver names them."""

PCI_ROOT = "resource.kubernetes.io/pcieRoot"
"""Kubernetes' attribute for devices that are close to each other, of whatever driver."""

GIVEN_BY_LIMIT = "unisono.io/given-by-limit"
"""Taint of a device that a pod has by a limit, so that no claim gets it; other taints are users' and are kept."""

_LOOK_SECONDS = 5.0
"""A card that a pod had by a limit is looked at again after so long."""

MOST_DEVICES = 128
"""Devices of one slice."""

Offer = Mapping[str, Sequence[core.Device]]
"""Devices by driver."""


def card_name(index: int) -> str:
    """Name of a card by its number on the machine."""
    return f"gpu-{index}"


def card_devices(gpus: Iterable[Gpu], by_limits: Collection[str] = ()) -> list[core.Device]:
    """The machine's whole and healthy cards, with the attributes of NVIDIA's driver.

    Args:
        gpus: the machine's.
        by_limits: ids of cards that pods have by limits; their taint keeps claims away.
    """
    return [
        core.Device(
            name=card_name(index),
            attributes={
                "type": core.DeviceAttribute(string_value="gpu"),
                "index": core.DeviceAttribute(int_value=index),
                "uuid": core.DeviceAttribute(string_value=gpu.uuid),
                "productName": core.DeviceAttribute(string_value=gpu.product),
                "cudaComputeCapability": core.DeviceAttribute(version_value=f"{gpu.compute[0]}.{gpu.compute[1]}.0"),
                **({"driverVersion": core.DeviceAttribute(version_value=_version(gpu.driver))} if gpu.driver else {}),
                **({PCI_ROOT: core.DeviceAttribute(string_value=gpu.root)} if gpu.root else {}),
            },
            capacity={"memory": core.DeviceCapacity(value=str(gpu.memory))},
            taints=[core.DeviceTaint(key=GIVEN_BY_LIMIT, effect="NoSchedule")] if gpu.uuid in by_limits else None,
        )
        for index, gpu in enumerate(gpus)
        if gpu.healthy and not gpu.divided
    ]


def _version(text: str) -> str:
    """Three numbers, as versions of attributes are written."""
    parts = [part.lstrip("0") or "0" for part in text.split(".") if part.isdigit()]
    return ".".join([*parts, "0", "0"][:3])


def slice_name(node: str, driver: str) -> str:
    """Name of the one slice that a node has for a driver."""
    return f"{node}-{driver}"


def slice_of(node: core.Node, driver: str, devices: Sequence[core.Device], generation: int = 1) -> core.ResourceSlice:
    """The devices of one driver on one node; the slice goes with the node."""
    meta = node.metadata
    return core.ResourceSlice(
        metadata=ObjectMeta(
            name=slice_name(meta.name, driver),
            owner_references=[
                OwnerReference(api_version="v1", kind="Node", name=meta.name, uid=meta.uid or "", controller=True)
            ],
        ),
        spec=core.ResourceSliceSpec(
            driver=driver,
            pool=core.ResourcePool(name=meta.name, generation=generation, resource_slice_count=1),
            node_name=meta.name,
            devices=list(devices),
        ),
    )


def device_class(driver: str) -> core.DeviceClass:
    """All devices of a driver; of NVIDIA's the whole cards, which are one book with limits of ``nvidia.com/gpu``."""
    expression = f'device.driver == "{driver}"'
    if driver == NVIDIA:
        expression += f' && device.attributes["{driver}"].type == "gpu"'
    selector = core.DeviceSelector(cel=core.CELDeviceSelector(expression=expression))
    return core.DeviceClass(
        metadata=ObjectMeta(name=driver),
        spec=core.DeviceClassSpec(
            selectors=[selector], extended_resource_name=NVIDIA_GPU if driver == NVIDIA else None
        ),
    )


class DevicePublisher(Controller):
    """Keeps the slices of some nodes as they should be, also when a user deletes them.

    Args:
        drivers: all drivers of these nodes.
        offer: devices by driver of a node; None for nodes of others.
        limits: whether ``offer`` says which devices pods have by limits, so that it is asked when pods come and go.
    """

    name = "device-publisher"
    workers = 2

    def __init__(self, drivers: Iterable[str], offer: Callable[[str], Offer | None], *, limits: bool = False) -> None:
        self._drivers, self._offer, self._limits = sorted(set(drivers)), offer, limits

    def setup(self, context: Context) -> None:
        """Watch nodes and slices."""
        self._nodes = context.watch(NODES, lambda node: self._ours(node.metadata.name), when=_comes)
        self._slices = context.watch(RESOURCE_SLICES, lambda each: self._ours(each.spec.node_name or ""))
        if self._limits:
            context.watch(PODS, lambda pod: self._ours(pod.spec.node_name or ""), when=_asks_by_limit)

    async def start(self) -> None:
        """Make the classes that are not there; one that is there may have another owner and stays."""
        for driver in self._drivers:
            try:
                await self._client.create(DEVICE_CLASSES, device_class(driver))
            except AlreadyExists:
                continue

    async def reconcile(self, key: str) -> float | None:
        """Bring the slices of one node up to date."""
        node, offer = self._nodes.get(key), self._offer(key)
        if node is None or offer is None:
            return None
        for driver in self._drivers:
            await self._publish(node, driver, offer.get(driver, ()))
        every = (device for devices in offer.values() for device in devices)
        return _LOOK_SECONDS if any(device.taints for device in every) else None

    def _ours(self, node: str) -> list[str]:
        return [node] if self._offer(node) is not None else []

    async def _publish(self, node: core.Node, driver: str, devices: Sequence[core.Device]) -> None:
        existing = self._slices.get(slice_name(node.metadata.name, driver))
        if existing is None:
            if devices:
                try:
                    await self._client.create(RESOURCE_SLICES, slice_of(node, driver, devices))
                except AlreadyExists:
                    return
            return
        meta = existing.metadata
        owned = any(each.uid == node.metadata.uid for each in meta.owner_references or ())
        try:
            if not devices or not owned:
                # Nothing to offer, or left by a node of the same name: the deletion brings us here again.
                await self._client.delete(RESOURCE_SLICES, meta.name, uid=meta.uid)
            elif _plain(existing.spec.devices or ()) != _plain(
                kept := _with_taints(devices, existing.spec.devices or ())
            ):
                replacement = slice_of(node, driver, kept, (existing.spec.pool.generation or 0) + 1)
                guarded = {"resourceVersion": meta.resource_version}
                spec = msgspec.to_builtins(replacement.spec)
                await self._client.patch(RESOURCE_SLICES, meta.name, {"metadata": guarded, "spec": spec})
        except NotFound:
            return


def _plain(devices: Iterable[core.Device]) -> list[object]:
    return [msgspec.to_builtins(each) for each in devices]


def _with_taints(devices: Sequence[core.Device], before: Iterable[core.Device]) -> list[core.Device]:
    """The devices with the taints that users have given them."""
    given = {each.name: [one for one in each.taints or () if one.key != GIVEN_BY_LIMIT] for each in before}
    return [
        msgspec.structs.replace(each, taints=[*given.get(each.name, ()), *(each.taints or ())] or None)
        for each in devices
    ]


def _asks_by_limit(event_type: EventType, new: core.Pod, old: core.Pod | None) -> bool:
    return bool(new.spec.node_name) and any(
        NVIDIA_GPU in (each.resources.limits or {}) for each in new.spec.containers or ()
    )


def _comes(event_type: EventType, new: core.Node, old: core.Node | None) -> bool:
    return event_type == "ADDED"


# Cards of this machine that a pod has through its resource claims, by container.

Results = list[tuple[str, str]]
"""(request, card) of one claim."""


async def claimed_cards(client: Client, pod: core.Pod, node: str, cards: list[str]) -> dict[str, list[str]]:
    """Cards by container, for containers that use claims of the pod.

    Args:
        client: the API.
        pod: a pod on this node.
        node: name of this node.
        cards: ids of the machine's cards, in its order.

    Raises:
        MissingSource: a claim is not there, or nothing was given for it yet.
        ApiError: the API did not answer.
    """
    backed = pod.status.extended_resource_claim_status
    if not pod.spec.resource_claims and backed is None:
        return {}
    cards_by_name = {card_name(index): card for index, card in enumerate(cards)}
    given = {entry: [*_results(claim, node, cards_by_name)] async for entry, claim in _claims(client, pod)}
    containers = (*(pod.spec.init_containers or ()), *(pod.spec.containers or ()))
    cards_by_container = {each.name: cards_of(each, given) for each in containers}
    if backed is not None:
        results = [*_results(await _allocated(client, pod, backed.resource_claim_name), node, cards_by_name)]
        for mapping in backed.request_mappings or ():
            cards_by_container[mapping.container_name] += [
                card for request, card in results if request == mapping.request_name
            ]
    return {name: cards for name, cards in cards_by_container.items() if cards}


def cards_of(container: core.Container, given: Mapping[str, Results]) -> list[str]:
    """Cards that a container may use: those of the claims, or of the requests of claims, that it names.

    Args:
        container: a container.
        given: what the pod's claims were given, by their names in the pod.
    """
    cards: dict[str, None] = {}
    for reference in container.resources.claims or ():
        for request, card in given.get(reference.name, ()):
            if not reference.request or request.partition("/")[0] == reference.request:
                cards[card] = None
    return list(cards)


async def _claims(client: Client, pod: core.Pod) -> AsyncIterator[tuple[str, core.ResourceClaim]]:
    made = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses or ()}
    for entry in pod.spec.resource_claims or ():
        name = entry.resource_claim_name or made.get(entry.name)
        if name is None:
            if entry.name in made:
                continue
            raise MissingSource(f"the resource claim {entry.name} of the pod has not been created yet")
        yield entry.name, await _allocated(client, pod, name)


async def _allocated(client: Client, pod: core.Pod, name: str) -> core.ResourceClaim:
    try:
        claim = await client.get(RESOURCE_CLAIMS, name, pod.metadata.namespace)
    except NotFound:
        raise MissingSource(f'resourceclaim "{name}" not found') from None
    if claim.status.allocation is None:
        raise MissingSource(f'resourceclaim "{name}" has no devices yet')
    if not any(each.uid == pod.metadata.uid for each in claim.status.reserved_for or ()):
        raise MissingSource(f'resourceclaim "{name}" is not reserved for the pod')
    return claim


def _results(claim: core.ResourceClaim, node: str, cards: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    allocation = claim.status.allocation
    for result in (allocation.devices.results or ()) if allocation is not None else ():
        if result.driver != NVIDIA or result.pool != node:
            continue
        if result.device not in cards:
            raise MissingSource(f'the device {result.device} of resourceclaim "{claim.metadata.name}" is gone')
        yield result.request, cards[result.device]
