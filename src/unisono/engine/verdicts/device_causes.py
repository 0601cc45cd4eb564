"""Which device claim keeps a pod away from nodes: a template, a class, selectors, a count, or devices in use."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from unisono.api.core import DeviceClass, DeviceConstraint, ResourceClaim
from unisono.api.extended_devices import device_classes
from unisono.api.messages import counted
from unisono.api.names import nearest
from unisono.cluster.podclass import PodClass
from unisono.engine.changes import UseDeviceClass, listed
from unisono.engine.cycle.context import Cycle
from unisono.engine.plugins.common.node_selectors import match_selector
from unisono.engine.plugins.predicates.claim_allocator import ClaimError, Want, matcher_of, plan
from unisono.engine.plugins.predicates.device_inventory import Inventory, Unit, attribute
from unisono.engine.plugins.predicates.resource_claims import NO_DEVICES, NOT_HERE
from unisono.engine.session.session import Session
from unisono.engine.verdict import reference
from unisono.engine.verdicts.lack import Lack, absent_devices

_FACT = re.compile(r"""device\.(attributes|capacity)\[["']([^"']+)["']\](?:\.(\w+)|\[["']([^"']+)["']\])""")
_MOST_FACTS, _MOST_VALUES, _MOST_UNITS = 3, 3, 1_000
_LONGEST = 60
_PLAIN = -1
"""Kinds of devices without their taints are numbered from here downwards."""


def of_class(device_class: DeviceClass, inventory: Inventory) -> list[Unit]:
    """One device of each kind that a class selects, at most 1,000 devices looked at."""
    kinds = {unit.kind: unit for units in inventory.by_node for unit in units}
    try:
        matches = matcher_of("class", device_class.spec.selectors or ())
        return [unit for unit in islice(kinds.values(), _MOST_UNITS) if matches(unit)]
    except ClaimError:
        return []


def taints_of(want: Want, inventory: Inventory) -> str:
    """``gpu.example.com/xid=79:NoSchedule`` of devices that would do without their taints; empty where none would."""
    found: dict[str, None] = {}
    for unit in islice((unit for units in inventory.by_node for unit in units if unit.taints), _MOST_UNITS):
        if want.matches(dataclasses.replace(unit, kind=_PLAIN - unit.kind, taints=())):
            found.update((f"{one.key}{f'={one.value}' if one.value else ''}:{one.effect}", None) for one in unit.taints)
    return ", ".join(list(found)[:_MOST_VALUES])


def facts_asked(rules: Iterable[str], units: Iterable[Unit]) -> str:
    """``memory 80Gi and productName A100``: what devices have of the facts that rules speak of; empty where of none."""
    units, told = list(units), dict[str, None]()
    for part, domain, short, quoted in islice(_FACT.findall(" ".join(rules)), _MOST_FACTS):
        name = short or quoted
        values = {str(value) for unit in units if (value := _fact(unit, part, domain, name)) is not None}
        shown = ", ".join(one[:_LONGEST] for one in sorted(values)[:_MOST_VALUES])
        more = ", ..." if len(values) > _MOST_VALUES else ""
        told[f"{name} {shown}{more}" if values else f"no {name} of {domain}"] = None
    return listed(tuple(told)) if told and units else ""


def _fact(unit: Unit, part: str, domain: str, name: str) -> Any:
    """As the device's slice writes it; None where it has none."""
    own = (name,) if domain == unit.name[0] else ()
    for given in (*own, f"{domain}/{name}"):
        if part == "capacity":
            amount = (unit.device.capacity or {}).get(given)
            if amount is not None:
                return amount.value
            continue
        value = (unit.device.attributes or {}).get(given)
        if value is not None:
            known = (value.int_value, value.bool_value, value.string_value, value.version_value)
            found = next((one for one in known if one is not None), None)
            return str(found).lower() if isinstance(found, bool) else found
    return None


