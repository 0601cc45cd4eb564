"""The rows of the group ``api``."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

from benchmarks.api import placing, start, watching
from benchmarks.api.load import AT_ONCE, MERGE, PODS, checked, per_second, pod
from benchmarks.api.serving import Server, api_alone
from benchmarks.measure import Row


def api_rows(scale: float) -> Iterator[Row]:
    """All rows at ``scale`` times their sizes; they use the disk of the temporary directory (``TMPDIR``)."""
    with asyncio.Runner() as runner, tempfile.TemporaryDirectory(prefix="unisono-bench-") as folder:
        found = _rows(Path(folder), scale)
        while True:
            try:
                yield runner.run(anext(found))  # type: ignore[arg-type]
            except StopAsyncIteration:
                return


async def _rows(folder: Path, scale: float) -> AsyncIterator[Row]:
    number = max(int(10_000 * scale), 100)
    raw = RawSQLite(folder)
    async with api_alone(folder / "api") as server:
        async for row in _objects(server, raw, number):
            yield row
        async for row in watching.rows(server, watchers=200, changes=max(int(100 * scale), 10)):
            yield row
    raw.close()
    async for row in placing.rows(folder / "plane", nodes=max(number // 10, 10), pods=number):
        yield row
    yield await start.row(folder / "start", number * 10)


async def _objects(server: Server, raw: RawSQLite, number: int) -> AsyncIterator[Row]:
    client = server.client
    await per_second([partial(checked, client, "GET", PODS)] * AT_ONCE * 2)  # connections are opened
    before = server.resident()
    bodies = [pod(f"pod-{index:06}") for index in range(number)]
    posts = (partial(checked, client, "POST", PODS, body=body) for body in bodies)
    creates = await per_second(posts)
    bytes_each = (server.resident() - before) / number
    stored = await checked(client, "GET", f"{PODS}/pod-000000")
    base = raw.creates(min(number, 2_000), stored)
    yield _beside(f"durable creates, {AT_ONCE} clients", creates, base, f"{number:,} pods of {len(stored):,} bytes")
    patch = b'{"metadata":{"labels":{"round":"2"}}}'
    patches = (
        partial(checked, client, "PATCH", f"{PODS}/pod-{index:06}", body=patch, content_type=MERGE)
        for index in range(number)
    )
    yield _beside(
        f"durable patches, {AT_ONCE} clients", await per_second(patches), raw.updates(min(number, 2_000), stored)
    )
    lists = await per_second([partial(checked, client, "GET", PODS)] * 5, at_once=1)
    yield _beside(f"lists of {number:,} pods", lists * number, raw.listed(number, stored), unit="pods/s")
    gets = await per_second([partial(checked, client, "GET", f"{PODS}/pod-000000")] * number)
    yield Row(f"reads of one pod, {AT_ONCE} clients", gets, "1/s")
    note = f"growth of the process by {number:,} creates, history of changes included"
    yield Row("memory of a stored pod", bytes_each / 1024, "KiB", None, "less", note)


def _beside(name: str, value: float, raw: float, note: str = "", unit: str = "1/s") -> Row:
    beside = f"{value / raw:.2g} of raw SQLite ({raw:,.0f} {unit})"
    return Row(name, value, unit, note=f"{beside}; {note}" if note else beside)


# Raw SQLite on the same disk: what the embedded API is compared with.


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
