"""Reports and accounts as tables and as CSV (pure)."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from unisono.api.conditions import is_pod_failure, is_timeout
from unisono.api.times import rfc3339
from unisono.cli.printing import clock_text, columns, duration_text

if TYPE_CHECKING:
    from unisono.cli.accounting.money import Cost
    from unisono.history.report import Accounts, JobLine, Report, Row

# Outcomes in the order of their columns; all others are told behind.
_OUTCOMES = ("Completed", "Failed")
# As Slurm names them.
_STATES = {
    "Completed": "COMPLETED",
    "Failed": "FAILED",
    "Aborted": "CANCELLED",
    "Terminated": "CANCELLED",
    "Deleted": "CANCELLED",
    "Running": "RUNNING",
    "Pending": "PENDING",
}
SACCT_COLUMNS = (
    "jobid",
    "user",
    "partition",
    "state",
    "submit",
    "start",
    "end",
    "elapsed",
    "alloctasks",
    "alloccpus",
    "allocgpus",
    "exitcode",
)
_ASKED_FOR = ("maxrss",)
"""Columns that are shown where they are asked for."""
_COLUMNS = (*SACCT_COLUMNS, *_ASKED_FOR)
_STATE = SACCT_COLUMNS.index("state")
_STATE_LETTERS = {"CD": "COMPLETED", "F": "FAILED", "TO": "TIMEOUT", "CA": "CANCELLED", "R": "RUNNING", "PD": "PENDING"}
_ALIASES = {
    "jobidraw": "jobid",
    "jobname": "jobid",
    "ncpus": "alloccpus",
    "ntasks": "alloctasks",
    "account": "partition",
}
_NO_MEMORY = "the history keeps the most memory that one pod of a job used: ask for maxrss"
_NO_NODES = "the history keeps no nodes of jobs; 'unisono squeue' shows those of jobs that run"
_NOT_KEPT = {
    **dict.fromkeys(("averss", "maxvmsize", "avevmsize", "reqmem"), _NO_MEMORY),
    **dict.fromkeys(("nodelist", "nnodes", "allocnodes"), _NO_NODES),
    "qos": "queues stand for it: ask for partition",
}
"""Columns of Slurm that are asked for often, and why they are not there."""
REPORT_COLUMNS = (
    "ended",
    "completed",
    "failed",
    "stopped",
    "gpu_hours",
    "cpu_hours",
    "gpu_use",
    "cpu_use",
    "started",
    "wait_p50",
    "wait_p95",
    "wait_max",
    "evictions",
    "failures",
    "waiting",
)


def report_lines(report: Report, cost: Cost | None = None) -> list[str]:
    """The table, with money where that is told, waiting times by queue and size, and what is to be known of them."""
    rows = [*report.rows, *([report.total] if len(report.rows) != 1 else [])]
    headers = [report.by, "ended", "ok", "failed", "stopped", "gpu-hours", "cpu-hours", *_use_headers(report)]
    headers += ["waiting", "started", "wait p50", "p95", "max", "evictions", "failures"]
    lines = [f"{_time(report.start)} to {_time(report.end)}", ""]
    cells = [_cells(report, row) for row in rows]
    if cost is not None:
        headers.append(cost.currency or "money")
        cells = [[*each, f"{cost.by_row.get(row.key, 0.0):.2f}"] for each, row in zip(cells, rows, strict=True)]
    lines += columns(headers, cells, empty="")
    if report.sizes:
        lines += ["", *columns(["queue", "size", "started", "wait p50", "p95", "max"], map(_size, report.sizes))]
    if report.summed:
        lines += ["", "A part of this time is known as sums of hours alone: without single jobs and waiting times."]
    if report.unknown:
        lines += ["", "Cells without a number are not kept: this history is read from Prometheus."]
    if report.since > report.start:
        lines += ["", f"The history begins at {_time(report.since)}."]
    if cost is not None and cost.note:
        lines += ["", cost.note]
    if report.more:
        lines += ["", "There are more rows: ask for a shorter time, or for one --namespace, --queue or --user."]
    return lines


def report_csv(report: Report, cost: Cost | None = None) -> str:
    """The rows; times in seconds, use as a part of 1, and what they cost where that is told."""
    names = sorted({name for row in report.rows for name in row.hours})
    headers = [report.by, *REPORT_COLUMNS, *(f"hours:{name}" for name in names)]
    rows = [[row.key, *_values(report, row), *(_hours(row, name) for name in names)] for row in report.rows]
    if cost is not None:
        headers.append("money")
        rows = [[*each, round(cost.by_row.get(row.key, 0.0), 6)] for each, row in zip(rows, report.rows, strict=True)]
    return _csv(headers, rows)


def sacct_lines(
    found: Accounts,
    shown: Sequence[str] = SACCT_COLUMNS,
    states: Sequence[str] = (),
    *,
    parsable: bool = False,
    title: bool = True,
) -> list[str]:
    """One line per job.

    Args:
        found: the jobs.
        shown: columns, as of `sacct_columns`.
        states: only jobs in these, in Slurm's words; empty for all.
        parsable: cells stand between bars, without blanks.
        title: the first line has the columns' names.
    """
    places = [_COLUMNS.index(_ALIASES.get(name, name)) for name in shown]
    rows = (_sacct(job) for job in found.jobs)
    cells = [[str(row[at]) for at in places] for row in rows if not states or row[_STATE] in states]
    if parsable:
        lines = ["|".join(row) for row in ([name.upper() for name in shown], *cells)]
    else:
        lines = columns(shown, cells, empty="")
    return lines if title else lines[1:]


def sacct_columns(text: str) -> list[str]:
    """Columns of ``JobID,State%20,Elapsed``, in this order and as often: scripts count them.

    Raises:
        ValueError: there is no such column; the message names those that there are, or says why one is not kept.
    """
    names = [word.partition("%")[0].strip().lower() for word in text.split(",") if word.strip()]
    for name in names:
        if name in _NOT_KEPT:
            raise ValueError(f"{name}: {_NOT_KEPT[name]}")
        if name not in _COLUMNS and name not in _ALIASES:
            raise ValueError(f"there is no column {name}: there are {', '.join((*_COLUMNS, *_ALIASES))}")
    return names or list(SACCT_COLUMNS)


def sacct_states(text: str) -> list[str]:
    """Slurm's states of ``F,COMPLETED``.

    Raises:
        ValueError: there is no such state; the message names those that there are.
    """
    state_names = sorted(_STATE_LETTERS.values())
    states = []
    for word in (each.strip().upper() for each in text.split(",") if each.strip()):
        name = _STATE_LETTERS.get(word, word)
        if name not in state_names:
            raise ValueError(f"there is no state {word}: there are {', '.join(state_names)}")
        states.append(name)
    return states


def sacct_csv(found: Accounts) -> str:
    """The same, with what has no column there."""
    headers = [
        *SACCT_COLUMNS,
        "namespace",
        "kind",
        "uid",
        "gpu_hours",
        "cpu_hours",
        "evictions",
        "failures",
        "restarts",
        "max_memory",
    ]
    rows = (
        [
            *_sacct(job)[: len(SACCT_COLUMNS)],
            job.namespace,
            job.kind,
            job.uid,
            round(job.gpu_hours, 6),
            round(job.cpu_hours, 6),
            job.evictions,
            job.failures,
            job.restarts,
            job.memory,
        ]
        for job in found.jobs
    )
    return _csv(headers, rows)


def _sacct(job: JobLine) -> list[Any]:
    return [
        job.name,
        job.user,
        job.queue,
        _state(job),
        _time(job.created),
        _time(job.started) if job.started else "",
        _time(job.ended) if job.ended else "",
        clock_text(job.elapsed),
        job.pods,
        f"{job.cpus:g}",
        f"{job.gpus:g}",
        "" if job.exit_code is None else f"{job.exit_code}:0",
        # As Slurm has it: KiB, nothing where nothing was measured.
        f"{-(-job.memory // 1024)}K" if job.memory else "",
    ]


def _state(job: JobLine) -> str:
    """Slurm's word for the state; a job that its policies stopped because of a failed pod has failed."""
    stopped = job.state in ("Failed", "Aborted", "Terminated")
    if stopped and is_timeout(job.message):
        return "TIMEOUT"
    if stopped and is_pod_failure(job.message):
        return "FAILED"
    return _STATES.get(job.state, job.state.upper())


