"""Many requests at once, but not too many."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

# Requests that are under way at once for one object.
PARALLEL = 32
# Objects that are made for one object at one look; the next look, after other objects have had their turn, goes on.
SLICE = 1000


async def for_each(work: Callable[[T], Awaitable[None]], items: Sequence[T]) -> list[Exception]:
    """Work on all items, a bounded number at a time; answers the errors, in order."""
    gate = asyncio.Semaphore(PARALLEL)

    async def one(item: T) -> None:
        async with gate:
            await work(item)

    results = await asyncio.gather(*(one(item) for item in items), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, Exception):
            raise result
    return [result for result in results if isinstance(result, Exception)]
