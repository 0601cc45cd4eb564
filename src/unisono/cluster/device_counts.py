"""Extended resources that nodes have through ResourceSlices: how many devices of a class, and how many claims have.

Devices that belong to one node count; which of them a pod gets is up to its claim.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from unisono.api.core import DeviceClass, ResourceClaim, ResourceSlice
from unisono.api.extended_devices import IMPLICIT_PREFIX, classes_by_resource, stands_for_limits
from unisono.cluster.catalogue import Catalogue
from unisono.cluster.device_selectors import DeviceFacts, SelectorError, compile_selector, facts_of

_Device = tuple[str, str, str]
"""(driver, pool, device)."""


@dataclass(slots=True)
class DeviceCount:
    """Devices of one node, by the resources that their classes serve, in engine units.

    Attributes:
        there: all of them.
        claimed: those that claims have which do not stand for a pod's limits.

    """

    there: dict[str, int] = field(default_factory=dict)
    claimed: dict[str, int] = field(default_factory=dict)


NO_DEVICES = DeviceCount()


class DeviceCounts:
    """What each node has of extended resources that device classes serve, brought up to date when it is asked for."""

    def __init__(self) -> None:
        self._by_node: Mapping[str, DeviceCount] = {}
        self._asked: set[str] = set()
        self._seen: tuple[int, ...] = ()

    def of(self, node: str) -> DeviceCount:
        """What was found out last about a node."""
        return self._by_node.get(node, NO_DEVICES)

    def ask(self, resources: Iterable[str]) -> None:
        """Pods request these resources: of the names that every class has, only those count that are asked for."""
        self._asked.update(name for name in resources if name.startswith(IMPLICIT_PREFIX))

    def settle(self, catalogue: Catalogue) -> dict[str, DeviceCount]:
        """What the nodes have for which it has changed."""
        slices, classes, claims = catalogue.device_slices, catalogue.device_classes, catalogue.device_claims
        seen = (slices.version, classes.version, claims.version, len(self._asked))
        if seen == self._seen:
            return {}
        self._seen, before = seen, self._by_node
        self._by_node = device_counts(slices.values(), classes.values(), claims.values(), self._asked)
        now = {name: self.of(name) for name in sorted(before.keys() | self._by_node.keys())}
        return {name: count for name, count in now.items() if count != before.get(name, NO_DEVICES)}


def device_counts(
    slices: Iterable[ResourceSlice],
    classes: Iterable[DeviceClass],
    claims: Iterable[ResourceClaim] = (),
    asked: Collection[str] = (),
) -> dict[str, DeviceCount]:
    """What each node has of the resources that classes serve.

    A class whose selectors cannot be read or have no answer serves nothing.

    Args:
        slices: all of them; of each pool the newest generation counts, if it is complete.
        classes: all of them.
        claims: all of them.
        asked: names that every class has by itself and that count.

    """
    served = {
        name: one
        for name, one in classes_by_resource(classes).items()
        if not name.startswith(IMPLICIT_PREFIX) or name in asked
    }
    found: dict[str, DeviceCount] = {}
    if not served:
        return found
    homes: dict[_Device, tuple[DeviceCount, list[str]]] = {}
    serves = _Serves(served)
    for one in _current(slices):
        for device in one.spec.devices or ():
            node = device.node_name if one.spec.per_device_node_selection else one.spec.node_name
            if not node or device.allow_multiple_allocations:
                continue
            key = msgspec.msgpack.encode((one.spec.driver, device.attributes, device.capacity))
            names = serves.names(key, lambda: facts_of(one.spec.driver, device, key))  # noqa: B023 # asked at once
            if names:
                count = found.setdefault(node, DeviceCount())
                homes[one.spec.driver, one.spec.pool.name, device.name] = count, names
                for name in names:
                    count.there[name] = count.there.get(name, 0) + 1000
    for claim in claims:
        allocation = claim.status.allocation
        if allocation is None or stands_for_limits(claim):
            continue
        for result in allocation.devices.results or ():
            home = homes.get((result.driver, result.pool, result.device))
            if home is not None and not result.admin_access:
                for name in home[1]:
                    home[0].claimed[name] = home[0].claimed.get(name, 0) + 1000
    return found


class _Serves:
    """Which resources a device counts for; asked once about equal devices."""

    def __init__(self, served: Mapping[str, DeviceClass]) -> None:
        self._served = served
        self._known: dict[bytes, list[str]] = {}

    def names(self, key: bytes, facts: Callable[[], DeviceFacts]) -> list[str]:
        found = self._known.get(key)
        if found is None:
            device = facts()
            found = self._known[key] = [name for name, one in self._served.items() if selects(one, device)]
        return found


def _current(slices: Iterable[ResourceSlice]) -> Iterator[ResourceSlice]:
    pools: dict[tuple[str, str], list[ResourceSlice]] = {}
    for one in slices:
        pools.setdefault((one.spec.driver, one.spec.pool.name), []).append(one)
    for parts in pools.values():
        newest = max(one.spec.pool.generation or 0 for one in parts)
        current = [one for one in parts if (one.spec.pool.generation or 0) == newest]
        if len(current) >= (current[0].spec.pool.resource_slice_count or 1):
            yield from current


def selects(device_class: DeviceClass, device: DeviceFacts) -> bool:
    """Whether a device belongs to a class; not where a selector has no answer."""
    try:
        return all(
            compile_selector(selector.cel.expression).selects(device)
            for selector in device_class.spec.selectors or ()
            if selector.cel is not None
        )
    except SelectorError:
        return False
