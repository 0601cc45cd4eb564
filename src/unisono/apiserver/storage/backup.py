"""Backups of the data file: one SQLite file, checked before it is trusted, put back without losing the old data."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec

from unisono.api.kinds import find
from unisono.apiserver.storage import inspection
from unisono.apiserver.storage.files import (
    DamagedStore,
    Finding,
    StoreError,
    StoreInUse,
    finish_swaps,
    read_mark,
    stage,
    swap,
)
from unisono.apiserver.storage.inspection import Judgement, inspect
from unisono.apiserver.storage.repair import REVISION_GAP, build
from unisono.apiserver.storage.schema import ObjectRow, describe, kind_of

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
        raise StoreError(f"{database} is a directory: move it away, or choose another data directory")
    finish_swaps(database)
    staged = stage(database, "before-restore", now)
    build(database, staged, judged.objects.values(), max(judged.revision, _newest(database)) + REVISION_GAP)
    return backup, swap(database, staged)


def _checked(path: Path) -> tuple[Backup, Judgement]:
    if not path.is_file():
        raise StoreError(f"{path} does not exist or is not a file: {_OTHERWISE}")
    log = path.with_name(f"{path.name}-wal").exists()
    contents, judged = inspect(path, _OTHERWISE, alone=not log)
    inspection.check(path, judged, read_mark(path), log=log)
    findings = [*judged.findings, *filter(None, map(_undecodable, judged.objects.values()))]
    if findings:
        raise DamagedStore(path, findings, len(judged.objects))
    kinds = Counter(kind_of(key[0]) for key in judged.objects)
    return Backup(path, contents.version, judged.revision, dict(sorted(kinds.items()))), judged


class _Type(msgspec.Struct):
    apiVersion: str = ""  # noqa: N815  # as JSON has it
    kind: str = ""


def _undecodable(row: ObjectRow) -> Finding | None:
    head = msgspec.json.decode(row.data, type=_Type)
    kind = find(head.apiVersion, head.kind)
    try:
        msgspec.json.decode(row.data, type=kind.struct if kind else dict)
    except msgspec.DecodeError as error:
        return Finding(describe(row.key), f"its value is no {head.kind or 'object'} ({error})", lost=True)
    return None


def _newest(database: Path) -> int:
    """The newest version that the old data has given, as far as it can be read."""
    mark = read_mark(database)
    known = mark.revision if mark else 0
    if not database.exists():
        return known
    try:
        return max(known, inspect(database, "")[1].revision)
    except StoreInUse:
        raise
    except StoreError:
        return known  # broken data is moved away as it is
