"""Questions that take seconds of CPU time: each is answered in a process of its own, when its turn comes."""

from __future__ import annotations

import asyncio
import multiprocessing
import resource
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection
from typing import Any

import msgspec

from unisono.errors import ApiError, UnisonoError

_LONGEST_SECONDS = 300.0
"""After which a question is given up, where other work takes all CPU time."""
_MOST_BYTES = 4 << 30
_LOOK_SECONDS = 0.05


class CannotTell(UnisonoError):
    """The question has no answer; says why."""


class Turns:
    """Each question takes seconds of CPU time and a copy of the cluster: one at a time, of few that wait.

    Args:
        most: questions that may be open.
        of_one: how many of these may be of one user.
    """

    def __init__(self, most: int = 8, of_one: int = 1) -> None:
        self._most, self._of_one = most, of_one
        self._open: Counter[str] = Counter()
        self._turn = asyncio.Semaphore(1)

    @asynccontextmanager
    async def taken(self, user: str) -> AsyncIterator[None]:
        """Wait for the turn of a user's question.

        Raises:
            ApiError: 429: this user asks already, or too many others do.
        """
        if self._open[user] >= self._of_one:
            raise _busy("one question at a time: your last one is not answered yet")
        if self._open.total() >= self._most:
            raise _busy("too many others ask: try again in a minute")
        self._open[user] += 1
        try:
            async with self._turn:
                yield
        finally:
            self._open -= Counter([user])


def _busy(message: str) -> ApiError:
    return ApiError(message, code=429, reason="TooManyRequests")


async def elsewhere(instead: str, ask: Callable[..., Any], *given: Any) -> Any:
    """What a function of a module answers in another process, which is ended where it takes too long.

    Args:
        instead: the command that answers the question without a limit.
        ask: the function.
        given: its arguments.

    Raises:
        CannotTell: the function raised an error of ours, or took too much time or memory.
    """
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(there, ask, given), daemon=True)
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, process.start)
    there.close()
    try:
        async with asyncio.timeout(_LONGEST_SECONDS):
            while not here.poll():  # noqa: ASYNC110 - another process writes
                await asyncio.sleep(_LOOK_SECONDS)
            answer: bytes = here.recv_bytes()
    except (TimeoutError, EOFError):
        raise CannotTell(
            f"No answer came within five minutes, as other work takes all CPU time here: run '{instead}'."
        ) from None
    finally:
        process.kill()
        await loop.run_in_executor(None, process.join)
        here.close()
    reply = msgspec.json.decode(answer)
    if "error" in reply:
        raise CannotTell(str(reply["error"]))
    return reply["answer"]


def _work(answer: Connection, ask: Callable[..., Any], given: tuple[Any, ...]) -> None:
    """In the other process."""
    # Changes may ask for any number of nodes: what is too large is this question's fault alone.
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, _MOST_BYTES))
    try:
        reply: Any = {"answer": ask(*given)}
    except UnisonoError as error:
        reply = {"error": str(error)}
    except MemoryError:
        reply = {"error": f"This takes more than {_MOST_BYTES >> 30} GiB: ask for less."}
    answer.send_bytes(msgspec.json.encode(reply))
