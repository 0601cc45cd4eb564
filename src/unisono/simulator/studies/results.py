"""Results of runs as they stand in files: one JSON object per line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from unisono.api.unreadable import UNREADABLE
from unisono.simulator.files import InputError, open_text
from unisono.simulator.metrics.summary import VERSION

PAIRED = ("workload", "cluster", "seed")
"""What two runs must have in common to be compared."""


def read_results(path: Path) -> list[dict[str, Any]]:
    """Runs of a file, as ``unisono simulate -o json`` and ``sweep`` write them.

    Raises:
        InputError: a line is no result.

    """
    found = []
    with open_text(path) as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                value = msgspec.json.decode(line)
            except UNREADABLE as error:
                raise InputError(f"{path}:{number}: {error}") from None
            if not isinstance(value, dict) or value.get("unisono") != "run":
                raise InputError(f"{path}:{number}: the line is no result of a run")
            if value.get("version") != VERSION:
                raise InputError(f"{path}:{number}: version {value.get('version')!r} is not known")
            found.append(value)
    if not found:
        raise InputError(f"{path}: there are no results in the file")
    return found


def numbers(result: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """All metrics of a result with their path, such as ``jct.mean``."""
    for key, value in result.items():
        if not prefix and key in (*PAIRED, "unisono", "version", "config", "configHash", "nodes", "gpus"):
            continue
        if isinstance(value, Mapping):
            yield from numbers(value, f"{prefix}{key}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{prefix}{key}", float(value)


def read_jobs(path: Path) -> list[dict[str, Any]]:
    """Lines of a file that ``--jobs-out`` wrote.

    Raises:
        InputError: a line is no record of a job.

    """
    found = []
    with open_text(path) as lines:
        for number, line in enumerate(lines, start=1):
            try:
                value = msgspec.json.decode(line)
            except UNREADABLE as error:
                raise InputError(f"{path}:{number}: {error}") from None
            if not isinstance(value, dict) or not {"name", "state", "queue", "gpus"} <= value.keys():
                raise InputError(f"{path}:{number}: the line is no record of a job")
            found.append({"evictions": 0, "failures": 0, **value})
    return found
