"""What a ledger stores, what it starts from, and how old records become sums: in any storage.

Only one thread uses a ``Database``; readers have connections of their own (``unisono.history.reading``). Records, and
how far the API server was followed, are stored in one transaction: a crash loses what was not stored, which the server
then tells again, and nothing counts twice. The process that opened it last writes: one that has lost its lease without
knowing it, and would write what it remembers over what is there, is refused.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from unisono.history import storage as schema
from unisono.history.records import HOUR, Changes, Hour, Memory, hour_of, hours_of_interval, hours_of_job
from unisono.history.storage import Connection, HistoryError, NotStored, Storage

_DAY = 24 * HOUR
# Records that become sums in one transaction.
_CHUNK = 5000
_SMALLEST_DETAIL = HOUR
_TWO_CLUSTERS = (
    "name another database or schema, or, where this cluster goes on for that one, run "
    "DELETE FROM meta WHERE key = 'cluster'"
)


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much is kept.

    Attributes:
        detail_days: jobs and pods that ended are kept one by one for so long; then their sums of hours.
        days: sums of hours are kept for so long.
        most_bytes: size of the whole; beyond it older records become sums earlier, and the oldest sums go.
    """

    detail_days: float = 90.0
    days: float = 800.0
    most_bytes: int = 512 * 1024 * 1024


