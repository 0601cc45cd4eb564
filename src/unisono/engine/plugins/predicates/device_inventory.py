"""Devices of a cluster by node, and which of them are taken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np

from unisono.api.cel import EvaluationError, Quantity, Semver
from unisono.api.core import Device, DeviceTaint, NodeSelector, ResourceClaim, ResourceSlice
from unisono.api.quantity import parse_quantity
from unisono.engine.answers import BoolArray
from unisono.engine.plugins.common.node_selectors import match_selector
from unisono.engine.plugins.predicates.device_selectors import DeviceFacts
from unisono.engine.session.node_view import NodeView

DeviceName = tuple[str, str, str]
"""(driver, pool, device)."""


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """One device.

    Attributes:
        name: (driver, pool, device).
        facts: what selectors see.
        kind: number that devices share whose facts and taints are equal.
        taints: those that keep claims away.
        scope: how an allocation says from where the device can be used: None for everywhere.

    """

    name: DeviceName
    facts: DeviceFacts
    kind: int
    taints: tuple[DeviceTaint, ...]
    scope: NodeSelector | None


class Inventory:
    """Devices of the newest complete generation of every pool.

    Devices that draw from shared counters, that several claims may share, or that bind by conditions are left out: this
    version cannot account for them.

    Attributes:
        by_node: ``[N]`` devices that each node can use, in order of pools and slices.
        incomplete: ``[N]`` some pool of the node is not complete.
        taken: devices that some claim has, and how often in this session.

    """

    def __init__(self, slices: Iterable[ResourceSlice], claims: Iterable[ResourceClaim], nodes: NodeView) -> None:
        self._nodes = nodes
        self.by_node: list[list[Unit]] = [[] for _ in range(nodes.size)]
        self.incomplete: BoolArray = np.zeros(nodes.size, dtype=np.bool_)
        self.taken: set[DeviceName] = set()
        self._kinds: dict[bytes, int] = {}
        self._reach: dict[bytes, list[int]] = {}
        pools: dict[tuple[str, str], list[ResourceSlice]] = {}
        for one in slices:
            pools.setdefault((one.spec.driver, one.spec.pool.name), []).append(one)
        for name in sorted(pools):
            self._add_pool(pools[name])
        for claim in claims:
            allocation = claim.status.allocation
            for result in (allocation.devices.results or ()) if allocation is not None else ():
                if not result.admin_access:
                    self.taken.add((result.driver, result.pool, result.device))

    def _add_pool(self, slices: list[ResourceSlice]) -> None:
        newest = max(one.spec.pool.generation or 0 for one in slices)
        current = sorted(
            (one for one in slices if (one.spec.pool.generation or 0) == newest), key=lambda one: one.metadata.name
        )
        complete = len(current) >= (current[0].spec.pool.resource_slice_count or 1)
        for one in current:
            for device in one.spec.devices or ():
                columns, scope = self._place(one, device)
                if not complete:
                    self.incomplete[columns] = True
                elif not (device.consumes_counters or device.allow_multiple_allocations or device.binding_conditions):
                    unit = self._unit(one, device, scope)
                    for column in columns:
                        self.by_node[column].append(unit)

    def _place(self, one: ResourceSlice, device: Device) -> tuple[list[int], NodeSelector | None]:
        """Columns of the nodes that can use a device, and the selector that says so."""
        owner = device if one.spec.per_device_node_selection else one.spec
        if owner.node_name:
            column = self._nodes.table.index.get(owner.node_name)
            selector = msgspec.convert(
                {
                    "nodeSelectorTerms": [
                        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [owner.node_name]}]}
                    ]
                },
                NodeSelector,
            )
            return ([] if column is None else [column]), selector
        if owner.node_selector is None:
            return (list(range(self._nodes.size)) if owner.all_nodes else []), None
        key = msgspec.msgpack.encode(owner.node_selector)
        found = self._reach.get(key)
        if found is None:
            found = self._reach[key] = np.flatnonzero(match_selector(owner.node_selector, self._nodes)).tolist()
        return found, owner.node_selector

    def _unit(self, one: ResourceSlice, device: Device, scope: NodeSelector | None) -> Unit:
        taints = tuple(taint for taint in device.taints or () if taint.effect in ("NoSchedule", "NoExecute"))
        key = msgspec.msgpack.encode((one.spec.driver, device.attributes, device.capacity, taints))
        kind = self._kinds.setdefault(key, len(self._kinds))
        name = (one.spec.driver, one.spec.pool.name, device.name)
        return Unit(name, facts_of(one.spec.driver, device, key), kind, taints, scope)

    def free(self, column: int) -> list[Unit]:
        """Devices of a node that no claim has."""
        return [unit for unit in self.by_node[column] if unit.name not in self.taken]


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
    capacity: dict[str, dict[str, Quantity]] = {}
    for name, amount in (device.capacity or {}).items():
        domain, short = _qualified(name, driver)
        capacity.setdefault(domain, {})[short] = Quantity(Fraction(parse_quantity(amount.value)))
    return DeviceFacts(key, driver, attributes, capacity)


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
        return Semver.parse(text or "")
    except EvaluationError:
        return text


def attribute(unit: Unit, name: str) -> Any:
    """Value of a fully qualified attribute; None when the device lacks it."""
    domain, _, short = name.partition("/")
    values: Mapping[str, Any] = unit.facts.attributes.get(domain, {})
    return values.get(short)
