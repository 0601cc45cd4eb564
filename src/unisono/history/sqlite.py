"""The history in a file of SQLite: of one machine."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import quote

from unisono.history.storage import HistoryError, Parameters, Row

_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class SqliteFile:
    """The file at ``path``, readable by its owner alone."""

    failures: tuple[type[Exception], ...] = (sqlite3.Error,)
    # Beside the interpreter: rows of others cost nothing.
    in_texts = "IN (SELECT value FROM json_each(:places))"
    table_end = " WITHOUT ROWID"
    locked = ""
    shared = False

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = str(path)

    def writer(self) -> SqliteConnection:
        """Open or create the file.

        Raises:
            HistoryError: its directory cannot be written.
        """
        try:
            self.path.touch(mode=0o600)
        except OSError as error:
            raise HistoryError(f"{self.path} cannot be opened ({error.strerror}): check its directory") from error
        return SqliteConnection(sqlite3.connect(self.path, isolation_level=None, timeout=5.0, check_same_thread=False))

    def reader(self) -> SqliteConnection:
        """Open the file for reading; each call makes a connection of its own, so that it may be in any thread."""
        connection = sqlite3.connect(f"file:{quote(str(self.path))}?mode=ro", uri=True, isolation_level=None)
        connection.execute("BEGIN")
        return SqliteConnection(connection)

    def set_aside(self, error: Exception) -> str:
        """Move a damaged file away; only the last one is kept."""
        if getattr(error, "sqlite_errorcode", 0) not in _DAMAGED:
            return ""
        for end in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                self._beside(end).replace(self._beside(f".damaged{end}"))
        return str(self._beside(".damaged"))

    def _beside(self, end: str) -> Path:
        return self.path.with_name(self.path.name + end)


class SqliteConnection:
    """A connection to the file."""

    def __init__(self, raw: sqlite3.Connection) -> None:
        self.raw = raw

    def rows(self, query: str, parameters: Parameters = ()) -> Iterator[Row]:
        """Rows of a query."""
        return self.raw.execute(query, parameters)

    def one(self, query: str, parameters: Parameters = ()) -> Row | None:
        """The first row."""
        row: Row | None = self.raw.execute(query, parameters).fetchone()
        return row

    def execute(self, query: str, parameters: Parameters = ()) -> None:
        """Carry out a statement."""
        self.raw.execute(query, parameters)

    def executemany(self, query: str, rows: Iterable[Parameters]) -> None:
        """Carry out a statement for each row."""
        self.raw.executemany(query, rows)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All statements within it, or none."""
        self.raw.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.raw.execute("COMMIT")
        except BaseException:
            if self.raw.in_transaction:
                self.raw.execute("ROLLBACK")
            raise

    def prepare(self) -> None:
        """Set how the file is written."""
        # Pages that compaction empties go back to the disk; without effect once there are tables.
        self.raw.execute("PRAGMA auto_vacuum = INCREMENTAL")
        self.raw.execute("PRAGMA journal_mode = WAL")
        # What a power failure takes with it is heard of again, like what was not stored yet.
        self.raw.execute("PRAGMA synchronous = NORMAL")

    def version(self) -> int:
        """As the file's header has it."""
        (number,) = self.raw.execute("PRAGMA user_version").fetchone()
        return int(number)

    def set_version(self, version: int) -> None:
        """Write it into the file's header."""
        self.raw.execute(f"PRAGMA user_version = {version:d}")

    def size(self) -> int:
        """Bytes of the file, without pages that are free."""
        # As a script: execute() would give back a single page.
        self.raw.executescript("PRAGMA incremental_vacuum")
        (pages,), (size,) = (self.raw.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "page_size"))
        return int(pages) * int(size)

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(sqlite3.Error):
            self.raw.close()
