"""Joining the streams of a container: the client's side of the socket on which its shim listens."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from unisono.agent.layout import RunDir
from unisono.agent.shim.attach import CLOSE_STDIN, FRAME, PIECE, RESIZE, SOCKET, STDIN, TOO_SLOW
from unisono.errors import AgentError

_SIZE = struct.Struct(">HH")


@dataclass(frozen=True, slots=True)
class Detached:
    """How an attached session ended; the container's own status tells its exit code."""

    exit_code: int = 0
    problem: str = ""


async def attach(run: RunDir, *, stdin: bool, outputs: Mapping[int, bool]) -> AttachedSession:
    """Join a running container.

    Args:
        run: its present run.
        stdin: the client sends something.
        outputs: which of stdout (1) and stderr (2) the client reads.

    Raises:
        AgentError: its shim does not listen.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.setblocking(False)
    # The run's path may be longer than the address of a socket may be.
    folder = os.open(run.path, os.O_PATH | os.O_CLOEXEC)
    try:
        connection.connect(f"/proc/self/fd/{folder}/{SOCKET}")
    except OSError as error:
        connection.close()
        raise AgentError(
            f"the container cannot be attached to ({error.strerror}): it has just ended, or an earlier version of "
            "Unisono started it"
        ) from None
    finally:
        os.close(folder)
    reader, writer = await asyncio.open_unix_connection(sock=connection, limit=PIECE)
    return AttachedSession(reader, writer, stdin, outputs)


class AttachedSession:
    """The streams of a container, shared with all clients that are attached."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, stdin: bool, outputs: Mapping[int, bool]
    ) -> None:
        self._reader, self._writer, self._stdin, self._outputs = reader, writer, stdin, outputs
        # One piece at a time is kept for each output: a client reads both, and in its own order.
        self._pieces: dict[int, asyncio.Queue[bytes]] = {n: asyncio.Queue(maxsize=1) for n in (1, 2) if outputs[n]}
        self._problem = ""
        self._receiving = asyncio.ensure_future(self._receive())

    async def read(self, stream: int) -> bytes:
        """The next bytes of an output; empty at the end."""
        return await self._pieces[stream].get() if stream in self._pieces else b""

    async def write(self, data: bytes) -> None:
        """Hand bytes to stdin; a container without stdin does not get them."""
        if self._stdin:
            for start in range(0, len(data), PIECE):
                await self._send(STDIN, data[start : start + PIECE])

    def close_stdin(self) -> None:
        """The client sends no more: with ``stdinOnce`` that is the end of the container's stdin."""
        if self._stdin:
            self._writer.write(FRAME.pack(CLOSE_STDIN, 0))

    def resize(self, columns: int, rows: int) -> None:
        """The client's terminal has another size."""
        self._writer.write(FRAME.pack(RESIZE, _SIZE.size) + _SIZE.pack(columns, rows))

    async def wait(self) -> Detached:
        """How it ended."""
        await asyncio.shield(self._receiving)
        return Detached(problem=self._problem)

    async def close(self) -> None:
        """Leave the container alone."""
        self._writer.close()
        self._receiving.cancel()
        await asyncio.gather(self._receiving, return_exceptions=True)
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def _send(self, channel: int, data: bytes) -> None:
        # A container that ended meanwhile shows in what is read.
        with contextlib.suppress(OSError):
            self._writer.write(FRAME.pack(channel, len(data)) + data)
            await self._writer.drain()

    async def _receive(self) -> None:
        try:
            while True:
                channel, length = FRAME.unpack(await self._reader.readexactly(FRAME.size))
                data = await self._reader.readexactly(length)
                if channel == TOO_SLOW:
                    self._problem = (
                        "error attaching to container: the output was not read for too long; the log has all of it"
                    )
                elif data and channel in self._pieces:
                    await self._pieces[channel].put(data)
        except (asyncio.IncompleteReadError, OSError):
            return
        finally:
            for queue in self._pieces.values():
                with contextlib.suppress(asyncio.CancelledError):
                    await queue.put(b"")
