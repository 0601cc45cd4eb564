"""Raw SQLite on the same disk: what the embedded API is compared with."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

_TABLE = "CREATE TABLE objects (name TEXT PRIMARY KEY, revision INTEGER NOT NULL, data BLOB NOT NULL)"


class RawSQLite:
    """One table of objects in WAL mode with ``synchronous=FULL``, as the store has it; one thread, no HTTP, no JSON."""

    def __init__(self, folder: Path) -> None:
        self._database = sqlite3.connect(folder / "raw.db", isolation_level=None)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=FULL")
        self._database.execute(_TABLE)

    def creates(self, number: int, data: bytes) -> float:
        """Durable inserts per second, each in a transaction of its own."""
        start = time.perf_counter()
        for index in range(number):
            self._database.execute("INSERT INTO objects VALUES (?, ?, ?)", (f"pod-{index:06}", index, data))
        return number / (time.perf_counter() - start)

    def updates(self, number: int, data: bytes) -> float:
        """Durable updates per second of the rows that ``creates`` made; the revision changes, or nothing is written."""
        start = time.perf_counter()
        for index in range(number):
            name = f"pod-{index:06}"
            self._database.execute(
                "UPDATE objects SET revision = ?, data = ? WHERE name = ?", (number + index, data, name)
            )
        return number / (time.perf_counter() - start)

    def listed(self, number: int, data: bytes) -> float:
        """Rows per second of reading a table of ``number`` rows into one JSON list."""
        rows = [(f"list-{index:06}", index, data) for index in range(number)]
        self._database.execute("BEGIN")
        self._database.executemany("INSERT OR REPLACE INTO objects VALUES (?, ?, ?)", rows)
        self._database.execute("COMMIT")
        query = "SELECT data FROM objects WHERE name >= 'list-' AND name < 'list.' ORDER BY name"
        best = float("inf")
        for _ in range(3):
            start = time.perf_counter()
            b'{"items":[' + b",".join(row[0] for row in self._database.execute(query)) + b"]}"
            best = min(best, time.perf_counter() - start)
        return number / best

    def close(self) -> None:
        """Close the file."""
        self._database.close()
