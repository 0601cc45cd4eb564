"""Copies an open database to a file of its own."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from unisono.apiserver.storage.files import create_private, discarded_on_failure, sync


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
