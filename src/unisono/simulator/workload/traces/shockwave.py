"""Traces of Gavel and Shockwave: twelve fields between tabs, without a header.

Fields: job type, command, working directory, name of the steps argument, needs data, total steps, scale factor (GPUs),
mode, priority weight, deadline (-1: none), duration (s), arrival time (s). Run times are the durations: jobs are rigid,
and changes of the batch size are not modelled.
"""

from __future__ import annotations

import re
from pathlib import Path

from unisono.simulator.files import open_text
from unisono.simulator.workload.job import MOST_JOBS, Job, NodeShape, WorkloadError, gpu_roles

FIELDS = 12


def read(path: Path, shape: NodeShape) -> list[Job]:
    """Jobs in order of arrival, named after their type.

    Raises:
        InputError: names line and field.

    """
    jobs: list[Job] = []
    with open_text(path) as lines:
        for number, line in enumerate(lines, start=1):
            cells = line.rstrip("\n").split("\t")
            if len(cells) != FIELDS:
                raise WorkloadError(f"{path}:{number}: the line has {len(cells)} fields between tabs, not {FIELDS}")
            if len(jobs) >= MOST_JOBS:
                raise WorkloadError(f"{path}:{number}: more than {MOST_JOBS} jobs are too many for one workload")
            jobs.append(_job(cells, len(jobs), shape, f"{path}:{number}"))
    return sorted(jobs, key=lambda job: job.submit)


def _job(cells: list[str], count: int, shape: NodeShape, where: str) -> Job:
    kind = re.sub(r"[^a-z0-9]+", "-", cells[0].lower()).strip("-") or "job"
    gpus = _number(cells[6], "scale factor", where)
    if gpus != int(gpus):
        raise WorkloadError(f"{where}: scale factor: {cells[6]!r} is not a whole number")
    deadline = _number(cells[9], "deadline", where)
    return Job(
        name=f"{kind}-{count}",
        submit=_number(cells[11], "arrival time", where),
        run_seconds=_number(cells[10], "duration", where),
        roles=gpu_roles(int(gpus), shape),
        deadline=deadline if deadline > 0 else None,
        job_class=cells[7],
    )


def _number(cell: str, name: str, where: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = float("nan")
    if not (0 <= value < 1e12 or value == -1):
        raise WorkloadError(f"{where}: {name}: {cell!r} is not a number of at least 0")
    return value
