"""Log lines of a job or a pod in batches, so that a fast writer makes few events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unisono.dashboard.http.streams import LOOK_SECONDS
from unisono.dashboard.views.wire import LogLine, Refused
from unisono.errors import ApiError
from unisono.sdk.joblogs import follow_logs
from unisono.sdk.log_selection import LogSelection

if TYPE_CHECKING:
    from unisono.api.kind import Kind
    from unisono.kube.http import HttpClient

_MOST_LINES = 500
_MOST_TAIL = 10_000
# Longer lines are cut for the page; the command line shows all of them.
_LONGEST = 4096
_UNREAD_BATCHES = 4


@dataclass(frozen=True, slots=True)
class Batch:
    """An event for the page; an empty name says only that there was nothing for a while."""

    event: str
    data: Any = None


async def batches(
    client: HttpClient, kind: Kind[Any], namespace: str, name: str, container: str, tail: int
) -> AsyncGenerator[Batch, None]:
    """The last lines and then every line as it comes; the last batch is an end, or why there is no more."""
    wanted = LogSelection(container=container, params={"tailLines": str(min(max(tail, 1), _MOST_TAIL))})
    lines: asyncio.Queue[LogLine | Refused | None] = asyncio.Queue(_UNREAD_BATCHES * _MOST_LINES)

    async def read() -> None:
        end: Refused | None = None
        try:
            async with aclosing(follow_logs(client, kind, namespace, name, wanted)) as source:
                async for line in source:
                    await lines.put(LogLine(pod=line.pod, task=line.task, text=line.text[:_LONGEST]))
        except ApiError as error:
            end = Refused(error=error.message, code=error.code)
        await lines.put(end)

    reading = asyncio.create_task(read())
    try:
        while True:
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    got = [await lines.get()]
            except TimeoutError:
                yield Batch("")
                continue
            while len(got) < _MOST_LINES and not lines.empty():
                got.append(lines.get_nowait())
            told = [line for line in got if isinstance(line, LogLine)]
            if told:
                yield Batch("lines", told)
            if len(told) < len(got):
                yield Batch("end", got[-1] or {})
                return
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
