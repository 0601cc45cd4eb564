"""Answers about the history for servers, which say whose rows a user may see."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

import msgspec

from unisono.errors import ApiError, Unavailable
from unisono.history.answers import BY
from unisono.history.reading import Filter, Place, Reader
from unisono.history.report import Window
from unisono.history.storage import NotStored, Storage
from unisono.kube.clock import SYSTEM_CLOCK, Clock

T = TypeVar("T")

_WEEK_SECONDS = 7 * 86400.0


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
        now = self._clock.time()
        end = _seconds(query, "to", now)
        start = _seconds(query, "from", end - _WEEK_SECONDS)
        if start >= end:
            raise _bad("from must be before to")
        window = Window(round(start * 1000), round(end * 1000), round(now * 1000))
        wanted = Filter(*(query.get(name, "") for name in ("namespace", "queue", "user", "name")))
        if what == "jobs":
            return msgspec.json.encode(await self._ask(lambda: self._reader.jobs(window, wanted, shown)))
        if what == "shares":
            if not queues:
                raise ApiError("shares over time are for users that can list queues", code=403, reason="Forbidden")
            told = query.get("queue", ""), query.get("resource", ""), _points(query)
            return msgspec.json.encode(await self._ask(lambda: self._reader.shares(window, *told, capacity=capacity)))
        if what != "report":
            return None
        by = query.get("by", "queue")
        if by not in BY:
            raise _bad(f"by must be one of {', '.join(BY)}, and not {by!r}")
        report = await self._ask(lambda: self._reader.report(window, by, wanted, shown, capacity=capacity))
        return msgspec.json.encode(report)

    async def _ask(self, question: Callable[[], T]) -> T:
        async with self._turn:
            try:
                return await asyncio.to_thread(question)
            except NotStored as error:
                raise Unavailable(f"the history cannot be read now ({error}): try again") from error


def _seconds(query: Mapping[str, str], name: str, default: float) -> float:
    text = query.get(name, "")
    try:
        found = float(text) if text else default
    except ValueError:
        raise _bad(f"{name} must be seconds since 1970, and not {text!r}") from None
    # As far as a time can be written on the wire.
    if not 0 <= found < 253_402_300_800:
        raise _bad(f"{name} must be seconds between 1970 and the year 10000, and not {text}")
    return found


def _points(query: Mapping[str, str]) -> int:
    text = query.get("points", "") or "120"
    if not (text.isascii() and text.isdigit() and len(text) < 6 and int(text)):
        raise _bad(f"points must be a number from 1 on, and not {text!r}")
    return int(text)


def _bad(message: str) -> ApiError:
    return ApiError(message, code=400, reason="BadRequest")
