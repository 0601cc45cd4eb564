"""Finds devices for all claims of a pod on one node: the first complete solution in order, by backtracking.

As in kube-scheduler: requests in order, devices in the order of pools and slices, no search for a best fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from unisono.api.core import (
    DeviceClass,
    DeviceConstraint,
    DeviceSelector,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
)
from unisono.engine.plugins.predicates.device_inventory import Unit, attribute
from unisono.engine.plugins.predicates.device_selectors import Selector, SelectorError, compile_selector

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

    """

    request: str
    parent: str
    count: int
    admin: bool
    matches: Callable[[Unit], bool]


@dataclass(frozen=True, slots=True)
class ClaimPlan:
    """A claim as the search sees it: for each request its alternatives, in order of preference."""

    key: str
    requests: tuple[tuple[Want, ...], ...]
    constraints: tuple[DeviceConstraint, ...]


Given = list[tuple[str, Want, Unit]]
"""(claim, want, device)."""


def plan(claim: ResourceClaim, classes: Mapping[str, DeviceClass]) -> ClaimPlan:
    """Read a claim.

    Raises:
        ClaimError: a class does not exist, or a selector or constraint is not supported.

    """
    requests: list[tuple[Want, ...]] = []
    for request in claim.spec.devices.requests or ():
        if request.exactly is not None:
            requests.append((_want(request.name, request.name, request.exactly, classes),))
        else:
            subs = request.first_available or ()
            requests.append(tuple(_want(f"{request.name}/{s.name}", request.name, s, classes) for s in subs))
    constraints = tuple(claim.spec.devices.constraints or ())
    if any(constraint.distinct_attribute for constraint in constraints):
        raise ClaimError("the constraint distinctAttribute is not supported")
    return ClaimPlan(claim.key, tuple(requests), constraints)


def _want(
    name: str, parent: str, given: ExactDeviceRequest | DeviceSubRequest, classes: Mapping[str, DeviceClass]
) -> Want:
    device_class = classes.get(given.device_class_name)
    if device_class is None:
        raise ClaimError(f"request {name}: device class {given.device_class_name} does not exist")
    if given.capacity is not None and given.capacity.requests:
        raise ClaimError(f"request {name}: shares of devices are not supported")
    selectors = [*(device_class.spec.selectors or ()), *(given.selectors or ())]
    admin = isinstance(given, ExactDeviceRequest) and bool(given.admin_access)
    count = 0 if given.allocation_mode == "All" else given.count or 1
    return Want(name, parent, count, admin, _matcher(name, selectors, given.tolerations or ()))


def _matcher(
    name: str, selectors: Sequence[DeviceSelector], tolerations: Sequence[DeviceToleration]
) -> Callable[[Unit], bool]:
    tests: list[Selector] = []
    for selector in selectors:
        if selector.cel is not None:
            try:
                tests.append(compile_selector(selector.cel.expression))
            except SelectorError as error:
                raise ClaimError(f"request {name}: {error}") from error
    known: dict[int, bool] = {}

    def matches(unit: Unit) -> bool:
        found = known.get(unit.kind)
        if found is None:
            untolerated = any(not any(_tolerates(t, taint) for t in tolerations) for taint in unit.taints)
            found = known[unit.kind] = not untolerated and _selected(name, tests, unit)
        return found

    return matches


def _selected(name: str, tests: Sequence[Selector], unit: Unit) -> bool:
    try:
        return all(test.selects(unit.facts) for test in tests)
    except SelectorError as error:
        raise ClaimError(f"request {name}: device {'/'.join(unit.name)}: {error}") from error


def _tolerates(toleration: DeviceToleration, taint: object) -> bool:
    key, value, effect = (getattr(taint, name) for name in ("key", "value", "effect"))
    if (toleration.effect and toleration.effect != effect) or (toleration.key and toleration.key != key):
        return False
    return toleration.operator == "Exists" or (toleration.value or "") == (value or "")


Wanted = Sequence[tuple[ClaimPlan, tuple[Want, ...]]]
"""Requests of all claims, each with its alternatives."""


