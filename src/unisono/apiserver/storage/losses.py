"""Whether a data file holds every change that was acknowledged, as far as that can be proven.

Two witnesses: the file itself says since its opening that it runs, so that without its write-ahead log it is
incomplete; and the marker beside it (``marker``) has the newest acknowledged revision.
"""

from __future__ import annotations

from pathlib import Path

from unisono.apiserver.storage.errors import LostWrites
from unisono.apiserver.storage.judgement import Judgement
from unisono.apiserver.storage.marker import Mark

_WAYS = "put the missing file back, restore a backup with 'unisono restore FILE', or go on without with"
_ACCEPT = "'unisono up --accept-loss'"


def check(path: Path, judged: Judgement, mark: Mark | None, *, log: bool) -> None:
    """Compare a file that was read with what is known of it.

    Args:
        path: the data file.
        judged: what it holds.
        mark: what the marker beside it says.
        log: whether a write-ahead log was beside it.

    Raises:
        LostWrites: acknowledged changes are missing, or nothing shows that none are.

    """
    known = mark if mark is not None and mark.store == judged.store else None
    if known is not None and known.revision > judged.revision:
        log_name = "" if log else f", and its write-ahead log {path.name}-wal is missing"
        raise LostWrites(
            f"{path} ends at revision {judged.revision}, but changes up to revision {known.revision} were acknowledged"
            f"{log_name}: {_WAYS} {_ACCEPT}."
        )
    if judged.running and not log and known is None:
        raise LostWrites(
            f"{path} was not closed, and its write-ahead log {path.name}-wal is missing; the newest changes, up to "
            f"some thousand, may be lost: {_WAYS} {_ACCEPT}."
        )


def check_empty(path: Path, mark: Mark | None, *, log: bool) -> None:
    """The same where there is no file, or an empty one.

    Raises:
        LostWrites: there was a store.

    """
    state = "is empty" if path.exists() else "is missing"
    if mark is not None and mark.revision:
        raise LostWrites(
            f"{path} {state}, but changes up to revision {mark.revision} were acknowledged: {_WAYS} {_ACCEPT}."
        )
    if log and path.with_name(f"{path.name}-wal").stat().st_size:
        raise LostWrites(f"{path} {state}, but its write-ahead log {path.name}-wal is there: {_WAYS} {_ACCEPT}.")
