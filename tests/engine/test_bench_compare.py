"""Two source trees are measured in turns; nothing is measured here."""

from __future__ import annotations

import pytest
from benchmarks.compare import __main__ as compare
from benchmarks.compare import rows


class Side:
    def __init__(self, name: str, asked: list[tuple[str, str]]) -> None:
        self.name, self.asked = name, asked

    def ask(self, line: str) -> str:
        self.asked.append((self.name, line))
        return "ready" if line else f"{len(self.asked)}.5"


def test_both_trees_build_a_row_and_are_measured_in_turns() -> None:
    asked: list[tuple[str, str]] = []
    times = compare.compare("a row", (Side("before", asked), Side("after", asked)), 2)
    assert asked == [("before", "a row"), ("after", "a row"), *[("before", ""), ("after", "")] * 2]
    assert times == ([3.5, 5.5], [4.5, 6.5])


@pytest.mark.parametrize("quick", [True, False])
def test_rows_of_each_group(quick: bool) -> None:
    found = rows.rows(quick=quick)
    assert {group for group, _ in found.values()} == {"shapes", "specs", "features", "running", "verdicts"}
    assert all(callable(build) for _, build in found.values())
    assert any("10,000 nodes" in name for name in found) == (not quick)
