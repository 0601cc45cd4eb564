"""Answers about the history for servers, which say whose rows a user may see."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec

from unisono.errors import ApiError, Unavailable
from unisono.history.answers import BY
from unisono.history.reading import Filter, Place, Reader
from unisono.history.report import bad_request, points_of, window_of
from unisono.history.storage import NotStored, Storage
from unisono.kube.clock import SYSTEM_CLOCK, Clock

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
    """Reads what a recorder writes, one question at a time and beside the event loop."""

    def __init__(self, storage: Storage, clock: Clock = SYSTEM_CLOCK) -> None:
        self._reader, self._clock = Reader(storage), clock
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
            query: ``from``, ``to`` (seconds since 1970), ``by``, ``namespace``, ``queue``, ``user``, ``name``; and of
                shares ``resource`` and ``points``.
            shown: places that the user may see.
            capacity: the user may see how large the cluster is.
            queues: the user may see what queues use.

        Raises:
            ApiError: 400 for a parameter that cannot be read.

        """
        window = window_of(query, self._clock.time())
        wanted = Filter(*(query.get(name, "") for name in ("namespace", "queue", "user", "name")))
        if what == "jobs":
            return msgspec.json.encode(await self._ask(lambda: self._reader.jobs(window, wanted, shown)))
        if what == "shares":
            if not queues:
                raise ApiError("shares over time are for users that can list queues", code=403, reason="Forbidden")
            told = query.get("queue", ""), query.get("resource", ""), points_of(query)
            return msgspec.json.encode(await self._ask(lambda: self._reader.shares(window, *told, capacity=capacity)))
        if what != "report":
            return None
        by = query.get("by", "queue")
        if by not in BY:
            raise bad_request(f"by must be one of {', '.join(BY)}, and not {by!r}")
        report = await self._ask(lambda: self._reader.report(window, by, wanted, shown, capacity=capacity))
        return msgspec.json.encode(report)

    async def _ask(self, question: Callable[[], T]) -> T:
        async with self._turn:
            try:
                return await asyncio.to_thread(question)
            except NotStored as error:
                raise Unavailable(f"the history cannot be read now ({error}): try again") from error
