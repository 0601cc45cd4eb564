"""Tables with the columns of ``squeue`` and ``sinfo`` (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from unisono.cli.durations import clock_text
from unisono.cli.printing import columns

if TYPE_CHECKING:
    from unisono.sdk.node_capacity import NodeLine
    from unisono.sdk.overview import JobLine


def squeue_lines(jobs: Iterable[tuple[str, JobLine]], *, owner: str = "", width: int = 0) -> list[str]:
    """Jobs with where they run, or why they wait.

    Args:
        jobs: the state of each, ``R`` or ``PD``, and what is known of it.
        owner: user of jobs of which none is known.
        width: columns; longer lines end with an ellipsis; 0 for no bound.

    """
    rows = []
    for state, job in jobs:
        place = f"({job.waiting})" if state == "PD" and job.waiting else ",".join(job.nodes)
        user = job.user or owner
        rows.append([job.name, job.queue, user, state, clock_text(job.seconds), job.gang, place])
    lines = columns(["jobid", "partition", "user", "st", "time", "tasks", "nodelist(reason)"], rows, empty="")
    return [line if not width or len(line) <= width else line[: width - 3] + "..." for line in lines]


def sinfo_lines(nodes: Iterable[NodeLine]) -> list[str]:
    """Nodes with their state, and what of them is allocated, idle and there in all."""
    rows: list[Sequence[object]] = [[node.name, node.state, node.cpus, node.memory, node.devices] for node in nodes]
    return columns(["nodelist", "state", "cpus(used/all)", "memory(used/all)", "gres(used/all)"], rows, empty="")