class _Search:
    """One search on one node."""

    def __init__(self, units: Sequence[Unit], free: Sequence[Unit], incomplete: bool) -> None:
        self.units = units
        self.free = free
        self.incomplete = incomplete
        self.used: set[int] = set()
        self.given: Given = []
        self.steps = 0

    def run(self, plans: Sequence[ClaimPlan]) -> bool:
        wanted = [(claim, alternatives) for claim in plans for alternatives in claim.requests]
        return self._request(wanted, 0)

    def _request(self, wanted: Wanted, at: int) -> bool:
        if at == len(wanted):
            return True
        claim, alternatives = wanted[at]
        return any(self._choose(claim, want, wanted, at) for want in alternatives)

    def _choose(self, claim: ClaimPlan, want: Want, wanted: Wanted, at: int) -> bool:
        if want.count:
            return self._take(claim, want, want.count, 0, wanted, at)
        every = [unit for unit in self.units if want.matches(unit)]
        if self.incomplete or not every or not (want.admin or self._available(every)):
            return False
        mark = len(self.given)
        for unit in every:
            if not self._allowed(claim, want, unit):
                self._undo(mark)
                return False
            self._give(claim, want, unit)
        if self._request(wanted, at + 1):
            return True
        self._undo(mark)
        return False

    def _take(
        self,
        claim: ClaimPlan,
        want: Want,
        left: int,
        start: int,
        wanted: Wanted,
        at: int,
    ) -> bool:
        if not left:
            return self._request(wanted, at + 1)
        pool = self.units if want.admin else self.free
        tried: set[int] = set()
        for position in range(start, len(pool)):
            unit = pool[position]
            self.steps += 1
            if self.steps > _MOST_STEPS or len(pool) - position < left:
                return False
            # an equal device cannot succeed where this one failed: nothing tells the two apart
            if unit.kind in tried or not want.matches(unit) or (not want.admin and id(unit) in self.used):
                continue
            if not self._allowed(claim, want, unit):
                continue
            mark = len(self.given)
            self._give(claim, want, unit)
            if self._take(claim, want, left - 1, position + 1, wanted, at):
                return True
            self._undo(mark)
            tried.add(unit.kind)
        return False

    def _available(self, units: Sequence[Unit]) -> bool:
        free = {id(unit) for unit in self.free} - self.used
        return all(id(unit) in free for unit in units)

    def _give(self, claim: ClaimPlan, want: Want, unit: Unit) -> None:
        self.given.append((claim.key, want, unit))
        if not want.admin:
            self.used.add(id(unit))

    def _undo(self, mark: int) -> None:
        while len(self.given) > mark:
            _, want, unit = self.given.pop()
            if not want.admin:
                self.used.discard(id(unit))

    def _allowed(self, claim: ClaimPlan, want: Want, unit: Unit) -> bool:
        """Limits and constraints of the claim, given what it has already."""
        mine = [(other, given) for key, other, given in self.given if key == claim.key]
        if len(mine) >= MOST_DEVICES:
            return False
        for constraint in claim.constraints:
            named = constraint.requests
            if not constraint.match_attribute or (named and not {want.request, want.parent} & set(named)):
                continue
            value = attribute(unit, constraint.match_attribute)
            if value is None:
                return False
            for other, given in mine:
                concerned = not named or {other.request, other.parent} & set(named)
                if concerned and attribute(given, constraint.match_attribute) != value:
                    return False
        return True


def allocate(
    plans: Sequence[ClaimPlan], units: Sequence[Unit], free: Sequence[Unit], *, incomplete: bool = False
) -> Given | None:
    """Devices for all claims, or None.

    Args:
        plans: the claims.
        units: all devices of the node, in order.
        free: those that no claim has, in the same order.
        incomplete: some pool of the node is not complete, so it is not known what "all" are.

    Raises:
        ClaimError: a selector has no answer for a device.

    """
    search = _Search(units, free, incomplete)
    return search.given if search.run(plans) else None
