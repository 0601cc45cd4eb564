"""Standard Workload Format 2.2 of the Parallel Workloads Archive: 18 numbers per job, comments after ``;``.

Units: seconds and processors; memory in KiB per processor. -1 means unknown. Jobs without a run time or without
processors were never started in the log and are left out.
"""

from __future__ import annotations

from pathlib import Path

from unisono.simulator.files import open_text
from unisono.simulator.workload.job import MOST_JOBS, Job, NodeShape, WorkloadError, cpu_roles

_FIELDS = (
    "job number",
    "submit time",
    "wait time",
    "run time",
    "allocated processors",
    "average CPU time",
    "used memory",
    "requested processors",
    "requested time",
    "requested memory",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding job",
    "think time",
)


def read(path: Path, shape: NodeShape, *, allocated: bool = False) -> list[Job]:
    """Jobs of a log; requested processors count before allocated ones, or after them (``allocated``).

    Raises:
        InputError: names line and field.

    """
    jobs: list[Job] = []
    with open_text(path) as lines:
        for number, line in enumerate(lines, start=1):
            text = line.partition(";")[0].split()
            if not text:
                continue
            job = _job(text, shape, f"{path}:{number}", allocated=allocated)
            if job is not None:
                jobs.append(job)
            if len(jobs) > MOST_JOBS:
                raise WorkloadError(f"{path}:{number}: more than {MOST_JOBS} jobs are too many for one workload")
    return sorted(jobs, key=lambda job: job.submit)


def _job(cells: list[str], shape: NodeShape, where: str, *, allocated: bool) -> Job | None:
    if len(cells) != len(_FIELDS):
        raise WorkloadError(f"{where}: the line has {len(cells)} fields, not {len(_FIELDS)}")
    values = [_number(cell, name, where) for cell, name in zip(cells, _FIELDS, strict=True)]
    submit, run, limit = values[1], values[3], values[8]
    got, asked = int(values[4]), int(values[7])
    processors = (got if got > 0 else asked) if allocated else (asked if asked > 0 else got)
    if run <= 0 or processors <= 0:
        return None
    if submit < 0:
        raise WorkloadError(f"{where}: submit time: {submit:g} is below 0")
    memory = int(values[9] // 1024) if values[9] > 0 else 0
    return Job(
        name=f"job-{cells[0]}",
        submit=submit,
        run_seconds=run,
        roles=cpu_roles(processors, shape, memory),
        user=f"user-{int(values[11])}" if values[11] >= 0 else "",
        estimate=limit if limit > 0 else None,
    )


def _number(cell: str, name: str, where: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = float("nan")
    if not abs(value) < 1e12:
        raise WorkloadError(f"{where}: {name}: {cell!r} is not a number")
    return value
