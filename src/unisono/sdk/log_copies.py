"""Follows the logs of many containers into one event queue."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from unisono.errors import ApiError
from unisono.sdk.events import EventQueue, LogFailed, LogText, Target
from unisono.sdk.log_selection import ENDED_PHASES, LogSelection
from unisono.sdk.logstream import lines

if TYPE_CHECKING:
    from unisono.api.core import Pod
    from unisono.kube.http import HttpClient

DRAIN_SECONDS = 5.0
"""How long a log may stay silent after its job has ended: a process may outlive its job and never end its log."""
END_SECONDS = 30.0
"""The same for the log of a pod that has ended: that log ends, however slowly it comes."""


class LogCopies:
    """One task for each container whose log is followed."""

    def __init__(self, client: HttpClient, selection: LogSelection, events: EventQueue) -> None:
        self._client, self._selection, self._events = client, selection, events
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._ended: set[str] = set()

    def start(self, target: Target, pod: Pod, *, deleted: bool = False) -> None:
        """Follow the selected logs of a pod that has started; those that are followed already go on."""
        if not self._selection.is_ready(pod):
            return
        uid = pod.metadata.uid or ""
        if deleted or pod.status.phase in ENDED_PHASES:
            self._ended.add(uid)
        for container in self._selection.containers(pod):
            if (uid, container) not in self._tasks:
                self._tasks[uid, container] = asyncio.create_task(self._copy(target, pod, container))

    async def drain(self) -> None:
        """Wait for the last lines. A log that does not end is left after a while; a slow reader loses nothing."""
        await self._wait(list(self._tasks.values()), DRAIN_SECONDS)
        await self._wait([task for (uid, _), task in self._tasks.items() if uid in self._ended], END_SECONDS)

    async def close(self) -> None:
        """End what still runs."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _copy(self, target: Target, pod: Pod, container: str) -> None:
        query = {**self._selection.query(pod, container), "follow": "true"}
        source = lines(self._client, pod.metadata.namespace or "default", pod.metadata.name, query, patient=True)
        try:
            async with aclosing(source):
                async for text in source:
                    await self._events.put_line(LogText(target, pod, container, text))
        except ApiError as error:
            self._events.put_failure(LogFailed(target, pod, container, error))

    async def _wait(self, tasks: Sequence[asyncio.Task[None]], seconds: float) -> None:
        """Return when all are done, or after ``seconds`` in which the reader waited for them."""
        while pending := [task for task in tasks if not task.done()]:
            before = self._events.unread
            await asyncio.wait(pending, timeout=seconds)
            if self._events.unread == before == 0:
                return
