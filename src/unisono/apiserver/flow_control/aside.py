"""Heavy work beside the event loop, or on it in slices: one large request must not keep the others waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from unisono.apiserver.flow_control.lines import Places

T = TypeVar("T")

HEAVY_BYTES = 32 * 1024
"""From this size on decoding, merging and validating an object takes milliseconds."""
# Threads of their own, so that large requests wait for each other alone, and one of each tenant at a time: they share
# the interpreter, and one may take seconds.
_COUNT = 2
_THREADS = ThreadPoolExecutor(_COUNT, thread_name_prefix="heavy-request")
_PLACES: WeakKeyDictionary[asyncio.AbstractEventLoop, Places] = WeakKeyDictionary()
_heavy: ContextVar[bool] = ContextVar("heavy", default=False)


def weigh(size: int) -> None:
    """Tell how many bytes the current request works on."""
    if size > HEAVY_BYTES:
        _heavy.set(True)


def is_heavy() -> bool:
    """Whether the current request works on much."""
    return _heavy.get()


class Slices:
    """Long work on the event loop, cut into slices between which others run.

    Args:
        size: bytes that one slice looks at; reading the metadata of so many takes about 10 ms.

    """

    def __init__(self, size: int = 4 * 1024 * 1024) -> None:
        self._size = self._left = size

    async def spend(self, units: int) -> None:
        """Count ``units`` bytes of work; let others run when the slice is used up."""
        self._left -= units
        if self._left <= 0:
            self._left = self._size
            await asyncio.sleep(0)


async def aside(function: Callable[..., T], *arguments: Any, always: bool = False) -> T:
    """What a pure function answers; where the request is heavy, or ``always``, from a thread."""
    if not (always or _heavy.get()):
        return function(*arguments)
    loop = asyncio.get_running_loop()
    if (places := _PLACES.get(loop)) is None:
        places = _PLACES[loop] = Places(_COUNT, 1)
    async with places.one():
        return await loop.run_in_executor(_THREADS, function, *arguments)