def constrained(
    inventory: Inventory, claim: ResourceClaim, requests: Sequence[Sequence[Want]], names: Sequence[str]
) -> str:
    """Which constraint of a claim no node's free devices meet; empty where that is not what it lacks.

    For claims without alternatives, and each constraint by itself.
    """
    if any(len(ways) != 1 or not ways[0].count for ways in requests):
        return ""
    for one in claim.spec.devices.constraints or ():
        name = one.match_attribute or one.distinct_attribute or ""
        wants = [ways[0] for ways in requests if not one.requests or ways[0].parent in one.requests]
        if not name or not wants:
            continue
        number, best = _most(inventory, one, wants)
        wanted = sum(want.count for want in wants)
        if number < wanted:
            same = "the same" if one.match_attribute else "another"
            where = f" ({names[best]})" if number else ""
            return (
                f"its {wanted} devices must each have {same} {name}, and at most {number} free ones of a node do{where}"
            )
    return ""


def _most(inventory: Inventory, constraint: DeviceConstraint, wants: Sequence[Want]) -> tuple[int, int]:
    """How many free devices of one node meet a constraint, at most as many as are asked for, and the node's column."""
    best, name = (0, 0), constraint.match_attribute or constraint.distinct_attribute or ""
    for column in range(len(inventory.by_node)):
        values: list[Counter[Any]] = []
        for want in wants:
            found = (attribute(unit, name) for unit in inventory.free(column) if want.matches(unit))
            values.append(Counter(value for value in found if value is not None))
        if constraint.match_attribute:
            each = [
                sum(min(of[value], want.count) for of, want in zip(values, wants, strict=True))
                for value in _all(values)
            ]
            number = max(each, default=0)
        else:
            number = len(_all(values))
        if number > best[0]:
            best = number, column
    return best


def _all(values: Iterable[Counter[Any]]) -> set[Any]:
    return {value for of in values for value in of}


_LONGEST_SELECTOR = 120


@dataclass(frozen=True, slots=True)
class _Devices:
    """The devices of one session, read when a claim is first asked about."""

    inventory: Inventory
    free: list[_Kinds]
    untaken: frozenset[_Kinds]

    def serves(self, want: Want, column: int) -> bool:
        """Whether a node has enough free devices for it."""
        free = _number(want, self.free[column])
        if want.count:
            return free >= want.count
        return 0 < free == sum(want.matches(unit) for unit in self.inventory.by_node[column])


def _devices(session: Session) -> _Devices:
    def make() -> _Devices:
        catalogue = session.snapshot.catalogue
        slices, claims = catalogue.device_slices.values(), catalogue.device_claims.values()
        inventory = Inventory(slices, claims, session.nodes)
        taken = inventory.book.taken
        return _Devices(
            inventory,
            [_kinds(inventory.free(column)) for column in range(session.nodes.size)],
            frozenset(_kinds(unit for unit in units if unit.name not in taken) for units in inventory.by_node),
        )

    return session.shared.of(_Devices, make)


def _inventory(session: Session) -> Inventory:
    return _devices(session).inventory


@dataclass(frozen=True, slots=True)
class _Kind:
    """Equal devices of one node: a claim's rules are asked about one of them."""

    number: int
    count: int
    unit: Unit = field(compare=False)


_Kinds = tuple[_Kind, ...]


def _kinds(units: Iterable[Unit]) -> _Kinds:
    """The devices by kind; equal for nodes that have the same."""
    counts: dict[int, int] = {}
    one: dict[int, Unit] = {}
    for unit in units:
        counts[unit.kind] = counts.get(unit.kind, 0) + 1
        one.setdefault(unit.kind, unit)
    return tuple(_Kind(kind, counts[kind], one[kind]) for kind in sorted(counts))


def _number(want: Want, kinds: _Kinds) -> int:
    return sum(kind.count for kind in kinds if want.matches(kind.unit))


