"""Tables with ``vcctl``'s columns and widths, of what the API serves (pure)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from unisono.api.batch import Job
from unisono.api.keys import JOB_TYPE
from unisono.sdk.queues import PHASES, QueueView

QUEUE_WIDTHS = (25, 8, 8, 8, 8, 8, 8, 8, 8)
JOB_WIDTHS = (15, 12, 12, 12, 6, 10, 10, 12, 10, 12, 10)
JOB_HEADERS = (
    "Creation",
    "Phase",
    "JobType",
    "Replicas",
    "Min",
    "Pending",
    "Running",
    "Succeeded",
    "Failed",
    "Unknown",
    "RetryCount",
)
GAP = 3


def lines(headers: Sequence[str], rows: Sequence[Sequence[Any]], widths: Sequence[int]) -> list[str]:
    """A table; a column is wider than ``widths`` where a value needs it, so that columns never run together."""
    table = [tuple(headers), *(tuple(str(value) for value in row) for row in rows)]
    needed = [
        max(width, *(len(row[index]) + 1 for row in table)) if width else max(len(row[index]) for row in table) + GAP
        for index, width in enumerate(widths)
    ]
    return ["".join(cell.ljust(width) for cell, width in zip(row, needed, strict=True)).rstrip() for row in table]


def job_lines(jobs: Iterable[Job], *, namespaces: bool) -> list[str]:
    """One line per job, below the headings."""
    lead = ("Namespace", "Name") if namespaces else ("Name",)
    rows = [
        ((job.metadata.namespace or "", *_job_row(job)) if namespaces else _job_row(job))
        for job in sorted(jobs, key=lambda job: (job.metadata.namespace or "", job.metadata.name))
    ]
    return lines((*lead, *JOB_HEADERS), rows, (*(0 for _ in lead), *JOB_WIDTHS))


def _job_row(job: Job) -> tuple[Any, ...]:
    status = job.status
    counts = (status.pending, status.running, status.succeeded, status.failed, status.unknown, status.retry_count)
    return (
        job.metadata.name,
        (job.metadata.creation_timestamp or "")[:10],
        status.state.phase or "",
        (job.metadata.labels or {}).get(JOB_TYPE, "Batch"),
        sum(task.replicas or 0 for task in job.spec.tasks or ()),
        job.spec.min_available or 0,
        *(count or 0 for count in counts),
    )


def queue_lines(views: Iterable[QueueView]) -> list[str]:
    """One line per queue, below the headings."""
    rows = [
        (
            view.name,
            view.weight,
            view.state,
            view.parent,
            *(view.groups.get(phase, 0) if view.groups else "-" for phase in PHASES),
        )
        for view in views
    ]
    return lines(("Name", "Weight", "State", "Parent", *PHASES), rows, QUEUE_WIDTHS)


def flow_lines(items: Iterable[dict[str, Any]], *, phases: bool, now: float | None = None) -> list[str]:
    """One line per job flow (with its phase and age) or job template."""
    from unisono.apiserver.tables.values import age

    moment = time.time() if now is None else now
    rows = []
    for item in sorted(items, key=lambda item: (item["metadata"].get("namespace", ""), item["metadata"]["name"])):
        metadata = item["metadata"]
        row = [metadata["name"], metadata.get("namespace", "")]
        if phases:
            state = (item.get("status") or {}).get("state") or {}
            row += [state.get("phase", ""), age(metadata.get("creationTimestamp"), moment)]
        rows.append(row)
    headers = ("Name", "Namespace", *(("Phase", "Age") if phases else ()))
    return lines(headers, rows, (0,) * len(headers))


def pod_lines(table: dict[str, Any], rows: Sequence[dict[str, Any]], *, namespaces: bool) -> list[str]:
    """Rows of the server's table of pods, with ``vcctl``'s columns."""
    names = [column["name"] for column in table.get("columnDefinitions") or []]
    wanted = [names.index(name) for name in ("Name", "Ready", "Status", "Restarts", "Age")]
    shown = [
        (
            *([row["object"]["metadata"].get("namespace", "")] if namespaces else []),
            *(row["cells"][index] for index in wanted),
        )
        for row in rows
    ]
    headers = (*(("Namespace",) if namespaces else ()), "Name", "Ready", "Status", "Restart", "Age")
    return lines(headers, shown, (0,) * len(headers))
