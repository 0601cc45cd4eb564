"""Traces of Microsoft's Philly as Pollux and Sia filtered it, and of SenseTime's Helios and Acme: wall-clock times."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from unisono.simulator.files import InputError, Row, rows
from unisono.simulator.workload.job import Job, NodeShape, cpu_roles, gpu_roles

# Wall-clock times in traces.


def seconds_of(row: Row, column: str) -> float:
    """Seconds since 1970 of a time such as ``2017-10-09 07:01:55``, with an offset or without (UTC then).

    Raises:
        InputError: the cell holds none.

    """
    text = row.text(column)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"{row.where}: {column}: {text!r} is not a time such as 2017-10-09 07:01:55") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


# Microsoft Philly as Pollux and Sia filtered it: timestamp, duration (s), num_gpus, cluster (virtual cluster).

COLUMNS = ("timestamp", "duration", "num_gpus", "cluster")


def read(path: Path, shape: NodeShape) -> list[Job]:
    """Jobs, each in the queue of its virtual cluster; the first one comes at 0.

    Raises:
        InputError: names line and column.

    """
    found = [
        (
            seconds_of(row, "timestamp"),
            Job(
                name=f"job-{number}",
                submit=0.0,
                run_seconds=row.number("duration"),
                roles=gpu_roles(row.whole("num_gpus"), shape),
                queue=row.text("cluster"),
                user=row.text("cluster"),
            ),
        )
        for number, row in enumerate(rows(path, COLUMNS))
    ]
    return from_first(found)


def from_first(found: list[tuple[float, Job]]) -> list[Job]:
    """Jobs in order of their times, which count from the first one's."""
    from msgspec.structs import replace

    found.sort(key=lambda item: item[0])
    first = found[0][0] if found else 0.0
    return [replace(job, submit=at - first) for at, job in found]


# Traces of SenseTime's Helios and of Acme (Seren, Kalos): wall-clock times and GPUs per job.
#
# Both list job_id, user, node_num, gpu_num, cpu_num, state, submit_time and duration (s); Helios has a virtual cluster
# ``vc``, Acme a ``queue`` and a ``type``. Jobs that never ran, with a duration of 0, are left out.

HELIOS_COLUMNS = ("job_id", "user", "gpu_num", "cpu_num", "submit_time", "duration")


def read_helios(path: Path, shape: NodeShape) -> list[Job]:
    """Jobs in the queues of their virtual clusters; the first one comes at 0.

    Raises:
        InputError: names line and column.

    """
    return from_first(
        [
            (seconds_of(row, "submit_time"), _helios_job(row, shape))
            for row in rows(path, HELIOS_COLUMNS)
            if row.number("duration", 0.0) > 0
        ]
    )


def _helios_job(row: Row, shape: NodeShape) -> Job:
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
