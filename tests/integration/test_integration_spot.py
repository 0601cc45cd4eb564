"""Gangs on machines that the cloud takes back, on a whole control plane: the benchmark's world, small."""

from __future__ import annotations

from typing import Any

import pytest
from benchmarks import spot


@pytest.fixture(scope="module")
def figures() -> dict[str, dict[str, Any]]:
    return {way: spot.run(way, nodes=12, size=4, hours=1.0, every=500.0) for way in spot.WAYS}


def test_machines_on_demand_are_never_taken_back(figures: dict[str, dict[str, Any]]) -> None:
    given = figures["on-demand"]
    assert (given["finished"], given["interruptions"], given["gpuHoursLost"]) == (given["gangs"], 0, 0.0)
    assert set(given["machineHours"]) == {"on-demand"}


def test_a_notice_saves_the_work_and_spot_machines_cost_less(figures: dict[str, dict[str, Any]]) -> None:
    told, vanishing = figures["noticed"], figures["vanishing"]
    assert told["finished"] == told["gangs"]
    assert told["interruptions"] >= 1 and vanishing["interruptions"] >= 1
    assert told["gpuHoursLost"] / told["interruptions"] < 0.5 * vanishing["gpuHoursLost"] / vanishing["interruptions"]
    assert told["cost"] < 0.7 * figures["on-demand"]["cost"]