def _cells(report: Report, row: Row) -> list[str]:
    values = dict(zip(REPORT_COLUMNS, _values(report, row), strict=True))
    counts = ["" if values[name] == "" else str(values[name]) for name in ("ended", "completed", "failed", "stopped")]
    use = [
        "" if values[name] == "" else f"{100 * values[name]:.1f} %"
        for name in ("gpu_use", "cpu_use")
        if _capacity(report.capacity, name)
    ]
    waits = [duration_text(values[name]) if row.waiting.jobs else "" for name in ("wait_p50", "wait_p95", "wait_max")]
    hours = [f"{row.gpu_hours:.2f}", f"{row.cpu_hours:.2f}"]
    rest = [str(values[name]) for name in ("evictions", "failures")]
    return [row.key, *counts, *hours, *use, str(values["waiting"]), str(values["started"]), *waits, *rest]


def _values(report: Report, row: Row) -> list[Any]:
    """One value for each of ``REPORT_COLUMNS``."""
    ended = sum(row.ended.values())
    good, bad = (row.ended.get(name, 0) for name in _OUTCOMES)
    parts = []
    for name, hours in (("gpu_use", row.gpu_hours), ("cpu_use", row.cpu_hours)):
        # Of a day, what the cluster had on that day.
        capacity = _capacity(row.capacity if report.by == "day" and row is not report.total else report.capacity, name)
        parts.append(round(hours / capacity, 6) if capacity else "")
    waits = [row.waiting.jobs, row.waiting.p50, row.waiting.p95, row.waiting.max]
    # Nothing where the source does not know it, which is not the same as none.
    unknown = _unknown(report, row)
    return [
        *([""] * 4 if "ended" in unknown else [ended, good, bad, ended - good - bad]),
        round(row.gpu_hours, 6),
        round(row.cpu_hours, 6),
        *parts,
        *([""] * 4 if "waiting" in unknown else waits),
        "" if "evictions" in unknown else row.evictions,
        "" if "failures" in unknown else row.failures,
        "" if "waiting" in unknown else row.pending,
    ]


