"""Backups of a store, and what is done to a file that is damaged."""

from __future__ import annotations

import base64
import json
import os
import sqlite3
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from unisono.api.kinds import find
from unisono.apiserver.storage import files, inspection, schema
from unisono.apiserver.storage.database import OTHERWISE
from unisono.apiserver.storage.inspection import Judgement, Rejected, inspect, readable
from unisono.apiserver.storage.schema import ObjectRow, describe, kind_of, object_sum

# Salvage of a damaged data file, and going on without changes that are lost. The file must not be in use.

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
    findings: tuple[files.Finding, ...]
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
    files.finish_swaps(path)
    if not path.exists() or path.stat().st_size == 0:
        return None
    mark, log = files.read_mark(path), files.beside(path, "-wal").exists()
    _, judged = inspect(path, OTHERWISE)
    if not judged.findings:
        return None
    if not lossy:
        inspection.check(path, judged, mark, log=log)
    staged = files.stage(path, "damaged", now)
    first = max(judged.revision, mark.revision if mark else 0) + REVISION_GAP
    rows = _renumbered(judged.objects.values(), first)
    build(path, staged, rows, first + len(rows), (_quarantine(path, staged), judged.rejected))
    original = files.swap(path, staged)
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
    files.finish_swaps(path)
    mark, log = files.read_mark(path), files.beside(path, "-wal").exists()
    judged = Judgement({}, [], [], [], 0, 0, 0, running=False)
    try:
        if not path.exists() or path.stat().st_size == 0:
            inspection.check_empty(path, mark, log=log)
        else:
            _, judged = inspect(path, OTHERWISE)
            if judged.findings:
                raise files.DamagedStore(path, judged.findings, len(judged.objects))
            inspection.check(path, judged, mark, log=log)
    except files.LostWrites:
        staged = files.stage(path, "incomplete", now)
        first = max(judged.revision, mark.revision if mark else 0) + REVISION_GAP
        build(path, staged, judged.objects.values(), first)
        return files.swap(path, staged)
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
    temporary = files.beside(path, ".new")
    aside, rejected = quarantine or (None, [])
    with files.discarded_on_failure(temporary):
        files.create_private(temporary)
        with closing(sqlite3.connect(temporary, isolation_level=None)) as connection:
            schema.create(connection, revision)
            connection.execute("BEGIN")
            connection.executemany(schema.PUT_OBJECT, (row._replace(sum=object_sum(*row[:5])) for row in rows))
            connection.execute("COMMIT")
        files.sync(temporary)
        if aside is not None and rejected:
            _set_aside(aside, rejected)
        temporary.replace(staged)
        files.sync(path.parent)


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
    return files.beside(path, f".quarantine-{time}.jsonl")


def _set_aside(path: Path, rejected: list[Rejected]) -> None:
    """One JSON object a line: what it was, why it is not served, its page, and its columns."""
    with files.discarded_on_failure(path):
        files.create_private(path)
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


# Backups of the data file: one SQLite file, checked before it is trusted, put back without losing the old data.

_OTHERWISE = "name a file that 'unisono backup' wrote"


@dataclass(frozen=True, slots=True)
class Backup:
    """What a backup holds.

    Attributes:
        path: the file.
        version: schema version.
        revision: newest version of an object that was given when it was made.
        kinds: how many objects of each kind it has.
    """

    path: Path
    version: int
    revision: int
    kinds: dict[str, int]

    @property
    def objects(self) -> int:
        """How many objects it has."""
        return sum(self.kinds.values())


def check_backup(path: Path) -> Backup:
    """Read a backup, or a data file that is not in use, from beginning to end, and decode every object.

    Raises:
        DamagedStore: it is damaged; the findings name the objects.
        StoreError: it is not a backup, or was written by a newer version; the text says which.
    """
    return _checked(path)[0]


def restore_backup(source: Path, database: Path, now: datetime) -> tuple[Backup, Path | None]:
    """Put the objects of ``source`` in the place of ``database``; the database must not be in use meanwhile.

    The old data stays under another name. Versions go on far above the old and the restored ones, and watches that
    began before are told to list again.

    Args:
        source: a backup.
        database: the data file; need not exist.
        now: for the name of the old data.

    Returns:
        What was restored, and where the old data is now, if there was any.

    Raises:
        StoreError: the backup is not usable, or the database is in use; the old data is in its place.
        OSError, sqlite3.Error: the disk refuses; as before.
    """
    backup, judged = _checked(source)
    database.parent.mkdir(parents=True, exist_ok=True)
    if database.is_dir():
        raise files.StoreError(f"{database} is a directory: move it away, or choose another data directory")
    files.finish_swaps(database)
    staged = files.stage(database, "before-restore", now)
    build(database, staged, judged.objects.values(), max(judged.revision, _newest(database)) + REVISION_GAP)
    return backup, files.swap(database, staged)


def _checked(path: Path) -> tuple[Backup, Judgement]:
    if not path.is_file():
        raise files.StoreError(f"{path} does not exist or is not a file: {_OTHERWISE}")
    log = path.with_name(f"{path.name}-wal").exists()
    contents, judged = inspect(path, _OTHERWISE, alone=not log)
    inspection.check(path, judged, files.read_mark(path), log=log)
    findings = [*judged.findings, *filter(None, map(_undecodable, judged.objects.values()))]
    if findings:
        raise files.DamagedStore(path, findings, len(judged.objects))
    kinds = Counter(kind_of(key[0]) for key in judged.objects)
    return Backup(path, contents.version, judged.revision, dict(sorted(kinds.items()))), judged


class _Type(msgspec.Struct):
    apiVersion: str = ""  # noqa: N815  # as JSON has it
    kind: str = ""


def _undecodable(row: ObjectRow) -> files.Finding | None:
    head = msgspec.json.decode(row.data, type=_Type)
    kind = find(head.apiVersion, head.kind)
    try:
        msgspec.json.decode(row.data, type=kind.struct if kind else dict)
    except msgspec.DecodeError as error:
        return files.Finding(describe(row.key), f"its value is no {head.kind or 'object'} ({error})", lost=True)
    return None


def _newest(database: Path) -> int:
    """The newest version that the old data has given, as far as it can be read."""
    mark = files.read_mark(database)
    marked_revision = mark.revision if mark else 0
    if not database.exists():
        return marked_revision
    try:
        return max(marked_revision, inspect(database, "")[1].revision)
    except files.StoreInUse:
        raise
    except files.StoreError:
        return marked_revision  # broken data is moved away as it is
