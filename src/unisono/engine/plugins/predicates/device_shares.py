"""What devices share out: amounts of a device that several claims may use, and counters from which devices draw."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from unisono.api.base import Quantity
from unisono.api.core import CapacityRequestPolicy, DeviceRequestAllocationResult
from unisono.api.quantity import format_bytes, format_milli, parse_quantity

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
    policy: CapacityRequestPolicy | None = None

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


def _in_range(policy: CapacityRequestPolicy, asked: Fraction) -> Fraction | None:
    bounds = policy.valid_range
    if bounds is None:
        return asked
    least = parse_quantity(bounds.min) if bounds.min is not None else Fraction(0)
    found = max(asked, least)
    if bounds.step is not None and (step := parse_quantity(bounds.step)) > 0:
        found = least - ((least - found) // step) * step  # rounded up
    return None if bounds.max is not None and found > parse_quantity(bounds.max) else found


def portions(capacity: Mapping[str, Capacity], asked: Amounts) -> Amounts | None:
    """What a request consumes of each capacity of a device; None where the device cannot give so much of one.

    Args:
        capacity: of the device, by its full name.
        asked: amounts that the request names, by full name.

    """
    if not asked.keys() <= capacity.keys():
        return None
    found: dict[str, Fraction] = {}
    for name, one in capacity.items():
        portion = one.portion(asked.get(name))
        if portion is None or portion > one.value:
            return None
        found[name] = portion
    return found


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


def consumed_by(result: DeviceRequestAllocationResult) -> Amounts:
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
