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

_FILES = ("workload", "cluster", "config")


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
    names = {name for point in todo for part in _FILES if (name := getattr(point, part))}
    files: dict[str, bytes] = {}
    for name in sorted(names):
        try:
            files[name] = zlib.compress(Path(name).read_bytes(), 9)
        except OSError as error:
            raise InputError(f"{name}: the file cannot be read: {error.strerror or error}") from None
    return [Shipped(point, files) for point in todo]


def simulate_shipped(shipped: Shipped) -> bytes:
    """Run one point where its files are not: a line of the result file, as `simulate` gives it."""
    with tempfile.TemporaryDirectory(prefix="unisono-sweep-") as folder:
        here = {}
        for part in _FILES:
            name = getattr(shipped.point, part)
            if name:
                here[part] = str(_unpacked(Path(folder), name, shipped.files[name]))
        return simulate(replace(shipped.point, **here))


def _unpacked(folder: Path, name: str, content: bytes) -> Path:
    """The file under its own name, which results and messages state, in a folder of its own."""
    own = folder / hashlib.sha256(name.encode()).hexdigest()[:16]
    own.mkdir(exist_ok=True)
    file = own / Path(name).name
    file.write_bytes(zlib.decompress(content))
    return file
