"""Sweeps: runs over configurations, seeds and workloads on all cores; a sweep that was stopped goes on where it was.

Each run is a function of its inputs and its seed, so the result file is the same whichever runs come first, on how many
processes, and however often the sweep was stopped.
"""

from __future__ import annotations

import hashlib
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec

from unisono.simulator.experiment import read_experiment
from unisono.simulator.files import InputError
from unisono.simulator.metrics.summary import encode
from unisono.simulator.world.settings import Settings

MOST_RUNS = 1_000_000


@dataclass(frozen=True, slots=True)
class Point:
    """One run of a sweep; paths are absolute.

    Attributes:
        config: the scheduler's configuration, empty for the built-in one.
        settings: further fields of `Settings`.
    """

    workload: str
    cluster: str
    config: str
    seed: int
    form: str | None = None
    limit: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


def points(
    workloads: Sequence[Path],
    clusters: Sequence[Path],
    configs: Sequence[Path | None],
    seeds: Sequence[int],
    **more: Any,
) -> list[Point]:
    """All combinations, in the order in which the result file lists them.

    Raises:
        InputError: there are too many.
    """
    total = len(workloads) * len(clusters) * max(len(configs), 1) * len(seeds)
    if total > MOST_RUNS:
        raise InputError(f"{total} runs are too many for one sweep, at most {MOST_RUNS}")
    return [
        Point(str(workload.absolute()), str(cluster.absolute()), str(config.absolute()) if config else "", seed, **more)
        for workload in workloads
        for cluster in clusters
        for config in configs or [None]
        for seed in seeds
    ]


def simulate(point: Point) -> bytes:
    """Run one point: a line of the result file."""
    experiment = read_experiment(
        Path(point.workload),
        Path(point.cluster),
        Path(point.config) if point.config else None,
        Settings(seed=point.seed, **point.settings),
        form=point.form,
        limit=point.limit,
    )
    return encode(experiment.result(experiment.run())) + b"\n"


def sweep(
    todo: Sequence[Point],
    out: Path,
    *,
    processes: int = 1,
    progress: Callable[[int, int], None] | None = None,
    run_all: Callable[[Sequence[Point]], Iterator[tuple[int, bytes]]] | None = None,
) -> int:
    """Run all points that ``out`` does not have yet, and write the results in order; answers how many were run.

    Finished runs are kept beside the result file until all are there, by what they are a function of: changed inputs
    are run again.

    Args:
        todo: the points.
        out: the result file.
        processes: how many run at a time.
        progress: is told how many are done, of all.
        run_all: runs points and yields (number, line) as they end; None for processes of this machine.
    """
    store = Kept(out.with_name(out.name + ".parts"))
    keys = [key_of(point) for point in todo]
    lines: dict[int, bytes] = {at: line for at, key in enumerate(keys) if (line := store.get(key)) is not None}
    left = [at for at in range(len(todo)) if at not in lines]
    if progress is not None:
        progress(len(lines), len(todo))
    runner = run_all or (lambda some: on_processes(some, processes))
    for number, line in runner([todo[at] for at in left]):
        at = left[number]
        lines[at] = line
        store.put(keys[at], line)
        if progress is not None:
            progress(len(lines), len(todo))
    partial = out.with_name(out.name + ".new")
    partial.write_bytes(b"".join(lines[at] for at in range(len(todo))))
    partial.replace(out)
    store.clear()
    return len(left)


def on_processes(todo: Sequence[Point], processes: int) -> Iterator[tuple[int, bytes]]:
    """Run points on so many processes, in this one where one is enough."""
    if processes <= 1 or len(todo) <= 1:
        for number, point in enumerate(todo):
            yield number, simulate(point)
        return
    with ProcessPoolExecutor(min(processes, len(todo)), mp_context=get_context("spawn")) as pool:
        futures = {pool.submit(simulate, point): number for number, point in enumerate(todo)}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def key_of(point: Point) -> str:
    """What a run is a function of: contents of its files, seed and settings."""
    digest = hashlib.sha256()
    for name in (point.workload, point.cluster, point.config):
        digest.update(_content(name) + Path(name).name.encode() + b"\0")
    digest.update(msgspec.json.encode([point.seed, point.form, point.limit, dict(point.settings)], order="sorted"))
    return digest.hexdigest()


_known: dict[tuple[str, int, int], bytes] = {}


def _content(name: str) -> bytes:
    if not name:
        return b""
    path = Path(name)
    try:
        status = path.stat()
        stamp = name, status.st_mtime_ns, status.st_size
        if stamp not in _known:
            with path.open("rb") as file:
                _known[stamp] = hashlib.file_digest(file, "sha256").digest()
        return _known[stamp]
    except OSError as error:
        raise InputError(f"{path}: the file cannot be read: {error.strerror or error}") from None


class Kept:
    """Finished runs of a sweep that is not complete, in a folder: one file each, whole or not there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, key: str) -> bytes | None:
        """The line of a run that has ended."""
        try:
            return (self.folder / key).read_bytes()
        except FileNotFoundError:
            return None

    def put(self, key: str, line: bytes) -> None:
        """Keep a line."""
        self.folder.mkdir(exist_ok=True)
        partial = self.folder / f"{key}.new"
        partial.write_bytes(line)
        partial.replace(self.folder / key)

    def clear(self) -> None:
        """The sweep is complete."""
        if self.folder.is_dir():
            for file in self.folder.iterdir():
                file.unlink()
            self.folder.rmdir()


@dataclass(frozen=True, slots=True)
class Shipped:
    """A run, and the compressed files that it reads, by path. Runs that are shipped together share the files."""

    point: Point
    files: Mapping[str, bytes]


def ship(todo: Sequence[Point]) -> list[Shipped]:
    """The runs with their files.

    Raises:
        InputError: a file cannot be read.
    """
    files: dict[str, bytes] = {}
    for name in sorted({name for point in todo for name in _names(point) if name}):
        try:
            files[name] = zlib.compress(Path(name).read_bytes(), 9)
        except OSError as error:
            raise InputError(f"{name}: the file cannot be read: {error.strerror or error}") from None
    return [Shipped(point, files) for point in todo]


def simulate_shipped(shipped: Shipped) -> bytes:
    """Run one point where its files are not: a line of the result file, as `simulate` gives it."""
    point = shipped.point
    with tempfile.TemporaryDirectory(prefix="unisono-sweep-") as folder:
        workload, cluster, config = (_unpacked(Path(folder), name, shipped.files) for name in _names(point))
        return simulate(replace(point, workload=workload, cluster=cluster, config=config))


def _names(point: Point) -> tuple[str, str, str]:
    return point.workload, point.cluster, point.config


def _unpacked(folder: Path, name: str, files: Mapping[str, bytes]) -> str:
    """The file under its own name, which results and messages state, in a folder of its own."""
    if not name:
        return ""
    own = folder / hashlib.sha256(name.encode()).hexdigest()[:16]
    own.mkdir(exist_ok=True)
    file = own / Path(name).name
    file.write_bytes(zlib.decompress(files[name]))
    return str(file)
