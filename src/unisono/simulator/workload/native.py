"""The native form of workloads: JSON lines, a header and then one job per line.

::

    {"unisono": "workload", "version": 1}
    {"name": "train-1", "submit": 0, "runSeconds": 3600, "roles": [{"count": 4, "gpus": 8, "cpuMilli": 32000}]}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

import msgspec

from unisono.api.unreadable import UNREADABLE
from unisono.simulator.files import open_text
from unisono.simulator.workload.job import MOST_JOBS, Job, WorkloadError, check

VERSION = 1
_HEADER = {"unisono": "workload", "version": VERSION}


def read(path: Path) -> list[Job]:
    """Jobs of a file, in order of submission (as in the file among equals).

    Raises:
        WorkloadError: names line and field.

    """
    with open_text(path) as file:
        jobs = list(_jobs(file, str(path)))
    return sorted(jobs, key=lambda job: job.submit)


def _jobs(lines: Iterable[str], name: str) -> Iterator[Job]:
    decoder = msgspec.json.Decoder(Job)
    seen: set[str] = set()
    started = False
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{name}:{number}"
        if not started:
            _check_header(line, where)
            started = True
            continue
        try:
            job = decoder.decode(line)
        except UNREADABLE as error:
            raise WorkloadError(f"{where}: {error}") from None
        problem = check(job)
        if not problem and job.name in seen:
            problem = f"name: a job {job.name} stands above already"
        if problem:
            raise WorkloadError(f"{where}: {problem}")
        seen.add(job.name)
        if len(seen) > MOST_JOBS:
            raise WorkloadError(f"{where}: more than {MOST_JOBS} jobs are too many for one workload")
        yield job
    if not started:
        raise WorkloadError(f"{name}: the file is empty; its first line must be {_text(_HEADER)}")


def _check_header(line: str, where: str) -> None:
    try:
        header = msgspec.json.decode(line)
    except UNREADABLE as error:
        raise WorkloadError(f"{where}: {error}") from None
    if not isinstance(header, dict) or header.get("unisono") != "workload":
        raise WorkloadError(f"{where}: the first line must be {_text(_HEADER)}")
    if header.get("version") != VERSION:
        raise WorkloadError(f"{where}: version {header.get('version')!r} is not known; this program reads {VERSION}")


def write(jobs: Iterable[Job], file: IO[str]) -> None:
    """Write the native form; the same jobs give the same text."""
    file.write(_text(_HEADER) + "\n")
    for job in jobs:
        file.write(_text(job) + "\n")


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()
