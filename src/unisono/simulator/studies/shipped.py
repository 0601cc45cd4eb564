"""Runs of a sweep that travel to another machine together with their files."""

from __future__ import annotations

import hashlib
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from unisono.simulator.files import InputError
from unisono.simulator.studies.sweep import Point, simulate


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