def _unknown(report: Report, row: Row) -> Sequence[str]:
    """Fields of a row that the source does not keep; of the total it may have them."""
    if row is not report.total:
        return report.unknown
    return [name for name in report.unknown if name == "failures"]


def _capacity(hours_of: Mapping[str, float], use: str) -> float:
    """Hours that the cluster had of cards or of CPUs; 0 where that is not known."""
    from unisono.history.records import is_gpu

    return sum(hours for name, hours in hours_of.items() if (is_gpu(name) if use == "gpu_use" else name == "cpu"))


def _use_headers(report: Report) -> list[str]:
    return [
        text for name, text in (("gpu_use", "gpus used"), ("cpu_use", "cpus used")) if _capacity(report.capacity, name)
    ]


def _size(row: Any) -> Sequence[Any]:
    waits = (duration_text(each) for each in (row.waiting.p50, row.waiting.p95, row.waiting.max))
    return [row.queue, row.size, row.waiting.jobs, *waits]


def _hours(row: Row, name: str) -> Any:
    return round(row.hours[name], 6) if name in row.hours else ""


def _csv(headers: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(headers)
    for row in rows:
        writer.writerow([_harmless(cell) for cell in row])
    return text.getvalue()


def _harmless(cell: Any) -> Any:
    """A spreadsheet takes texts that begin so for formulas."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@", "\t", "\r") else cell


def _time(seconds: float) -> str:
    return rfc3339(seconds)
