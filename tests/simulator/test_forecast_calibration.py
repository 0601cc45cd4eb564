"""Estimated starts along a workload, against what really came."""

from __future__ import annotations

import pytest

from simulator.worlds import FIFO, cluster, job
from unisono.engine.config_file.reader import load_config
from unisono.simulator.forecast.forecast import Looked, Start, calibrate, figures_of
from unisono.simulator.world.settings import Settings


def test_where_users_state_the_truth_going_by_limits_is_exact() -> None:
    jobs = [job(f"j-{at}", submit=at * 40, seconds=100, gpus=4, estimate=100.0) for at in range(20)]
    found = calibrate(cluster(), jobs, load_config(FIFO), Settings(), moments=4, futures=4)
    figures = found.figures()
    assert figures["estimates"] > 0
    # Times on the wire are whole seconds.
    assert figures["medianErrorByLimits"] == pytest.approx(0, abs=1)
    assert figures["bySize"]["2-8 gpus"]["estimates"] == figures["estimates"]


def test_the_same_seed_gives_the_same_calibration() -> None:
    jobs = [job(f"j-{at}", submit=at * 30, seconds=50 + 13 * at % 90, gpus=3, estimate=200.0) for at in range(15)]
    one, two = (
        calibrate(cluster(), jobs, load_config(FIFO), Settings(seed=3), moments=3, futures=3).figures() for _ in "ab"
    )
    assert one == two
    assert 0 <= one["coverage"] <= 1


def test_later_is_right_where_the_start_lies_behind_the_end_of_the_forecast() -> None:
    def looked(true: float, low: float | None, high: float | None) -> Looked:
        said = Start("ns/a", "default", 1.0, None, low, high, 0.5, known=True)
        return Looked("ns/a", 1.0, true, said, None, until=100.0)

    cases = [
        (looked(500.0, None, None), True),
        (looked(50.0, None, None), False),
        (looked(500.0, 20.0, None), True),
        (looked(10.0, 20.0, None), False),
        (looked(20.5, 30.0, 40.0), False),
        (looked(29.5, 30.0, 40.0), True),
    ]
    assert [each.held for each, _ in cases] == [held for _, held in cases]
    figures = figures_of([each for each, _ in cases])
    assert (figures["estimates"], figures["later"], figures["laterRight"], figures["coverage"]) == (4, 2, 1, 0.5)
