"""Devices of a cluster by node, which of them are taken, and what they share out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from unisono.api import core
from unisono.api.base import Quantity
from unisono.api.quantity import format_bytes, format_milli, parse_quantity
from unisono.cluster.devices import DeviceFacts, facts_of, selects
from unisono.engine.answers import BoolArray
from unisono.engine.plugins.common.node_selectors import match_selector
from unisono.engine.session.node_view import NodeView

# What devices share out: amounts of a device that several claims may use, and counters from which devices draw.

DeviceName = tuple[str, str, str]
"""(driver, pool, device)."""
CounterName = tuple[str, str, str, str]
"""(driver, pool, counter set, counter)."""
Amounts = Mapping[str, Fraction]
"""Amounts of one device by the name of its capacity."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """One amount of a device, and in which portions it is given."""

    value: Fraction
    policy: core.CapacityRequestPolicy | None = None

    def portion(self, asked: Fraction | None) -> Fraction | None:
        """What a request consumes: the smallest permitted amount that is enough; None when there is none.

        Args:
            asked: None where the request does not name the amount.
        """
        policy = self.policy
        if asked is None:
            given = policy.default if policy is not None else None
            return self.value if given is None else parse_quantity(given)
        if policy is None or (policy.valid_values is None and policy.valid_range is None):
            return asked
        if policy.valid_values is not None:
            return min((one for one in map(parse_quantity, policy.valid_values) if one >= asked), default=None)
        return _in_range(policy, asked)


def _in_range(policy: core.CapacityRequestPolicy, asked: Fraction) -> Fraction | None:
    bounds = policy.valid_range
    if bounds is None:
        return asked
    least = parse_quantity(bounds.min) if bounds.min is not None else Fraction(0)
    amount = max(asked, least)
    if bounds.step is not None and (step := parse_quantity(bounds.step)) > 0:
        amount = least - ((least - amount) // step) * step  # rounded up
    return None if bounds.max is not None and amount > parse_quantity(bounds.max) else amount


def portions(capacity: Mapping[str, Capacity], asked: Amounts) -> Amounts | None:
    """What a request consumes of each capacity of a device; None where the device cannot give so much of one.

    Args:
        capacity: of the device, by its full name.
        asked: amounts that the request names, by full name.
    """
    if not asked.keys() <= capacity.keys():
        return None
    consumed: dict[str, Fraction] = {}
    for name, one in capacity.items():
        portion = one.portion(asked.get(name))
        if portion is None or portion > one.value:
            return None
        consumed[name] = portion
    return consumed


@dataclass(slots=True)
class DevicesInUse:
    """What is in use.

    Attributes:
        taken: devices that one claim has for itself.
        shares: by device that several claims may use: how many do.
        consumed: by such a device, how much of each capacity is consumed.
        totals: counters of all pools.
        drawn: what devices in use draw from them.
    """

    taken: set[DeviceName] = field(default_factory=set)
    shares: dict[DeviceName, int] = field(default_factory=dict)
    consumed: dict[DeviceName, dict[str, Fraction]] = field(default_factory=dict)
    totals: dict[CounterName, Fraction] = field(default_factory=dict)
    drawn: dict[CounterName, Fraction] = field(default_factory=dict)

    def in_use(self, name: DeviceName) -> bool:
        """Whether some claim has the device, or a share of it."""
        return name in self.taken or name in self.shares

    def left(self, counter: CounterName) -> Fraction:
        """What is left of a counter; nothing of one that does not exist."""
        return self.totals.get(counter, Fraction(0)) - self.drawn.get(counter, Fraction(0))

    def draw(self, draws: Mapping[CounterName, Fraction], sign: int) -> None:
        """Add what a device draws, or take it away."""
        for counter, amount in draws.items():
            self.drawn[counter] = self.drawn.get(counter, Fraction(0)) + sign * amount

    def share(self, name: DeviceName, amounts: Amounts, sign: int) -> None:
        """Add one share of a device, or take it away."""
        number = self.shares.get(name, 0) + sign
        if number <= 0:
            self.shares.pop(name, None)
            self.consumed.pop(name, None)
            return
        self.shares[name] = number
        consumed = self.consumed.setdefault(name, {})
        for key, amount in amounts.items():
            consumed[key] = consumed.get(key, Fraction(0)) + sign * amount


def consumed_by(result: core.DeviceRequestAllocationResult) -> Amounts:
    """What an allocated share consumes."""
    return full_names(result.consumed_capacity or {}, result.driver)


def full_names(amounts: Mapping[str, Quantity], driver: str) -> Amounts:
    """Amounts by full name; names without a domain belong to the driver's."""
    return {full_name(name, driver): parse_quantity(amount) for name, amount in amounts.items()}


def full_name(name: str, driver: str) -> str:
    """``domain/name``."""
    return name if "/" in name else f"{driver}/{name}"


def written(amounts: Amounts, names: Iterable[str], driver: str) -> dict[str, Quantity]:
    """Amounts as an allocation states them, under the names of the device's slice."""
    return {name: _text(amounts[full_name(name, driver)]) for name in names if full_name(name, driver) in amounts}


