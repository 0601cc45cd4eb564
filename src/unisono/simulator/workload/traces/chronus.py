"""Traces of Chronus: jobs with deadlines, strict, soft or best effort; times in minutes.

Strict and soft jobs have a priority above best-effort jobs, which may be evicted for them. The deadline is the first of
``expect_time_list``, counted from the submission.
"""

from __future__ import annotations

from pathlib import Path

from unisono.simulator.files import Row, rows
from unisono.simulator.workload.job import Job, NodeShape, WorkloadError, gpu_roles

COLUMNS = ("job_id", "user", "num_gpu", "submit_time", "duration", "expect_time_list", "job_type")
HIGH = 100
"""Priority of strict and soft jobs."""
_MINUTE = 60.0


def read(path: Path, shape: NodeShape) -> list[Job]:
    """Jobs in order of submission.

    Raises:
        InputError: names line and column.

    """
    return sorted((_job(row, shape) for row in rows(path, COLUMNS)), key=lambda job: job.submit)


def _job(row: Row, shape: NodeShape) -> Job:
    kind = row.text("job_type")
    if kind not in ("strict", "soft", "best"):
        raise WorkloadError(f"{row.where}: job_type: {kind!r} is none of strict, soft and best")
    best = kind == "best"
    return Job(
        name=f"job-{row.whole('job_id')}",
        submit=row.number("submit_time") * _MINUTE,
        run_seconds=row.number("duration") * _MINUTE,
        roles=gpu_roles(row.whole("num_gpu"), shape),
        user=row.text("user"),
        priority=0 if best else HIGH,
        preemptable=best,
        deadline=None if best else _first(row) * _MINUTE,
        job_class=kind,
    )


def _first(row: Row) -> float:
    text = row.text("expect_time_list").split("-")[0]
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e9:
        raise WorkloadError(f"{row.where}: expect_time_list: {text!r} is not a number of minutes")
    return value
