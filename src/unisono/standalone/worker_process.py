"""The worker as the process that serves sees it: starts it, knows what is ready, asks for metrics, ends it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Callable, Sequence

import structlog

from unisono.errors import UnisonoError
from unisono.standalone.channel import Channel, News, Question, Settings

_END_SECONDS = 10.0
_ANSWER_SECONDS = 5.0

_log = structlog.get_logger(__name__)


class WorkerDied(UnisonoError):
    """The worker ended though nobody wanted that."""


class WorkerProcess:
    """One worker at a time, made anew by each ``run``.

    Args:
        settings: what to tell it; made anew for each start.
        parts: names of what it runs.
    """

    def __init__(self, settings: Callable[[], Settings], parts: Sequence[str]) -> None:
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
                    "unisono.standalone.worker",
                    str(theirs.fileno()),
                    stdin=DEVNULL,
                    pass_fds=(theirs.fileno(),),
                )
            except BaseException:
                ours.close()
                raise
        self.pid = process.pid
        channel = self._channel = await Channel.on(ours)
        try:
            channel.tell(self._settings())
            while (news := await channel.hear(News)) is not None:
                self._take(news)
        finally:
            self._channel, self._unready = None, self._parts
            for answer in self._answers.values():
                answer.cancel()
            channel.close()
            code = await asyncio.shield(asyncio.ensure_future(_ended(process)))
        how = f"killed by signal {-code}" if code < 0 else f"with code {code}"
        raise WorkerDied(f"the process of scheduler and controllers ended {how}")

    def _take(self, news: News) -> None:
        if news.unready is not None:
            self._unready = news.unready
        elif (answer := self._answers.get(news.number)) is not None and not answer.done():
            answer.set_result(news.metrics)


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
