"""Reports, by connections of their own that cannot write; the caller says whose rows are shown."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Protocol, TypeVar

import msgspec

from unisono.errors import ApiError, NotFound, Unavailable
from unisono.history import storage as schema
from unisono.history.queue_shares import Series, series, steps
from unisono.history.records import CLUSTER, HOUR, Hour, Interval, JobRecord
from unisono.history.report import (
    BY,
    MOST_ROWS,
    Accounts,
    By,
    Counting,
    Report,
    Window,
    accounts,
    bad_request,
    points_of,
    window_of,
)
from unisono.history.storage import Connection, NotStored, Storage
from unisono.kube.clock import SYSTEM_CLOCK, Clock

Place = tuple[str, str]
"""A namespace, and the resource of a kind of job (``plural.group``): rights are asked for by it."""

# Jobs whose pods are read at a time.
_CHUNK = 500
_THERE = 'i.start < :end AND (i."end" = 0 OR i."end" > :start)'
# Ended jobs whose last pod went later have intervals beyond their own end.
_JOB_THERE = "j.created < :end AND (j.ended = 0 OR j.ended >= :start)"
# The last share before the window holds in its beginning.
_SHARES = (
    "WITH begun AS (SELECT queue, resource, max(at) AS at FROM samples WHERE at <= :start GROUP BY 1, 2) "
    "SELECT s.* FROM samples s LEFT JOIN begun b ON b.queue = s.queue AND b.resource = s.resource "
    "WHERE s.at < :end AND s.at >= coalesce(b.at, :start)"
)
_INTERVALS = f"SELECT {schema.INTERVAL_COLUMNS}, {schema.JOB_COLUMNS} FROM intervals i JOIN jobs j ON j.uid = i.job"  # noqa: S608  # nosec B608 # names


@dataclass(frozen=True, slots=True)
class Filter:
    """Which rows are asked for; empty texts ask for all.

    Attributes:
        namespace: only of this one.
        queue: only of this one.
        user: only of this one.
        name: only jobs of this name.
    """

    namespace: str = ""
    queue: str = ""
    user: str = ""
    name: str = ""


class Reader:
    """Reads a storage; each call connects for itself, so that calls may be in any thread.

    Args:
        storage: what a recorder wrote.
        owner: whose the jobs are of which the server knew no user: who runs its control plane; empty for nobody.
    """

    def __init__(self, storage: Storage, owner: str = "") -> None:
        self._storage, self._owner = storage, owner
        # Rows of places that the viewer may not see are left out there: they cost others nothing.
        self._jobs_of = (
            f"SELECT {schema.JOB_COLUMNS} FROM jobs j WHERE j.namespace || '/' || j.resource {storage.in_texts}"  # noqa: S608  # nosec B608 # names
        )
        self._intervals_of = f"{_INTERVALS} WHERE j.namespace || '/' || j.resource {storage.in_texts}"
        self._hours_of = f"SELECT * FROM hours WHERE namespace || '/' || resource {storage.in_texts}"  # noqa: S608  # nosec B608 # names

    def _job(self, row: tuple[Any, ...]) -> JobRecord:
        job = schema.job_of(row)
        job.user = job.user or self._owner
        return job

    def places(self) -> list[Place]:
        """Where there is anything: namespaces, with the kinds of jobs in each.

        Raises:
            NotFound: no history has been written.
        """
        with self._open() as connection:
            query = "SELECT DISTINCT namespace, resource FROM jobs UNION SELECT DISTINCT namespace, resource FROM hours"
            return [(str(namespace), str(resource)) for namespace, resource in connection.rows(query)]

    def report(
        self, window: Window, by: By, wanted: Filter, shown: Collection[Place], *, capacity: bool, nodes: bool = False
    ) -> Report:
        """A report.

        Args:
            window: the time.
            by: what a row stands for.
            wanted: which records count.
            shown: places that the viewer may see.
            capacity: the viewer may see how large the cluster is.
            nodes: rows say what was used on which node.

        Raises:
            NotFound: no history has been written.
        """
        shown = frozenset(shown)
        counting = Counting(window, by, nodes=nodes)
        times = {"start": window.start, "end": window.end, "places": _json(shown, wanted)}
        with self._open() as connection:
            for row in connection.rows(f"{self._intervals_of} AND {_THERE}", times):
                job = self._job(row[14:])
                if _fits(wanted, shown, job, row[5]):
                    counting.interval(schema.interval_of(row[:14]), job)
            moved = "ended BETWEEN :start AND :end OR started BETWEEN :start AND :end"
            waits = "created < :end AND (started = 0 OR started >= :end) AND (ended = 0 OR ended >= :end)"
            for row in connection.rows(f"{self._jobs_of} AND ({moved} OR {waits})", times):
                job = self._job(row)
                if _fits(wanted, shown, job, job.queue):
                    counting.job(job)
            if not wanted.name:
                hours = f"{self._hours_of} AND hour > :begin AND hour < :end"
                for *key, amount in connection.rows(hours, {**times, "begin": window.start - HOUR}):
                    hour = Hour(*key)
                    hour = hour._replace(user=hour.user or self._owner)
                    place = hour.namespace, hour.resource
                    if place in shown and _matches(wanted, hour.namespace, hour.queue, hour.user):
                        counting.hour(hour, amount)
            if capacity:
                samples = "SELECT * FROM samples WHERE queue = ? AND at < ? ORDER BY resource, at"
                rows = map(schema.share_of, connection.rows(samples, (CLUSTER, window.end)))
                for _, shares in groupby(rows, key=lambda share: share.resource):
                    counting.capacity(list(shares))
            return counting.report(self._since(connection))

    def shares(self, window: Window, queue: str, resource: str, points: int, *, capacity: bool) -> Series:
        """Shares of queues over time.

        Args:
            window: the time.
            queue: only of this one; empty for all.
            resource: only of this one; empty for all.
            points: how many are wanted.
            capacity: the viewer may see how large the cluster is.

        Raises:
            NotFound: no history has been written.
        """
        narrowed = "".join(
            f" AND (s.{name} = :{name} OR s.queue = :cluster)"
            for name, value in (("queue", queue), ("resource", resource))
            if value
        )
        query = f"{_SHARES}{narrowed} ORDER BY s.queue, s.resource, s.at"
        times = {"start": window.start, "end": window.end, "queue": queue, "resource": resource, "cluster": CLUSTER}
        with self._open() as connection:
            rows = map(schema.share_of, connection.rows(query, times))
            groups = (list(each) for _, each in groupby(rows, key=lambda share: (share.queue, share.resource)))
            shown = (each for each in groups if capacity or each[0].queue != CLUSTER)
            selected = (each for each in shown if resource in ("", each[0].resource))
            return series(selected, steps(window, points))

    def jobs(self, window: Window, wanted: Filter, shown: Collection[Place]) -> Accounts:
        """Jobs that were there in a time; of very many the latest.

        Raises:
            NotFound: no history has been written.
        """
        shown = frozenset(shown)
        times = {"start": window.start, "end": window.end, "places": _json(shown, wanted)}
        records: list[JobRecord] = []
        with self._open() as connection:
            for row in connection.rows(f"{self._jobs_of} AND {_JOB_THERE} ORDER BY created DESC, uid", times):
                job = self._job(row)
                if not _fits(wanted, shown, job, job.queue):
                    continue
                if len(records) == MOST_ROWS:
                    return accounts(window, self._with_intervals(connection, records), more=True)
                records.append(job)
            return accounts(window, self._with_intervals(connection, records))

    def _with_intervals(
        self, connection: Connection, jobs: list[JobRecord]
    ) -> Iterator[tuple[JobRecord, list[Interval]]]:
        """Jobs, the oldest first, with their pods."""
        mine = f"SELECT {schema.INTERVAL_COLUMNS} FROM intervals i WHERE i.job {self._storage.in_texts}"  # noqa: S608  # nosec B608 # names
        for at in range(len(jobs), 0, -_CHUNK):
            chunk = jobs[max(0, at - _CHUNK) : at][::-1]
            of: dict[str, list[Interval]] = {job.uid: [] for job in chunk}
            for row in connection.rows(mine, {"places": json.dumps(list(of))}):
                interval = schema.interval_of(row)
                of[interval.job].append(interval)
            yield from ((job, of[job.uid]) for job in chunk)

    @staticmethod
    def _since(connection: Connection) -> int:
        query = "SELECT min(x) FROM (SELECT min(hour) AS x FROM hours UNION ALL SELECT min(created) FROM jobs) AS t"
        row = connection.one(query)
        return int(row[0] or 0) if row else 0

    @contextlib.contextmanager
    def _open(self) -> Iterator[Connection]:
        """One state of the history, whatever is written meanwhile."""
        try:
            connection = self._storage.reader()
        except self._storage.failures as error:
            if self._storage.shared:
                raise NotStored(f"{error}".strip()) from error
            raise _nothing() from None
        try:
            if connection.version() != len(schema.MIGRATIONS):
                raise _nothing()
            yield connection
        except self._storage.failures as error:
            raise NotStored(f"{error}".strip()) from error
        finally:
            connection.close()


def _json(shown: Collection[Place], wanted: Filter) -> str:
    return json.dumps(["/".join(place) for place in shown if wanted.namespace in ("", place[0])])


def _nothing() -> NotFound:
    return NotFound("no history has been written yet: it begins when the control plane is ready")


def _fits(wanted: Filter, shown: Collection[Place], job: JobRecord, queue: str) -> bool:
    if wanted.name and wanted.name != job.name:
        return False
    return (job.namespace, job.resource) in shown and _matches(wanted, job.namespace, queue, job.user)


def _matches(wanted: Filter, namespace: str, queue: str, user: str) -> bool:
    return wanted.namespace in ("", namespace) and wanted.queue in ("", queue) and wanted.user in ("", user)


# Answers about the history for servers, which say whose rows a user may see.

T = TypeVar("T")


class HistorySource(Protocol):
    """Who knows the past of a cluster."""

    async def places(self) -> Sequence[Place]:
        """Namespaces and kinds of jobs (``plural.group``) of which there is anything."""
        ...

    async def answer(
        self, what: str, query: Mapping[str, str], shown: Collection[Place], *, capacity: bool, queues: bool
    ) -> bytes | None:
        """The answer to a question about these places, as JSON; None where there is no such question."""
        ...


class StoredHistory:
    """Reads what a recorder writes, one question at a time and beside the event loop; ``owner`` as of `Reader`."""

    def __init__(self, storage: Storage, clock: Clock = SYSTEM_CLOCK, owner: str = "") -> None:
        self._reader, self._clock = Reader(storage, owner), clock
        self._turn = asyncio.Lock()

    async def places(self) -> Sequence[Place]:
        """Namespaces and kinds of jobs (``plural.group``) of which there is anything.

        Raises:
            ApiError: no history has been written, or it cannot be read now.
        """
        return await self._ask(self._reader.places)

    async def answer(
        self, what: str, query: Mapping[str, str], shown: Collection[Place], *, capacity: bool, queues: bool
    ) -> bytes | None:
        """The answer as JSON; None where there is no such question.

        Args:
            what: ``report``, ``jobs`` or ``shares``.
            query: ``from``, ``to`` (seconds since 1970), ``by``, ``namespace``, ``queue``, ``user``, ``name``; of
                reports ``nodes``; and of shares ``resource`` and ``points``.
            shown: places that the user may see.
            capacity: the user may see how large the cluster is.
            queues: the user may see what queues use.

        Raises:
            ApiError: 400 for a parameter that cannot be read.
        """
        window = window_of(query, self._clock.time())
        criteria = Filter(*(query.get(name, "") for name in ("namespace", "queue", "user", "name")))
        if what == "jobs":
            return msgspec.json.encode(await self._ask(lambda: self._reader.jobs(window, criteria, shown)))
        if what == "shares":
            if not queues:
                raise ApiError("shares over time are for users that can list queues", code=403, reason="Forbidden")
            arguments = query.get("queue", ""), query.get("resource", ""), points_of(query)
            return msgspec.json.encode(
                await self._ask(lambda: self._reader.shares(window, *arguments, capacity=capacity))
            )
        if what != "report":
            return None
        by = query.get("by", "queue")
        if by not in BY:
            raise bad_request(f"by must be one of {', '.join(BY)}, and not {by!r}")
        nodes = query.get("nodes") == "true"
        report = await self._ask(
            lambda: self._reader.report(window, by, criteria, shown, capacity=capacity, nodes=nodes)
        )
        return msgspec.json.encode(report)

    async def _ask(self, question: Callable[[], T]) -> T:
        async with self._turn:
            try:
                return await asyncio.to_thread(question)
            except NotStored as error:
                raise Unavailable(f"the history cannot be read now ({error}): try again") from error
