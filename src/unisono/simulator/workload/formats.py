"""Workloads by the name of their form; what a file is can be seen from its name or its first line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import msgspec

from unisono.api.field_error import UNREADABLE
from unisono.simulator.files import open_text
from unisono.simulator.workload import cloud_traces, traces
from unisono.simulator.workload.job import MOST_JOBS, Job, NodeShape, WorkloadError, check, check_order

# The native form of workloads: JSON lines, a header and then one job per line.
#
# ::
#
#     {"unisono": "workload", "version": 1}
#     {"name": "train-1", "submit": 0, "runSeconds": 3600, "roles": [{"count": 4, "gpus": 8, "cpuMilli": 32000}]}

VERSION = 1
_HEADER = {"unisono": "workload", "version": VERSION}


def read(path: Path) -> list[Job]:
    """Jobs of a file, in order of submission (as in the file among equals).

    Raises:
        WorkloadError: names line and field.
    """
    with open_text(path) as file:
        jobs = sorted(_jobs(file, str(path)), key=lambda job: job.submit)
    if problem := check_order(jobs):
        raise WorkloadError(f"{path}: {problem}")
    return jobs


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


@dataclass(frozen=True, slots=True)
class Format:
    """A form of workload files.

    Attributes:
        meaning: one line for people.
        read: reads a file; the shape says how jobs are cut into pods.
        knows: whether a file's name, or its first line, looks like the form.
    """

    meaning: str
    read: Callable[[Path, NodeShape], list[Job]]
    knows: Callable[[str, str], bool]


def _columns(*names: str, without: tuple[str, ...] = ()) -> Callable[[str, str], bool]:
    """Recognises a table by columns of its header."""

    def knows(_: str, line: str) -> bool:
        header = {name.strip() for name in line.split(",")}
        return header.issuperset(names) and header.isdisjoint(without)

    return knows


def _is_native(name: str, line: str) -> bool:
    return line.startswith("{") and not _is_borg(name, line)


def _is_borg(name: str, line: str) -> bool:
    if line.startswith("{"):
        return '"instance_index"' in line and '"collection_id"' in line
    return _columns(*cloud_traces.BORG_COLUMNS)(name, line)


FORMATS: Mapping[str, Format] = {
    "native": Format("JSON lines of this program", lambda path, _: read(path), _is_native),
    "swf": Format(
        "Standard Workload Format 2.2 (processors)",
        traces.read_swf,
        lambda name, line: name.endswith(".swf") or line[:1] == ";",
    ),
    "openb": Format("Alibaba's openb pod lists (2023)", traces.read_openb, _columns(*traces.OPENB_COLUMNS)),
    "muri": Format("Muri (milliseconds)", traces.read_muri, _columns(*traces.MURI_COLUMNS, "iteration_time")),
    "chronus": Format("Chronus: deadlines (minutes)", traces.read_chronus, _columns(*traces.CHRONUS_COLUMNS)),
    "tiresias": Format(
        "Tiresias (seconds)",
        traces.read_tiresias,
        _columns(*traces.MURI_COLUMNS, "duration", without=("iteration_time", "job_type")),
    ),
    "philly": Format(
        "Microsoft's Philly, as Pollux and Sia have it", traces.read_philly, _columns(*traces.PHILLY_COLUMNS)
    ),
    "helios": Format("SenseTime's Helios, and Acme", traces.read_helios, _columns(*traces.HELIOS_COLUMNS)),
    "pai": Format(
        "Alibaba PAI's tasks (2020)",
        cloud_traces.read_pai,
        lambda name, line: name.startswith(cloud_traces.PAI_TASKS) or _columns(*cloud_traces.PAI_COLUMNS)(name, line),
    ),
    "dlrm": Format(
        "Alibaba's recommendation services (2025)", cloud_traces.read_dlrm, _columns(*cloud_traces.DLRM_COLUMNS)
    ),
    "spot": Format("Alibaba's spot GPUs (2026)", cloud_traces.read_spot, _columns(*cloud_traces.SPOT_COLUMNS)),
    "philly-log": Format(
        "Microsoft's Philly as published (JSON)", cloud_traces.read_philly_log, lambda _, line: line.startswith("[")
    ),
    "borg": Format("Google's Borg (2019), events of instances", cloud_traces.read_borg, _is_borg),
    "shockwave": Format(
        "Gavel and Shockwave (rigid durations)",
        traces.read_shockwave,
        lambda _, line: line.count("\t") == traces.SHOCKWAVE_FIELDS - 1,
    ),
}


def recognise(path: Path) -> str:
    """Name of the form of a file.

    Raises:
        WorkloadError: it looks like none.
    """
    with open_text(path) as lines:
        first = next((line for line in lines if line.strip()), "")
    name = path.name.removesuffix(".gz")
    for form, each in FORMATS.items():
        if each.knows(name, first.rstrip("\r\n")):
            return form
    raise WorkloadError(f"{path}: the form of the workload is not recognised: name one of {', '.join(FORMATS)}")


def load(path: Path, form: str | None = None, shape: NodeShape | None = None) -> list[Job]:
    """Jobs of a file in order of submission, the first at 0 or later.

    Args:
        path: of the file.
        form: one of `FORMATS`; None to look at the file.
        shape: by which jobs of traces are cut into pods.

    Raises:
        WorkloadError: names file, line and field.
    """
    form = form or recognise(path)
    if form not in FORMATS:
        raise WorkloadError(f"there is no form '{form}' of workloads; known are {', '.join(FORMATS)}")
    jobs = FORMATS[form].read(path, shape or NodeShape())
    if not jobs:
        raise WorkloadError(f"{path}: there are no jobs in the file")
    for job in jobs if form != "native" else ():
        problem = check(job)
        if problem:
            raise WorkloadError(f"{path}: job {job.name}: {problem}")
    return jobs