def device_lacks(cycle: Cycle, pod_class: PodClass, counts: Mapping[str, int]) -> Iterator[Lack]:
    """What the device claims of a class lack; ``counts``: nodes by the reason that refuses them."""
    catalogue = cycle.session.snapshot.catalogue
    apart = _apart(cycle, pod_class) if NO_DEVICES.text in counts else ""
    if apart:
        yield Lack(apart, "")
        return
    for key in pod_class.devices:
        name, claim = key.partition("/")[2], catalogue.device_claims.get(key)
        template = dict(pod_class.templates).get(key, "")
        if claim is None:
            if name.endswith("/"):
                what = f"no claim has been made yet from ResourceClaimTemplate {name[:-1]}"
                yield Lack(what, f"see whether ResourceClaimTemplate {name[:-1]} exists")
            elif name:
                yield absent_devices(key, catalogue.device_claims)
            continue
        if claim.status.allocation is not None:
            if NOT_HERE.text in counts:
                yield from _of_allocated(cycle, claim)
            continue
        lacks = list(_of_classes(cycle, claim, template))
        yield from lacks or (_of_devices(cycle, claim, template) if NO_DEVICES.text in counts else ())


def _of_allocated(cycle: Cycle, claim: ResourceClaim) -> Iterator[Lack]:
    """Where the devices of a claim are that is allocated already: all its pods have to run there."""
    allocation, nodes = claim.status.allocation, cycle.session.nodes
    selector = allocation.node_selector if allocation is not None else None
    if selector is not None:
        there = np.flatnonzero(match_selector(selector, nodes)).tolist()
        which = listed(tuple(nodes.table.names[at] for at in there)) if there else "no node that is there"
        yield Lack(f"the devices of resource claim {claim.metadata.name} are allocated on {which}", "")


def _apart(cycle: Cycle, pod_class: PodClass) -> str:
    """That each claim of a pod finds devices on some nodes, and all of them together on none; else empty."""
    catalogue, names = cycle.session.snapshot.catalogue, cycle.session.snapshot.nodes.names
    found: list[tuple[ResourceClaim, set[int]]] = []
    for key in pod_class.devices:
        claim = catalogue.device_claims.get(key)
        if claim is None or claim.status.allocation is not None:
            continue
        try:
            requests = plan(claim, catalogue.device_classes).requests
            columns = {at for at in range(len(names)) if _serves(cycle, requests, at)}
        except ClaimError:
            return ""
        found.append((claim, columns))
    if len(found) < 2 or not all(columns for _, columns in found) or set.intersection(*(one for _, one in found)):
        return ""
    templates = dict(pod_class.templates)
    told = [
        f"{_asked(claim, templates.get(claim.key, ''))} on {listed(tuple(names[at] for at in sorted(columns)))}"
        for claim, columns in found
    ]
    return f"no node has devices for all its claims: there are free ones for {', for '.join(told)}"


def _asked(claim: ResourceClaim, template: str) -> str:
    """``resource claim p-g (template g, class gpu.example.com)``."""
    classes = device_classes(claim)
    parts = [f"template {template}" if template else "", f"class {', '.join(classes)}" if classes else ""]
    told = ", ".join(filter(None, parts))
    return f"resource claim {claim.metadata.name}" + (f" ({told})" if told else "")


def _title(claim: ResourceClaim, template: str) -> str:
    """``resource claim p-g`` with the template that users wrote."""
    return f"resource claim {claim.metadata.name}{f' (template {template})' if template else ''}"


def _serves(cycle: Cycle, requests: Sequence[Sequence[Want]], column: int) -> bool:
    """Whether a node has enough free devices for each request by itself."""
    devices = _devices(cycle.session)
    return all(any(devices.serves(want, column) for want in ways) for ways in requests)


def _of_classes(cycle: Cycle, claim: ResourceClaim, template: str) -> Iterator[Lack]:
    """Device classes that a claim names and that do not exist."""
    classes, name = cycle.session.snapshot.catalogue.device_classes, claim.metadata.name
    drivers = {piece.spec.driver for piece in cycle.session.snapshot.catalogue.device_slices.values()}
    for wanted in device_classes(claim):
        if wanted in classes:
            continue
        near = nearest(wanted, sorted({*classes, *drivers}))
        meant = f" (did you mean {near}?)" if near else ""
        what = f"{_title(claim, template)} names device class {wanted}, which does not exist{meant}"
        change = UseDeviceClass(name, wanted, near, template) if near in classes else None
        yield Lack(what, change.text() if change is not None else f"create device class {wanted}", change)


