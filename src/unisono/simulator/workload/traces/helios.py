"""Traces of SenseTime's Helios and of Acme (Seren, Kalos): wall-clock times and GPUs per job.

Both list job_id, user, node_num, gpu_num, cpu_num, state, submit_time and duration (s); Helios has a virtual cluster
``vc``, Acme a ``queue`` and a ``type``. Jobs that never ran, with a duration of 0, are left out.
"""

from __future__ import annotations

from pathlib import Path

from unisono.simulator.files import Row, rows
from unisono.simulator.workload.job import Job
from unisono.simulator.workload.shape import NodeShape, cpu_roles, gpu_roles
from unisono.simulator.workload.stamps import seconds_of
from unisono.simulator.workload.traces.philly import from_first

COLUMNS = ("job_id", "user", "gpu_num", "cpu_num", "submit_time", "duration")


def read(path: Path, shape: NodeShape) -> list[Job]:
    """Jobs in the queues of their virtual clusters; the first one comes at 0.

    Raises:
        InputError: names line and column.

    """
    return from_first(
        [
            (seconds_of(row, "submit_time"), _job(row, shape))
            for row in rows(path, COLUMNS)
            if row.number("duration", 0.0) > 0
        ]
    )


def _job(row: Row, shape: NodeShape) -> Job:
    gpus = row.whole("gpu_num", 0)
    cpus = max(row.whole("cpu_num", 1), 1)
    return Job(
        name=f"job-{row.text('job_id')}",
        submit=0.0,
        run_seconds=row.number("duration"),
        roles=gpu_roles(gpus, shape) if gpus else cpu_roles(cpus, shape),
        queue=row.text("vc", "") or row.text("queue", "default"),
        user=row.text("user"),
        job_class=row.text("type", ""),
    )
