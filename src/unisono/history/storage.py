"""Where the history is kept: tables and queries that SQLite and PostgreSQL understand alike, and records as rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

import msgspec

from unisono.errors import UnisonoError
from unisono.history.records import Interval, JobRecord, Link, Share

# Where the history is kept: one set of tables and queries, which SQLite and PostgreSQL understand alike.
#
# Queries are written with ``?`` or ``:name`` for parameters. What the two say differently stands in a ``Storage``.

Parameters = Sequence[Any] | Mapping[str, Any]
Row = tuple[Any, ...]


class HistoryError(UnisonoError):
    """The history cannot be kept there."""


class NotStored(UnisonoError):
    """The storage failed at this moment: nothing of what was asked for is done, and it may work again later."""


class Connection(Protocol):
    """One connection; for one thread at a time."""

    def rows(self, query: str, parameters: Parameters = ()) -> Iterator[Row]:
        """Rows of a query, as they are read."""
        ...

    def one(self, query: str, parameters: Parameters = ()) -> Row | None:
        """The first row, None where there is none."""
        ...

    def execute(self, query: str, parameters: Parameters = ()) -> None:
        """Carry out a statement."""
        ...

    def executemany(self, query: str, rows: Iterable[Parameters]) -> None:
        """Carry out a statement for each row of parameters."""
        ...

    def transaction(self) -> AbstractContextManager[None]:
        """All statements within it, or none."""
        ...

    def version(self) -> int:
        """Of the tables; 0 where there are none."""
        ...

    def prepare(self) -> None:
        """Before the first statement of a writer, once it is clear that the tables are of no later version."""
        ...

    def set_version(self, version: int) -> None:
        """Note the version of the tables."""
        ...

    def size(self) -> int:
        """Bytes that the history takes."""
        ...

    def close(self) -> None:
        """End the connection."""
        ...


class Storage(Protocol):
    """One place for a history.

    Attributes:
        name: as people are told it; without any secret.
        failures: what its connections raise where the storage fails.
        in_texts: an SQL condition: one of the texts in the JSON array ``:places``.
        table_end: behind the columns of a table.
        locked: behind a query whose rows nobody else may change until the transaction ends.
        shared: others than this cluster's control plane may use the same place by mistake.
    """

    name: str
    failures: tuple[type[Exception], ...]
    in_texts: str
    table_end: str
    locked: str
    shared: bool

    def writer(self) -> Connection:
        """A connection that writes.

        Raises:
            HistoryError: it cannot be used, and trying again does not help.
        """
        ...

    def reader(self) -> Connection:
        """A connection that cannot write and sees one state for as long as it is open."""
        ...

    def set_aside(self, error: Exception) -> str:
        """Where what is there is damaged, put it away; answers where to, empty where that is not the matter."""
        ...


# Tables of the history, and records as their rows.

_TABLES = (
    "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT)",
    "CREATE TABLE versions (resource TEXT PRIMARY KEY, version TEXT NOT NULL)",
    """CREATE TABLE links (uid TEXT PRIMARY KEY, resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
    parent TEXT NOT NULL, queue TEXT NOT NULL, gone BIGINT NOT NULL)""",
    """CREATE TABLE jobs (uid TEXT PRIMARY KEY, api_version TEXT NOT NULL, kind TEXT NOT NULL, resource TEXT NOT NULL,
    namespace TEXT NOT NULL, name TEXT NOT NULL, queue TEXT NOT NULL, "user" TEXT NOT NULL, created BIGINT NOT NULL,
    started BIGINT NOT NULL, ended BIGINT NOT NULL, outcome TEXT NOT NULL, message TEXT NOT NULL, exit_code BIGINT,
    gpus BIGINT NOT NULL, cpus BIGINT NOT NULL, pods BIGINT NOT NULL, live BOOLEAN NOT NULL, seen BOOLEAN NOT NULL)""",
    "CREATE INDEX jobs_live ON jobs (uid) WHERE live",
    "CREATE INDEX jobs_ended ON jobs (ended)",
    """CREATE TABLE intervals (pod TEXT NOT NULL, start BIGINT NOT NULL, job TEXT NOT NULL, name TEXT NOT NULL,
    node TEXT NOT NULL, queue TEXT NOT NULL, resources TEXT NOT NULL, "end" BIGINT NOT NULL, outcome TEXT NOT NULL,
    exit_code BIGINT, restarts BIGINT NOT NULL, present BOOLEAN NOT NULL, parent TEXT NOT NULL,
    "group" TEXT NOT NULL, PRIMARY KEY (pod, start))""",
    "CREATE INDEX intervals_present ON intervals (pod) WHERE present",
    'CREATE INDEX intervals_end ON intervals ("end")',
    "CREATE INDEX intervals_job ON intervals (job)",
    """CREATE TABLE samples (queue TEXT NOT NULL, resource TEXT NOT NULL, at BIGINT NOT NULL, used BIGINT NOT NULL,
    deserved BIGINT NOT NULL, capability BIGINT NOT NULL, capacity BIGINT NOT NULL,
    PRIMARY KEY (queue, resource, at))""",
    """CREATE TABLE hours (hour BIGINT NOT NULL, queue TEXT NOT NULL, namespace TEXT NOT NULL, resource TEXT NOT NULL,
    "user" TEXT NOT NULL, measure TEXT NOT NULL, amount DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (hour, queue, namespace, resource, "user", measure))""",
)
_MEMORY = ("ALTER TABLE jobs ADD COLUMN memory BIGINT NOT NULL DEFAULT 0",)
MIGRATIONS: Sequence[Sequence[str]] = (_TABLES, _MEMORY)
"""What makes each version of the tables of the one before; the first of nothing."""


def _put(table: str, *columns: str, keys: int = 1) -> str:
    """A statement that adds a row, or takes the place of the one with its key, which the first columns are."""
    news = ", ".join(f'"{name}" = excluded."{name}"' for name in columns[keys:])
    key = ", ".join(f'"{name}"' for name in columns[:keys])
    return f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns))}) ON CONFLICT ({key}) DO UPDATE SET {news}"  # noqa: S608  # nosec B608 # names of this module


JOB_FIELDS: Final = [field.name for field in msgspec.structs.fields(JobRecord)]
"""Columns of ``jobs``, in their order."""
_INTERVAL_FIELDS: Final = [field.name for field in msgspec.structs.fields(Interval)]
PUT_META: Final = _put("meta", "key", "value")
PUT_VERSION: Final = _put("versions", "resource", "version")
PUT_LINK: Final = _put("links", *(field.name for field in msgspec.structs.fields(Link)))
# A record that a pod alone told of takes no place of one that was seen.
PUT_JOB: Final = f"{_put('jobs', *JOB_FIELDS)} WHERE excluded.seen OR NOT jobs.seen"
PUT_INTERVAL: Final = _put("intervals", *_INTERVAL_FIELDS, keys=2)
PUT_SHARE: Final = _put("samples", "queue", "resource", "at", "used", "deserved", "capability", "capacity", keys=3)
ADD_HOUR: Final = (
    "INSERT INTO hours VALUES (?, ?, ?, ?, ?, ?, ?) "
    'ON CONFLICT (hour, queue, namespace, resource, "user", measure) '
    "DO UPDATE SET amount = hours.amount + excluded.amount"
)
JOB_COLUMNS: Final = ", ".join(f'j."{name}"' for name in JOB_FIELDS)
INTERVAL_COLUMNS: Final = ", ".join(f'i."{name}"' for name in _INTERVAL_FIELDS)


def migrate(connection: Connection, version: int, table_end: str) -> None:
    """Bring tables of a version up to the present one, all steps or none.

    Args:
        connection: writes.
        version: of the tables that are there; 0 for none.
        table_end: behind the columns of a table.
    """
    with connection.transaction():
        for statements in MIGRATIONS[version:]:
            for statement in statements:
                connection.execute(f"{statement}{table_end if statement.startswith('CREATE TABLE') else ''}")
        connection.set_version(len(MIGRATIONS))


def job_row(job: JobRecord) -> tuple[Any, ...]:
    """For ``PUT_JOB``."""
    return tuple(_fitted(value) for value in msgspec.structs.astuple(job))


def _fitted(value: Any) -> Any:
    """Values as databases take them: no text with NUL, and no number of more than 64 bits.

    Sums of what many pods ask for may be larger, and say so no less.
    """
    if isinstance(value, str):
        return value.replace("\0", "")
    # A truth value stays one: to PostgreSQL it is no number.
    return min(value, _LARGEST) if isinstance(value, int) and not isinstance(value, bool) else value


def job_of(row: tuple[Any, ...]) -> JobRecord:
    """Of a row of ``jobs``."""
    values = [*row[:-3], bool(row[-3]), bool(row[-2]), row[-1]]
    return JobRecord(*values)


def interval_row(interval: Interval) -> tuple[Any, ...]:
    """For ``PUT_INTERVAL``."""
    row = list(msgspec.structs.astuple(interval))
    row[6] = msgspec.json.encode(interval.resources).decode()
    return tuple(map(_fitted, row))


def interval_of(row: tuple[Any, ...]) -> Interval:
    """Of a row with ``INTERVAL_COLUMNS``."""
    values = list(row)
    values[6] = _resources.decode(values[6])
    values[11] = bool(values[11])
    return Interval(*values)


def link_row(link: Link) -> tuple[Any, ...]:
    """For ``PUT_LINK``."""
    return tuple(map(_fitted, msgspec.structs.astuple(link)))


def link_of(row: tuple[Any, ...]) -> Link:
    """Of a row of ``links``."""
    return Link(*row)


def share_row(share: Share) -> tuple[Any, ...]:
    """For ``PUT_SHARE``."""
    return (
        share.queue,
        share.resource,
        share.at,
        *map(_fitted, (share.used, share.deserved, share.capability, share.capacity)),
    )


def share_of(row: tuple[Any, ...]) -> Share:
    """Of a row of ``samples``."""
    queue, resource, at, *amounts = row
    return Share(at, queue, resource, *amounts)


_LARGEST: Final = 2**63 - 1
_resources = msgspec.json.Decoder(dict[str, int])
