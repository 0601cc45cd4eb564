"""Money: what was used by prices, and budgets as a table (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unisono.api.budgets import Hold, Prices, count, plain, purse_of, tally_of, unit
from unisono.api.resources import is_bytes
from unisono.api.times import rfc3339, time_or

if TYPE_CHECKING:
    from unisono.api.groups.budgets import Budget
    from unisono.history.report import Report, Row

BUDGET_COLUMNS = ("name", "mode", "of", "amount", "used", "left", "rate", "period_end", "exhausted")


@dataclass(frozen=True, slots=True)
class Cost:
    """What the rows of a report cost, by their keys; ``note`` says what is missing, if anything is."""

    currency: str
    by_row: Mapping[str, float]
    note: str = ""


def money_of(row: Row, prices: Prices, labels: Mapping[str, Mapping[str, str]]) -> float:
    """What a row cost: by the labels of its nodes, and of what no node is known for, as on a node without labels."""
    rest, total = dict(row.hours), 0.0
    for node, hours in row.on.items():
        total += prices.rate(_units(hours), labels.get(node, {}))
        for name, amount in hours.items():
            rest[name] = max(rest.get(name, 0.0) - amount, 0.0)
    return total + prices.rate(_units(rest), {})


def _units(hours: Mapping[str, float]) -> dict[str, int]:
    """Hours as amounts in engine units that are held for an hour."""
    return {name: round(amount * (1 if is_bytes(name) else 1000)) for name, amount in hours.items()}


def money_by_row(report: Report, prices: Prices, labels: Mapping[str, Mapping[str, str]]) -> dict[str, float]:
    """Money by the key of each row, that of the total with it."""
    return {row.key: money_of(row, prices, labels) for row in (*report.rows, report.total)}


def budget_rows(budgets: Iterable[Budget], now: float) -> list[list[str]]:
    """One row for each amount of each budget, as of now: what has been used since it was counted is counted on."""
    rows: list[list[str]] = []
    for budget in sorted(budgets, key=lambda one: one.metadata.name):
        try:
            purse = purse_of(budget)
        except ValueError as error:
            rows.append([budget.metadata.name, "invalid", "", str(error), "", "", "", "", ""])
            continue
        tally = tally_of(budget, purse)
        rates = {name: float(text) for name, text in (budget.status.rate or {}).items()}
        tally = count(purse, tally, [Hold(tally.at, now, rates)], now)
        up, ends = purse.used_up(tally.used), budget.status.exhausted_at
        exhausted = "used up" if up else ends or ""
        if exhausted and not up and time_or(ends) <= now:
            exhausted = "used up"
        for name, amount in purse.amounts.items():
            used = tally.used.get(name, 0.0)
            kept = [plain(each) for each in (amount, used, amount - used, rates.get(name, 0.0))]
            mode = "Hard" if purse.hard else "Soft"
            end = rfc3339(tally.end) if tally.end < 4e10 else ""
            rows.append([purse.name, mode, unit(name), *kept, end, exhausted if name in (up or purse.amounts) else ""])
    return rows
