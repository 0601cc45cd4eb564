"""Money: what was used by prices (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unisono.api.budgets import Prices
from unisono.api.resources import is_bytes

if TYPE_CHECKING:
    from unisono.history.report import Report, Row


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
