"""An event loop in a thread of its own: blocking calls to asynchronous code, also from within another loop."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager, suppress
from typing import Any, TypeVar

from unisono.errors import UnisonoError

T = TypeVar("T")
OnClose = Callable[[], Awaitable[None]]

# Closing waits no longer than this for what is left to end, such as a private control plane with its pods.
_CLOSE_SECONDS = 10.0


class Portal:
    """Runs coroutines in the background loop and waits for them; safe from several threads.

    The thread is a daemon: a program that forgets `close` can end.
    """

    def __init__(self, on_close: OnClose | None = None) -> None:
        """``on_close`` runs last in the loop, also without a call of `close`; it must not refer to the portal."""
        self._loop = asyncio.new_event_loop()
        self._sources: set[AsyncGenerator[Any, None]] = set()
        self._thread = threading.Thread(
            target=_serve, args=(self._loop, self._sources, on_close or _nothing), name="unisono-sdk", daemon=True
        )
        self._thread.start()
        # No call may come between the loop's last turn and the news that it has ended: it would never be answered. The
        # garbage collector may end a forgotten iterator in the middle of a call, in the same thread.
        self._entrance = threading.RLock()
        self._finalizer = weakref.finalize(self, _end, self._loop, self._thread, self._entrance)

    @property
    def open(self) -> bool:
        """Whether the loop still runs."""
        return self._finalizer.alive

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine in the background loop.

        Raises:
            RuntimeError: the portal is closed.

        """
        with self._entrance:
            if self.open:
                return asyncio.run_coroutine_threadsafe(work, self._loop)
        work.close()
        raise RuntimeError("The client is closed: make a new one.")

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine. Ctrl-C cancels it.

        Raises:
            RuntimeError: the portal is closed, or another thread closed it meanwhile.

        """
        future = self.start(work)
        try:
            return future.result()
        except CancelledError:
            if self.open:
                raise
            raise RuntimeError("The client was closed while this call waited.") from None
        except UnisonoError as error:
            # What happened on the way here says nothing about the caller's program: its frames come alone.
            raise error.with_traceback(None) from error.__cause__
        except BaseException:
            future.cancel()
            raise

    def iterate(self, source: AsyncGenerator[T, None]) -> Generator[T, None, None]:
        """The items of an asynchronous generator, one by one; it is closed when the caller stops."""
        self._sources.add(source)
        try:
            while True:
                try:
                    item = self.run(_next(source))
                except StopAsyncIteration:
                    return
                yield item
        finally:
            # Not waited for: the garbage collector ends a forgotten iterator in any thread and in the middle of
            # anything. A portal that closes meanwhile closes its generators itself.
            with suppress(RuntimeError):
                self.start(_close(source, self._sources))

    def close(self) -> None:
        """Stop the loop; closing twice is fine."""
        self._finalizer()


async def _next(source: AsyncGenerator[T, None]) -> T:
    return await anext(source)


async def _close(source: AsyncGenerator[Any, None], sources: set[AsyncGenerator[Any, None]]) -> None:
    try:
        await source.aclose()
    finally:
        sources.discard(source)


async def _nothing() -> None:
    return


def _serve(loop: asyncio.AbstractEventLoop, sources: set[AsyncGenerator[Any, None]], on_close: OnClose) -> None:
    """The thread: the loop until it is stopped, and then what is left to end in it."""
    try:
        loop.run_forever()
        loop.run_until_complete(_finish(sources, on_close))
    finally:
        loop.close()


async def _finish(sources: set[AsyncGenerator[Any, None]], on_close: OnClose) -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    # One by one: each closes those that it reads from, and the loop would close them all at once.
    for source in tuple(sources):
        with suppress(Exception):
            await source.aclose()
    await asyncio.get_running_loop().shutdown_asyncgens()
    with suppress(UnisonoError, OSError):
        await on_close()


def _end(loop: asyncio.AbstractEventLoop, thread: threading.Thread, entrance: AbstractContextManager[Any]) -> None:
    with entrance:
        loop.call_soon_threadsafe(loop.stop)
    # The garbage collector may end a forgotten portal in the loop's own thread, which must not wait for itself.
    if threading.current_thread() is not thread:
        thread.join(timeout=_CLOSE_SECONDS)
