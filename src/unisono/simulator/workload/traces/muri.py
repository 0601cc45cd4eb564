"""Traces of Muri (times in milliseconds, with ``iteration_time``) and of Tiresias (times in seconds).

Both list job_id, num_gpu, submit_time, iterations, model_name and duration. Muri's run times are iterations times
iteration_time times 1.015, the factor of its own simulator.
"""

from __future__ import annotations

from pathlib import Path

from unisono.simulator.files import rows
from unisono.simulator.workload.job import Job, NodeShape, gpu_roles

COLUMNS = ("job_id", "num_gpu", "submit_time", "iterations")
_FACTOR = 1.015


def read_muri(path: Path, shape: NodeShape) -> list[Job]:
    """Jobs of a Muri trace; names count families of jobs by model.

    Raises:
        InputError: names line and column.

    """
    jobs = [
        Job(
            name=f"{row.text('model_name', 'job')}-{row.whole('job_id')}",
            submit=row.number("submit_time") / 1000,
            run_seconds=row.number("iterations") * row.number("iteration_time") * _FACTOR / 1000,
            roles=gpu_roles(row.whole("num_gpu"), shape),
        )
        for row in rows(path, (*COLUMNS, "iteration_time"))
    ]
    return sorted(jobs, key=lambda job: job.submit)


def read_tiresias(path: Path, shape: NodeShape) -> list[Job]:
    """Jobs of a Tiresias trace.

    Raises:
        InputError: names line and column.

    """
    jobs = [
        Job(
            name=f"{row.text('model_name', 'job')}-{row.whole('job_id')}",
            submit=row.number("submit_time"),
            run_seconds=row.number("duration"),
            roles=gpu_roles(row.whole("num_gpu"), shape),
        )
        for row in rows(path, (*COLUMNS, "duration"))
    ]
    return sorted(jobs, key=lambda job: job.submit)
