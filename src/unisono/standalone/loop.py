"""The event loop of a component: uvloop's where it is installed, which spends less on each request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import structlog

T = TypeVar("T")

_log = structlog.get_logger(__name__)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run ``work`` to its end in a new event loop, as `asyncio.run` does."""
    with asyncio.Runner(loop_factory=_factory()) as runner:
        runner.get_loop().set_exception_handler(note_failure)
        return runner.run(work)


def note_failure(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Note what failed outside of any task; a connection that the other side has closed is no failure of ours.

    uvloop reports a TLS connection that was closed while it was being written to, as after a pause of the process, with
    a RuntimeError and its traceback. The request that uses the connection fails by itself, and is repeated.
    """
    error = context.get("exception")
    if isinstance(error, RuntimeError) and _closed(context.get("transport"), error):
        _log.info("connection.closed", error=str(error))
        return
    loop.default_exception_handler(context)


def _closed(transport: asyncio.BaseTransport | None, error: RuntimeError) -> bool:
    # A handle that the kernel's error closed does not say that it is closing; only the error's text tells.
    return transport is not None and (transport.is_closing() or str(error).endswith("the handler is closed"))


def _factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    made: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return made
