"""What devices are where claims ask for others: their attributes and amounts, and which of them go together."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from unisono.api.core import DeviceClass, DeviceConstraint, ResourceClaim
from unisono.engine.changes import listed
from unisono.engine.plugins.predicates.claim_allocator import ClaimError, Want, matcher_of
from unisono.engine.plugins.predicates.device_inventory import Inventory, Unit, attribute

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
