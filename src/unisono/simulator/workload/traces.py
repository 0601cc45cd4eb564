"""Readers of public traces."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from unisono.simulator.files import InputError, Row, open_text, rows
from unisono.simulator.workload.job import (
    MOST_JOBS,
    WHOLE_GPU,
    Job,
    NodeShape,
    Role,
    WorkloadError,
    cpu_roles,
    gpu_roles,
)

# Traces of Chronus: jobs with deadlines, strict, soft or best effort; times in minutes.
#
# Strict and soft jobs have a priority above best-effort jobs, which may be evicted for them. The deadline is the first
# of ``expect_time_list``, counted from the submission.

CHRONUS_COLUMNS = ("job_id", "user", "num_gpu", "submit_time", "duration", "expect_time_list", "job_type")
HIGH = 100
"""Priority of strict and soft jobs."""
_MINUTE = 60.0


def read_chronus(path: Path, shape: NodeShape) -> list[Job]:
    """Jobs in order of submission.

    Raises:
        InputError: names line and column.
    """
    return sorted((_chronus_job(row, shape) for row in rows(path, CHRONUS_COLUMNS)), key=lambda job: job.submit)


def _chronus_job(row: Row, shape: NodeShape) -> Job:
    kind = row.text("job_type")
    if kind not in ("strict", "soft", "best"):
        raise WorkloadError(f"{row.where}: job_type: {kind!r} is none of strict, soft and best")
    best = kind == "best"
    return Job(
        name=f"job-{row.whole('job_id')}",
        submit=row.number("submit_time") * _MINUTE,
        run_seconds=row.number("duration") * _MINUTE,
        roles=gpu_roles(row.whole("num_gpu"), shape),
        user=row.text("user"),
        priority=0 if best else HIGH,
        preemptable=best,
        deadline=None if best else _first(row) * _MINUTE,
        job_class=kind,
    )


def _first(row: Row) -> float:
    text = row.text("expect_time_list").split("-")[0]
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e9:
        raise WorkloadError(f"{row.where}: expect_time_list: {text!r} is not a number of minutes")
    return value


# Traces of Muri (times in milliseconds, with ``iteration_time``) and of Tiresias (times in seconds).
#
# Both list job_id, num_gpu, submit_time, iterations, model_name and duration. Muri's run times are iterations times
# iteration_time times 1.015, the factor of its own simulator.


MURI_COLUMNS = ("job_id", "num_gpu", "submit_time", "iterations")
_FACTOR = 1.015


def read_muri(path: Path, shape: NodeShape) -> list[Job]:
    """Jobs of a Muri trace; names count families of jobs by model.

    Raises:
        InputError: names line and column.
    """
    jobs = [
        Job(
            name=f"{row.text('model_name', 'job')}-{row.whole('job_id')}",
            submit=row.number("submit_time") / 1000,
            run_seconds=row.number("iterations") * row.number("iteration_time") * _FACTOR / 1000,
            roles=gpu_roles(row.whole("num_gpu"), shape),
        )
        for row in rows(path, (*MURI_COLUMNS, "iteration_time"))
    ]
    return sorted(jobs, key=lambda job: job.submit)


def read_tiresias(path: Path, shape: NodeShape) -> list[Job]:
    """Jobs of a Tiresias trace.

    Raises:
        InputError: names line and column.
    """
    jobs = [
        Job(
            name=f"{row.text('model_name', 'job')}-{row.whole('job_id')}",
            submit=row.number("submit_time"),
            run_seconds=row.number("duration"),
            roles=gpu_roles(row.whole("num_gpu"), shape),
        )
        for row in rows(path, (*MURI_COLUMNS, "duration"))
    ]
    return sorted(jobs, key=lambda job: job.submit)


# openb pod lists (Alibaba 2023): pods that share GPUs, with times in seconds.
#
# Some lists have only the first five columns: their pods come at 0 and stay. ``gpu_milli`` is of each GPU, ``gpu_spec``
# lists the models that a pod can use, joined by ``|``.


OPENB_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")


def read_openb(path: Path, _: object = None) -> list[Job]:
    """Pods of a list as jobs of one pod, in order of their creation and then of their names.

    Raises:
        InputError: names line and column.
    """
    return sorted((_openb_job(row) for row in rows(path, OPENB_COLUMNS)), key=lambda job: (job.submit, job.name))


def _openb_job(row: Row) -> Job:
    gpus = row.whole("num_gpu")
    milli = row.whole("gpu_milli", 0) if gpus else WHOLE_GPU
    if not 0 < milli <= WHOLE_GPU or (milli < WHOLE_GPU and gpus > 1):
        raise WorkloadError(f"{row.where}: gpu_milli: {milli} of {gpus} GPUs cannot be asked for")
    role = Role(
        cpu_milli=row.whole("cpu_milli"),
        memory_mib=row.whole("memory_mib"),
        gpus=gpus,
        gpu_milli=milli,
        gpu_models=tuple(model for model in row.text("gpu_spec", "").split("|") if model),
    )
    created = row.number("creation_time", 0.0)
    ended = row.number("deletion_time", -1.0, least=None)
    begun = row.number("scheduled_time", created)
    return Job(
        name=row.text("name"),
        submit=created,
        run_seconds=max(ended - begun, 0.0) if ended >= 0 else None,
        roles=(role,),
        job_class=row.text("qos", ""),
    )


# Traces of Microsoft's Philly as Pollux and Sia filtered it, and of SenseTime's Helios and Acme: wall-clock times.


# Wall-clock times in traces.


def seconds_of(row: Row, column: str) -> float:
    """Seconds since 1970 of a time such as ``2017-10-09 07:01:55``, with an offset or without (UTC then).

    Raises:
        InputError: the cell holds none.
    """
    return moment_of(row.text(column), f"{row.where}: {column}")


def moment_of(text: str, where: str) -> float:
    """The same of a text; ``where`` it stands.

    Raises:
        InputError: it is no time.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"{where}: {text!r} is not a time such as 2017-10-09 07:01:55") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


