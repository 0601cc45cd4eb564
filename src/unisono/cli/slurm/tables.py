"""Tables with the columns of ``squeue`` and ``sinfo`` (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from unisono.cli.durations import clock_text
from unisono.cli.printing import columns

if TYPE_CHECKING:
    from unisono.sdk.overview import NodeLine, Overview


def squeue_lines(found: Overview, *, queue: str = "", namespace: str = "", width: int = 0) -> list[str]:
    """Jobs that run (``R``) and wait (``PD``) with the reason.

    Args:
        found: the overview.
        queue: only of this one.
        namespace: only of this one.
        width: columns; longer lines end with an ellipsis; 0 for no bound.

    """
    rows = []
    for state, jobs in (("R", found.running), ("PD", found.waiting)):
        for job in jobs:
            if (queue and job.queue != queue) or (namespace and job.namespace != namespace):
                continue
            reason = job.waiting if state == "PD" else ""
            rows.append([job.title.partition("/")[2], job.queue, state, clock_text(job.seconds), job.gang, reason])
    lines = columns(["jobid", "partition", "st", "time", "tasks", "reason"], rows, empty="")
    return [line if not width or len(line) <= width else line[: width - 3] + "..." for line in lines]


def sinfo_lines(nodes: Iterable[NodeLine]) -> list[str]:
    """Nodes with their state, and what of them is allocated, idle and there in all."""
    rows: list[Sequence[object]] = [[node.name, node.state, node.cpus, node.memory, node.devices] for node in nodes]
    return columns(["nodelist", "state", "cpus(used/all)", "memory(used/all)", "gres(used/all)"], rows, empty="")
