"""The file of the history: what a ledger stores, what it starts from, and how old records become sums.

Only one thread uses a ``Database``; readers open the file beside it (``unisono.history.reading``). Records, and how far
the API server was followed, are stored in one transaction: a crash loses what was not stored, which the server then
tells again, and nothing counts twice.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unisono.errors import UnisonoError
from unisono.history import schema
from unisono.history.hours import HOUR, hour_of, hours_of_interval, hours_of_job
from unisono.history.records import Changes, Hour, Memory

_DAY = 24 * HOUR
# Records that become sums in one transaction.
_CHUNK = 5000
_SMALLEST_DETAIL = HOUR


class HistoryError(UnisonoError):
    """The file of the history cannot be used."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much is kept.

    Attributes:
        detail_days: jobs and pods that ended are kept one by one for so long; then their sums of hours.
        days: sums of hours are kept for so long.
        most_bytes: size of the file; beyond it older records become sums earlier, and the oldest sums go.

    """

    detail_days: float = 90.0
    days: float = 800.0
    most_bytes: int = 512 * 1024 * 1024


class Database:
    """The file at ``path``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None
        self.damaged_now = False

    def open(self) -> Memory:
        """Open or create the file; answers what a ledger starts from.

        A damaged file is set aside, and a new one begun.

        Raises:
            HistoryError: the file is of a later version, in use, or cannot be opened.

        """
        try:
            return self._begin()
        except sqlite3.DatabaseError as error:
            self.close()
            if getattr(error, "sqlite_errorcode", 0) not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                raise HistoryError(f"{self.path} cannot be opened ({error}): check its directory") from error
        self.damaged_now = True
        for end in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                self._beside(end).replace(self._beside(f".damaged{end}"))
        try:
            return self._begin()
        except (sqlite3.DatabaseError, OSError) as error:
            raise HistoryError(f"{self.path} cannot be opened ({error}): check its directory") from error

    @property
    def damaged(self) -> Path:
        """Where a damaged file is kept; the last one."""
        return self._beside(".damaged")

    def store(self, changes: Changes) -> None:
        """Make changes durable, all or none.

        Raises:
            sqlite3.Error: nothing was stored.

        """
        connection = self._open()
        with _transaction(connection):
            self._put(connection, "links", schema.PUT_LINK, changes.links, lambda link: tuple(_values(link)))
            self._put(connection, "jobs", schema.PUT_JOB, changes.jobs, schema.job_row)
            gone = [key for key, interval in changes.intervals.items() if interval is None]
            connection.executemany("DELETE FROM intervals WHERE pod = ? AND start = ?", gone)
            rows = (schema.interval_row(each) for each in changes.intervals.values() if each is not None)
            connection.executemany(schema.PUT_INTERVAL, rows)
            connection.executemany(schema.PUT_SHARE, map(schema.share_row, changes.shares))
            connection.executemany(schema.PUT_VERSION, changes.versions.items())
            connection.execute(schema.PUT_META, ("heard", changes.heard))

    def belongs_to(self, cluster: str) -> bool:
        """Whether the records are of this cluster; from now on they are.

        Args:
            cluster: what tells clusters apart.

        Raises:
            sqlite3.Error: nothing was stored.

        """
        connection = self._open()
        known = connection.execute("SELECT value FROM meta WHERE key = 'cluster'").fetchone()
        connection.execute(schema.PUT_META, ("cluster", cluster))
        return known is None or known[0] == cluster

    def compact(self, now: int, bounds: Bounds) -> None:
        """Turn old records into sums of hours, and forget the oldest sums.

        Args:
            now: milliseconds since 1970.
            bounds: how much is kept.

        Raises:
            sqlite3.Error: not all of it was done; what was done is complete in itself.

        """
        detail = round(bounds.detail_days * _DAY)
        self._sum_up(hour_of(now - detail))
        self._forget(hour_of(now - round(bounds.days * _DAY)))
        while self.size() > bounds.most_bytes and detail > _SMALLEST_DETAIL:
            detail //= 2
            self._sum_up(hour_of(now - detail))
        connection = self._open()
        while self.size() > bounds.most_bytes:
            low, high = connection.execute("SELECT min(hour), max(hour) FROM hours").fetchone()
            if low is None or low == high:
                break
            self._forget(low + max(HOUR, hour_of((high - low) // 10)))

    def size(self) -> int:
        """Bytes that the file needs."""
        connection = self._open()
        # As a script: execute() would give back a single page.
        connection.executescript("PRAGMA incremental_vacuum")
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        return int(pages) * int(size)

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def _begin(self) -> Memory:
        connection = self._open()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > schema.VERSION:
            self.close()
            raise HistoryError(
                f"{self.path} was written by a later version of Unisono: use that one, or move the file away"
            )
        if not version:
            schema.create(connection)
        connection.execute("PRAGMA journal_mode = WAL")
        # What a power failure takes with it is heard of again, like what was not stored yet.
        connection.execute("PRAGMA synchronous = NORMAL")
        return self._load(connection)

    def _load(self, connection: sqlite3.Connection) -> Memory:
        present = f"SELECT {schema.INTERVAL_COLUMNS} FROM intervals i WHERE present"  # noqa: S608  # nosec B608 # names
        jobs = "SELECT * FROM jobs WHERE live OR uid IN (SELECT job FROM intervals WHERE present)"
        shares = "SELECT queue, resource, max(at), used, deserved, capability, capacity FROM samples GROUP BY 1, 2"
        heard = connection.execute("SELECT value FROM meta WHERE key = 'heard'").fetchone()
        return Memory(
            links=[schema.link_of(row) for row in connection.execute("SELECT * FROM links")],
            jobs=[schema.job_of(row) for row in connection.execute(jobs)],
            intervals=[schema.interval_of(row) for row in connection.execute(present)],
            shares=[share for row in connection.execute(shares) if any(_amounts(share := schema.share_of(row)))],
            versions=dict(connection.execute("SELECT resource, version FROM versions").fetchall()),
            heard=heard[0] if heard else 0,
        )

    def _sum_up(self, before: int) -> None:
        """Closed intervals and ended jobs from before a moment, a chunk in each transaction."""
        connection = self._open()
        columns = ", ".join(f"j.{name}" for name in schema.JOB_FIELDS)
        old_intervals = (
            f"SELECT {schema.INTERVAL_COLUMNS}, {columns} FROM intervals i JOIN jobs j ON j.uid = i.job "  # noqa: S608  # nosec B608 # names
            'WHERE i."end" > 0 AND i."end" < ? AND NOT i.present ORDER BY i."end" LIMIT ?'
        )
        while rows := connection.execute(old_intervals, (before, _CHUNK)).fetchall():
            sums: dict[Hour, float] = {}
            keys = []
            for row in rows:
                interval, job = schema.interval_of(row[:14]), schema.job_of(row[14:])
                keys.append((interval.pod, interval.start))
                _add(sums, hours_of_interval(interval, job))
            self._replace(connection, "DELETE FROM intervals WHERE pod = ? AND start = ?", keys, sums)
        with _transaction(connection):
            # Without a job nobody can be asked whether they may be shown.
            connection.execute(
                'DELETE FROM intervals WHERE "end" > 0 AND "end" < ? AND NOT present '
                "AND NOT EXISTS (SELECT 1 FROM jobs WHERE uid = intervals.job)",
                (before,),
            )
        old_jobs = (
            "SELECT * FROM jobs WHERE ended > 0 AND ended < ? AND NOT live "
            "AND NOT EXISTS (SELECT 1 FROM intervals WHERE job = jobs.uid) LIMIT ?"
        )
        while rows := connection.execute(old_jobs, (before, _CHUNK)).fetchall():
            sums = {}
            for row in rows:
                _add(sums, hours_of_job(schema.job_of(row)))
            self._replace(connection, "DELETE FROM jobs WHERE uid = ?", [(row[0],) for row in rows], sums)

    @staticmethod
    def _replace(
        connection: sqlite3.Connection, delete: str, keys: Iterable[tuple[Any, ...]], sums: dict[Hour, float]
    ) -> None:
        with _transaction(connection):
            connection.executemany(schema.ADD_HOUR, [(*key, amount) for key, amount in sums.items()])
            connection.executemany(delete, keys)

    def _forget(self, before: int) -> None:
        """Drop sums and shares from before a moment; the share that holds at the moment stays."""
        connection = self._open()
        with _transaction(connection):
            connection.execute("DELETE FROM hours WHERE hour < ?", (before,))
            connection.execute(
                "DELETE FROM samples WHERE at < ?1 AND at < (SELECT max(s.at) FROM samples s "
                "WHERE s.queue = samples.queue AND s.resource = samples.resource AND s.at <= ?1)",
                (before,),
            )

    @staticmethod
    def _put(connection: sqlite3.Connection, table: str, statement: str, records: dict[str, Any], row: Any) -> None:
        gone = [(uid,) for uid, record in records.items() if record is None]
        connection.executemany(f"DELETE FROM {table} WHERE uid = ?", gone)  # noqa: S608  # nosec B608 # of this module
        connection.executemany(statement, (row(record) for record in records.values() if record is not None))

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            try:
                self.path.touch(mode=0o600)
            except OSError as error:
                raise HistoryError(f"{self.path} cannot be opened ({error.strerror}): check its directory") from error
            self._connection = sqlite3.connect(self.path, isolation_level=None, timeout=5.0, check_same_thread=False)
        return self._connection

    def _beside(self, end: str) -> Path:
        return self.path.with_name(self.path.name + end)


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Any:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _add(sums: dict[Hour, float], more: Iterable[tuple[Hour, float]]) -> None:
    for key, amount in more:
        sums[key] = sums.get(key, 0.0) + amount


def _values(link: Any) -> tuple[Any, ...]:
    return tuple(getattr(link, name) for name in link.__struct_fields__)


def _amounts(share: Any) -> tuple[int, ...]:
    return share.used, share.deserved, share.capability, share.capacity
