"""Salvage of a damaged data file, and going on without changes that are lost. The file must not be in use."""

from __future__ import annotations

import base64
import json
import os
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from unisono.apiserver.storage import inspection, schema
from unisono.apiserver.storage.database import OTHERWISE
from unisono.apiserver.storage.files import (
    DamagedStore,
    Finding,
    LostWrites,
    beside,
    create_private,
    discarded_on_failure,
    finish_swaps,
    read_mark,
    stage,
    swap,
    sync,
)
from unisono.apiserver.storage.inspection import Judgement, Rejected, inspect, readable
from unisono.apiserver.storage.schema import ObjectRow, object_sum

# Clients may have seen versions that are not in the file; none of them may come again for something else.
REVISION_GAP = 1_000_000


@dataclass(frozen=True, slots=True)
class Repair:
    """What was done.

    Attributes:
        objects: how many are served.
        findings: what was wrong.
        quarantine: what is not served, with its raw bytes; None where there is nothing of the kind.
        original: the file as it was, with its log beside it.
    """

    objects: int
    findings: tuple[Finding, ...]
    quarantine: Path | None
    original: Path


def repair(path: Path, now: datetime, *, lossy: bool = False) -> Repair | None:
    """Make a whole data file of the rows of a damaged one that can be believed.

    Args:
        path: the data file.
        now: for the names of the original and of the quarantine.
        lossy: also where acknowledged changes are missing.

    Returns:
        What was done; None where nothing is wrong.

    Raises:
        LostWrites: acknowledged changes are missing, and ``lossy`` does not allow it.
        StoreError: it is no data file, of a newer version, or in use.
        OSError, sqlite3.Error: the disk refuses; everything is as it was.

    """
    readable(path, OTHERWISE)
    finish_swaps(path)
    if not path.exists() or path.stat().st_size == 0:
        return None
    mark, log = read_mark(path), beside(path, "-wal").exists()
    _, judged = inspect(path, OTHERWISE)
    if not judged.findings:
        return None
    if not lossy:
        inspection.check(path, judged, mark, log=log)
    staged = stage(path, "damaged", now)
    first = max(judged.revision, mark.revision if mark else 0) + REVISION_GAP
    rows = _renumbered(judged.objects.values(), first)
    build(path, staged, rows, first + len(rows), (_quarantine(path, staged), judged.rejected))
    original = swap(path, staged)
    assert original is not None
    quarantine = _quarantine(path, staged) if judged.rejected else None
    return Repair(len(judged.objects), tuple(judged.findings), quarantine, original)


def accept_loss(path: Path, now: datetime) -> Path | None:
    """Let a store that lacks acknowledged changes be opened; its versions go on far above all that were given.

    Returns:
        Where the file as it was is now; None where nothing is missing, or there was no file.

    Raises:
        DamagedStore: it is damaged as well; repair it first.
        StoreError: as ``repair``.
        OSError, sqlite3.Error: the disk refuses; everything is as it was.

    """
    readable(path, OTHERWISE)
    finish_swaps(path)
    mark, log = read_mark(path), beside(path, "-wal").exists()
    judged = Judgement({}, [], [], [], 0, 0, 0, running=False)
    try:
        if not path.exists() or path.stat().st_size == 0:
            inspection.check_empty(path, mark, log=log)
        else:
            _, judged = inspect(path, OTHERWISE)
            if judged.findings:
                raise DamagedStore(path, judged.findings, len(judged.objects))
            inspection.check(path, judged, mark, log=log)
    except LostWrites:
        staged = stage(path, "incomplete", now)
        first = max(judged.revision, mark.revision if mark else 0) + REVISION_GAP
        build(path, staged, judged.objects.values(), first)
        return swap(path, staged)
    return None


def build(
    path: Path,
    staged: Path,
    rows: Iterable[ObjectRow],
    revision: int,
    quarantine: tuple[Path, list[Rejected]] | None = None,
) -> None:
    """Write a new data file to ``staged``, complete and on disk, and what is set aside before it.

    Raises:
        OSError, sqlite3.Error: neither is there.

    """
    temporary = beside(path, ".new")
    aside, rejected = quarantine or (None, [])
    with discarded_on_failure(temporary):
        create_private(temporary)
        with closing(sqlite3.connect(temporary, isolation_level=None)) as connection:
            schema.create(connection, revision)
            connection.execute("BEGIN")
            connection.executemany(schema.PUT_OBJECT, (row._replace(sum=object_sum(*row[:5])) for row in rows))
            connection.execute("COMMIT")
        sync(temporary)
        if aside is not None and rejected:
            _set_aside(aside, rejected)
        temporary.replace(staged)
        sync(path.parent)


def _renumbered(rows: Iterable[ObjectRow], revision: int) -> list[ObjectRow]:
    """``rows`` with versions above ``revision`` for those whose version another row has too."""
    seen: set[int] = set()
    result = []
    for row in rows:
        if row.revision in seen:
            revision += 1
            value = msgspec.json.decode(row.data)
            value["metadata"]["resourceVersion"] = str(revision)
            row = row._replace(revision=revision, data=msgspec.json.encode(value))  # noqa: PLW2901
        seen.add(row.revision)
        result.append(row)
    return result


def _quarantine(path: Path, staged: Path) -> Path:
    time = staged.name.partition("damaged-")[2]
    return beside(path, f".quarantine-{time}.jsonl")


def _set_aside(path: Path, rejected: list[Rejected]) -> None:
    """One JSON object a line: what it was, why it is not served, its page, and its columns."""
    with discarded_on_failure(path):
        create_private(path)
        with path.open("w", encoding="utf-8") as file:
            for each in rejected:
                columns = [_plain(value) for value in each.row]
                line = {"object": each.what, "why": each.why, "page": each.page or None, "columns": columns}
                file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())


def _plain(value: Any) -> Any:
    """Bytes as base64: they are what was damaged, so that they need not be text."""
    return {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value
