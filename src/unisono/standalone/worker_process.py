"""The worker as the process that serves sees it: starts it, knows what is ready, asks for metrics, ends it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import signal
import socket
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Awaitable, Callable, Sequence

import structlog

from unisono.standalone.channel import Channel, News, Question, Settings
from unisono.standalone.supervision import PartEnded

_END_SECONDS = 10.0
_ANSWER_SECONDS = 5.0

_log = structlog.get_logger(__name__)


class WorkerDied(PartEnded):
    """The worker ended without being told to."""


class WorkerProcess:
    """One worker at a time, made by each ``run``.

    Args:
        settings: what to tell it, waited for while it reads its modules; made for each start.
        parts: names of what it runs.
    """

    def __init__(self, settings: Callable[[], Awaitable[Settings]], parts: Sequence[str]) -> None:
        self._settings = settings
        self._parts = self._unready = list(parts)
        self._channel: Channel | None = None
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[str]] = {}
        self.pid = 0

    def unready(self) -> list[str]:
        """Names of the parts that have not taken up their work; all of them while no worker runs."""
        return self._unready

    async def metrics(self) -> bytes:
        """The worker's metrics as Prometheus text; nothing where it does not run, or does not answer in time."""
        if self._channel is None:
            return b""
        number = next(self._numbers)
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        self._channel.tell(Question(number))
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return (await answer).encode()
        except TimeoutError:
            _log.warning("worker.silent", seconds=_ANSWER_SECONDS)
            return b""
        finally:
            del self._answers[number]

    async def run(self) -> None:
        """Start the worker and listen to it until cancelled; then it is ended, in order.

        Raises:
            WorkerDied: it ended by itself, or was killed.

        """
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-P",
                    "-m",
                    "unisono.standalone.background_process",
                    str(theirs.fileno()),
                    stdin=DEVNULL,
                    pass_fds=(theirs.fileno(),),
                )
            except BaseException:
                ours.close()
                raise
        self.pid = process.pid
        channel, told = await Channel.on(ours), False
        try:
            channel.tell(await self._settings())
            self._channel, told = channel, True
            while (news := await channel.hear(News)) is not None:
                self._take(news)
        finally:
            self._channel, self._unready = None, self._parts
            for answer in self._answers.values():
                answer.cancel()
            channel.close()
            if not told and process.returncode is None:
                # It has nothing to bring to an end, and may not listen yet.
                process.terminate()
            code = await asyncio.shield(asyncio.ensure_future(_ended(process)))
        raise WorkerDied(f"the process of scheduler and controllers {_how(code)}")

    def _take(self, news: News) -> None:
        if news.unready is not None:
            self._unready = news.unready
        elif (answer := self._answers.get(news.number)) is not None and not answer.done():
            answer.set_result(news.metrics)


def _how(code: int) -> str:
    """What a process's return code says of its end."""
    if code >= 0:
        return f"ended with code {code}"
    with contextlib.suppress(ValueError):
        return f"was killed by {signal.Signals(-code).name}"
    return f"was killed by signal {-code}"


async def _ended(process: Process) -> int:
    """The exit code of a worker whose channel is closed; one that does not end is killed."""
    try:
        async with asyncio.timeout(_END_SECONDS):
            return await process.wait()
    except TimeoutError:
        _log.warning("worker.killed", pid=process.pid, seconds=_END_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        return await process.wait()
