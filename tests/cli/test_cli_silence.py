"""Which rank hangs, as ``unisono run`` sees it."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from support.build import pod
from unisono.api.kinds import JOBS
from unisono.cli.running.report import Silence, jobs_picture
from unisono.sdk.follow.events import Target
from unisono.sdk.state.observing import Observation
from unisono.sdk.state.views import JobView

TARGET = Target(JOBS, "default", "train")
VIEW = JobView("train", "default", "Job", "Running")


class Run:
    """A job of ranks whose last lines are told, on a clock that is set."""

    def __init__(self, *ranks: int) -> None:
        self.now = 0.0
        pods = [pod(f"train-rank-{rank}", "j", node="n", phase="Running") for rank in ranks]
        self.namespace = pods[0].metadata.namespace or ""
        self.found = {TARGET: Observation(VIEW, (), tuple(pods))}
        self.silence = Silence(lambda: self.now)
        self.silence.notes(self.found)

    def wrote(self, rank: int, at: float) -> None:
        self.now = at
        self.silence.wrote(self.namespace, f"train-rank-{rank}")


def test_a_rank_that_stops_to_write_while_another_goes_on_may_hang() -> None:
    run = Run(0, 1)
    run.wrote(1, 10)
    run.wrote(0, 60)
    assert run.silence.notes(run.found) == {}
    run.wrote(0, 75)
    assert list(run.silence.notes(run.found).values()) == [
        "rank 1 has written nothing for 65 s: it may hang; others wrote 0 s ago"
    ]
    run.wrote(1, 80)
    assert run.silence.notes(run.found) == {}


def test_all_that_are_silent_for_long_are_told_of() -> None:
    run = Run(0, 1)
    run.now = 301.0
    assert set(run.silence.notes(run.found)) == {"train-rank-0", "train-rank-1"}


def test_at_the_end_of_a_wait_those_who_wrote_nothing_lately_are_named() -> None:
    run = Run(0, 1, 2)
    run.wrote(0, 9)
    run.wrote(2, 5)
    run.now = 10.5
    assert run.silence.lately(run.found) == ["job/train: nothing was written by rank 1 for 10 s, rank 2 for 5 s"]
    many = Run(*range(9))
    many.now = 60.0
    assert many.silence.lately(many.found)[0].endswith("and 5 more")


def test_the_live_table_shows_it_in_80_columns() -> None:
    console = Console(width=80, record=True, force_terminal=True)
    text = "has written nothing for 7 min: it may hang; others wrote 0 s ago, and more"
    notes = [f"rank {rank} {text}" for rank in range(9)]
    console.print(jobs_picture([VIEW], 3.0, notes))
    lines: list[Any] = [line for line in console.export_text().splitlines() if line.strip()]
    assert len(lines) == 5
    assert all(len(line) <= 80 for line in lines)