class Database:
    """The history in a storage."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._connection: Connection | None = None
        self._token = os.urandom(8).hex()
        self.damaged = ""
        """Where a damaged file was put; empty where there was none."""

    def open(self) -> Memory:
        """Connect, and make the tables where there are none; answers what a ledger starts from.

        A damaged file is set aside, and a new one begun.

        Raises:
            HistoryError: it is of a later version, or cannot be opened.
        """
        try:
            return self._begin()
        except self.storage.failures as error:
            self.close()
            self.damaged = self.storage.set_aside(error)
            if not self.damaged:
                raise self._unusable(error) from error
        failures: tuple[type[Exception], ...] = (*self.storage.failures, OSError)
        try:
            return self._begin()
        except failures as error:
            raise self._unusable(error) from error

    def store(self, changes: Changes) -> None:
        """Make changes durable, all or none.

        Raises:
            NotStored: nothing was stored.
            HistoryError: another process has taken over.
        """
        with self._telling(), self._transaction() as connection:
            self._put(connection, "links", schema.PUT_LINK, changes.links, schema.link_row)
            self._put(connection, "jobs", schema.PUT_JOB, changes.jobs, schema.job_row)
            gone = [key for key, interval in changes.intervals.items() if interval is None]
            connection.executemany("DELETE FROM intervals WHERE pod = ? AND start = ?", gone)
            rows = (schema.interval_row(each) for each in changes.intervals.values() if each is not None)
            connection.executemany(schema.PUT_INTERVAL, rows)
            connection.executemany(schema.PUT_SHARE, map(schema.share_row, changes.shares))
            connection.executemany(schema.PUT_VERSION, changes.versions.items())
            connection.execute(schema.PUT_META, ("heard", str(changes.heard)))

    def belongs_to(self, cluster: str) -> bool:
        """Whether the records are of this cluster; from now on they are.

        Args:
            cluster: what tells clusters apart; empty where it is not known.

        Raises:
            NotStored: nothing was stored.
            HistoryError: others may write there too, and it has the history of another cluster.
        """
        with self._telling(), self._transaction() as connection:
            row = connection.one("SELECT value FROM meta WHERE key = 'cluster'")
            recorded = row[0] if row else None
            if self.storage.shared and recorded and cluster and recorded != cluster:
                raise HistoryError(f"{self.storage.name} has the history of another cluster: {_TWO_CLUSTERS}")
            connection.execute(schema.PUT_META, ("cluster", cluster))
            return recorded is None or recorded == cluster

    def compact(self, now: int, bounds: Bounds) -> None:
        """Turn old records into sums of hours, and forget the oldest sums.

        Args:
            now: milliseconds since 1970.
            bounds: how much is kept.

        Raises:
            NotStored: not all of it was done; what was done is complete in itself.
            HistoryError: another process has taken over.
        """
        with self._telling():
            detail = round(bounds.detail_days * _DAY)
            self._sum_up(hour_of(now - detail))
            self._forget(hour_of(now - round(bounds.days * _DAY)))
            while self._open().size() > bounds.most_bytes and detail > _SMALLEST_DETAIL:
                detail //= 2
                self._sum_up(hour_of(now - detail))
            while self._open().size() > bounds.most_bytes:
                low, high = self._open().one("SELECT min(hour), max(hour) FROM hours") or (None, None)
                if low is None or low == high:
                    break
                self._forget(low + max(HOUR, hour_of((high - low) // 10)))

    def size(self) -> int:
        """Bytes that the history takes."""
        return self._open().size()

    def close(self) -> None:
        """Disconnect."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _begin(self) -> Memory:
        connection = self._open()
        version = connection.version()
        if version > len(schema.MIGRATIONS):
            self.close()
            raise HistoryError(
                f"{self.storage.name} was written by a later version of Unisono: use that one, or another place"
            )
        connection.prepare()
        if version < len(schema.MIGRATIONS):
            schema.migrate(connection, version, self.storage.table_end)
        # Waits for what another writer is storing; from here on that one is refused.
        with connection.transaction():
            connection.execute(schema.PUT_META, ("writer", self._token))
        return self._load(connection)

    @staticmethod
    def _load(connection: Connection) -> Memory:
        present = f"SELECT {schema.INTERVAL_COLUMNS} FROM intervals i WHERE present"  # noqa: S608  # nosec B608 # names
        jobs = "SELECT * FROM jobs WHERE live OR uid IN (SELECT job FROM intervals WHERE present)"
        shares = (
            "SELECT s.* FROM samples s JOIN "
            "(SELECT queue, resource, max(at) AS at FROM samples GROUP BY queue, resource) l "
            "ON l.queue = s.queue AND l.resource = s.resource AND l.at = s.at"
        )
        heard = connection.one("SELECT value FROM meta WHERE key = 'heard'")
        return Memory(
            links=[schema.link_of(row) for row in connection.rows("SELECT * FROM links")],
            jobs=[schema.job_of(row) for row in connection.rows(jobs)],
            intervals=[schema.interval_of(row) for row in connection.rows(present)],
            shares=[share for row in connection.rows(shares) if any((share := schema.share_of(row)).amounts)],
            versions={str(resource): str(version) for resource, version in connection.rows("SELECT * FROM versions")},
            heard=int(heard[0]) if heard else 0,
        )

    def _sum_up(self, before: int) -> None:
        """Closed intervals and ended jobs from before a moment, a chunk in each transaction."""
        connection = self._open()
        old_intervals = (
            f"SELECT {schema.INTERVAL_COLUMNS}, {schema.JOB_COLUMNS} FROM intervals i JOIN jobs j ON j.uid = i.job "  # noqa: S608  # nosec B608 # names
            'WHERE i."end" > 0 AND i."end" < ? AND NOT i.present ORDER BY i."end" LIMIT ?'
        )
        while rows := list(connection.rows(old_intervals, (before, _CHUNK))):
            sums: dict[Hour, float] = {}
            keys = []
            for row in rows:
                interval, job = schema.interval_of(row[:14]), schema.job_of(row[14:])
                keys.append((interval.pod, interval.start))
                _add(sums, hours_of_interval(interval, job))
            self._replace("DELETE FROM intervals WHERE pod = ? AND start = ?", keys, sums)
        with self._transaction():
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
        while rows := list(connection.rows(old_jobs, (before, _CHUNK))):
            sums = {}
            for row in rows:
                _add(sums, hours_of_job(schema.job_of(row)))
            self._replace("DELETE FROM jobs WHERE uid = ?", [(row[0],) for row in rows], sums)

    def _replace(self, delete: str, keys: Iterable[tuple[Any, ...]], sums: dict[Hour, float]) -> None:
        with self._transaction() as connection:
            connection.executemany(schema.ADD_HOUR, [(*key, amount) for key, amount in sums.items()])
            connection.executemany(delete, keys)

    def _forget(self, before: int) -> None:
        """Drop sums and shares from before a moment; the share that holds at the moment stays."""
        with self._transaction() as connection:
            connection.execute("DELETE FROM hours WHERE hour < ?", (before,))
            connection.execute(
                "DELETE FROM samples WHERE at < :before AND at < (SELECT max(s.at) FROM samples s "
                "WHERE s.queue = samples.queue AND s.resource = samples.resource AND s.at <= :before)",
                {"before": before},
            )

    @staticmethod
    def _put(
        connection: Connection,
        table: str,
        statement: str,
        records: Mapping[str, Any],
        row: Callable[[Any], tuple[Any, ...]],
    ) -> None:
        gone = [(uid,) for uid, record in records.items() if record is None]
        connection.executemany(f"DELETE FROM {table} WHERE uid = ?", gone)  # noqa: S608  # nosec B608 # of this module
        connection.executemany(statement, (row(record) for record in records.values() if record is not None))

    def _open(self) -> Connection:
        if self._connection is None:
            self._connection = self.storage.writer()
        return self._connection

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[Connection]:
        """A transaction of the one that writes."""
        connection = self._open()
        with connection.transaction():
            row = connection.one(f"SELECT value FROM meta WHERE key = 'writer'{self.storage.locked}")  # noqa: S608  # nosec B608 # a constant
            if row is None or row[0] != self._token:
                raise HistoryError(f"another process writes to {self.storage.name} by now")
            yield connection

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        """Raise the common error for whatever the storage raised; the next call reconnects."""
        try:
            yield
        except self.storage.failures as error:
            if self.storage.shared:
                self.close()
            raise NotStored(f"{error}".strip()) from error

    def _unusable(self, error: BaseException) -> HistoryError:
        self.close()
        reason = f"{error}".strip().replace("\n", " ")
        way = "check that it can be reached, and its rights" if self.storage.shared else "check its directory"
        return HistoryError(f"{self.storage.name} cannot be opened ({reason}): {way}")


def _add(sums: dict[Hour, float], more: Iterable[tuple[Hour, float]]) -> None:
    for key, amount in more:
        sums[key] = sums.get(key, 0.0) + amount