# Microsoft Philly as Pollux and Sia filtered it: timestamp, duration (s), num_gpus, cluster (virtual cluster).

PHILLY_COLUMNS = ("timestamp", "duration", "num_gpus", "cluster")


def read_philly(path: Path, shape: NodeShape) -> list[Job]:
    """Jobs, each in the queue of its virtual cluster; the first one comes at 0.

    Raises:
        InputError: names line and column.
    """
    submissions = [
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
        for number, row in enumerate(rows(path, PHILLY_COLUMNS))
    ]
    return from_first(submissions)


def from_first(found: list[tuple[float, Job]]) -> list[Job]:
    """Jobs in order of their times, which count from the first one's."""
    found.sort(key=lambda item: item[0])
    first = found[0][0] if found else 0.0
    return [replace(job, submit=at - first) for at, job in found]


# Traces of SenseTime's Helios and of Acme (Seren, Kalos): wall-clock times and GPUs per job.
#
# Both list job_id, user, node_num, gpu_num, cpu_num, state, submit_time, duration (s) and ``queue``, the time that it
# waited; Helios has a virtual cluster ``vc``, Acme a ``type``. Jobs that never ran, with a duration of 0, are left out.

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
        queue=row.text("vc", "default"),
        user=row.text("user"),
        job_class=row.text("type", ""),
    )


# Traces of Gavel and Shockwave: twelve fields between tabs, without a header.
#
# Fields: job type, command, working directory, name of the steps argument, needs data, total steps, scale factor
# (GPUs), mode, priority weight, deadline (-1: none), duration (s), arrival time (s). Run times are the durations: jobs
# are rigid, and changes of the batch size are not modelled.


SHOCKWAVE_FIELDS = 12


