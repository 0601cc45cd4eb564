"""Files beside and of the store: made whole or not at all, and what is said of a data file that cannot be used."""

from __future__ import annotations

import contextlib
import itertools
import os
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from unisono.errors import UnisonoError

# Files that are made whole or not at all, and the swap of a data file that a crash cannot leave half done.

SUFFIXES = ("", "-wal", "-shm", "-journal")
_STAGED = ".replacing-"


def beside(path: Path, suffix: str) -> Path:
    """The file whose name is that of ``path`` and ``suffix``."""
    return path.with_name(path.name + suffix)


def stage(database: Path, label: str, now: datetime) -> Path:
    """A free name under which new data waits to replace ``database``; the old data becomes ``NAME.LABEL-TIME``."""
    stem = f"{label}-{now:%Y%m%dT%H%M%S}"
    labels = (f"{stem}-{number}" if number else stem for number in itertools.count())
    free = next(each for each in labels if not beside(database, f".{each}").exists())
    return beside(database, _STAGED + free)


def swap(database: Path, staged: Path) -> Path | None:
    """Put ``staged``, complete and on disk, in the place of ``database``; the old data is kept under another name.

    As long as ``staged`` is there, ``finish_swaps`` completes what a crash interrupted: the log of the old data never
    comes to stand beside the new.

    Returns:
        Where the old data is, if there was any.

    Raises:
        OSError: the old data is in its place or the swap is completed by the next ``finish_swaps``.
    """
    kept = beside(database, f".{staged.name.removeprefix(database.name + _STAGED)}")
    for suffix in SUFFIXES[1:]:
        with contextlib.suppress(FileNotFoundError):
            beside(database, suffix).rename(beside(kept, suffix))
    # Not a rename: at every moment there is a file of this name.
    with contextlib.suppress(FileNotFoundError, FileExistsError):
        os.link(database, kept)
    staged.replace(database)
    sync(database.parent)
    return kept if kept.exists() else None


def finish_swaps(database: Path) -> None:
    """Complete a swap that a crash interrupted.

    Raises:
        OSError: the disk refuses.
    """
    for staged in list(database.parent.iterdir()):
        if staged.name.startswith(database.name + _STAGED):
            swap(database, staged)


def create_private(path: Path) -> None:
    """Make an empty file for its owner alone, in place of one that is there."""
    path.unlink(missing_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def sync(path: Path) -> None:
    """Bring a file or a directory to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def discarded_on_failure(path: Path) -> Iterator[None]:
    """Take ``path`` and what SQLite puts beside it away when the block fails."""
    try:
        yield
    except BaseException:
        for suffix in SUFFIXES:
            beside(path, suffix).unlink(missing_ok=True)
        raise


# How many findings a message lists.
_LISTED = 20


class StoreError(UnisonoError):
    """The data file cannot be used; the message names it and says what to do."""


class DiskFullError(StoreError):
    """There is no room for a change; nothing of it was stored, and the file is as it was."""


class StoreInUse(StoreError):
    """Another process has the data file open."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        what: ``ConfigMap default/a``, ``history`` or ``file``.
        why: what is wrong with it.
        lost: an object that cannot be served as it was last stored.
    """

    what: str
    why: str
    lost: bool = False

    def __str__(self) -> str:
        return f"{self.what}: {self.why}"


class DamagedStore(StoreError):
    """The data file is damaged; ``findings`` say where."""

    def __init__(self, path: Path | str, findings: Sequence[Finding], objects: int) -> None:
        self.path, self.findings, self.objects = Path(path), tuple(findings), objects
        lost = sum(finding.lost for finding in findings)
        count = f"{lost} of {objects + lost} objects cannot be read" if lost else "every object can be read"
        ordered = sorted(findings, key=lambda finding: not finding.lost)
        lines = [f"  {finding}" for finding in ordered[:_LISTED]]
        if len(findings) > _LISTED:
            lines.append(f"  and {len(findings) - _LISTED} more")
        super().__init__(f"{path} is damaged; {count}, nothing was changed:\n" + "\n".join(lines))


class LostWrites(StoreError):
    """The data file lacks changes that were acknowledged."""


# Copies an open database to a file of its own.


def copy_database(connection: sqlite3.Connection, path: Path) -> None:
    """Write a copy of an open database to ``path``, readable by its owner alone, and on disk when this returns.

    Raises:
        OSError, sqlite3.Error: there is no new file, and an old one is as it was.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    with discarded_on_failure(temporary):
        create_private(temporary)
        with closing(sqlite3.connect(temporary, isolation_level=None)) as target:
            connection.backup(target)
            # A copy of a database in WAL mode says that it is one; alone in a file it must not. And it is complete.
            target.execute("PRAGMA journal_mode = DELETE")
            # One of schema version 1 has no such row; then nothing is changed.
            target.execute("UPDATE meta SET value = 0 WHERE key = 'running'")
        sync(temporary)
        temporary.replace(path)
        sync(path.parent)


# The newest acknowledged revision, in a small file beside the data: what the data file and its log must still hold.
#
# It is overwritten in place after each commit, and synced only when the store is opened and closed. The system keeps it
# when the process dies; after a power failure it may be some seconds old. So it never claims more than was
# acknowledged.

SUFFIX = "-acknowledged"


class Mark(NamedTuple):
    """What a marker says: of which store, and at least which revision was acknowledged."""

    store: int
    revision: int


def read_mark(database: Path) -> Mark | None:
    """The mark beside ``database``; None where there is none, or a torn one, which proves nothing."""
    try:
        text = marker_path(database).read_bytes()
    except OSError:
        return None
    body, _, check = text.partition(b"\n")[0].rpartition(b" ")
    words = body.split()
    if len(words) != 3 or words[0] != b"unisono" or check != _check(body):
        return None
    return Mark(int(words[1], 16), int(words[2]))


def marker_path(database: Path) -> Path:
    """Where the marker of ``database`` is."""
    return database.with_name(database.name + SUFFIX)


class Marker:
    """The marker of an open store; one thread uses it."""

    def __init__(self, database: Path, store: int) -> None:
        self._store = store
        self._file = os.open(marker_path(database), os.O_WRONLY | os.O_CREAT, 0o600)

    def note(self, revision: int) -> None:
        """Write that everything up to ``revision`` is acknowledged."""
        body = b"unisono %016x %020d" % (self._store, revision)
        # A mark that is older than the truth is still true: a write must not fail for it.
        with contextlib.suppress(OSError):
            os.pwrite(self._file, b"%s %s\n" % (body, _check(body)), 0)

    def sync(self) -> None:
        """Bring it to the disk."""
        with contextlib.suppress(OSError):
            os.fsync(self._file)

    def close(self) -> None:
        """Bring it to the disk and close it."""
        self.sync()
        os.close(self._file)


def _check(body: bytes) -> bytes:
    return b"%08x" % zlib.crc32(body)