def _of_devices(cycle: Cycle, claim: ResourceClaim, template: str) -> Iterator[Lack]:
    """Requests that no node can serve, by what exists, what one node has, and what is free."""
    asked = _asked(claim, template)
    try:
        requests = plan(claim, cycle.session.snapshot.catalogue.device_classes).requests
        for given, alternatives in zip(claim.spec.devices.requests or (), requests, strict=True):
            ways = [given.exactly] if given.exactly is not None else list(given.first_available or ())
            found = [
                _of_request(cycle, _title(claim, template), way, want)
                for way, want in zip(ways, alternatives, strict=True)
            ]
            if all(one.text for one in found):  # a request with one way that can be served is not what the claim lacks
                waiting = next((_waiting_for(one.holders) for one in found if one.holders), "")
                text = "; ".join(dict.fromkeys(one.text for one in found))
                yield Lack(text, waiting or f"change what {asked} asks for, or add a node that has it")
                return
    except ClaimError as error:
        yield Lack(f"{_title(claim, template)}: {error}", f"change what {asked} asks for")
        return
    apart = constrained(_inventory(cycle.session), claim, requests, cycle.session.snapshot.nodes.names)
    if apart:
        yield Lack(f"{_title(claim, template)}: {apart}", f"change the constraints of {asked}, or what it asks for")
        return
    yield _together(cycle, claim, template, requests)


