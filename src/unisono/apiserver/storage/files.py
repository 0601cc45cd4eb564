"""Files that are made whole or not at all, and the swap of a data file that a crash cannot leave half done."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

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
