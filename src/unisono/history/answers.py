"""What reports answer, as JSON carries it."""

from __future__ import annotations

from typing import Literal

import msgspec

By = Literal["queue", "namespace", "user", "job", "day"]
BY: tuple[By, ...] = ("queue", "namespace", "user", "job", "day")
PATH = "/unisono/v1/history"
"""Where the API server answers them: ``/report`` and ``/jobs`` below."""


class Waiting(msgspec.Struct, omit_defaults=True):
    """How long jobs waited for their first pod, in seconds.

    Attributes:
        jobs: that started.
        p50: half of them waited no longer.
        p95: nineteen of twenty.
        max: the longest.

    """

    jobs: int = 0
    p50: float = 0.0
    p95: float = 0.0
    max: float = 0.0


class Row(msgspec.Struct, omit_defaults=True):
    """One queue, namespace, user, job or day.

    Attributes:
        key: its name; a job's as ``namespace/name``, a day's as ``2026-11-01``.
        ended: jobs that ended, by outcome.
        hours: use by resource: cards and CPUs in hours, bytes in byte-hours.
        gpu_hours: of all kinds of cards.
        cpu_hours: of CPUs.
        waiting: of jobs that started.
        evictions: pods that had to go.
        failures: pods that failed.
        kind: of a job.
        capacity: of the cluster on a day, as of the report; of days alone.
        pending: jobs that wait at the end of the time and have not started yet.

    """

    key: str
    ended: dict[str, int] = {}
    hours: dict[str, float] = {}
    gpu_hours: float = 0.0
    cpu_hours: float = 0.0
    waiting: Waiting = msgspec.field(default_factory=Waiting)
    evictions: int = 0
    failures: int = 0
    kind: str = ""
    capacity: dict[str, float] = {}
    pending: int = 0


class SizeRow(msgspec.Struct, omit_defaults=True):
    """Waiting times of jobs of one queue and size; ``size`` such as ``2-8 GPUs``."""

    queue: str
    size: str
    waiting: Waiting


class Report(msgspec.Struct, omit_defaults=True):
    """A report of a time.

    Attributes:
        start: seconds since 1970.
        end: seconds since 1970.
        by: what a row stands for.
        rows: most use first, days in their order.
        total: of all rows.
        sizes: waiting times by queue and size.
        capacity: of the cluster by resource, in the units of ``Row.hours``; empty where the viewer may not list nodes.
        summed: a part of the time is known as sums of hours alone: without jobs and without waiting times.
        more: there are more rows than are shown.
        since: when the history begins, in seconds since 1970; 0 where it is empty or not known.
        unknown: fields of the rows that the source does not keep; the total may have them.

    """

    start: float
    end: float
    by: By
    rows: list[Row]
    total: Row
    sizes: list[SizeRow] = []
    capacity: dict[str, float] = {}
    summed: bool = False
    more: bool = False
    since: float = 0.0
    unknown: list[str] = []


class JobLine(msgspec.Struct, omit_defaults=True):
    """One job, as accounting shows it; times in seconds since 1970, 0 for none yet."""

    uid: str
    kind: str
    namespace: str
    name: str
    queue: str
    user: str
    state: str
    created: float
    started: float = 0.0
    ended: float = 0.0
    elapsed: float = 0.0
    gpus: float = 0.0
    cpus: float = 0.0
    pods: int = 0
    exit_code: int | None = None
    message: str = ""
    gpu_hours: float = 0.0
    cpu_hours: float = 0.0
    evictions: int = 0
    failures: int = 0
    restarts: int = 0


class Accounts(msgspec.Struct, omit_defaults=True):
    """Jobs that were there in a time, the latest last."""

    start: float
    end: float
    jobs: list[JobLine]
    more: bool = False
