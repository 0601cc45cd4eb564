"""Microsoft Philly as Pollux and Sia filtered it: timestamp, duration (s), num_gpus, cluster (virtual cluster)."""

from __future__ import annotations

from pathlib import Path

from unisono.simulator.files import rows
from unisono.simulator.workload.job import Job
from unisono.simulator.workload.shape import NodeShape, gpu_roles
from unisono.simulator.workload.stamps import seconds_of

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
