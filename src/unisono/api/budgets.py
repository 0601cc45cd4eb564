"""Budgets and prices as they are read, and what was used: sums over the times in which pods held their nodes (pure).

A `Tally` is what was used up to a moment, and `count` carries it on from there to a later one. Only what lies between
the two moments is added, so that it does not matter how often somebody counts, or who: pods that are counted twice add
nothing, and those that are known only later add what they held.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from functools import lru_cache
from math import inf, isfinite, log
from typing import Final, NamedTuple

import msgspec

from unisono.api.cron import parse_schedule, parse_zone
from unisono.api.field_error import FieldError, forbidden, invalid, required
from unisono.api.groups.budgets import EVICT, IF_IT_FITS, SOFT, Budget, BudgetSpec, PriceList
from unisono.api.quantity import QuantityError, parse_quantity
from unisono.api.resources import is_bytes
from unisono.api.selecting import is_one_of
from unisono.api.times import duration_or_none, is_time, parse_time, rfc3339, rfc3339_micro, time_or

MONEY: Final = "money"
"""Stands among the amounts of a Budget for what the PriceList says."""
DEFAULT_PRICES: Final = "default"
MOST_SECONDS: Final = 366 * 86_400.0
_MOST = 1e15
_GIB = float(1 << 30)
_MILLI = 1000.0
HOUR: Final = 3600.0
_EDGE = 1e-9
"""By so little amounts may be off that are sums of many."""
_CRON = {"Hour": "0 * * * *", "Day": "0 0 * * *", "Week": "0 0 * * 1", "Month": "0 0 1 * *", "Year": "0 0 1 1 *"}
_LONGEST_PERIOD = 367 * 86_400.0

Amounts = Mapping[str, float]
"""Hours by resource (byte-hours of those in bytes), and money; of a rate: by the hour."""


class Price(NamedTuple):
    """What one of a resource, or one GiB, costs in an hour; for nodes with labels, and jobs of some classes."""

    resource: str
    per_hour: float
    labels: tuple[tuple[str, str], ...] = ()
    classes: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Prices:
    """A PriceList as it is read."""

    name: str
    currency: str = ""
    prices: tuple[Price, ...] = ()

    def rate(self, held: Mapping[str, int], labels: Mapping[str, str], priority_class: str = "") -> float:
        """Money per hour of amounts in engine units, on a node with these labels."""
        total, priced = 0.0, set[str]()
        for price in self.prices:
            amount = held.get(price.resource, 0)
            if not amount or price.resource in priced or (price.classes and priority_class not in price.classes):
                continue
            if all(labels.get(key) == value for key, value in price.labels):
                priced.add(price.resource)
                total += price.per_hour * amount / (_GIB if is_bytes(price.resource) else _MILLI)
        return total

    def dearest(self, held: Mapping[str, int], priority_class: str = "") -> float:
        """The most that it may cost in an hour, on whichever node."""
        most: dict[str, float] = {}
        for price in self.prices:
            if not price.classes or priority_class in price.classes:
                most[price.resource] = max(most.get(price.resource, 0.0), price.per_hour)
        return sum(
            per_hour * held.get(name, 0) / (_GIB if is_bytes(name) else _MILLI) for name, per_hour in most.items()
        )


NO_PRICES: Final = Prices("")


@dataclass(frozen=True, slots=True)
class Tally:
    """What was used.

    Attributes:
        used: up to ``at``, since ``start`` or with the half-life.
        at: seconds since the epoch.
        start, end: of the period; the end is infinite where there are none.
        previous: what the last period used.
    """

    used: Amounts
    at: float
    start: float
    end: float = inf
    previous: Amounts = field(default_factory=dict)


class Hold(NamedTuple):
    """A time in which something was used, and how much in an hour."""

    start: float
    end: float
    rates: Amounts


@dataclass(frozen=True, slots=True)
class Purse:
    """A Budget as it is read.

    Attributes:
        name: of the object.
        since: nothing counts that was used before.
        users, namespaces, queues: whose jobs are meant.
        amounts: how much there is.
        period: Hour, Day and so on; empty for none. ``zone``: where it begins.
        half_life: seconds after which what was used counts half; 0.0 for none.
        hard: nothing starts once it is used up.
        fits: what jobs are known to need must be left.
        evicts: running pods are evicted once it is used up.
        notice: seconds that these are told before.
        least: seconds that a pod counts at least.
        warn_at: percentages.
        prices: name of the PriceList.
    """

    name: str
    since: float
    users: frozenset[str]
    namespaces: tuple[str, ...]
    queues: frozenset[str]
    amounts: Amounts
    period: str = ""
    zone: tzinfo = UTC
    half_life: float = 0.0
    hard: bool = True
    fits: bool = False
    evicts: bool = False
    notice: float = 0.0
    least: float = 0.0
    warn_at: tuple[int, ...] = ()
    prices: str = DEFAULT_PRICES

    def admits(self, account: str, namespace: str, queues: Iterable[str]) -> bool:
        """Whether a job is meant; ``queues``: its queue and those above it."""
        return is_one_of(self.users, self.namespaces, self.queues, account, namespace, queues)

    def rates(
        self, held: Mapping[str, int], labels: Mapping[str, str], priority_class: str, prices: Mapping[str, Prices]
    ) -> dict[str, float]:
        """How much of it is used in an hour by what holds amounts in engine units, on a node with these labels."""
        hourly = self._hours(held)
        if MONEY in self.amounts:
            hourly[MONEY] = prices.get(self.prices, NO_PRICES).rate(held, labels, priority_class)
        return {name: rate for name, rate in hourly.items() if rate}

    def most_rates(
        self, held: Mapping[str, int], priority_class: str, prices: Mapping[str, Prices]
    ) -> dict[str, float]:
        """The same at most, on whichever node."""
        hourly = self._hours(held)
        if MONEY in self.amounts:
            hourly[MONEY] = prices.get(self.prices, NO_PRICES).dearest(held, priority_class)
        return {name: rate for name, rate in hourly.items() if rate}

    def _hours(self, held: Mapping[str, int]) -> dict[str, float]:
        return {
            name: amount / (1.0 if is_bytes(name) else _MILLI)
            for name in self.amounts
            if name != MONEY and (amount := held.get(name, 0))
        }

    # ---- periods

    def period_at(self, moment: float) -> tuple[float, float]:
        """Begin and end of the period that a moment is in."""
        return _period(self.period, self.zone, moment) if self.period else (self.since, inf)

    def begun(self) -> Tally:
        """Nothing has been counted yet."""
        return Tally({}, self.since, *self.period_at(self.since))

    def used_up(self, used: Amounts) -> list[str]:
        """What there is nothing left of."""
        return [name for name, amount in self.amounts.items() if used.get(name, 0.0) >= amount - _EDGE]

    def used_up_at(self, tally: Tally, rates: Amounts) -> float:
        """When the first amount is used up if it goes on like this, in the period; infinite where none is."""
        earliest = min((self._reached(name, tally, rates.get(name, 0.0)) for name in self.amounts), default=inf)
        return earliest if earliest < tally.end else inf

    def _reached(self, name: str, tally: Tally, rate: float) -> float:
        amount, used = self.amounts[name], tally.used.get(name, 0.0)
        if used >= amount - _EDGE:
            return tally.at
        if not self.half_life:
            return tally.at + (amount - used) / rate * HOUR if rate > 0.0 else inf
        scale = self.half_life / log(2.0)
        limit = rate * scale / HOUR  # what it comes to if it goes on for ever
        return tally.at + scale * log((limit - used) / (limit - amount)) if limit > amount else inf

    def left_again_at(self, tally: Tally, rates: Amounts) -> float:
        """When something is left again of one that is used up, if it goes on like this."""
        if not self.half_life:
            return tally.end
        scale, latest = self.half_life / log(2.0), tally.at
        for name in self.used_up(tally.used):
            amount, used = self.amounts[name], tally.used.get(name, 0.0)
            limit = rates.get(name, 0.0) * scale / HOUR
            latest = max(latest, tally.at + scale * log((used - limit) / (amount - limit)) if limit < amount else inf)
        return latest


@lru_cache(maxsize=1024)
def _period(period: str, zone: tzinfo, moment: float) -> tuple[float, float]:
    schedule = parse_schedule(_CRON[period])
    start = schedule.latest(moment - _LONGEST_PERIOD, moment, zone)
    begin = moment if start is None else start
    return begin, schedule.next(max(begin, moment), zone) or inf


def count(purse: Purse, tally: Tally, holds: Sequence[Hold], now: float) -> Tally:
    """The tally as of ``now``: with what was held since it was counted last; a new period begins with nothing."""
    if now <= tally.at:
        return tally
    if now < tally.end:
        return replace(tally, used=_carried(purse, tally.used, holds, tally.at, now), at=now)
    previous = _carried(purse, tally.used, holds, tally.at, tally.end)
    start, end = purse.period_at(now)
    if start > tally.end:  # nobody has counted for more than one period
        before, _ = purse.period_at(start - 1.0)
        previous = _carried(purse, {}, holds, before, start)
    return Tally(_carried(purse, {}, holds, start, now), now, start, end, previous)


def _carried(purse: Purse, used: Amounts, holds: Sequence[Hold], since: float, until: float) -> dict[str, float]:
    carried = {name: used.get(name, 0.0) for name in purse.amounts}
    if purse.half_life:
        kept = 2.0 ** (-(until - since) / purse.half_life)
        carried = {name: amount * kept for name, amount in carried.items()}
    for start, end, rates in holds:
        low, high = max(start, since), min(end, until)
        if high <= low:
            continue
        hours = (high - low) / HOUR
        if purse.half_life:
            scale = purse.half_life / log(2.0)
            hours = (
                (2.0 ** ((high - until) / purse.half_life) - 2.0 ** ((low - until) / purse.half_life)) * scale / HOUR
            )
        for name, rate in rates.items():
            if name in carried:
                carried[name] += rate * hours
    return carried


# ---- objects


def purse_of(obj: Budget) -> Purse:
    """Read an object.

    Raises:
        ValueError: it breaks a rule; the message names the field.
    """
    wrong = next(mistakes(obj.spec), None)
    if wrong is not None:
        raise ValueError(wrong.message())
    spec, meta = obj.spec, obj.metadata
    return Purse(
        meta.name,
        parse_time(spec.start) if spec.start else time_or(meta.creation_timestamp),
        frozenset(spec.users or ()),
        tuple(spec.namespaces or ()),
        frozenset(spec.queues or ()),
        {name: float(parse_quantity(amount)) for name, amount in (spec.amounts or {}).items()},
        spec.period or "",
        parse_zone(spec.time_zone or "UTC"),
        duration_or_none(spec.half_life) or 0.0,
        spec.mode != SOFT,
        spec.starts == IF_IT_FITS,
        spec.running == EVICT,
        duration_or_none(spec.notice) or 0.0,
        duration_or_none(spec.least) or 0.0,
        tuple(sorted(set(spec.warn_at or ()))),
        spec.price_list or DEFAULT_PRICES,
    )


def tally_of(obj: Budget, purse: Purse) -> Tally:
    """What the status of an object says was used; nothing where it says nothing, or cannot be read."""
    status = obj.status
    at = time_or(status.counted, -1.0)
    if at < purse.since:  # a start that is set later begins anew
        return purse.begun()
    start = time_or(status.period_start, -1.0)
    begin, end = purse.period_at(max(start, 0.0) if purse.period and start >= 0.0 else at)
    return Tally(_numbers(status.used), at, start if start >= 0.0 else begin, end, _numbers(status.previous))


def with_tally(obj: Budget, tally: Tally) -> Budget:
    """The object as it would be if its controller had counted that much."""
    status = msgspec.structs.replace(
        obj.status,
        counted=rfc3339_micro(tally.at),
        period_start=rfc3339(tally.start),
        period_end=rfc3339(tally.end) if tally.end < inf else None,
        used=decimals(tally.used),
        previous=decimals(tally.previous) or None,
    )
    return msgspec.structs.replace(obj, status=status)


def _numbers(texts: Mapping[str, str] | None) -> dict[str, float]:
    numbers: dict[str, float] = {}
    for name, text in (texts or {}).items():
        try:
            number = float(text)
        except ValueError:
            continue
        if isfinite(number):
            numbers[name] = number
    return numbers


def decimals(amounts: Amounts) -> dict[str, str]:
    """Amounts as they are written down: so many digits that reading them again changes nothing that shows."""
    return {name: f"{amount:.10f}".rstrip("0").rstrip(".") or "0" for name, amount in sorted(amounts.items())}


def unit(name: str) -> str:
    """What is counted."""
    return "money" if name == MONEY else f"hours of {name}"


def plain(amount: float) -> str:
    """A number for people: with two decimals at most, and three digits at least."""
    return f"{amount:.2f}".rstrip("0").rstrip(".") if abs(amount) >= 1.0 or not amount else f"{amount:.3g}"


def prices_of(obj: PriceList) -> Prices:
    """Read an object.

    Raises:
        ValueError: it breaks a rule; the message names the field.
    """
    wrong = next(wrong_prices(obj), None)
    if wrong is not None:
        raise ValueError(wrong.message())
    entries = tuple(
        Price(
            each.resource,
            float(each.per_hour),
            tuple(sorted((each.node_selector or {}).items())),
            frozenset(each.priority_classes or ()),
        )
        for each in obj.spec.prices or ()
    )
    return Prices(obj.metadata.name, obj.spec.currency or "", entries)


def mistakes(spec: BudgetSpec) -> Iterator[FieldError]:
    """What is wrong with whose, how much and when."""
    if not (spec.queues or spec.namespaces or spec.users):
        yield required("spec.queues", "say whose budget it is: queues, namespaces or users")
    for index, name in enumerate(spec.namespaces or ()):
        if "*" in name[:-1]:
            yield invalid(f"spec.namespaces[{index}]", name, "a * may only stand at the end")
    if not spec.amounts:
        yield required("spec.amounts", "say how many hours of what, such as nvidia.com/gpu: 1000, or how much money")
    for name, amount in (spec.amounts or {}).items():
        if not name or not _is_amount(amount):
            yield invalid(f"spec.amounts[{name}]", amount, "must be a number above 0, such as 1000 or 1.5k")
    yield from _wrong_times(spec)
    for name, text in (("notice", spec.notice), ("least", spec.least)):
        seconds = duration_or_none(text)
        if text is not None and (seconds is None or not 0.0 <= seconds <= 86_400.0):
            yield invalid(f"spec.{name}", text, "must be a duration such as 10m, a day at most")
    if spec.mode == SOFT:
        for name in ("starts", "running", "notice"):
            if getattr(spec, name) is not None:
                yield forbidden(f"spec.{name}", "is for budgets with mode Hard: a soft one stops nothing")
    elif spec.notice is not None and spec.running != EVICT:
        yield forbidden("spec.notice", f"is for budgets with running {EVICT}")
    for index, percent in enumerate(spec.warn_at or ()):
        if not 1 <= percent <= 100:
            yield invalid(f"spec.warnAt[{index}]", percent, "must be a percentage from 1 to 100")


def _wrong_times(spec: BudgetSpec) -> Iterator[FieldError]:
    if spec.period and spec.half_life:
        yield forbidden("spec.halfLife", "may not be set beside period: either says how use is forgotten")
    seconds = duration_or_none(spec.half_life)
    if spec.half_life is not None and (seconds is None or not 60.0 <= seconds <= MOST_SECONDS):
        yield invalid("spec.halfLife", spec.half_life, "must be a duration such as 168h, from a minute to a year")
    if spec.start is not None and not is_time(spec.start):
        yield invalid("spec.start", spec.start, "must be a time such as 2026-11-20T16:30:00Z")
    if spec.time_zone and not spec.period:
        yield forbidden("spec.timeZone", "is for period; start has its offset")
    try:
        parse_zone(spec.time_zone or "UTC")
    except ValueError as error:
        yield invalid("spec.timeZone", spec.time_zone, f"{error}; write Europe/Berlin, for example")


def wrong_prices(obj: PriceList) -> Iterator[FieldError]:
    """What is wrong with resources and numbers."""
    for index, price in enumerate(obj.spec.prices or ()):
        at = f"spec.prices[{index}]"
        try:
            number = float(price.per_hour) if price.per_hour.isascii() else -1.0
        except ValueError:
            number = -1.0
        if not 0.0 <= number <= _MOST:
            yield invalid(f"{at}.perHour", price.per_hour, 'must be a number that is not negative, such as "2.50"')


def _is_amount(amount: str | int | float) -> bool:
    try:
        return 0 < parse_quantity(amount) <= _MOST * _GIB
    except QuantityError:
        return False
