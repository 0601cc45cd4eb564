"""Devices of resource claims: selectors in CEL, and how many devices of a class each node offers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

import msgspec

from unisono.api import cel
from unisono.api.core import Device, DeviceClass, ResourceClaim, ResourceSlice
from unisono.api.extended_devices import IMPLICIT_PREFIX, classes_by_resource, stands_for_limits
from unisono.api.quantity import parse_quantity
from unisono.cluster.catalogue import Catalogue

# Device selectors: CEL over ``device``, asked once per kind of device.

VARIABLES = frozenset(("device",))
# All questions of one selector may cost this much, and as much more for each device.
_AT_LEAST, _PER_DEVICE = 1_000_000, 200
_MOST_KNOWN = 20_000


class SelectorError(ValueError):
    """A selector that cannot be read, or that has no answer for a device."""


@dataclass(frozen=True, slots=True, eq=False)
class DeviceFacts:
    """What selectors see of a device.

    Attributes:
        key: equal for devices that selectors cannot tell apart.
        driver: of the device.
        attributes: values by domain and name.
        capacity: amounts by domain and name.
        shared: several claims may use it.
    """

    key: bytes
    driver: str
    attributes: Mapping[str, Mapping[str, Any]]
    capacity: Mapping[str, Mapping[str, Any]]
    shared: bool = False
    variables: Mapping[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        device = {
            "driver": self.driver,
            "attributes": _Domains(self.attributes),
            "capacity": _Domains(self.capacity),
            "allowMultipleAllocations": self.shared,
        }
        object.__setattr__(self, "variables", {"device": device})


class _Domains(dict[str, Any]):
    """Every domain exists, an unknown one is empty."""

    def __missing__(self, key: str) -> dict[str, Any]:
        return {}


class CompiledSelector:
    """One compiled selector and what it has answered.

    A device without the attribute that the selector looks at is not selected; in Kubernetes it ends the search.
    """

    __slots__ = ("_asked", "_known", "_program", "_spent", "_trouble")

    def __init__(self, program: cel.Program) -> None:
        self._program = program
        self._known: dict[bytes, bool | str] = {}
        self._asked = self._spent = 0
        self._trouble = ""

    def selects(self, device: DeviceFacts) -> bool:
        """Whether a device is meant.

        Raises:
            SelectorError: the selector has no answer, or has cost too much for all devices together.
        """
        answer = self._known.get(device.key)
        if answer is None:
            answer = self._ask(device)
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[device.key] = answer
        if isinstance(answer, str):
            raise SelectorError(answer)
        return answer

    def _ask(self, device: DeviceFacts) -> bool | str:
        if self._trouble:
            return self._trouble
        self._asked += 1
        budget = cel.Budget(_AT_LEAST + _PER_DEVICE * self._asked - self._spent)
        before = budget.left
        try:
            answer = self._program.evaluate(device.variables, budget)
        except cel.MissingError:
            return False
        except cel.EvaluationError as error:
            return f"a device selector failed: {error}"
        except cel.CostError as error:
            self._trouble = f"a device selector failed: {error}"
            return self._trouble
        finally:
            self._spent += before - budget.left
        return answer if isinstance(answer, bool) else "a device selector failed: it must answer a bool"


@lru_cache(maxsize=256)
def compile_selector(text: str) -> CompiledSelector:
    """Read a selector.

    Raises:
        SelectorError: it cannot be compiled.
    """
    try:
        return CompiledSelector(cel.compile_expression(text, VARIABLES))
    except cel.CompileError as error:
        raise SelectorError(f"a device selector cannot be compiled: {error}") from None


def facts_of(driver: str, device: Device, key: bytes) -> DeviceFacts:
    """Attributes and capacity by domain; names without one belong to the driver's.

    Args:
        driver: of the device.
        device: as its slice has it.
        key: equal for devices that selectors cannot tell apart.
    """
    attributes: dict[str, dict[str, Any]] = {}
    for name, value in (device.attributes or {}).items():
        domain, short = _qualified(name, driver)
        attributes.setdefault(domain, {})[short] = _value(value)
    capacity: dict[str, dict[str, cel.Quantity]] = {}
    for name, amount in (device.capacity or {}).items():
        domain, short = _qualified(name, driver)
        capacity.setdefault(domain, {})[short] = cel.Quantity(Fraction(parse_quantity(amount.value)))
    return DeviceFacts(key, driver, attributes, capacity, bool(device.allow_multiple_allocations))


def _qualified(name: str, driver: str) -> tuple[str, str]:
    domain, slash, short = name.partition("/")
    return (domain, short) if slash else (driver, name)


def _value(value: Any) -> Any:
    if value.int_value is not None:
        return value.int_value
    if value.bool_value is not None:
        return value.bool_value
    return value.string_value if value.string_value is not None else _version(value.version_value)


def _version(text: str | None) -> Any:
    try:
        return cel.Semver.parse(text or "")
    except cel.EvaluationError:
        return text


# Extended resources that nodes have through ResourceSlices: how many devices of a class, and how many claims have.
#
# Devices that belong to one node count; which of them a pod gets is up to its claim.

_Device = tuple[str, str, str]
"""(driver, pool, device)."""

Served = tuple[str, list[str]]
"""Node of a device, and the resources that it counts for."""

UNITS_PER_DEVICE = 1000
"""Engine units of one device."""


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
        self._served: Mapping[_Device, Served] = {}
        self._by_node: Mapping[str, DeviceCount] = {}
        self._asked: set[str] = set()
        self._seen_devices: tuple[int, ...] = ()
        self._seen_claims = -1

    def of(self, node: str) -> DeviceCount:
        """What was found out last about a node."""
        return self._by_node.get(node, NO_DEVICES)

    def ask(self, resources: Iterable[str]) -> None:
        """Pods request these (`PodClass.device_resources`): of the names that every class has, no others count."""
        self._asked.update(resources)

    def settle(self, catalogue: Catalogue) -> dict[str, DeviceCount]:
        """What the nodes have for which it has changed.

        Claims change in every cycle that starts pods, devices and classes hardly ever: devices are looked at again only
        when one of these has changed.
        """
        slices, classes, claims = catalogue.device_slices, catalogue.device_classes, catalogue.device_claims
        devices = (slices.version, classes.version, len(self._asked))
        if devices != self._seen_devices:
            self._served = served_devices(slices.values(), classes.values(), self._asked)
        elif claims.version == self._seen_claims or not self._served:
            self._seen_claims = claims.version
            return {}
        self._seen_devices, self._seen_claims, before = devices, claims.version, self._by_node
        self._by_node = device_counts(self._served, claims.values())
        now = {name: self.of(name) for name in sorted(before.keys() | self._by_node.keys())}
        return {name: count for name, count in now.items() if count != before.get(name, NO_DEVICES)}


def served_devices(
    slices: Iterable[ResourceSlice], classes: Iterable[DeviceClass], asked: Collection[str] = ()
) -> dict[_Device, Served]:
    """The devices of nodes that serve extended resources.

    A class whose selectors cannot be read or have no answer serves nothing.

    Args:
        slices: all of them; of each pool the newest generation counts, if it is complete.
        classes: all of them.
        asked: names that every class has by itself and that count.
    """
    by_resource = {
        name: one
        for name, one in classes_by_resource(classes).items()
        if not name.startswith(IMPLICIT_PREFIX) or name in asked
    }
    if not by_resource:
        return {}
    served: dict[_Device, Served] = {}
    serves = _Serves(by_resource)
    for one in _current(slices):
        for device in one.spec.devices or ():
            node = device.node_name if one.spec.per_device_node_selection else one.spec.node_name
            if not node or device.allow_multiple_allocations:
                continue
            key = msgspec.msgpack.encode((one.spec.driver, device.attributes, device.capacity))
            names = serves.names(key, lambda: facts_of(one.spec.driver, device, key))  # noqa: B023 # asked at once
            if names:
                served[one.spec.driver, one.spec.pool.name, device.name] = node, names
    return served


def device_counts(served: Mapping[_Device, Served], claims: Iterable[ResourceClaim] = ()) -> dict[str, DeviceCount]:
    """What each node has of the resources that devices serve.

    Args:
        served: the devices.
        claims: all of them.
    """
    counts: dict[str, DeviceCount] = {}
    for node, names in served.values():
        _count(counts.setdefault(node, DeviceCount()).there, names)
    for claim in claims:
        allocation = claim.status.allocation
        if allocation is None or stands_for_limits(claim):
            continue
        for result in allocation.devices.results or ():
            home = served.get((result.driver, result.pool, result.device))
            if home is not None and not result.admin_access:
                _count(counts[home[0]].claimed, home[1])
    return counts


def _count(amounts: dict[str, int], names: Iterable[str]) -> None:
    for name in names:
        amounts[name] = amounts.get(name, 0) + UNITS_PER_DEVICE


class _Serves:
    """Which resources a device counts for; asked once about equal devices."""

    def __init__(self, served: Mapping[str, DeviceClass]) -> None:
        self._served = served
        self._known: dict[bytes, list[str]] = {}

    def names(self, key: bytes, facts: Callable[[], DeviceFacts]) -> list[str]:
        resources = self._known.get(key)
        if resources is None:
            device = facts()
            resources = self._known[key] = [name for name, one in self._served.items() if selects(one, device)]
        return resources


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
