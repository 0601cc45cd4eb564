"""When jobs that wait may start, as ``sbatch`` and ``status --start`` say it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from unisono.api.kinds import JOBS
from unisono.cli.main import cli
from unisono.cli.options import Where
from unisono.cli.overview_lines import overview_lines
from unisono.cli.slurm import starting
from unisono.cli.slurm.starting import start_text, told_starts
from unisono.errors import ApiError
from unisono.sdk.follow.events import Target
from unisono.sdk.overview.overview import JobLine, Overview
from unisono.simulator.forecast.forecast import Start

START = Start("default/a-1", "q", 8.0, 500.0, 300.0, 750.0, 1.0, known=True)
LATE = "may start in 8m 20s (80 %: 5m 00s to 12m 30s)"
JOB = JobLine("job/a", "default", "q", 5.0, waiting="nodes are full", cause="NodesFull", group="a-1")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({}, "may start in 8m 20s (80 %: 5m 00s to 12m 30s)"),
        ({"known": False}, "may start in 8m 20s (80 %: 5m 00s to 12m 30s); nothing says how long it runs"),
        ({"low": 500.0, "high": 500.0}, "may start in 8m 20s"),
        ({"median": 0.0}, "may start at once"),
        ({"median": None, "high": None}, "may not start within 1d 00h"),
        ({"never": "no node has 9 GPUs"}, "cannot start as things stand: no node has 9 GPUs"),
    ],
)
def test_an_estimate_in_words(change: dict[str, Any], text: str) -> None:
    assert start_text(replace(START, **change)) == text


def overview(*waiting: JobLine) -> Overview:
    return Overview([], [], [], [], [], [], [], list(waiting), [])


def test_status_tells_the_start_of_a_job_and_of_the_first_of_those_that_wait_alike() -> None:
    lines = overview_lines(overview(JOB), width=200, starts={"default/a-1": start_text(START)})
    assert lines[-2].strip() == "it may start in 8m 20s (80 %: 5m 00s to 12m 30s)"
    others = [replace(JOB, title=f"job/b{number}", group=f"b{number}") for number in range(3)]
    lines = overview_lines(overview(JOB, *others), width=200, most=2, starts={"default/a-1": "may start at once"})
    assert "    job/a may start at once" in lines
    assert not any("may start" in line for line in overview_lines(overview(JOB), width=200))


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["a"], ["It waits, and may start in 8m 20s (80 %: 5m 00s to 12m 30s); unisono explain job/a says why."]),
        (["runs"], []),
        (
            ["a", "b", "runs"],
            ["2 of them wait: the first may start in 1m 00s, the last may start in 8m 20s (80 %: 5m 00s to 12m 30s)."],
        ),
    ],
)
def test_who_has_submitted_a_job_that_waits_is_told_when_it_may_start(
    names: list[str], told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def waiting(_: Where, created: list[Target]) -> dict[str, JobLine]:
        return {f"default/{each.name}-1": JOB for each in created if each.name != "runs"}

    starts = {"default/a-1": START, "default/b-1": replace(START, key="default/b-1", median=60.0, low=60.0, high=60.0)}
    monkeypatch.setattr(starting, "_waiting", waiting)
    monkeypatch.setattr(starting, "starts_of", lambda _, keys: {key: starts[key] for key in keys})
    assert told_starts(Where(), [Target(JOBS, "default", name) for name in names]) == told


def test_who_may_not_see_the_cluster_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(*_: Any) -> Any:
        raise ApiError("nodes is forbidden", code=403, reason="Forbidden")

    monkeypatch.setattr(starting, "_waiting", refused)
    assert told_starts(Where(), [Target(JOBS, "default", "a")]) == []


def test_test_only_submits_nothing_and_says_when(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def would_start(_: Where, program: Any) -> str:
        asked.append(program.env["SLURM_JOB_NAME"])
        return "job/other may start at once"

    monkeypatch.setattr(starting, "would_start", would_start)
    script = tmp_path / "t.sh"
    script.write_text("#!/bin/sh\n#SBATCH -J other\nsrun true\n")
    done = CliRunner().invoke(cli, ["sbatch", "--test-only", str(script)])
    assert (done.exit_code, done.output, asked) == (0, "job/other may start at once\n", ["other"])
