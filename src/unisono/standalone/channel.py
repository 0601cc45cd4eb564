"""What the process of the API and the one that works for it tell each other, as lines of JSON on a pair of sockets.

The pair is the leash, too: when one side ends, however it ends, the other one reads the end of the stream.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from unisono.api.pod_limit import MOST_PODS

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
