"""Elastic jobs of three kinds on a whole control plane: they take what is idle, and gangs get it back."""

from __future__ import annotations

from typing import Any

import pytest
from benchmarks import elastic


@pytest.fixture(scope="module")
def figures() -> dict[str, dict[str, Any]]:
    return {
        way: elastic.run(way, nodes=8, jobs=3, gangs=2, hours=0.75, cool_down="1m") for way in ("minimum", "elastic")
    }


def test_what_was_idle_is_used(figures: dict[str, dict[str, Any]]) -> None:
    assert figures["elastic"]["gpu_hours"] > 1.3 * figures["minimum"]["gpu_hours"]
    assert figures["elastic"]["grown"] >= 3


def test_gangs_start_as_they_would_without_and_no_job_falls_below_its_minimum(
    figures: dict[str, dict[str, Any]],
) -> None:
    assert figures["elastic"]["gangs_started"] == figures["minimum"]["gangs_started"] == 2
    assert figures["elastic"]["shrunk"] >= 1
    assert figures["elastic"]["fewest_running"] >= figures["elastic"]["least"]