def _text(amount: Fraction) -> str:
    if amount.denominator == 1 and amount >= 1024 and not amount.numerator % 1024:
        return format_bytes(amount.numerator)
    return format_milli(-(-amount.numerator * 1000 // amount.denominator))


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
    taints: tuple[core.DeviceTaint, ...]
    scope: core.NodeSelector | None
    capacity: Mapping[str, Capacity]
    draws: Mapping[CounterName, Fraction]
    shared: bool
    plain: bool
    device: core.Device


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
        slices: Iterable[core.ResourceSlice],
        claims: Iterable[core.ResourceClaim],
        nodes: NodeView,
        served: Mapping[str, core.DeviceClass] | None = None,
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
        pools: dict[tuple[str, str], list[core.ResourceSlice]] = {}
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

    def _add_pool(self, slices: list[core.ResourceSlice]) -> None:
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
        amounts = np.zeros(self._nodes.size, dtype=np.int64)
        for counter, limit in self._limits.items():
            if counter[3] == resource:
                amounts[limit.column] = int((self.book.drawn.get(counter, Fraction(0)) - limit.claimed) * 1000)
        return amounts

    def _limits_for(self, one: core.ResourceSlice, device: core.Device, facts: DeviceFacts) -> Iterator[CounterName]:
        """Counters of the extended resources for which the device counts, on a node that reports them itself."""
        node = device.node_name if one.spec.per_device_node_selection else one.spec.node_name
        column = self._nodes.table.index.get(node or "")
        if column is None:
            return
        names = self._serving.get(id(facts))
        if names is None:
            names = tuple(name for name, device_class in self._served.items() if selects(device_class, facts))
            self._serving[id(facts)] = names
        node_facts = self._nodes.table.facts[column]
        for name in names:
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
        states: list[object] = []
        for unit in self.by_node[column]:
            draws = tuple((numbers.setdefault(key, len(numbers)), self.book.left(key)) for key in unit.draws)
            consumed = tuple(sorted(self.book.consumed.get(unit.name, {}).items())) if unit.shared else ()
            states.append((draws, consumed, self.book.shares.get(unit.name, 0) > 0))
        return tuple(states)

    def _place(self, one: core.ResourceSlice, device: core.Device) -> tuple[list[int], core.NodeSelector | None]:
        """Columns of the nodes that can use a device, and the selector that says so."""
        owner = device if one.spec.per_device_node_selection else one.spec
        if owner.node_name:
            column = self._nodes.table.index.get(owner.node_name)
            return ([] if column is None else [column]), on_node(owner.node_name)
        if owner.node_selector is None:
            return (list(range(self._nodes.size)) if owner.all_nodes else []), None
        key = msgspec.msgpack.encode(owner.node_selector)
        columns = self._reach.get(key)
        if columns is None:
            columns = self._reach[key] = np.flatnonzero(match_selector(owner.node_selector, self._nodes)).tolist()
        return columns, owner.node_selector

    def _unit(self, one: core.ResourceSlice, device: core.Device, scope: core.NodeSelector | None) -> Unit:
        driver, pool = one.spec.driver, one.spec.pool.name
        taints = tuple(taint for taint in device.taints or () if taint.effect in ("NoSchedule", "NoExecute"))
        draws = {
            (driver, pool, each.counter_set, name): parse_quantity(counter.value)
            for each in device.consumes_counters or ()
            for name, counter in (each.counters or {}).items()
        }
        shared = bool(device.allow_multiple_allocations)
        facts = msgspec.msgpack.encode((driver, device.attributes, device.capacity, taints, shared))
        cached = self._known.get(facts)
        if cached is None:
            capacity = {
                full_name(name, driver): Capacity(parse_quantity(each.value), each.request_policy)
                for name, each in (device.capacity or {}).items()
            }
            cached = self._known[facts] = facts_of(driver, device, facts), capacity
        if self._served and not shared:
            draws |= dict.fromkeys(self._limits_for(one, device, cached[0]), Fraction(1))
        alike = self._number(facts, device.consumes_counters, device.binding_conditions)
        own = (pool, device.name if shared else "") if shared or draws else ()
        kind = self._number(facts, device.consumes_counters, device.binding_conditions, *own) if own else alike
        name = (driver, pool, device.name)
        return Unit(
            name, cached[0], kind, alike, taints, scope, cached[1], draws, shared, not shared and not draws, device
        )

    def _number(self, *what: object) -> int:
        return self._kinds.setdefault(msgspec.msgpack.encode(what), len(self._kinds))

    def free(self, column: int) -> list[Unit]:
        """Devices of a node that no claim has for itself."""
        return [unit for unit in self.by_node[column] if unit.name not in self.book.taken]


def on_node(name: str) -> core.NodeSelector:
    """The selector of one node."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [name]}]
    return msgspec.convert({"nodeSelectorTerms": [{"matchFields": fields}]}, core.NodeSelector)


def _binds_late(slices: Iterable[core.ResourceSlice]) -> bool:
    return any(device.binding_conditions for one in slices for device in one.spec.devices or ())


def attribute(unit: Unit, name: str) -> Any:
    """Value of a fully qualified attribute; None when the device lacks it."""
    domain, _, short = name.partition("/")
    values: Mapping[str, Any] = unit.facts.attributes.get(domain, {})
    return values.get(short)
