"""Backups of the data file: one SQLite file, checked before it is trusted, put back without losing the old data."""

from __future__ import annotations

import contextlib
import itertools
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec

from unisono.apiserver.storage.database import APPLICATION_ID, SCHEMA_VERSION, Database, StoreError

# Clients may have seen versions that the backup does not know; none of them may come again for something else.
_REVISION_GAP = 1_000_000
_SUFFIXES = ("", "-wal", "-shm", "-journal")


@dataclass(frozen=True, slots=True)
class Backup:
    """What a backup holds."""

    path: Path
    revision: int
    objects: int


def copy_database(connection: sqlite3.Connection, path: Path) -> None:
    """Write a copy of an open database to ``path``, readable by its owner alone, and on disk when this returns.

    Raises:
        OSError, sqlite3.Error: there is no new file, and an old one is as it was.

    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with _discarded_on_failure(temporary):
        _create_private(temporary)
        with closing(sqlite3.connect(temporary, isolation_level=None)) as target:
            connection.backup(target)
            # A copy of a database in WAL mode says that it is one; alone in a file it must not.
            target.execute("PRAGMA journal_mode = DELETE")
        _sync(temporary)
        temporary.replace(path)
        _sync(path.parent)


def check_backup(path: Path) -> Backup:
    """Read a backup from beginning to end.

    Raises:
        StoreError: it is not a backup, is damaged, or was written by another version; the text says which.

    """
    if not path.is_file():
        raise StoreError(f"{path} does not exist or is not a file: name a file that 'unisono backup' wrote")
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as connection:
            _check_identity(connection, path)
            problems = [row[0] for row in connection.execute("PRAGMA integrity_check(3)") if row[0] != "ok"]
            if problems:
                raise StoreError(f"{path} is damaged ({'; '.join(problems)}): use another backup")
            revision = connection.execute("SELECT value FROM meta WHERE key = 'revision'").fetchone()[0]
            count = 0
            for resource, name, data in connection.execute("SELECT resource, name, data FROM objects"):
                _check_object(path, resource, name, data)
                count += 1
    except sqlite3.Error as error:
        raise StoreError(f"{path} is not a backup of Unisono, or is damaged ({error}): use another file") from error
    return Backup(path, int(revision), count)


def restore_backup(source: Path, database: Path, now: datetime) -> tuple[Backup, Path | None]:
    """Put a checked copy of ``source`` in the place of ``database``; nobody may use the database meanwhile.

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
        OSError: the disk refuses; as before.

    """
    backup = check_backup(source)
    database.parent.mkdir(parents=True, exist_ok=True)
    temporary = database.with_name(f".{database.name}.restoring")
    with _discarded_on_failure(temporary):
        temporary.unlink(missing_ok=True)
        with closing(sqlite3.connect(f"file:{source}?mode=ro&immutable=1", uri=True)) as connection:
            copy_database(connection, temporary)
        _start_above(temporary, max(backup.revision, _settle(database)))
        check_backup(temporary)
        kept = _keep(database, now)
        temporary.replace(database)
        _sync(database.parent)
    return backup, kept


def _check_identity(connection: sqlite3.Connection, path: Path) -> None:
    application, version = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
    )
    if application != APPLICATION_ID:
        raise StoreError(f"{path} is not a backup of Unisono: name a file that 'unisono backup' wrote")
    if version != SCHEMA_VERSION:
        raise StoreError(
            f"{path} has schema version {version}, this Unisono reads version {SCHEMA_VERSION}: "
            "restore it with the Unisono that wrote it"
        )


def _check_object(path: Path, resource: str, name: str, data: bytes) -> None:
    try:
        value = msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise StoreError(f"{path} holds a broken object, {resource} {name} ({error}): use another backup") from error
    if not isinstance(value, dict) or value.get("metadata", {}).get("name") != name:
        raise StoreError(f"{path} holds a broken object, {resource} {name}: use another backup")


def _settle(database: Path) -> int:
    """Fold the old data's log into its file, so that one rename moves it; answers its newest version."""
    if not database.exists():
        return 0
    old = Database(database)
    try:
        old.open()
        return old.load().revision
    except StoreError as error:
        if "in use" in str(error):
            raise
        return 0  # broken data is moved away as it is
    finally:
        old.close()


def _start_above(path: Path, revision: int) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        first = revision + _REVISION_GAP
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("DELETE FROM events")
        connection.execute("UPDATE meta SET value = ?", (first,))  # both: the newest version, and the oldest kept
        connection.execute("COMMIT")
    _sync(path)


def _keep(database: Path, now: datetime) -> Path | None:
    """Give the old data a second name, so that the first can be replaced in one step."""
    if not database.exists():
        return None
    stem = f"{database.name}.before-restore-{now:%Y%m%dT%H%M%S}"
    names = (database.with_name(f"{stem}-{number}" if number else stem) for number in itertools.count())
    kept = next(path for path in names if not path.exists())
    for suffix in _SUFFIXES[1:]:
        # Left only by data that is damaged: beside the new file they would be taken for its own.
        part = database.with_name(database.name + suffix)
        if part.exists():
            part.replace(kept.with_name(kept.name + suffix))
    os.link(database, kept)
    return kept


def _create_private(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _discarded_on_failure(path: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        for suffix in _SUFFIXES:
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        raise
