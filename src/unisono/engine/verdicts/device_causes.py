"""Which device claim keeps a pod away from nodes: a template, a class, or devices that no node has, or has free."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from unisono.api.core import DeviceClass, DeviceSubRequest, ExactDeviceRequest, ResourceClaim
from unisono.api.extended_devices import device_classes
from unisono.api.messages import counted
from unisono.api.names import nearest
from unisono.cluster.podclass import PodClass
from unisono.engine.changes import UseDeviceClass, listed
from unisono.engine.cycle.context import Cycle
from unisono.engine.plugins.common.node_selectors import match_selector
from unisono.engine.plugins.predicates.claim_allocator import ClaimError, Want, matcher_of, plan
from unisono.engine.plugins.predicates.device_inventory import Inventory, Unit
from unisono.engine.plugins.predicates.resource_claims import NO_DEVICES, NOT_HERE
from unisono.engine.session.once import once
from unisono.engine.session.session import Session
from unisono.engine.verdict import reference
from unisono.engine.verdicts.lack import Lack, absent

_FACT = re.compile(r"""device\.(attributes|capacity)\[["']([^"']+)["']\](?:\.(\w+)|\[["']([^"']+)["']\])""")
_MOST_FACTS, _MOST_VALUES, _MOST_UNITS = 3, 3, 1_000
_LONGEST, _LONGEST_SELECTOR = 60, 120
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
    texts: dict[str, None] = {}
    for unit in islice((unit for units in inventory.by_node for unit in units if unit.taints), _MOST_UNITS):
        if want.matches(dataclasses.replace(unit, kind=_PLAIN - unit.kind, taints=())):
            texts.update((f"{one.key}{f'={one.value}' if one.value else ''}:{one.effect}", None) for one in unit.taints)
    return ", ".join(list(texts)[:_MOST_VALUES])


def facts_asked(rules: Iterable[str], units: Iterable[Unit]) -> str:
    """``memory 80Gi and productName A100``: what devices have of the facts that rules speak of; empty where of none."""
    units, facts = list(units), dict[str, None]()
    for part, domain, short, quoted in islice(_FACT.findall(" ".join(rules)), _MOST_FACTS):
        name = short or quoted
        values = {str(value) for unit in units if (value := _fact(unit, part, domain, name)) is not None}
        shown = ", ".join(one[:_LONGEST] for one in sorted(values)[:_MOST_VALUES])
        more = ", ..." if len(values) > _MOST_VALUES else ""
        facts[f"{name} {shown}{more}" if values else f"no {name} of {domain}"] = None
    return listed(tuple(facts)) if facts and units else ""


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
            values = (value.int_value, value.bool_value, value.string_value, value.version_value)
            stated = next((one for one in values if one is not None), None)
            return str(stated).lower() if isinstance(stated, bool) else stated
    return None


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


@dataclass(frozen=True, slots=True)
class _Devices:
    """The devices of one session, read when a claim is first asked about: by node, free ones and all."""

    inventory: Inventory
    kinds: list[tuple[_Kinds, _Kinds]]

    def serving(self, ways: Sequence[Want]) -> set[int]:
        """Columns of the nodes that have enough free devices for a request by itself."""
        serves: dict[tuple[_Kinds, _Kinds], bool] = {}
        for kinds in self.kinds:
            if kinds not in serves:
                serves[kinds] = any(_serves(want, *kinds) for want in ways)
        return {at for at, kinds in enumerate(self.kinds) if serves[kinds]}

    def users(self, cycle: Cycle, units: Iterable[Unit]) -> tuple[str, ...]:
        """Pods for which the claims are reserved that hold some of the devices, else the claims."""
        taken = {unit.name for unit in units if self.inventory.book.in_use(unit.name)}
        names: dict[str, None] = {}
        for claim in cycle.session.snapshot.catalogue.device_claims.values():
            allocation = claim.status.allocation
            results = (allocation.devices.results or ()) if allocation is not None else ()
            if any((one.driver, one.pool, one.device) in taken for one in results):
                users = [
                    reference(f"{claim.metadata.namespace}/{user.name}", user.resource.removesuffix("s"))
                    for user in claim.status.reserved_for or ()
                ]
                names.update(dict.fromkeys(users or [reference(claim.key, "resource claim")]))
        return tuple(names)


def _serves(want: Want, free: _Kinds, whole: _Kinds) -> bool:
    """Whether the free devices of a node are enough; where all of them are asked for, whether all are free."""
    number = _number(want, free)
    return number >= want.count if want.count else 0 < number == _number(want, whole)


def _number(want: Want, kinds: _Kinds) -> int:
    return sum(kind.count for kind in kinds if want.matches(kind.unit))


@once
def _devices(session: Session) -> _Devices:
    catalogue = session.snapshot.catalogue
    slices, claims = catalogue.device_slices.values(), catalogue.device_claims.values()
    inventory = Inventory(slices, claims, session.nodes)
    units = ((inventory.free(column), inventory.by_node[column]) for column in range(session.nodes.size))
    return _Devices(inventory, [(_kinds(free), _kinds(whole)) for free, whole in units])


class _Asked(NamedTuple):
    """A claim that waits for its devices: its title, and a name and the ways of each request."""

    claim: ResourceClaim
    title: str
    requests: list[tuple[str, Sequence[Want]]]


def device_lacks(cycle: Cycle, pod_class: PodClass, counts: Mapping[str, int]) -> Iterator[Lack]:
    """What the device claims of a class lack; ``counts``: nodes by the reason that refuses them."""
    catalogue, waiting, templates = cycle.session.snapshot.catalogue, list[_Asked](), dict(pod_class.templates)
    for key in pod_class.devices:
        name, claim = key.partition("/")[2], catalogue.device_claims.get(key)
        if claim is not None and claim.status.allocation is None:
            template = templates.get(key, "")
            title = f"resource claim {claim.metadata.name}{f' (template {template})' if template else ''}"
            if wrong := list(_of_classes(cycle, claim, title, template)):
                yield from wrong
            else:
                waiting.append(_Asked(claim, title, []))
        elif claim is not None:
            yield from _of_allocated(cycle, claim) if NOT_HERE.text in counts else ()
        elif name.endswith("/"):
            what = f"no claim has been made yet from ResourceClaimTemplate {name[:-1]}"
            yield Lack(what, f"see whether ResourceClaimTemplate {name[:-1]} exists")
        elif name:
            yield absent("ResourceClaim", key, catalogue.device_claims)
    if NO_DEVICES.text in counts and waiting:
        lacks = [lack for one in waiting if (lack := _of_devices(cycle, one)) is not None]
        yield from lacks or (_together(cycle, waiting),)


def _of_allocated(cycle: Cycle, claim: ResourceClaim) -> Iterator[Lack]:
    """Where the devices of a claim are that is allocated already: all its pods have to run there."""
    allocation, nodes = claim.status.allocation, cycle.session.nodes
    selector = allocation.node_selector if allocation is not None else None
    if selector is not None:
        there = np.flatnonzero(match_selector(selector, nodes)).tolist()
        which = listed(tuple(nodes.table.names[at] for at in there)) if there else "no node that is there"
        yield Lack(f"the devices of resource claim {claim.metadata.name} are allocated on {which}", "")


def _of_classes(cycle: Cycle, claim: ResourceClaim, title: str, template: str) -> Iterator[Lack]:
    """Device classes that a claim names and that do not exist."""
    classes, name = cycle.session.snapshot.catalogue.device_classes, claim.metadata.name
    drivers = {piece.spec.driver for piece in cycle.session.snapshot.catalogue.device_slices.values()}
    for class_name in device_classes(claim):
        if class_name in classes:
            continue
        near = nearest(class_name, sorted({*classes, *drivers}))
        meant = f" (did you mean {near}?)" if near else ""
        what = f"{title} names device class {class_name}, which does not exist{meant}"
        change = UseDeviceClass(name, class_name, near, template) if near in classes else None
        yield Lack(what, change.text() if change is not None else f"create device class {class_name}", change)


def _of_devices(cycle: Cycle, asked: _Asked) -> Lack | None:
    """The first request that no node can serve; None where each could be served by itself. Notes its requests."""
    try:
        requests = plan(asked.claim, cycle.session.snapshot.catalogue.device_classes).requests
        for given, alternatives in zip(asked.claim.spec.devices.requests or (), requests, strict=True):
            ways: list[ExactDeviceRequest | DeviceSubRequest] = [*(given.first_available or ())]
            ways = ways if given.exactly is None else [given.exactly]
            classes = dict.fromkeys(way.device_class_name for way in ways)
            asked.requests.append((f"{given.name} (class {', '.join(classes)})", alternatives))
            if not _devices(cycle.session).serving(alternatives):
                shortfalls = [_short(cycle, way, want) for way, want in zip(ways, alternatives, strict=True)]
                text = "; ".join(dict.fromkeys(text for text, _ in shortfalls))
                holders = next((holders for _, holders in shortfalls if holders), ())
                return Lack(f"{asked.title} asks for {text}", _remedy(asked.title, holders))
    except ClaimError as error:
        return Lack(f"{asked.title}: {error}", _remedy(asked.title, ()))
    return None


def _short(cycle: Cycle, given: ExactDeviceRequest | DeviceSubRequest, want: Want) -> tuple[str, tuple[str, ...]]:
    """What one way to meet a request lacks, in words, and who uses the devices."""
    devices, names = _devices(cycle.session), cycle.session.snapshot.nodes.names
    inventory, device_class = devices.inventory, given.device_class_name
    rules = [one.cel.expression for one in given.selectors or () if one.cel is not None]
    what = f"{counted(want.count, 'device')} of class {device_class}"
    what = what if want.count else f"all devices of class {device_class} of one node"
    matching = [[unit for unit in units if want.matches(unit)] for units in inventory.by_node]
    richest = max(range(len(matching)), key=lambda at: len(matching[at]), default=0)
    most = len(matching[richest]) if matching else 0
    if not most:
        if tainted := taints_of(want, inventory):
            return f"{what}, and the devices have taints that it does not tolerate ({tainted})", ()
        definition = cycle.session.snapshot.catalogue.device_classes[device_class]
        there = facts_asked(rules, of_class(definition, inventory)) if rules else ""
        ruled = f" with {' and '.join(rules)[:_LONGEST_SELECTOR]}" if rules else ""
        return f"{what}{ruled}, and no node has any{f' (devices have {there})' if there else ''}", ()
    if most < want.count:
        return f"{what} on one node, and the most that one has is {most} ({names[richest]})", ()
    units = {unit.name: unit for units in matching for unit in units}
    taken = sum(map(inventory.book.in_use, units))
    free = max(sum(unit.name not in inventory.book.taken for unit in units) for units in matching)
    holders = devices.users(cycle, units.values())
    by = f", by {listed(holders)}" if holders else ""
    are = "is" if free == 1 else "are"
    return f"{what}, and {taken} of {len(units)} are in use{by}; at most {free} on one node {are} free", holders


def _together(cycle: Cycle, claims: list[_Asked]) -> Lack:
    """Each request finds devices by itself: on different nodes, not for all pods, or what they share is used up."""
    devices, names = _devices(cycle.session), cycle.session.snapshot.nodes.names
    requests = [request for one in claims for request in one.requests]
    columns = [devices.serving(ways) for _, ways in requests]
    wants = [want for _, ways in requests for want in ways]
    units = [unit for units in devices.inventory.by_node for unit in units]
    matching = [unit for unit in units if any(want.matches(unit) for want in wants)]
    what = f"{listed(tuple(one.title for one in claims))}: {' and '.join(name for name, _ in requests)}"
    drawn = {counter for unit in matching if not unit.plain for counter in unit.draws}
    holders = devices.users(cycle, [*matching, *(unit for unit in units if not drawn.isdisjoint(unit.draws))])
    by = f"; in use by {listed(holders)}" if holders else ""
    there = set.intersection(*columns)
    if not all(unit.plain for unit in matching):
        text = f"the devices for {what} share counters or capacity, of which too little is left{by}"
    elif there:
        which = listed(tuple(names[at] for at in sorted(there)))
        rules = [rule for one in claims for rule in one.claim.spec.devices.constraints or ()]
        same = [f"the same {rule.match_attribute}" for rule in rules if rule.match_attribute]
        same += [f"another {rule.distinct_attribute} each" for rule in rules if rule.distinct_attribute]
        ruled = f", which must have {listed(tuple(same))}" if same else ""
        text = f"only {which} {'has' if len(there) == 1 else 'have'} free devices for {what}{ruled}{by}"
    else:
        on = [listed(tuple(names[at] for at in sorted(those))) for those in columns]
        places = [f"{name} on {where}" for (name, _), where in zip(requests, on, strict=True)]
        text = f"no node has devices for all of {what}: there are free ones for {', for '.join(places)}"
    return Lack(text, _remedy(listed(tuple(one.title for one in claims)), holders))


def _remedy(title: str, holders: tuple[str, ...]) -> str:
    if holders:
        have = "have" if len(holders) > 1 else "has"
        return f"wait until {listed(holders)} {have} ended, or add a node with such devices"
    return f"change what {title} asks for, or add a node that has it"
