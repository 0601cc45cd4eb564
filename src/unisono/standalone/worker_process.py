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
from typing import Any, TypeVar

import msgspec
import structlog

from unisono.api.pod_limit import MOST_PODS
from unisono.standalone.component import PartEnded

# What the process of the API and the one that works for it tell each other, as lines of JSON on a pair of sockets.
#
# The pair is the leash, too: when one side ends, however it ends, the other one reads the end of the stream.

# Metrics of large control planes are the longest lines by far.
_LINE_BYTES = 64 * 1024 * 1024

T = TypeVar("T")


class Settings(msgspec.Struct):
    """The first line to the worker.

    Attributes:
        parent: process id of the one that serves.
        socket: where it listens.
        token: who the worker is to the API.
        nodes: entries of simulated nodes.
        scheduler_config: path of the scheduler's configuration, empty for the default.
        log_file: path of the log, empty for standard error.
        log_level: what the log tells.
        most_pods: pods that one object may ask for.
        fleet: the control plane is a hub.
        record: file in which the scheduler writes down what it sees and decides, empty for none.
        history: file of what ran, empty for none.
        history_days: how long jobs that ended are kept there one by one.
    """

    parent: int
    socket: str
    token: str
    nodes: Sequence[dict[str, Any]] = ()
    scheduler_config: str = ""
    log_file: str = ""
    log_level: str = "info"
    most_pods: int = MOST_PODS
    fleet: bool = False
    record: str = ""
    history: str = ""
    history_days: float = 0.0


class Question(msgspec.Struct):
    """Asks the worker for its metrics; ``number`` comes back with the answer."""

    number: int


class News(msgspec.Struct, omit_defaults=True):
    """From the worker: what is not ready, or the answer to a question.

    Attributes:
        unready: parts that have not taken up their work; None in an answer.
        number: of the question.
        metrics: Prometheus text.
    """

    unready: list[str] | None = None
    number: int = 0
    metrics: str = ""


class Channel:
    """One end of the pair."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def on(cls, end: socket.socket) -> Channel:
        """A channel on a connected socket, which it owns from now on."""
        return cls(*await asyncio.open_connection(sock=end, limit=_LINE_BYTES))

    def tell(self, message: msgspec.Struct) -> None:
        """Send; what the other side does not live to read is lost."""
        if not self._writer.is_closing():
            self._writer.write(msgspec.json.encode(message) + b"\n")

    async def hear(self, kind: type[T]) -> T | None:
        """The next message; None when the other side is gone."""
        try:
            line = await self._reader.readline()
        except ConnectionError:
            return None
        return msgspec.json.decode(line, type=kind) if line.endswith(b"\n") else None

    def close(self) -> None:
        """End the stream for both sides."""
        self._writer.close()


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
        channel, settings_sent = await Channel.on(ours), False
        try:
            channel.tell(await self._settings())
            self._channel, settings_sent = channel, True
            while (news := await channel.hear(News)) is not None:
                self._take(news)
        finally:
            self._channel, self._unready = None, self._parts
            for answer in self._answers.values():
                answer.cancel()
            channel.close()
            if not settings_sent and process.returncode is None:
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