def _together(cycle: Cycle, claim: ResourceClaim, template: str, requests: Sequence[Sequence[Want]]) -> Lack:
    """Each request finds devices by itself: they are not free together, or what they share out is used up."""
    inventory = _inventory(cycle.session)
    units = {unit.name: unit for one in inventory.by_node for unit in one}
    wants = [want for ways in requests for want in ways]
    sharing = {key for key, unit in units.items() if not unit.plain and any(want.matches(unit) for want in wants)}
    there = [at for at in range(cycle.session.nodes.size) if _serves(cycle, requests, at)] if not sharing else []
    if there:
        which = listed(tuple(cycle.session.snapshot.nodes.names[at] for at in there))
        told = f"only {which} {'has' if len(there) == 1 else 'have'} free devices for {_asked(claim, template)}"
        if len(wants) != 1 or not wants[0].count:
            return Lack(told, "")
        number = sum(_number(wants[0], _devices(cycle.session).free[at]) // wants[0].count for at in there)
        used = {unit.name for unit in units.values() if wants[0].matches(unit) and inventory.book.in_use(unit.name)}
        holders = _users(cycle, used)
        by = f"; others are in use by {listed(holders)}" if holders else ""
        return Lack(f"{told}, enough for {counted(number, 'such claim')}{by}", _waiting_for(holders))
    if not sharing:
        names = cycle.session.snapshot.nodes.names
        places = []
        for given, ways in zip(claim.spec.devices.requests or (), requests, strict=True):
            on = tuple(names[at] for at in range(len(names)) if _serves(cycle, (ways,), at))
            places.append(f"request {given.name} on {listed(on)}" if on else f"request {given.name} on no node")
        classes = _asked(claim, template)
        what = f"no node has all devices of {classes} free together: there are free ones for {', for '.join(places)}"
        return Lack(what, f"change what {classes} asks for, or add a node with all of them")
    counters = {counter for key in sharing for counter in units[key].draws}
    users = {key for key, unit in units.items() if inventory.book.in_use(key) and not counters.isdisjoint(unit.draws)}
    holders = _users(cycle, users | {key for key in sharing if inventory.book.in_use(key)})
    by = f"; in use by {listed(holders)}" if holders else ""
    what = f"the devices for {_title(claim, template)} share counters or capacity, of which too little is left{by}"
    return Lack(what, _waiting_for(holders))


def _waiting_for(holders: tuple[str, ...]) -> str:
    have = "have" if len(holders) > 1 else "has"
    return f"wait until {listed(holders)} {have} ended, or add a node with such devices" if holders else ""


class _Short(NamedTuple):
    """What a request lacks, and who uses the devices; both empty where it lacks none."""

    text: str = ""
    holders: tuple[str, ...] = ()


def _of_request(cycle: Cycle, title: str, given: object, want: Want) -> _Short:
    """What one way to meet a request lacks; nothing where some node has as many free devices as it asks for."""
    inventory = _inventory(cycle.session)
    device_class, count = getattr(given, "device_class_name", ""), max(want.count, 1)
    if not want.count:
        return _of_all(cycle, title, device_class, want)
    if any(_number(want, kinds) >= count for kinds in _devices(cycle.session).untaken):
        return _Short()
    matching = [[unit for unit in units if want.matches(unit)] for units in inventory.by_node]
    most = max(map(len, matching), default=0)
    asks = f"{title} asks for {counted(count, 'device')} of class {device_class}"
    if not most:
        rules = [one.cel.expression for one in getattr(given, "selectors", None) or () if one.cel is not None]
        tainted = taints_of(want, inventory)
        if tainted:
            return _Short(f"{asks}, and the devices have taints that it does not tolerate ({tainted})")
        if not rules:
            return _Short(f"{asks}, and no node has any")
        drivers = cycle.session.snapshot.catalogue.device_classes[device_class]
        there = facts_asked(rules, of_class(drivers, inventory))
        has = f" (devices have {there})" if there else ""
        return _Short(f"{asks} with {' and '.join(rules)[:_LONGEST_SELECTOR]}, and no device of any node is so{has}")
    names = cycle.session.snapshot.nodes.names
    if most < count:
        richest = names[max(range(len(matching)), key=lambda at: len(matching[at]))]
        return _Short(f"{asks} on one node, and the most that one has is {most} ({richest})")
    free = [sum(unit.name not in inventory.book.taken for unit in units) for units in matching]
    taken = {unit.name for units in matching for unit in units if inventory.book.in_use(unit.name)}
    total = len({unit.name for units in matching for unit in units})
    holders = _users(cycle, taken)
    by = f", by {listed(holders)}" if holders else ""
    return _Short(
        f"{asks}, and {len(taken)} of {total} are in use{by}; at most {max(free)} on one node {_is(max(free))} free",
        holders,
    )


def _of_all(cycle: Cycle, title: str, device_class: str, want: Want) -> _Short:
    """What a request for all devices of one node lacks; nothing where some node has them all free."""
    devices = _devices(cycle.session)
    units = [unit for of_node in devices.inventory.by_node for unit in of_node if want.matches(unit)]
    if any(devices.serves(want, column) for column in range(cycle.session.nodes.size)):
        return _Short()
    asks = f"{title} asks for all devices of class {device_class} of one node"
    if not units:
        return _Short(f"{asks}, and no node has any")
    taken = {unit.name for unit in units if devices.inventory.book.in_use(unit.name)}
    holders = _users(cycle, taken)
    by = f", by {listed(holders)}" if holders else ""
    return _Short(f"{asks}, and on every node some are in use{by}", holders)


def _is(number: int) -> str:
    return "is" if number == 1 else "are"


def _users(cycle: Cycle, taken: set[tuple[str, str, str]]) -> tuple[str, ...]:
    """Pods for which the claims are reserved that hold some of the devices, else the claims."""
    found: dict[str, None] = {}
    for claim in cycle.session.snapshot.catalogue.device_claims.values():
        allocation = claim.status.allocation
        results = (allocation.devices.results or ()) if allocation is not None else ()
        if any((one.driver, one.pool, one.device) in taken for one in results):
            users = [
                reference(f"{claim.metadata.namespace}/{user.name}", user.resource.removesuffix("s"))
                for user in claim.status.reserved_for or ()
            ]
            found.update(dict.fromkeys(users or [reference(claim.key, "resource claim")]))
    return tuple(found)
