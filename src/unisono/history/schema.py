"""Tables of the history's file, and records as their rows."""

from __future__ import annotations

import sqlite3
from typing import Any, Final

import msgspec

from unisono.history.records import Interval, JobRecord, Link, Share

VERSION: Final = 1
"""Of the tables; a file of a later version is left alone."""

_TABLES = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID",
    "CREATE TABLE versions (resource TEXT PRIMARY KEY, version TEXT NOT NULL) WITHOUT ROWID",
    """CREATE TABLE links (uid TEXT PRIMARY KEY, resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
    parent TEXT NOT NULL, queue TEXT NOT NULL, gone INTEGER NOT NULL) WITHOUT ROWID""",
    """CREATE TABLE jobs (uid TEXT PRIMARY KEY, api_version TEXT NOT NULL, kind TEXT NOT NULL, resource TEXT NOT NULL,
    namespace TEXT NOT NULL, name TEXT NOT NULL, queue TEXT NOT NULL, user TEXT NOT NULL, created INTEGER NOT NULL,
    started INTEGER NOT NULL, ended INTEGER NOT NULL, outcome TEXT NOT NULL, message TEXT NOT NULL, exit_code INTEGER,
    gpus INTEGER NOT NULL, cpus INTEGER NOT NULL, pods INTEGER NOT NULL, live INTEGER NOT NULL, seen INTEGER NOT NULL)
    WITHOUT ROWID""",
    "CREATE INDEX jobs_live ON jobs (uid) WHERE live",
    "CREATE INDEX jobs_ended ON jobs (ended)",
    """CREATE TABLE intervals (pod TEXT NOT NULL, start INTEGER NOT NULL, job TEXT NOT NULL, name TEXT NOT NULL,
    node TEXT NOT NULL, queue TEXT NOT NULL, resources TEXT NOT NULL, "end" INTEGER NOT NULL, outcome TEXT NOT NULL,
    exit_code INTEGER, restarts INTEGER NOT NULL, present INTEGER NOT NULL, parent TEXT NOT NULL,
    "group" TEXT NOT NULL, PRIMARY KEY (pod, start)) WITHOUT ROWID""",
    "CREATE INDEX intervals_present ON intervals (pod) WHERE present",
    'CREATE INDEX intervals_end ON intervals ("end")',
    "CREATE INDEX intervals_job ON intervals (job)",
    """CREATE TABLE samples (queue TEXT NOT NULL, resource TEXT NOT NULL, at INTEGER NOT NULL, used INTEGER NOT NULL,
    deserved INTEGER NOT NULL, capability INTEGER NOT NULL, capacity INTEGER NOT NULL,
    PRIMARY KEY (queue, resource, at)) WITHOUT ROWID""",
    """CREATE TABLE hours (hour INTEGER NOT NULL, queue TEXT NOT NULL, namespace TEXT NOT NULL, resource TEXT NOT NULL,
    user TEXT NOT NULL, measure TEXT NOT NULL, amount REAL NOT NULL,
    PRIMARY KEY (hour, queue, namespace, resource, user, measure)) WITHOUT ROWID""",
)

PUT_META: Final = "INSERT OR REPLACE INTO meta VALUES (?, ?)"
PUT_VERSION: Final = "INSERT OR REPLACE INTO versions VALUES (?, ?)"
PUT_LINK: Final = "INSERT OR REPLACE INTO links VALUES (?, ?, ?, ?, ?, ?, ?)"
JOB_FIELDS: Final = [field.name for field in msgspec.structs.fields(JobRecord)]
"""Columns of ``jobs``, in their order."""
_JOB_NEWS = ", ".join(f"{name} = excluded.{name}" for name in JOB_FIELDS[1:])
# A record that a pod alone told of takes no place of one that was seen.
PUT_JOB: Final = (
    f"INSERT INTO jobs VALUES ({', '.join('?' * len(JOB_FIELDS))}) "  # noqa: S608  # nosec B608 # names of fields
    f"ON CONFLICT (uid) DO UPDATE SET {_JOB_NEWS} WHERE excluded.seen OR NOT jobs.seen"
)
PUT_INTERVAL: Final = "INSERT OR REPLACE INTO intervals VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
PUT_SHARE: Final = "INSERT OR REPLACE INTO samples VALUES (?, ?, ?, ?, ?, ?, ?)"
ADD_HOUR: Final = (
    "INSERT INTO hours VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET amount = amount + excluded.amount"
)
INTERVAL_COLUMNS: Final = (
    'i.pod, i.start, i.job, i.name, i.node, i.queue, i.resources, i."end", i.outcome, i.exit_code, i.restarts, '
    'i.present, i.parent, i."group"'
)


def create(connection: sqlite3.Connection) -> None:
    """Make the tables, in one transaction."""
    # Pages that compaction empties go back to the disk.
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("BEGIN IMMEDIATE")
    for statement in _TABLES:
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")


def job_row(job: JobRecord) -> tuple[Any, ...]:
    """For ``PUT_JOB``."""
    return tuple(_fitted(value) for value in msgspec.structs.astuple(job))


def _fitted(value: Any) -> Any:
    """Numbers as SQLite takes them: the sums of what many pods ask for may be larger, and say so no less."""
    return min(value, _LARGEST) if isinstance(value, int) else value


def job_of(row: tuple[Any, ...]) -> JobRecord:
    """Of a row of ``jobs``."""
    return JobRecord(*row[:-2], *map(bool, row[-2:]))


def interval_row(interval: Interval) -> tuple[Any, ...]:
    """For ``PUT_INTERVAL``."""
    row = list(msgspec.structs.astuple(interval))
    row[6] = msgspec.json.encode(interval.resources).decode()
    return tuple(row)


def interval_of(row: tuple[Any, ...]) -> Interval:
    """Of a row with ``INTERVAL_COLUMNS``."""
    values = list(row)
    values[6] = _resources.decode(values[6])
    values[11] = bool(values[11])
    return Interval(*values)


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
