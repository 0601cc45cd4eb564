"""Brings informers to where the server is now: each kind has a watch of its own, and one may lag behind another."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from unisono.errors import ApiError

if TYPE_CHECKING:
    from unisono.api.base import Object
    from unisono.kube.client import Client, EventType
    from unisono.kube.informer import Informer


class Abreast:
    """Knows what has gone, so that it can tell what has not been seen yet.

    Args:
        client: the server.
        namespace: of the informers; None for all.
        informers: what is to be abreast; they have not begun to run.

    """

    def __init__(self, client: Client, namespace: str | None, informers: Sequence[Informer[Any]]) -> None:
        self._client, self._namespace, self._informers = client, namespace, informers
        self._gone: set[str] = set()
        self._news = asyncio.Event()
        for informer in informers:
            informer.on_change(self._note)

    async def catch_up(self, seconds: float) -> None:
        """Return when the informers have everything that the server has at this moment, or after ``seconds``.

        A kind that cannot be read is passed over: its informer could not tell more either.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                for informer in self._informers:
                    await self._one(informer)

    async def _one(self, informer: Informer[Any]) -> None:
        try:
            listed = (await self._client.list(informer.kind, self._namespace)).items
        except (ApiError, OSError):
            return
        for obj in listed:
            while not self._knows(informer, obj):
                self._news.clear()
                await self._news.wait()

    def _knows(self, informer: Informer[Any], obj: Object) -> bool:
        if obj.metadata.uid in self._gone:
            return True
        cached = informer.get(obj.key)
        return cached is not None and _version(cached) >= _version(obj)

    def _note(self, event: EventType, obj: Object, _: Object | None) -> None:
        self._news.set()
        if event == "DELETED":
            self._gone.add(obj.metadata.uid or "")


def _version(obj: Object) -> int:
    return int(obj.metadata.resource_version or 0)
