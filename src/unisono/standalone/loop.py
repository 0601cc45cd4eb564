"""The event loop of a component: uvloop's where it is installed, which spends less on each request."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import structlog

# Settings of the interpreter for a process that answers others while it works.

# New objects between two searches of the garbage collector, then how many of those there are to the next wider one.
_SEARCHES = (700, 10, 100)
_SWITCH_SECONDS = 0.001
# Of glibc's malloc.h: parameter numbers of mallopt.
_MMAP_THRESHOLD, _ARENA_MAX = -3, -8
_BIG_BYTES, _ARENAS = 256 * 1024, 2


def set_pace() -> None:
    """Keep pauses short; call once, when everything that stays has been loaded.

    Objects of the API are trees, which go with their last reference; what the collector finds are a few tasks and
    exceptions, nearly all of them young. Searches among the young are kept small, a millisecond each; through the whole
    state, which takes half a second, goes one in a hundred, and only when the state has grown by a quarter.

    The thread that decides hands the interpreter over each millisecond, so that it does not hold up the requests.
    """
    gc.set_threshold(*_SEARCHES)
    sys.setswitchinterval(_SWITCH_SECONDS)
    _return_big_blocks()


def _return_big_blocks() -> None:
    """Have glibc give every big block back to the system as soon as it is freed; other C libraries are left alone.

    By itself glibc moves that bound up to 32 MiB once such a block was freed. Buffers of large objects then come from
    the heaps of the threads that decode them, and small blocks among them keep their memory.
    """
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, _BIG_BYTES)
        mallopt(_ARENA_MAX, _ARENAS)


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
