"""What a verdict adds for people beyond its first facts."""

from __future__ import annotations

from typing import Any

from msgspec import convert

from unisono.api.verdict import Verdict
from unisono.cli.explaining import verdict_lines as lines_of


def verdict_lines(value: dict[str, Any]) -> list[str]:
    return lines_of(convert(value, Verdict))


def test_pods_that_would_have_to_go_and_plugins_that_are_off_are_named() -> None:
    lines = verdict_lines(
        {
            "job": "ns/j",
            "queue": "q",
            "cause": "NodesFull",
            "message": "full",
            "wouldRunAfter": ["ns/a", "ns/b"],
            "wouldRunAfterCount": 20,
            "pluginsOff": ["prices"],
        }
    )
    assert lines[2:] == [
        "  or end:  ns/a, ns/b and 18 more (lower priority, or of a queue above its share)",
        "  off:     plug-in prices failed or was too slow and was switched off for the cycle",
    ]


def test_a_gang_that_has_its_minimum_is_not_counted_as_47_of_1() -> None:
    verdict = {"job": "ns/j", "queue": "q", "cause": "NodesFull", "message": "full", "tasksNeeded": 1}
    assert (
        verdict_lines({**verdict, "tasksPlaceable": 47})[-1]
        == "  gang:    47 pods have found a place, at least 1 needed"
    )
    assert verdict_lines({**verdict, "tasksPlaceable": 1})[-1] == "  gang:    1 of 1 pod would find a place"


def test_amounts_are_told_in_two_decimals_and_kept_exact_for_programs() -> None:
    verdict = {"job": "ns/j", "queue": "q", "cause": "NodesFull", "message": "full", "have": {"memory": 30331802419}}
    assert "  have:    memory 28.25Gi" in verdict_lines(verdict)
    assert verdict["have"] == {"memory": 30331802419}
