"""Budgets as they are written, and what counts as used: periods, half-lives, prices, forecasts."""

from __future__ import annotations

from math import inf, log
from typing import Any

import pytest

from support.build import START, budget, price_list
from unisono.api.budgets import Hold, count, decimals, prices_of, purse_of, tally_of, with_tally
from unisono.api.groups.budgets import Price
from unisono.api.kinds import BUDGETS, PRICE_LISTS
from unisono.api.times import parse_time, rfc3339
from unisono.api.validation import validate

HOUR = 3600.0


def wrong(**spec: Any) -> list[str]:
    amounts = spec.pop("amounts", {"cpu": 1})
    return [error.message() for error in validate(BUDGETS, budget("b", amounts, **spec))]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"queues": None, "users": None}, "spec.queues"),
        ({"namespaces": ["a*b"]}, "spec.namespaces[0]"),
        ({"amounts": {}}, "spec.amounts"),
        ({"amounts": {"cpu": "much"}}, "spec.amounts[cpu]"),
        ({"amounts": {"cpu": "0"}}, "spec.amounts[cpu]"),
        ({"amounts": {"cpu": "-1"}}, "spec.amounts[cpu]"),
        ({"period": "Day", "half_life": "1h"}, "spec.halfLife"),
        ({"half_life": "soon"}, "spec.halfLife"),
        ({"half_life": "1s"}, "spec.halfLife"),
        ({"start": "tomorrow"}, "spec.start"),
        ({"time_zone": "Europe/Berlin"}, "spec.timeZone"),
        ({"period": "Day", "time_zone": "Mars"}, "spec.timeZone"),
        ({"mode": "Soft", "running": "Evict"}, "spec.running"),
        ({"mode": "Soft", "starts": "IfItFits"}, "spec.starts"),
        ({"notice": "5m"}, "spec.notice"),
        ({"running": "Evict", "notice": "2d"}, "spec.notice"),
        ({"least": "-5m"}, "spec.least"),
        ({"warn_at": [50, 101]}, "spec.warnAt[1]"),
    ],
    ids=str,
)
def test_what_is_wrong_is_named(spec: dict[str, Any], field: str) -> None:
    if spec.get("queues", ...) is None:
        there = budget("b", {"cpu": 1}, queues=None)
        found = [error.message() for error in validate(BUDGETS, there)]
    else:
        found = wrong(**spec)
    assert [message.partition(": ")[0] for message in found] == [field]


def test_what_is_right_passes() -> None:
    assert wrong(period="Month", time_zone="Europe/Berlin", warn_at=[80, 100], least="5m") == []
    assert wrong(half_life="168h", mode="Soft", users=["ann"], amounts={"money": 5000, "memory": "10Ti"}) == []
    assert wrong(running="Evict", notice="10m", starts="IfItFits", start=rfc3339(START)) == []


@pytest.mark.parametrize(
    ("price", "field"),
    [
        (Price("", "1"), "spec.prices[0].resource"),
        (Price("cpu", "dear"), "spec.prices[0].perHour"),
        (Price("cpu", "-1"), "spec.prices[0].perHour"),
        (Price("cpu", "inf"), "spec.prices[0].perHour"),
    ],
)
def test_what_is_wrong_with_a_price_is_named(price: Price, field: str) -> None:
    found = [error.message() for error in validate(PRICE_LISTS, price_list(price))]
    assert [message.partition(": ")[0] for message in found] == [field]


@pytest.mark.parametrize(
    ("labels", "priority_class", "cost"),
    [({}, "", 9.0), ({"kind": "spot"}, "", 5.0), ({}, "low", 3.0), ({"kind": "spot"}, "low", 5.0)],
)
def test_the_first_price_that_is_for_node_and_job_counts(
    labels: dict[str, str], priority_class: str, cost: float
) -> None:
    """Two CPUs, and two GiB at a half each."""
    prices = prices_of(
        price_list(
            Price("cpu", "2", {"kind": "spot"}),
            Price("cpu", "1", priority_classes=["low"]),
            Price("cpu", "4"),
            Price("memory", "0.5"),
            Price("nvidia.com/gpu", "100"),
        )
    )
    held = {"cpu": 2000, "memory": 2 << 30, "ephemeral-storage": 5}
    assert prices.rate(held, labels, priority_class) == pytest.approx(cost)
    assert prices.dearest(held, priority_class) == pytest.approx(9.0)


