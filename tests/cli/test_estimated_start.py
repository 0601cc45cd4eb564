"""What ``unisono explain --estimate`` says of starts."""

from __future__ import annotations

from typing import Any

import pytest

from unisono.cli.explaining import lines
from unisono.simulator.forecast.forecast import Start


def start(key: str = "team/a", **changes: Any) -> Start:
    facts: dict[str, Any] = {"median": 120.0, "low": 30.0, "high": 300.0, "chance": 1.0, "known": True}
    return Start(key, "default", 1.0, **(facts | changes))


@pytest.mark.parametrize(
    ("starts", "told"),
    [
        ([start()], ["  estimated start: in 2m 00s (80 %: 30.0 s to 5m 00s, as things stand)"]),
        (
            [start(high=None, known=False)],
            ["  estimated start: in 2m 00s (80 %: 30.0 s to later, as things stand; nothing says how long it runs)"],
        ),
        (
            [start(median=None, low=None, high=None)],
            ["  estimated start: not within 1d 00h (80 %: later to later, as things stand)"],
        ),
        (
            [start(), start("team/b")],
            [
                "  estimated start of team/a: in 2m 00s (80 %: 30.0 s to 5m 00s, as things stand)",
                "  estimated start of team/b: in 2m 00s (80 %: 30.0 s to 5m 00s, as things stand)",
            ],
        ),
        ([], ["  estimated start: none, as none of its PodGroups waits for a place"]),
    ],
)
def test_each_start_is_a_line(starts: list[Start], told: list[str]) -> None:
    assert lines(starts) == told


def test_of_many_some_are_listed() -> None:
    told = lines([start(f"team/{number}") for number in range(12)])
    assert (len(told), told[-1]) == (11, "  and 2 more (-o json lists all)")
