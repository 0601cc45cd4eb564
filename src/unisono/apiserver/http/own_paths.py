"""Paths of Unisono's own under ``/unisono/v1``: a backup of the store, and reports of what ran."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Protocol
from weakref import WeakValueDictionary

from aiohttp import web

from unisono.api.annotations import tenant
from unisono.api.kinds import QUEUES
from unisono.apiserver.access.user import User
from unisono.apiserver.authorization.authorizer import Action, Authorizer
from unisono.apiserver.http.exchange import Exchange
from unisono.errors import NotFound

# ``/unisono/v1/backup``: a copy of everything in the store, for users with access to this path.

PATH = "/unisono/v1/backup"
_PIECE = 256 * 1024


class BackupHandler:
    """Makes a copy on disk and sends it.

    Args:
        make: writes a copy to a path.
        directory: where copies are for a moment; only its owner reads it.

    """

    def __init__(self, make: Callable[[Path], Awaitable[None]], directory: Path) -> None:
        self._make, self._directory = make, directory

    async def send(self, exchange: Exchange) -> web.StreamResponse:
        """Answer with the copy."""
        path = self._directory / f".backup-{uuid.uuid4().hex}.tmp"
        try:
            await self._make(path)
            # Opened, it is read to its end even though its name is gone: nothing is left behind.
            file = path.open("rb")
        finally:
            path.unlink(missing_ok=True)
        with file:
            response = await exchange.stream("application/vnd.sqlite3", length=os.fstat(file.fileno()).st_size)
            while piece := await asyncio.to_thread(file.read, _PIECE):
                await exchange.write(response, piece)
        return response


# ``/unisono/v1/history``: reports of what ran; each user sees what they may list now.

Place = tuple[str, str]
"""A namespace, and the resource of a kind of job as ``plural.group``."""


class HistorySource(Protocol):
    """Who keeps the history."""

    async def places(self) -> Sequence[Place]:
        """Of which places there is anything."""
        ...

    async def answer(
        self, what: str, query: Mapping[str, str], shown: Collection[Place], *, capacity: bool, queues: bool
    ) -> bytes | None:
        """The answer to a question about these places, as JSON; None where there is no such question."""
        ...


class HistoryHandler:
    """Asks the source for the rows that a user may see.

    Args:
        source: None where no history is kept.
        authorizer: what users may do.

    """

    def __init__(self, source: HistorySource | None, authorizer: Authorizer) -> None:
        self._source, self._authorizer = source, authorizer
        # The source answers one question after the other: of each tenant one waits there, of each of its users one for
        # that, and the others wait for those.
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def send(self, exchange: Exchange, what: str) -> web.StreamResponse | None:
        """Answer a question; None where there is no such one.

        Raises:
            NotFound: no history is kept.

        """
        if self._source is None:
            raise NotFound("no history is kept here: start 'unisono up' with --history-days 90, or without that option")
        user = exchange.user.name
        own, all_of_tenant = (self._turns.setdefault(name, asyncio.Lock()) for name in (f":{user}", tenant(user)))
        async with own, all_of_tenant:
            body = await self._answer(self._source, exchange, what)
        return None if body is None else await exchange.send(200, body)

    async def _answer(self, source: HistorySource, exchange: Exchange, what: str) -> bytes | None:
        user = exchange.user
        shown = [place for place in await source.places() if self._may_list(user, *place)]
        capacity = self._authorizer.decide(user, Action("list", resource="nodes")).allowed
        queues = self._authorizer.decide(user, Action("list", group=QUEUES.group, resource=QUEUES.plural)).allowed
        return await source.answer(what, exchange.query, shown, capacity=capacity, queues=queues)

    def _may_list(self, user: User, namespace: str, resource: str) -> bool:
        plural, _, group = resource.partition(".")
        return self._authorizer.decide(user, Action("list", group=group, resource=plural, namespace=namespace)).allowed
