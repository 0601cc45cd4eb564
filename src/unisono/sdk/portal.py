"""An event loop in a thread of its own: blocking calls to asynchronous code, also from within another loop."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncGenerator, Coroutine, Generator
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class Portal:
    """Runs coroutines in the background loop and waits for them; safe from several threads.

    The thread is a daemon: a program that forgets `close` can end.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="unisono-sdk", daemon=True)
        self._thread.start()
        self._finalizer = weakref.finalize(self, _end, self._loop, self._thread)

    @property
    def open(self) -> bool:
        """Whether the loop still runs."""
        return self._finalizer.alive

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine in the background loop."""
        if not self.open:
            work.close()
            raise RuntimeError("The client is closed: make a new one.")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine. Ctrl-C cancels it."""
        future = self.start(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def iterate(self, source: AsyncGenerator[T, None]) -> Generator[T, None, None]:
        """The items of an asynchronous generator, one by one; it is closed when the caller stops."""
        try:
            while True:
                try:
                    item = self.run(_next(source))
                except StopAsyncIteration:
                    return
                yield item
        finally:
            if self.open:
                closed = self.start(_close(source))
                # An iterator that was forgotten is ended by the garbage collector, at times in the loop's own thread,
                # which must not wait for itself.
                if threading.current_thread() is not self._thread:
                    closed.result()

    def close(self) -> None:
        """Stop the loop; closing twice is fine."""
        self._finalizer()


# Time in which the server answers the end of a stream's TLS.
_FAREWELL_SECONDS = 0.1


async def _next(source: AsyncGenerator[T, None]) -> T:
    return await anext(source)


async def _close(source: AsyncGenerator[Any, None]) -> None:
    await source.aclose()


def _end(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    async def finish() -> None:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await loop.shutdown_asyncgens()
        # Streams that were cut off just now close their connections in the next turns of the loop.
        await asyncio.sleep(_FAREWELL_SECONDS if others else 0)

    asyncio.run_coroutine_threadsafe(finish(), loop).result(timeout=10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(timeout=10)
    if not thread.is_alive():
        loop.close()
