"""``unisono budgets`` and money in ``unisono report``: what is used as of now, and what it cost by nodes and prices."""

from __future__ import annotations

import csv
import io

import pytest

from support.build import START, budget, price_list
from unisono.api.budgets import prices_of
from unisono.api.groups.budgets import Price
from unisono.cli.accounting.money import Cost, money_by_row, money_of
from unisono.cli.accounting.tables import report_csv, report_lines
from unisono.history.records import HOUR, Interval, JobRecord
from unisono.history.report import Counting, Report, Row, Window
from unisono.sdk.overview.queues import budget_lines

GPU = "nvidia.com/gpu"
PRICES = prices_of(price_list(Price(GPU, "0.5", {"kind": "spot"}), Price(GPU, "2"), Price("memory", "0.1")))
LABELS = {"n1": {"kind": "spot"}, "n2": {}}


def test_budgets_are_as_of_now() -> None:
    there = budget("team", {GPU: 10, "money": 100}, {GPU: 4}, mode="Soft")
    there.status.rate = {GPU: "2", "money": "5"}
    there.status.exhausted_at = "2023-11-15T01:13:20Z"
    gpus, money = budget_lines([there], START + 3600.0)
    assert (gpus.unit, money.unit) == (f"hours of {GPU}", "money")
    assert (gpus.used, gpus.left, gpus.rate, gpus.mode, gpus.part) == ("6", "4", "2", "Soft", 0.6)
    assert (money.used, gpus.exhausted) == ("5", "2023-11-15T01:13:20Z")
    gpus, money = budget_lines([there], START + 9 * 3600.0)
    assert (gpus.exhausted, money.exhausted) == ("used up", "")


def test_a_budget_that_breaks_a_rule_hides_no_other() -> None:
    broken = budget("bad", {GPU: 10}, period="Day", half_life="1h")
    invalid, fine = budget_lines([broken, budget("team", {GPU: 10})], START)
    assert (invalid.name, invalid.mode, fine.name) == ("bad", "invalid", "team")
    assert "spec.halfLife" in invalid.amount


def test_hours_cost_what_the_labels_of_their_nodes_say() -> None:
    """Of ten GPU-hours four are known by node; the others are of sums of old records."""
    row = Row("q", hours={GPU: 10.0, "memory": 2.0**31}, on={"n1": {GPU: 3.0}, "n2": {GPU: 1.0}})
    assert money_of(row, PRICES, LABELS) == pytest.approx(3 * 0.5 + 1 * 2 + 6 * 2 + 2 * 0.1)
    assert money_of(row, PRICES, {}) == pytest.approx(10 * 2 + 0.2)


def test_reports_say_on_which_node_where_they_are_asked() -> None:
    found: dict[bool, Report] = {}
    for nodes in (False, True):
        counting = Counting(Window(0, 10 * HOUR, 10 * HOUR), "queue", nodes=nodes)
        job = JobRecord("u", "v1", "Job", "jobs", "ns", "j", queue="q")
        for pod, node in (("a", "n1"), ("b", "n2"), ("c", "n2")):
            counting.interval(Interval(pod, HOUR, "u", pod, node, "q", {GPU: 2000}, end=2 * HOUR), job)
        found[nodes] = counting.report(0)
    assert found[False].rows[0].on == {}
    assert found[True].rows[0].on == {"n1": {GPU: 2.0}, "n2": {GPU: 4.0}}
    cost = Cost("EUR", money_by_row(found[True], PRICES, LABELS), "nodes are not known")
    assert cost.by_row == pytest.approx({"q": 9.0, "total": 9.0})
    lines = report_lines(found[True], cost)
    assert lines[2].endswith("EUR")
    assert lines[3].endswith("9.00")
    assert lines[-1] == "nodes are not known" or "nodes are not known" in lines
    (row,) = csv.DictReader(io.StringIO(report_csv(found[True], cost)))
    assert row["money"] == "9.0"
    assert "money" not in report_csv(found[True])
