"""Devices of a cluster by node, and which of them are taken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from unisono.api.core import Device, DeviceClass, DeviceTaint, NodeSelector, ResourceClaim, ResourceSlice
from unisono.api.quantity import parse_quantity
from unisono.cluster.devices import DeviceFacts, facts_of, selects
from unisono.engine.answers import BoolArray
from unisono.engine.plugins.common.node_selectors import match_selector
from unisono.engine.plugins.predicates.device_shares import (
    Amounts,
    Capacity,
    CounterName,
    DeviceName,
    DevicesInUse,
    consumed_by,
    full_name,
)
from unisono.engine.session.node_view import NodeView


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """One device.

    Attributes:
        name: (driver, pool, device).
        facts: what selectors see.
        kind: number that devices share which are interchangeable while they are free.
        alike: number that devices of different nodes share whose facts, taints, capacities and draws are equal.
        taints: those that keep claims away.
        scope: how an allocation says from where the device can be used: None for everywhere.
        capacity: its amounts by full name.
        draws: what it takes from shared counters while it is in use.
        shared: several claims may use it, as far as its capacity goes.
        plain: it is free or in use, and nothing else.
        device: as its slice has it.

    """

    name: DeviceName
    facts: DeviceFacts
    kind: int
    alike: int
    taints: tuple[DeviceTaint, ...]
    scope: NodeSelector | None
    capacity: Mapping[str, Capacity]
    draws: Mapping[CounterName, Fraction]
    shared: bool
    plain: bool
    device: Device


class _Limit(NamedTuple):
    """Devices of a node that are given by limits as well: how many claims may have is what such pods leave.

    Attributes:
        column: of the node.
        row: of the resource.
        claimed: devices that claims had when the session began; the node's ``allocatable`` is without them.

    """

    column: int
    row: int
    claimed: Fraction


class Inventory:
    """Devices of the newest complete generation of every pool.

    Attributes:
        by_node: ``[N]`` devices that each node can use, in order of pools and slices; pools with devices that bind by
            conditions come last.
        incomplete: ``[N]`` some pool of the node is not complete.
        book: what is in use.

    """

    def __init__(
        self,
        slices: Iterable[ResourceSlice],
        claims: Iterable[ResourceClaim],
        nodes: NodeView,
        served: Mapping[str, DeviceClass] | None = None,
    ) -> None:
        """``served`` are the classes of extended resources that some node reports itself."""
        self._nodes = nodes
        self._served = served or {}
        self._serving: dict[int, tuple[str, ...]] = {}
        self._limits: dict[CounterName, _Limit] = {}
        self._limits_of: dict[int, list[CounterName]] = {}
        self.by_node: list[list[Unit]] = [[] for _ in range(nodes.size)]
        self.incomplete: BoolArray = np.zeros(nodes.size, dtype=np.bool_)
        self.book = DevicesInUse()
        self.plain: BoolArray = np.ones(nodes.size, dtype=np.bool_)
        self._units: dict[DeviceName, Unit] = {}
        self._kinds: dict[bytes, int] = {}
        self._known: dict[bytes, tuple[DeviceFacts, Mapping[str, Capacity]]] = {}
        self._reach: dict[bytes, list[int]] = {}
        pools: dict[tuple[str, str], list[ResourceSlice]] = {}
        for one in slices:
            pools.setdefault((one.spec.driver, one.spec.pool.name), []).append(one)
        for name in sorted(pools, key=lambda name: (_binds_late(pools[name]), name)):
            self._add_pool(pools[name])
        for claim in claims:
            allocation = claim.status.allocation
            for result in (allocation.devices.results or ()) if allocation is not None else ():
                if not result.admin_access:
                    self._allocated((result.driver, result.pool, result.device), consumed_by(result), result.share_id)
        for counter, limit in self._limits.items():
            self._limits[counter] = limit._replace(claimed=self.book.drawn.get(counter, Fraction(0)))

    def _add_pool(self, slices: list[ResourceSlice]) -> None:
        newest = max(one.spec.pool.generation or 0 for one in slices)
        current = sorted(
            (one for one in slices if (one.spec.pool.generation or 0) == newest), key=lambda one: one.metadata.name
        )
        complete = len(current) >= (current[0].spec.pool.resource_slice_count or 1)
        for one in current:
            for counters in one.spec.shared_counters or ():
                for name, counter in (counters.counters or {}).items():
                    key = (one.spec.driver, one.spec.pool.name, counters.name, name)
                    self.book.totals[key] = parse_quantity(counter.value)
        for one in current:
            for device in one.spec.devices or ():
                columns, scope = self._place(one, device)
                if not complete:
                    self.incomplete[columns] = True
                    continue
                unit = self._units[one.spec.driver, one.spec.pool.name, device.name] = self._unit(one, device, scope)
                for column in columns:
                    self.by_node[column].append(unit)
                if not unit.plain:
                    self.plain[columns] = False

    def _allocated(self, name: DeviceName, amounts: Amounts, share: str | None) -> None:
        unit = self._units.get(name)
        self._use(name, unit, amounts if share or (unit is not None and unit.shared) else None, 1)

    # ---- what is in use

    def use(self, unit: Unit, amounts: Amounts | None, sign: int) -> None:
        """Give a device, or a share of it, or take it back.

        Args:
            unit: the device.
            amounts: what a share consumes; None for the whole device.
            sign: 1 or -1.

        """
        self._use(unit.name, unit, amounts, sign)

    def _use(self, name: DeviceName, unit: Unit | None, amounts: Amounts | None, sign: int) -> None:
        book, before = self.book, self.book.in_use(name)
        if amounts is not None:
            book.share(name, amounts, sign)
        else:
            (book.taken.add if sign > 0 else book.taken.discard)(name)
        if unit is not None and before != book.in_use(name):
            book.draw(unit.draws, sign)

    def settle(self, column: int) -> bool:
        """Look what pods with limits have left of a node's devices; answers whether that has changed."""
        changed = False
        for counter in self._limits_of.get(column, ()):
            limit = self._limits[counter]
            nodes = self._nodes
            left = int(nodes.allocatable[limit.row, column] - nodes.used[limit.row, column])
            total = limit.claimed + Fraction(left, 1000)
            changed |= self.book.totals.get(counter) != total
            self.book.totals[counter] = total
        return changed

    def granted(self, resource: str) -> npt.NDArray[np.int64]:
        """``[N]`` devices of nodes that report a resource which claims have got in this session, in engine units."""
        found = np.zeros(self._nodes.size, dtype=np.int64)
        for counter, limit in self._limits.items():
            if counter[3] == resource:
                found[limit.column] = int((self.book.drawn.get(counter, Fraction(0)) - limit.claimed) * 1000)
        return found

    def _limits_for(self, one: ResourceSlice, device: Device, facts: DeviceFacts) -> Iterator[CounterName]:
        """Counters of the extended resources for which the device counts, on a node that reports them itself."""
        node = device.node_name if one.spec.per_device_node_selection else one.spec.node_name
        column = self._nodes.table.index.get(node or "")
        if column is None:
            return
        known = self._serving.get(id(facts))
        if known is None:
            known = tuple(name for name, device_class in self._served.items() if selects(device_class, facts))
            self._serving[id(facts)] = known
        node_facts = self._nodes.table.facts[column]
        for name in known:
            if name not in node_facts.allocatable or name in node_facts.by_claims:
                continue
            counter = ("", node or "", "limits", name)
            if counter not in self._limits:
                self._limits[counter] = _Limit(column, self._nodes.table.registry.row(name), Fraction(0))
                self._limits_of.setdefault(column, []).append(counter)
            yield counter

    def state(self, column: int) -> tuple[object, ...]:
        """Equal for nodes whose devices have equal amounts left; empty where devices are only free or in use."""
        if self.plain[column]:
            return ()
        numbers: dict[CounterName, int] = {}
        found: list[object] = []
        for unit in self.by_node[column]:
            draws = tuple((numbers.setdefault(key, len(numbers)), self.book.left(key)) for key in unit.draws)
            consumed = tuple(sorted(self.book.consumed.get(unit.name, {}).items())) if unit.shared else ()
            found.append((draws, consumed, self.book.shares.get(unit.name, 0) > 0))
        return tuple(found)

    def _place(self, one: ResourceSlice, device: Device) -> tuple[list[int], NodeSelector | None]:
        """Columns of the nodes that can use a device, and the selector that says so."""
        owner = device if one.spec.per_device_node_selection else one.spec
        if owner.node_name:
            column = self._nodes.table.index.get(owner.node_name)
            return ([] if column is None else [column]), on_node(owner.node_name)
        if owner.node_selector is None:
            return (list(range(self._nodes.size)) if owner.all_nodes else []), None
        key = msgspec.msgpack.encode(owner.node_selector)
        found = self._reach.get(key)
        if found is None:
            found = self._reach[key] = np.flatnonzero(match_selector(owner.node_selector, self._nodes)).tolist()
        return found, owner.node_selector

    def _unit(self, one: ResourceSlice, device: Device, scope: NodeSelector | None) -> Unit:
        driver, pool = one.spec.driver, one.spec.pool.name
        taints = tuple(taint for taint in device.taints or () if taint.effect in ("NoSchedule", "NoExecute"))
        draws = {
            (driver, pool, each.counter_set, name): parse_quantity(counter.value)
            for each in device.consumes_counters or ()
            for name, counter in (each.counters or {}).items()
        }
        shared = bool(device.allow_multiple_allocations)
        facts = msgspec.msgpack.encode((driver, device.attributes, device.capacity, taints, shared))
        known = self._known.get(facts)
        if known is None:
            capacity = {
                full_name(name, driver): Capacity(parse_quantity(each.value), each.request_policy)
                for name, each in (device.capacity or {}).items()
            }
            known = self._known[facts] = facts_of(driver, device, facts), capacity
        if self._served and not shared:
            draws |= dict.fromkeys(self._limits_for(one, device, known[0]), Fraction(1))
        alike = self._number(facts, device.consumes_counters, device.binding_conditions)
        own = (pool, device.name if shared else "") if shared or draws else ()
        kind = self._number(facts, device.consumes_counters, device.binding_conditions, *own) if own else alike
        name = (driver, pool, device.name)
        return Unit(
            name, known[0], kind, alike, taints, scope, known[1], draws, shared, not shared and not draws, device
        )

    def _number(self, *what: object) -> int:
        return self._kinds.setdefault(msgspec.msgpack.encode(what), len(self._kinds))

    def free(self, column: int) -> list[Unit]:
        """Devices of a node that no claim has for itself."""
        return [unit for unit in self.by_node[column] if unit.name not in self.book.taken]


def on_node(name: str) -> NodeSelector:
    """The selector of one node."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [name]}]
    return msgspec.convert({"nodeSelectorTerms": [{"matchFields": fields}]}, NodeSelector)


def _binds_late(slices: Iterable[ResourceSlice]) -> bool:
    return any(device.binding_conditions for one in slices for device in one.spec.devices or ())


def attribute(unit: Unit, name: str) -> Any:
    """Value of a fully qualified attribute; None when the device lacks it."""
    domain, _, short = name.partition("/")
    values: Mapping[str, Any] = unit.facts.attributes.get(domain, {})
    return values.get(short)
