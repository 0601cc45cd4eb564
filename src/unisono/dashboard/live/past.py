"""The history of a cluster whose API server keeps none; a viewer sees rows of what they may list."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from unisono.api.kinds import NODES, QUEUES
from unisono.api.users import tenant

if TYPE_CHECKING:
    from unisono.dashboard.live.viewing import Viewer
    from unisono.history.source import HistorySource


class Past:
    """Answers questions about the past.

    Args:
        source: where it is kept.

    """

    def __init__(self, source: HistorySource) -> None:
        self._source = source
        # The source answers one question after the other: of each tenant one waits there, of each of its users one for
        # that, and the others wait for those.
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def answer(self, viewer: Viewer, what: str, query: Mapping[str, str]) -> bytes | None:
        """The answer as JSON; None where there is no such question.

        Raises:
            ApiError: the question cannot be read, it is not for this viewer, or nothing can be said now.

        """
        user = viewer.user
        own, all_of_tenant = (self._turns.setdefault(name, asyncio.Lock()) for name in (f":{user}", tenant(user)))
        async with own, all_of_tenant:
            shown = await viewer.shown(await self._source.places(), query.get("namespace", ""))
            capacity, queues = await viewer.sees_all(NODES), await viewer.sees_all(QUEUES)
            return await self._source.answer(what, query, shown, capacity=capacity, queues=queues)
