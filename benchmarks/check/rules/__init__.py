"""The rules, each in plain words and plain loops; what they find are sentences."""

from __future__ import annotations

from benchmarks.check.facts import Turn
from benchmarks.check.rules import (
    affinity,
    budgets,
    evictions,
    gangs,
    licenses,
    nodes,
    order,
    queues,
    topology,
    volumes,
)

_RULES = (
    nodes.rules, affinity.rules, volumes.rules, gangs.rules, topology.rules, queues.rules, licenses.rules,
    budgets.rules, evictions.rules, order.rules,
)  # fmt: skip


def check(turn: Turn) -> list[str]:
    """What is wrong with the decisions of one cycle."""
    return [finding for rules in _RULES for finding in rules(turn)]
