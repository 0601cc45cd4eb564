"""The data file of a control plane that is stopped: repair, going on after a loss, and which backups there are."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from unisono.apiserver.storage.backup import Repair, accept_loss, repair
from unisono.apiserver.storage.files import DamagedStore, LostWrites, StoreError
from unisono.errors import UnisonoError
from unisono.standalone.paths import DataDir

# How many backups are remembered and listed.
_REMEMBERED = 20


@contextmanager
def with_advice(data: DataDir) -> Iterator[None]:
    """Add to what is said of a damaged or incomplete store how to go on, and which backups there are.

    Raises:
        StoreError: the same, with the ways out.
    """
    try:
        yield
    except DamagedStore as error:
        ways = (
            "'unisono up --repair' sets aside what cannot be read and serves the rest; "
            "'unisono restore FILE' goes back to a backup."
        )
        raise StoreError(f"{error}\n{ways}\n{told_backups(data)}") from error
    except LostWrites as error:
        raise StoreError(f"{error}\n{told_backups(data)}") from error


def prepare(data: DataDir, *, set_aside: bool, lossy: bool) -> list[str]:
    """Repair the store, or let it go on without what is lost.

    Args:
        data: its directory; nothing runs there.
        set_aside: set aside what is damaged, and keep the rest.
        lossy: go on without acknowledged changes that are missing.

    Returns:
        What was done, in lines.

    Raises:
        AlreadyRunning: a control plane runs.
        StoreError: it cannot be done; the store is as it was.
    """
    now = datetime.now(UTC)
    lines: list[str] = []
    with data.acquire("repair"), with_advice(data):
        try:
            if set_aside:
                done = repair(data.database, now, lossy=lossy)
                lines += [f"{data.database} is not damaged."] if done is None else _told(done)
            if lossy:
                kept = accept_loss(data.database, now)
                if kept is not None:
                    lines.append(f"Going on without the changes that are missing; the store as it was: {kept}")
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"{data.database} cannot be repaired ({error}); it is as it was") from error
    return lines + ([told_backups(data)] if set_aside and lines and "not damaged" not in lines[0] else [])


def remember_backup(data: DataDir, path: Path) -> None:
    """Note that a backup was made, for users who need one later."""
    if not data.root.is_dir():
        return
    paths = [each for each in _noted(data) if each != path] + [path]
    text = "".join(json.dumps({"path": str(each)}) + "\n" for each in paths[-_REMEMBERED:])
    try:
        data.backups.write_text(text)
    except OSError as error:
        raise UnisonoError(f"the backup is made, but {data.backups} cannot be written ({error.strerror})") from error


def told_backups(data: DataDir) -> str:
    """The backups that are still there, newest first, with their age."""
    own = [each for each in data.root.glob(f"{data.database.name}.*-*") if ".before-restore-" in each.name]
    backups = [each for each in {*_noted(data), *own} if each.is_file() and not each.name.endswith(("-wal", "-shm"))]
    if not backups:
        return "No backup of it is known on this machine."
    now = datetime.now(UTC).timestamp()
    backups.sort(key=lambda each: each.stat().st_mtime, reverse=True)
    lines = [f"  {each} ({_age(now - each.stat().st_mtime)} old)" for each in backups[:_REMEMBERED]]
    return "Backups (check one with 'unisono backup --verify FILE'):\n" + "\n".join(lines)


def _noted(data: DataDir) -> list[Path]:
    try:
        lines = data.backups.read_text().splitlines()
        return [Path(json.loads(line)["path"]) for line in lines]
    except (OSError, ValueError, KeyError, TypeError):
        return []  # a list for convenience: it must not be in the way of a repair


def _told(done: Repair) -> list[str]:
    lines = [f"Repaired: {done.objects} objects are served.", *(f"  {finding}" for finding in done.findings)]
    if done.quarantine is not None:
        lines.append(f"Set aside, with raw bytes: {done.quarantine}")
    return [*lines, f"The store as it was: {done.original}"]


def _age(seconds: float) -> str:
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} seconds"