def read_shockwave(path: Path, shape: NodeShape) -> list[Job]:
    """Jobs in order of arrival, named after their type.

    Raises:
        InputError: names line and field.
    """
    jobs: list[Job] = []
    with open_text(path) as lines:
        for number, line in enumerate(lines, start=1):
            cells = line.rstrip("\n").split("\t")
            if len(cells) != SHOCKWAVE_FIELDS:
                raise WorkloadError(
                    f"{path}:{number}: the line has {len(cells)} fields between tabs, not {SHOCKWAVE_FIELDS}"
                )
            if len(jobs) >= MOST_JOBS:
                raise WorkloadError(f"{path}:{number}: more than {MOST_JOBS} jobs are too many for one workload")
            jobs.append(_shockwave_job(cells, len(jobs), shape, f"{path}:{number}"))
    return sorted(jobs, key=lambda job: job.submit)


def _shockwave_job(cells: list[str], count: int, shape: NodeShape, where: str) -> Job:
    kind = re.sub(r"[^a-z0-9]+", "-", cells[0].lower()).strip("-") or "job"
    gpus = _shockwave_number(cells[6], "scale factor", where)
    if gpus != int(gpus):
        raise WorkloadError(f"{where}: scale factor: {cells[6]!r} is not a whole number")
    deadline = _shockwave_number(cells[9], "deadline", where)
    return Job(
        name=f"{kind}-{count}",
        submit=_shockwave_number(cells[11], "arrival time", where),
        run_seconds=_shockwave_number(cells[10], "duration", where),
        roles=gpu_roles(int(gpus), shape),
        deadline=deadline if deadline > 0 else None,
        job_class=cells[7],
    )


def _shockwave_number(cell: str, name: str, where: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = float("nan")
    if not (0 <= value < 1e12 or value == -1):
        raise WorkloadError(f"{where}: {name}: {cell!r} is not a number of at least 0")
    return value


# Standard Workload Format 2.2 of the Parallel Workloads Archive: 18 numbers per job, comments after ``;``.
#
# Units: seconds and processors; memory in KiB per processor. -1 means unknown. Jobs without a run time or without
# processors were never started in the log and are left out.


_FIELDS = (
    "job number", "submit time", "wait time", "run time", "allocated processors", "average CPU time", "used memory",
    "requested processors", "requested time", "requested memory", "status", "user", "group", "executable", "queue",
    "partition", "preceding job", "think time",
)  # fmt: skip


def read_swf(path: Path, shape: NodeShape, *, allocated: bool = False) -> list[Job]:
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
            job = _swf_job(text, shape, f"{path}:{number}", allocated=allocated)
            if job is not None:
                jobs.append(job)
            if len(jobs) > MOST_JOBS:
                raise WorkloadError(f"{path}:{number}: more than {MOST_JOBS} jobs are too many for one workload")
    return _followed(sorted(jobs, key=lambda job: job.submit))


def _followed(jobs: list[Job]) -> list[Job]:
    """Jobs that wait for one that never started, or that was submitted later, come when they came in the log."""
    seen: set[str] = set()
    for at, job in enumerate(jobs):
        if job.after and job.after not in seen:
            jobs[at] = replace(job, after="", think_seconds=None)
        seen.add(job.name)
    return jobs


def _swf_job(cells: list[str], shape: NodeShape, where: str, *, allocated: bool) -> Job | None:
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
    before, think = int(values[16]), values[17]
    return Job(
        name=f"job-{int(values[0])}",
        submit=submit,
        run_seconds=run,
        roles=cpu_roles(processors, shape, memory),
        user=f"user-{int(values[11])}" if values[11] >= 0 else "",
        estimate=limit if limit > 0 else None,
        job_class=f"queue-{int(values[14])}" if values[14] >= 0 else "",
        after=f"job-{before}" if before > 0 else "",
        think_seconds=think if before > 0 and think >= 0 else None,
    )


def _number(cell: str, name: str, where: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = float("nan")
    if not abs(value) < 1e12:
        raise WorkloadError(f"{where}: {name}: {cell!r} is not a number")
    return value
