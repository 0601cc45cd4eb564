"""Waiting for file descriptors on the event loop, without reading ahead."""

from __future__ import annotations

import asyncio
import os


async def readable(fd: int) -> None:
    """Wait until a read does not block."""
    loop = asyncio.get_running_loop()
    news: asyncio.Future[None] = loop.create_future()
    loop.add_reader(fd, _wake, news)
    try:
        await news
    finally:
        loop.remove_reader(fd)


async def writable(fd: int) -> None:
    """Wait until a write takes something."""
    loop = asyncio.get_running_loop()
    news: asyncio.Future[None] = loop.create_future()
    loop.add_writer(fd, _wake, news)
    try:
        await news
    finally:
        loop.remove_writer(fd)


async def write_all(fd: int, data: bytes) -> None:
    """Write everything to a descriptor that does not block.

    Raises:
        OSError: it has no reader any more.
    """
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            await writable(fd)


def _wake(news: asyncio.Future[None]) -> None:
    if not news.done():
        news.set_result(None)
