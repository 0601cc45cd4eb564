"""Readers of traces that clouds publish: Alibaba's PAI, DLRM and spot GPUs, Microsoft's Philly, Google's Borg.

They are larger than lists made for one study, and say less plainly what a job was: jobs lie in several tables, ran in
several attempts, or had not ended when the record was made.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from unisono.simulator.files import MOST_ROWS, InputError, Row, open_bytes, open_text, rows
from unisono.simulator.workload.job import MOST_JOBS, WHOLE_GPU, Job, NodeShape, Role, WorkloadError, gpu_roles
from unisono.simulator.workload.traces import HIGH, from_first, moment_of

_GIB = 1024
"""MiB."""


def _gpus(amount: float, where: str) -> tuple[int, int]:
    """Whole GPUs and thousandths of each, of an amount such as 0.5 or 2; parts of several are rounded up."""
    if not 0 <= amount < MOST_ROWS:
        raise WorkloadError(f"{where}: {amount:g} GPUs cannot be asked for")
    if 0 < amount < 1:
        return 1, max(round(amount * WHOLE_GPU), 1)
    return math.ceil(amount), WHOLE_GPU


# Alibaba PAI (cluster-trace-gpu-v2020): two months of training and inference on 6,500 GPUs.
#
# ``pai_task_table.csv`` has a line for each role of a job; ``plan_cpu`` and ``plan_gpu`` are percent of one,
# ``plan_mem`` is GB. Where ``pai_job_table.csv`` lies beside it, it tells who submitted a job and when. The files are
# published without their headers. ``gpu_type`` is the model that a task got, which is no request.


PAI_COLUMNS = (
    *("job_name", "task_name", "inst_num", "status", "start_time", "end_time"),
    *("plan_cpu", "plan_mem", "plan_gpu", "gpu_type"),
)
_PAI_JOB_COLUMNS = ("job_name", "inst_id", "user", "status", "start_time", "end_time")
PAI_TASKS = "pai_task_table"
_PAI_JOBS = "pai_job_table"


@dataclass(slots=True)
class _Tasks:
    """What the task table says of one job; times in seconds of the trace."""

    roles: list[Role] = field(default_factory=list)
    begun: float = math.inf
    ended: float = 0.0
    open: bool = False


def read_pai(path: Path, _: object = None) -> list[Job]:
    """Jobs with a role for each task; what still ran when the record was made is ``censored``.

    Raises:
        InputError: names line and column.
    """
    tasks_by_job: dict[str, _Tasks] = {}
    last = 0.0
    for row in rows(path, PAI_COLUMNS, columns=PAI_COLUMNS):
        begun, ended = row.number("start_time", -1.0, least=None), row.number("end_time", -1.0, least=None)
        last = max(last, begun, ended)
        if begun < 0:  # it never started
            continue
        job = tasks_by_job.setdefault(row.text("job_name"), _Tasks())
        if len(tasks_by_job) > MOST_JOBS:
            raise WorkloadError(f"{row.where}: more than {MOST_JOBS} jobs are too many for one workload")
        job.roles.append(_pai_role(row, len(job.roles)))
        job.begun, job.ended = min(job.begun, begun), max(job.ended, ended)
        job.open |= ended < begun
    launched = _pai_jobs(path)
    return from_first([_pai_job(name, tasks, launched.get(name), last) for name, tasks in tasks_by_job.items()])


def _pai_role(row: Row, number: int) -> Role:
    gpus, milli = _gpus(row.number("plan_gpu", 0.0) / 100, f"{row.where}: plan_gpu")
    return Role(
        name=f"{row.text('task_name')}-{number}" if number else row.text("task_name"),
        count=max(row.whole("inst_num", 1), 1),
        cpu_milli=round(row.number("plan_cpu", 100.0) * 10),
        memory_mib=round(row.number("plan_mem", 0.0) * _GIB),
        gpus=gpus,
        gpu_milli=milli,
    )


def _pai_job(name: str, tasks: _Tasks, launched: tuple[str, float] | None, last: float) -> tuple[float, Job]:
    user, submitted = launched or ("", tasks.begun)
    ended = last if tasks.open else tasks.ended
    job = Job(
        name=f"job-{name}",
        submit=0.0,
        run_seconds=max(ended - tasks.begun, 0.0),
        roles=tuple(tasks.roles),
        user=user,
        censored=tasks.open,
    )
    return min(submitted, tasks.begun), job


def _pai_jobs(tasks: Path) -> dict[str, tuple[str, float]]:
    """By name who submitted a job, and when; empty where the table of jobs does not lie beside that of tasks."""
    path = tasks.with_name(tasks.name.replace(PAI_TASKS, _PAI_JOBS))
    if path == tasks or not path.exists():
        return {}
    table = rows(path, _PAI_JOB_COLUMNS, columns=_PAI_JOB_COLUMNS)
    return {
        row.text("job_name"): (row.text("user", ""), row.number("start_time"))
        for row in table
        if row.text("start_time", "")
    }


# Alibaba's disaggregated recommendation models (cluster-trace-gpu-v2025): services whose instances run on GPU nodes
# (HN) and on CPU nodes (CN), in seconds. What was there before the trace began or stays after it has no time.

DLRM_COLUMNS = (
    *("instance_sn", "role", "app_name", "cpu_request", "gpu_request", "memory_request"),
    *("creation_time", "scheduled_time", "deletion_time"),
)


def read_dlrm(path: Path, _: object = None) -> list[Job]:
    """Instances as jobs of one pod; the application is the user, the role the class.

    Raises:
        InputError: names line and column.
    """
    return sorted((_dlrm_job(row) for row in rows(path, DLRM_COLUMNS)), key=lambda job: (job.submit, job.name))


def _dlrm_job(row: Row) -> Job:
    created, ended = _time(row, "creation_time"), _time(row, "deletion_time")
    begun = _time(row, "scheduled_time")
    gpus, milli = _gpus(row.number("gpu_request", 0.0), f"{row.where}: gpu_request")
    role = Role(
        cpu_milli=round(row.number("cpu_request") * 1000),
        memory_mib=round(row.number("memory_request", 0.0) * _GIB),
        gpus=gpus,
        gpu_milli=milli,
    )
    return Job(
        name=row.text("instance_sn"),
        submit=created or 0.0,
        run_seconds=None if ended is None else max(ended - (begun or created or 0.0), 0.0),
        roles=(role,),
        user=row.text("app_name"),
        job_class=row.text("role"),
    )


def _time(row: Row, column: str) -> float | None:
    """None where the cell is empty or ``NaN``."""
    text = row.text(column, "")
    return None if text.lower() in ("", "nan") else row.number(column)


# Alibaba's spot GPUs (cluster-trace-gpu-v2026): jobs of high priority and spot jobs, in seconds from the first one;
# their nodes are in ``node_info_df.csv``, which is read as a cluster.

SPOT_COLUMNS = (
    *("job_name", "organization", "gpu_model", "cpu_request", "gpu_request"),
    *("worker_num", "submit_time", "duration", "job_type"),
)


def read_spot(path: Path, _: object = None) -> list[Job]:
    """Jobs in the queues of their organizations; only spot jobs may be evicted.

    Raises:
        InputError: names line and column.
    """
    return sorted((_spot_job(row) for row in rows(path, SPOT_COLUMNS)), key=lambda job: job.submit)


def _spot_job(row: Row) -> Job:
    kind = row.text("job_type")
    if kind not in ("HP", "Spot"):
        raise WorkloadError(f"{row.where}: job_type: {kind!r} is none of HP and Spot")
    gpus, milli = _gpus(row.number("gpu_request"), f"{row.where}: gpu_request")
    model = row.text("gpu_model", "")
    role = Role(
        count=max(row.whole("worker_num"), 1),
        cpu_milli=round(row.number("cpu_request") * 1000),
        gpus=gpus,
        gpu_milli=milli,
        gpu_models=(model,) if model and gpus else (),
    )
    return Job(
        name=f"job-{row.text('job_name')}",
        submit=row.number("submit_time"),
        run_seconds=row.number("duration"),
        roles=(role,),
        queue=f"org-{row.text('organization')}",
        user=f"org-{row.text('organization')}",
        priority=HIGH if kind == "HP" else 0,
        preemptable=kind == "Spot",
        job_class=kind,
    )


# Microsoft's Philly as it was published (``cluster_job_log``): jobs with their attempts as JSON, wall-clock times.


class _Seat(msgspec.Struct):
    gpus: list[str] = []


class _Try(msgspec.Struct):
    start_time: str | None = None
    end_time: str | None = None
    detail: list[_Seat] = []


class _PhillyJob(msgspec.Struct):
    jobid: str
    submitted_time: str | None = None
    attempts: list[_Try] = []
    vc: str = "default"
    user: str = ""
    status: str = ""


def read_philly_log(path: Path, shape: NodeShape) -> list[Job]:
    """Jobs in the queues of their virtual clusters, which run as long as their attempts did together.

    Jobs that no attempt is known of never started, and are left out. One whose last attempt has no end still ran when
    the record was made: it is ``censored``.

    Raises:
        InputError: the file is no such list; names the job.
    """
    with open_bytes(path) as lines:
        text = b"".join(lines)
    try:
        listed = msgspec.json.decode(text, type=list[_PhillyJob])
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise InputError(f"{path}: it is no list of jobs with their attempts: {error}") from None
    if len(listed) > MOST_JOBS:
        raise WorkloadError(f"{path}: more than {MOST_JOBS} jobs are too many for one workload")
    spans = {id(job): list(_attempts(job, path)) for job in listed}
    last = max((end or begin for found in spans.values() for begin, end, _ in found), default=0.0)
    return from_first([_philly_job(job, spans[id(job)], last, shape, path) for job in listed if spans[id(job)]])


def _attempts(job: _PhillyJob, path: Path) -> Iterator[tuple[float, float | None, int]]:
    """Begin, end and GPUs of each attempt whose begin is known."""
    for attempt in job.attempts:
        begin = _moment(attempt.start_time, job.jobid, path)
        if begin is not None:
            gpus = sum(len(seat.gpus) for seat in attempt.detail)
            yield begin, _moment(attempt.end_time, job.jobid, path), gpus


def _moment(text: str | None, job: str, path: Path) -> float | None:
    return moment_of(text, f"{path}: job {job}") if text and text != "None" else None


def _philly_job(
    job: _PhillyJob, spans: list[tuple[float, float | None, int]], last: float, shape: NodeShape, path: Path
) -> tuple[float, Job]:
    runs = sum(max((end if end is not None else begin) - begin, 0.0) for begin, end, _ in spans[:-1])
    begin, end, _ = spans[-1]
    runs += max((last if end is None else end) - begin, 0.0)
    submitted = _moment(job.submitted_time, job.jobid, path)
    return (spans[0][0] if submitted is None else submitted), Job(
        name=job.jobid,
        submit=0.0,
        run_seconds=runs,
        roles=gpu_roles(max(gpus for _, _, gpus in spans), shape),
        queue=job.vc or "default",
        user=job.user,
        job_class=job.status,
        censored=end is None,
    )


# Google's Borg of 2019 (clusterdata v3), ``instance_events`` as JSON lines or as CSV, as BigQuery exports them; where
# ``collection_events`` lies beside it, it tells whose a job is. Times are microseconds, amounts are parts of the
# largest machine.

_SUBMIT, _SCHEDULE = 0, 3
_ENDS = {4, 5, 6, 7, 8}
_EVENTS = {"SUBMIT": 0, "SCHEDULE": 3, "EVICT": 4, "FAIL": 5, "FINISH": 6, "KILL": 7, "LOST": 8}
BORG_COLUMNS = ("time", "type", "collection_id", "instance_index", "priority")
BORG_INSTANCES = "instance_events"
_MICROSECOND = 1e-6
_TIERS = ((99, "free"), (115, "batch"), (119, "mid"))
"""Highest priorities of tiers; production and monitoring lie above."""
_BEST_EFFORT = 115
_MEMORY_PER_CPU = 4 * _GIB
"""MiB of the largest machine for each of its CPUs: how large it was is not published."""


@dataclass(slots=True)
class _Collection:
    """What the events say of one job: times in seconds, amounts as parts of the largest machine.

    Attributes:
        submitted, begun: when its first instance was.
        running: since when each instance runs.
        ran: how long each ran before.
        instances: CPU and memory of each.
        priority: the last one that is known.
    """

    submitted: float = math.inf
    begun: float = math.inf
    running: dict[int, float] = field(default_factory=dict)
    ran: dict[int, float] = field(default_factory=dict)
    instances: dict[int, tuple[float, float]] = field(default_factory=dict)
    priority: int = 0


def read_borg(path: Path, shape: NodeShape) -> list[Job]:
    """Jobs whose pods start one by one, with as many as they had instances; amounts are scaled to the largest node.

    Each pod runs as long as the job's instances did in the mean, all their attempts together. Jobs that never started
    are left out. What has the free tier's priority or is best effort may be evicted.

    Raises:
        InputError: names line and field.
    """
    collections: dict[str, _Collection] = {}
    last = 0.0
    for row in _events(path, BORG_COLUMNS):
        if row.text("collection_type", "0") not in ("0", "JOB"):
            continue
        name, at, number = row.text("collection_id"), row.number("time") * _MICROSECOND, row.whole("instance_index")
        kind = _EVENTS.get(row.text("type"), -1) if row.text("type").isalpha() else row.whole("type")
        job = collections.setdefault(name, _Collection())
        if len(collections) > MOST_JOBS:
            raise WorkloadError(f"{row.where}: more than {MOST_JOBS} jobs are too many for one workload")
        last = max(last, at)
        _note_event(job, row, kind, at, number)
    users = _users(path)
    started = {name: job for name, job in collections.items() if job.begun < math.inf}
    return from_first([_borg_job(name, job, users.get(name, ""), last, shape) for name, job in started.items()])


def _note_event(job: _Collection, row: Row, kind: int, at: float, number: int) -> None:
    job.priority = row.whole("priority", 0)
    amounts = row.number("resource_request.cpus", 0.0), row.number("resource_request.memory", 0.0)
    if any(amounts) or number not in job.instances:
        job.instances[number] = amounts
    if kind == _SUBMIT:
        job.submitted = min(job.submitted, at)
    elif kind == _SCHEDULE:
        job.begun = min(job.begun, at)
        job.running.setdefault(number, at)
    elif kind in _ENDS and number in job.running:
        job.ran[number] = job.ran.get(number, 0.0) + at - job.running.pop(number)


def _borg_job(name: str, job: _Collection, user: str, last: float, shape: NodeShape) -> tuple[float, Job]:
    alike: dict[tuple[int, int], int] = {}
    for cpus, memory in job.instances.values():
        amounts = max(round(cpus * shape.cpus * 1000), 1), round(memory * shape.cpus * _MEMORY_PER_CPU)
        alike[amounts] = alike.get(amounts, 0) + 1
    roles = tuple(
        Role(name=f"worker-{at}" if at else "worker", count=count, cpu_milli=cpu, memory_mib=memory)
        for at, ((cpu, memory), count) in enumerate(alike.items())
    )
    runs = sum(job.ran.values()) + sum(last - begun for begun in job.running.values())
    return min(job.submitted, job.begun), Job(
        name=f"job-{name}",
        submit=0.0,
        run_seconds=max(runs / len(job.ran.keys() | job.running.keys()), 0.0),
        roles=roles,
        gang=1,
        user=user,
        priority=job.priority,
        preemptable=job.priority <= _BEST_EFFORT,
        job_class=next((tier for most, tier in _TIERS if job.priority <= most), "production"),
        censored=bool(job.running),
    )


def _users(instances: Path) -> dict[str, str]:
    path = instances.with_name(instances.name.replace(BORG_INSTANCES, "collection_events"))
    if path == instances or not path.exists():
        return {}
    return {row.text("collection_id"): row.text("user", "") for row in _events(path, ("collection_id", "user"))}


def _events(path: Path, needed: tuple[str, ...]) -> Iterator[Row]:
    """Rows of a table, or objects of JSON lines with what is nested in them as ``outer.inner``."""
    with open_text(path) as lines:
        packed = next(lines, "").lstrip().startswith("{")
    if not packed:
        yield from rows(path, needed)
        return
    with open_text(path) as lines:
        for number, line in enumerate(lines, start=1):
            where = f"{path}:{number}"
            if number > MOST_ROWS:
                raise InputError(f"{where}: more than {MOST_ROWS} rows are too many")
            try:
                value = msgspec.json.decode(line, type=dict[str, Any])
            except msgspec.DecodeError as error:
                raise InputError(f"{where}: the line is no JSON object: {error}") from None
            yield Row(where, dict(_flat(value)))


def _flat(value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, each in value.items():
        if isinstance(each, dict):
            yield from ((f"{key}.{inner}", str(one)) for inner, one in each.items() if one is not None)
        elif each is not None and not isinstance(each, list):
            yield key, str(each)