@pytest.mark.parametrize(
    ("period", "zone", "start", "end"),
    [
        ("Hour", None, "2023-11-14T22:00:00Z", "2023-11-14T23:00:00Z"),
        ("Day", None, "2023-11-14T00:00:00Z", "2023-11-15T00:00:00Z"),
        ("Day", "Asia/Tokyo", "2023-11-14T15:00:00Z", "2023-11-15T15:00:00Z"),
        ("Week", None, "2023-11-13T00:00:00Z", "2023-11-20T00:00:00Z"),
        ("Month", "Europe/Berlin", "2023-10-31T23:00:00Z", "2023-11-30T23:00:00Z"),
        ("Year", None, "2023-01-01T00:00:00Z", "2024-01-01T00:00:00Z"),
    ],
)
def test_periods(period: str, zone: str | None, start: str, end: str) -> None:
    purse = purse_of(budget("b", {"cpu": 1}, period=period, time_zone=zone))
    assert purse.period_at(START) == (parse_time(start), parse_time(end))
    assert purse.period_at(parse_time(end))[0] == parse_time(end)


HOLDS = [Hold(START, START + HOUR, {"cpu": 2.0}), Hold(START + HOUR / 2, inf, {"cpu": 1.0, "memory": 7.0})]


@pytest.mark.parametrize("steps", [1, 2, 7, 100])
@pytest.mark.parametrize("half_life", [None, "2h"])
def test_how_often_is_counted_changes_nothing(steps: int, half_life: str | None) -> None:
    there = budget("b", {"cpu": 100}, {}, half_life=half_life)
    purse = purse_of(there)
    once = count(purse, tally_of(there, purse), HOLDS, START + 5 * HOUR)
    tally = tally_of(there, purse)
    for step in range(steps):
        there = with_tally(there, tally)
        tally = count(purse, tally_of(there, purse), HOLDS, START + 5 * HOUR * (step + 1) / steps)
    assert tally.used == pytest.approx(once.used, abs=1e-6)
    if half_life is None:
        assert once.used == pytest.approx({"cpu": 2.0 + 4.5})
    assert count(purse, tally, HOLDS, START + HOUR) == tally, "time does not go back"


def test_a_half_life_is_one() -> None:
    there = budget("b", {"cpu": 100}, {"cpu": 10}, half_life="1h")
    purse = purse_of(there)
    tally = tally_of(there, purse)
    assert count(purse, tally, [], START + HOUR).used["cpu"] == pytest.approx(5.0)
    for_ever = count(purse, tally, [Hold(START, inf, {"cpu": 3.0})], START + 100 * HOUR)
    assert for_ever.used["cpu"] == pytest.approx(3.0 / log(2.0))


@pytest.mark.parametrize("late", [0.5, 1.0, 1.5, 3.2])
def test_a_period_ends_whenever_somebody_counts(late: float) -> None:
    """From 22:13:20 on, one CPU for ever; the clock is at so many hours after 23:00."""
    purse = purse_of(budget("b", {"cpu": 100}, period="Hour"))
    begun = purse.begun()
    tally = count(purse, begun, [Hold(START, inf, {"cpu": 1.0})], begun.end + late * HOUR)
    first = (begun.end - START) / HOUR
    assert tally.used["cpu"] == pytest.approx(late % 1.0)
    assert tally.start == begun.end + int(late) * HOUR
    assert tally.previous["cpu"] == pytest.approx(first if late < 1 else 1.0)


@pytest.mark.parametrize(("half_life", "rate"), [(None, 4.0), ("1h", 4.0), ("1h", 1.0)])
def test_forecasts_come_true(half_life: str | None, rate: float) -> None:
    there = budget("b", {"cpu": 4}, {"cpu": 1}, half_life=half_life)
    purse = purse_of(there)
    tally = tally_of(there, purse)
    ends = purse.used_up_at(tally, {"cpu": rate})
    if rate / log(2.0) < 4 and half_life:
        assert ends == inf
        return
    holds = [Hold(START, inf, {"cpu": rate})]
    assert not purse.used_up(count(purse, tally, holds, ends - 1.0).used)
    over = count(purse, tally, holds, ends + 1.0)
    assert purse.used_up(over.used) == ["cpu"]
    if half_life:
        again = purse.left_again_at(over, {})
        assert purse.used_up(count(purse, over, [], again - 1.0).used)
        assert not purse.used_up(count(purse, over, [], again + 1.0).used)


def test_a_start_that_is_set_later_begins_anew() -> None:
    there = budget("b", {"cpu": 4}, {"cpu": 3}, start=rfc3339(START + HOUR))
    purse = purse_of(there)
    assert tally_of(there, purse).used == {}
    assert count(purse, tally_of(there, purse), [Hold(START, inf, {"cpu": 1.0})], START + 1.5 * HOUR).used == {
        "cpu": 0.5
    }


@pytest.mark.parametrize("text", ["many", "inf", "nan", ""])
def test_a_status_that_cannot_be_read_counts_for_nothing(text: str) -> None:
    there = budget("b", {"cpu": 4}, {"cpu": text})
    assert tally_of(there, purse_of(there)).used == {}


def test_numbers_are_written_so_that_they_are_read_again() -> None:
    assert decimals({"cpu": 1 / 3, "memory": 5e13, "gpu": 0.0}) == {
        "cpu": "0.3333333333",
        "gpu": "0",
        "memory": "50000000000000",
    }
