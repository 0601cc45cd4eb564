"""The page on performance is put together from measurements; nothing is measured here."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest
from benchmarks import decision, growth, measure, report

POINTS = [growth.Point(1_000, 0.01, 500), growth.Point(20_000, 0.2, 10_000)]


@pytest.mark.parametrize(
    ("row", "met", "ratio"),
    [
        (measure.Row("a", 10, "pods/s", 5, "more", volcano=2.5), True, 4.0),
        (measure.Row("a", 10, "ms", 5, "less"), False, None),
        (measure.Row("a", 10, "ms"), None, None),
    ],
)
def test_a_row_knows_whether_its_goal_is_met(row: Any, met: bool | None, ratio: float | None) -> None:
    assert row.met is met
    assert row.ratio == ratio


def test_a_part_of_the_page_is_replaced_and_nothing_else() -> None:
    page = "one\n<!-- results: begin -->\nold\n<!-- results: end -->\ntwo\n"
    once = report.put(page, "results", "new")
    assert once == "one\n<!-- results: begin -->\n\nnew\n\n<!-- results: end -->\ntwo\n"
    assert report.put(once, "results", "new") == once
    with pytest.raises(ValueError, match="has no part plots"):
        report.put(page, "plots", "new")


def test_the_page_has_every_part() -> None:
    page = report.PAGE.read_text()
    for part in (
        *(f"results of {group}" for group in decision.GROUPS),
        *(f"growth of {name}" for name in growth.SERIES),
    ):
        assert report.put(page, part, "x")


def test_tables_and_plots() -> None:
    table = report.growth("nodes", POINTS, "a machine")
    assert "| 1,000 | 10.0 | 50,000 | 20.0 |" in table
    assert "images/growth-nodes.svg" in table
    rows = report.results([measure.Row("x", 1234.5, "pods/s", 1000, volcano=100.0)], "a machine")
    assert "| x | 1,234 pods/s | 100 | 12 | 1,000 |  |" in rows
    picture = ElementTree.fromstring(report.plot("nodes", POINTS))
    assert len([element for element in picture.iter() if element.tag.endswith("circle")]) == 2


@pytest.mark.parametrize("series", growth.SERIES)
def test_series_grow(series: str) -> None:
    sizes = [size for size, _ in growth.shapes(series)]
    assert sizes == sorted(set(sizes))
    assert all(shape.jobs * shape.gang > 0 for _, shape in growth.shapes(series))
