"""Finds devices for all claims of a pod on one node: the first complete solution in order, by backtracking.

As in kube-scheduler: requests in order, devices in the order of pools and slices, no search for a best fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from unisono.api import core
from unisono.api.base import Quantity
from unisono.cluster.devices import CompiledSelector, SelectorError, compile_selector
from unisono.engine.plugins.predicates.device_inventory import (
    Amounts,
    CounterName,
    DevicesInUse,
    Unit,
    attribute,
    full_names,
    portions,
)

MOST_DEVICES = 32
"""Devices of one claim."""
_MOST_STEPS = 20_000
"""Steps of one search; what takes longer counts as not possible."""


class ClaimError(ValueError):
    """A claim that cannot be allocated on any node; the text says why."""


@dataclass(frozen=True, slots=True)
class Want:
    """One way to meet one request.

    Attributes:
        request: name in the allocation (``request`` or ``request/subrequest``); ``parent`` without the latter.
        count: devices; 0 means all that match.
        admin: devices may be in use, and stay free for others.
        tolerations: taints of devices that it endures.
        capacity: amounts that each device must have, or of a shared one have left.
    """

    request: str
    parent: str
    count: int
    admin: bool
    matches: Callable[[Unit], bool]
    tolerations: Sequence[core.DeviceToleration] = ()
    capacity: Mapping[str, Quantity] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClaimPlan:
    """A claim as the search sees it: for each request its alternatives, in order of preference."""

    key: str
    requests: tuple[tuple[Want, ...], ...]
    constraints: tuple[core.DeviceConstraint, ...]


class Gift(NamedTuple):
    """A device for one request of a claim; ``share`` is what it consumes of a device that others may use as well."""

    claim: str
    want: Want
    unit: Unit
    share: Amounts | None = None


Given = list[Gift]


def plan(claim: core.ResourceClaim, classes: Mapping[str, core.DeviceClass]) -> ClaimPlan:
    """Read a claim.

    Raises:
        ClaimError: a class does not exist, or a selector cannot be compiled.
    """
    requests: list[tuple[Want, ...]] = []
    for request in claim.spec.devices.requests or ():
        if request.exactly is not None:
            requests.append((_want(request.name, request.name, request.exactly, classes),))
        else:
            subs = request.first_available or ()
            requests.append(tuple(_want(f"{request.name}/{s.name}", request.name, s, classes) for s in subs))
    return ClaimPlan(claim.key, tuple(requests), tuple(claim.spec.devices.constraints or ()))


def _want(
    name: str,
    parent: str,
    given: core.ExactDeviceRequest | core.DeviceSubRequest,
    classes: Mapping[str, core.DeviceClass],
) -> Want:
    device_class = classes.get(given.device_class_name)
    if device_class is None:
        raise ClaimError(f"request {name}: device class {given.device_class_name} does not exist")
    selectors = [*(device_class.spec.selectors or ()), *(given.selectors or ())]
    admin = isinstance(given, core.ExactDeviceRequest) and bool(given.admin_access)
    count = 0 if given.allocation_mode == "All" else given.count or 1
    tolerations = given.tolerations or ()
    amounts = (given.capacity.requests if given.capacity is not None else None) or {}
    return Want(name, parent, count, admin, matcher_of(name, selectors, tolerations), tolerations, amounts)


def matcher_of(
    name: str, selectors: Sequence[core.DeviceSelector], tolerations: Sequence[core.DeviceToleration] = ()
) -> Callable[[Unit], bool]:
    """Whether selectors choose a device, and its taints are tolerated; ``name``: of the request, for errors.

    Raises:
        ClaimError: a selector cannot be compiled; also when it has no answer for a device.
    """
    tests: list[CompiledSelector] = []
    for selector in selectors:
        if selector.cel is not None:
            try:
                tests.append(compile_selector(selector.cel.expression))
            except SelectorError as error:
                raise ClaimError(f"request {name}: {error}") from error
    results: dict[int, bool] = {}

    def matches(unit: Unit) -> bool:
        result = results.get(unit.kind)
        if result is None:
            untolerated = any(not any(_tolerates(t, taint) for t in tolerations) for taint in unit.taints)
            result = results[unit.kind] = not untolerated and _selected(name, tests, unit)
        return result

    return matches


def _selected(name: str, tests: Sequence[CompiledSelector], unit: Unit) -> bool:
    try:
        return all(test.selects(unit.facts) for test in tests)
    except SelectorError as error:
        raise ClaimError(f"request {name}: device {'/'.join(unit.name)}: {error}") from error


def _tolerates(toleration: core.DeviceToleration, taint: object) -> bool:
    key, value, effect = (getattr(taint, name) for name in ("key", "value", "effect"))
    if (toleration.effect and toleration.effect != effect) or (toleration.key and toleration.key != key):
        return False
    return toleration.operator == "Exists" or (toleration.value or "") == (value or "")


Wanted = Sequence[tuple[ClaimPlan, tuple[Want, ...]]]
"""Requests of all claims, each with its alternatives."""


class _Search:
    """One search on one node."""

    def __init__(self, units: Sequence[Unit], free: Sequence[Unit], book: DevicesInUse, incomplete: bool) -> None:
        self.units = units
        self.free = free
        self.book = book
        self.incomplete = incomplete
        self.used: dict[int, int] = {}
        self.consumed: dict[int, dict[str, Fraction]] = {}
        self.drawn: dict[CounterName, Fraction] = {}
        self.given: Given = []
        self.shared = any(unit.shared for unit in units)
        self.steps = 0

    def run(self, plans: Sequence[ClaimPlan]) -> bool:
        pairs = [(claim, alternatives) for claim in plans for alternatives in claim.requests]
        return self._request(pairs, 0)

    def _request(self, wanted: Wanted, at: int) -> bool:
        if at == len(wanted):
            return True
        claim, alternatives = wanted[at]
        return any(self._choose(claim, want, wanted, at) for want in alternatives)

    def _choose(self, claim: ClaimPlan, want: Want, wanted: Wanted, at: int) -> bool:
        if want.count:
            return self._take(claim, want, want.count, 0, wanted, at)
        every = [unit for unit in self.units if want.matches(unit)]
        if self.incomplete or not every:
            return False
        mark = len(self.given)
        free = {id(unit) for unit in self.free}
        if all((want.admin or id(unit) in free) and self._give(claim, want, unit) for unit in every) and self._request(
            wanted, at + 1
        ):
            return True
        self._undo(mark)
        return False

    def _take(self, claim: ClaimPlan, want: Want, left: int, start: int, wanted: Wanted, at: int) -> bool:
        if not left:
            return self._request(wanted, at + 1)
        pool = self.units if want.admin else self.free
        tried: set[int] = set()
        for position in range(start, len(pool)):
            unit = pool[position]
            self.steps += 1
            if self.steps > _MOST_STEPS or (not self.shared and len(pool) - position < left):
                return False
            # an equal device cannot succeed where this one failed: nothing tells the two apart
            if unit.kind in tried or not want.matches(unit):
                continue
            mark = len(self.given)
            if not self._give(claim, want, unit):
                continue
            # one request may have several shares of one device
            if self._take(claim, want, left - 1, position if unit.shared else position + 1, wanted, at):
                return True
            self._undo(mark)
            tried.add(unit.kind)
        return False

    # ---- what is given

    def _give(self, claim: ClaimPlan, want: Want, unit: Unit) -> bool:
        """Give a device, unless it is in use, too small, its counters are used up, or the claim does not permit it."""
        if not self._allowed(claim, want, unit):
            return False
        share: Amounts | None = None
        if want.capacity or unit.shared:
            share = portions(unit.capacity, full_names(want.capacity, unit.name[0]))
            if share is None:
                return False
        if not want.admin and not self._has_room(unit, share):
            return False
        self.given.append(Gift(claim.key, want, unit, share if unit.shared else None))
        if not want.admin:
            self._book(unit, share, 1)
        return True

    def _has_room(self, unit: Unit, share: Amounts | None) -> bool:
        number = self.used.get(id(unit), 0)
        if not unit.shared and (number or not unit.draws):
            return not number
        if unit.draws and not number and not self.book.in_use(unit.name):
            for counter, amount in unit.draws.items():
                if amount > self.book.left(counter) - self.drawn.get(counter, 0):
                    return False
        if not unit.shared:
            return True
        before, mine = self.book.consumed.get(unit.name, {}), self.consumed.get(id(unit), {})
        return all(
            amount + before.get(name, 0) + mine.get(name, 0) <= unit.capacity[name].value
            for name, amount in (share or {}).items()
        )

    def _book(self, unit: Unit, share: Amounts | None, sign: int) -> None:
        before = self.used.get(id(unit), 0)
        after = self.used[id(unit)] = before + sign
        if unit.plain:
            return
        if unit.draws and (not before or not after) and not self.book.in_use(unit.name):
            for counter, amount in unit.draws.items():
                self.drawn[counter] = self.drawn.get(counter, Fraction(0)) + sign * amount
        if unit.shared:
            mine = self.consumed.setdefault(id(unit), {})
            for name, amount in (share or {}).items():
                mine[name] = mine.get(name, Fraction(0)) + sign * amount

    def _undo(self, mark: int) -> None:
        while len(self.given) > mark:
            gift = self.given.pop()
            if not gift.want.admin:
                self._book(gift.unit, gift.share, -1)

    def _allowed(self, claim: ClaimPlan, want: Want, unit: Unit) -> bool:
        """Limits and constraints of the claim, given what it has already."""
        mine = [gift for gift in self.given if gift.claim == claim.key]
        if len(mine) >= MOST_DEVICES:
            return False
        for constraint in claim.constraints:
            named = set(constraint.requests or ())
            name = constraint.match_attribute or constraint.distinct_attribute
            if not name or (named and not {want.request, want.parent} & named):
                continue
            value = attribute(unit, name)
            if value is None:
                return False
            for gift in mine:
                concerned = not named or {gift.want.request, gift.want.parent} & named
                if concerned and (attribute(gift.unit, name) == value) != bool(constraint.match_attribute):
                    return False
        return True


def allocate(
    plans: Sequence[ClaimPlan],
    units: Sequence[Unit],
    free: Sequence[Unit],
    book: DevicesInUse,
    *,
    incomplete: bool = False,
) -> Given | None:
    """Devices for all claims, or None.

    Args:
        plans: the claims.
        units: all devices of the node, in order.
        free: those that no claim has for itself, in the same order.
        book: what is in use of devices that are shared, and of counters.
        incomplete: some pool of the node is not complete, so it is not known what "all" are.

    Raises:
        ClaimError: a selector has no answer for a device.
    """
    search = _Search(units, free, book, incomplete)
    return search.given if search.run(plans) else None
