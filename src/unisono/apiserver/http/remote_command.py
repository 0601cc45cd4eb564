"""``exec`` and ``attach`` on the wire: a session's streams to a client and back, by WebSocket or SPDY."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from unisono.api.field_error import UNREADABLE
from unisono.apiserver.http.spdy import SpdyStream
from unisono.apiserver.http.wires import ERROR, RESIZE, Wire
from unisono.apiserver.http.wires import ChannelProtocol as Channels
from unisono.apiserver.nodes import STDERR, STDIN, STDOUT, Ended, Session, Wanted


@dataclass(frozen=True, slots=True)
class Input:
    """Something that a client sends: bytes for stdin, its end (``data`` is None), or the terminal's size."""

    data: bytes | None = None
    size: tuple[int, int] | None = None


class Remote(Protocol):
    """A client's side of a session."""

    async def output(self, stream: int, data: bytes) -> None:
        """Send what the command wrote."""
        ...

    async def status(self, ended: Ended) -> None:
        """Send how it ended."""
        ...

    async def input(self) -> Input | None:
        """What the client sends next; None when it is gone."""
        ...


async def relay(session: Session, wanted: Wanted, remote: Remote) -> None:
    """Carry streams in both directions until the command ended or the client is gone."""
    inputs = asyncio.create_task(_inputs(session, remote))
    outputs = asyncio.create_task(_outputs(session, wanted, remote))
    try:
        done, _ = await asyncio.wait({inputs, outputs}, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in (inputs, outputs):
            task.cancel()
        await asyncio.gather(inputs, outputs, return_exceptions=True)
        await session.close()


async def _outputs(session: Session, wanted: Wanted, remote: Remote) -> None:
    streams = [stream for stream, asked in ((STDOUT, wanted.stdout), (STDERR, wanted.stderr)) if asked]
    await asyncio.gather(*(_output(session, stream, remote) for stream in streams))
    await remote.status(await session.wait())


async def _output(session: Session, stream: int, remote: Remote) -> None:
    while data := await session.read(stream):
        await remote.output(stream, data)


async def _inputs(session: Session, remote: Remote) -> None:
    while (news := await remote.input()) is not None:
        if news.size is not None:
            session.resize(*news.size)
        elif news.data is None:
            session.close_stdin()
        else:
            await session.write(news.data)


class ChannelRemote:
    """A client that speaks one of the ``channel.k8s.io`` protocols over a WebSocket."""

    def __init__(self, wire: Wire, channels: Channels, wanted: Wanted) -> None:
        self._wire, self._channels, self._wanted = wire, channels, wanted

    async def greet(self) -> None:
        """Tell the client that its streams are open, with an empty message on the first that it reads."""
        first = STDOUT if self._wanted.stdout else STDERR if self._wanted.stderr else ERROR
        await self._wire.send(self._channels.encode(first, b""))

    async def output(self, stream: int, data: bytes) -> None:
        """A message on the stream's channel."""
        await self._wire.send(self._channels.encode(stream, data))

    async def status(self, ended: Ended) -> None:
        """A message on the error channel."""
        if text := _status_text(ended, as_object=self._channels.has_status):
            await self._wire.send(self._channels.encode(ERROR, text))

    async def input(self) -> Input | None:
        """The next message that concerns the session.

        Raises:
            ValueError: the client does not keep to its protocol.
        """
        while raw := await self._wire.receive():
            message = self._channels.decode(raw)
            if message is None:
                continue
            if message.channel == STDIN and self._wanted.stdin:
                if message.closed:
                    return Input()
                if message.data:
                    return Input(message.data)
            elif message.channel == RESIZE and (size := terminal_size(message.data)):
                return Input(size=size)
        return None


class SpdyRemote:
    """A client that opens a SPDY stream for each of its streams.

    Args:
        streams: by type: ``error``, ``stdin``, ``stdout``, ``stderr``, ``resize``.
        with_status: the error stream carries a ``Status`` (version 4).
        gone: set when the connection ends.
    """

    def __init__(self, streams: dict[str, SpdyStream], with_status: bool, gone: asyncio.Event) -> None:
        self._streams, self._with_status, self._gone = streams, with_status, gone
        self._news: asyncio.Queue[Input | None] = asyncio.Queue(maxsize=1)
        self._tasks = [asyncio.create_task(self._wait_for_end())]
        if "stdin" in streams:
            self._tasks.append(asyncio.create_task(self._read_stdin(streams["stdin"])))
        if "resize" in streams:
            self._tasks.append(asyncio.create_task(self._read_sizes(streams["resize"])))

    async def output(self, stream: int, data: bytes) -> None:
        """Bytes on the stream of the same name."""
        target = self._streams.get("stdout" if stream == STDOUT else "stderr")
        if target is not None:
            await target.write(data)

    async def status(self, ended: Ended) -> None:
        """The end of all streams, the reason on the error stream first."""
        text = _status_text(ended, as_object=self._with_status)
        if text and "error" in self._streams:
            await self._streams["error"].write(text)
        for stream in self._streams.values():
            await stream.end()

    async def input(self) -> Input | None:
        """What came on stdin or resize."""
        return await self._news.get()

    async def close(self) -> None:
        """Read no more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _read_stdin(self, stream: SpdyStream) -> None:
        while data := await stream.read():
            await self._news.put(Input(data))
        await self._news.put(Input())

    async def _read_sizes(self, stream: SpdyStream) -> None:
        # The client writes JSON objects one behind the other, each ended by a newline.
        rest = b""
        while data := await stream.read():
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                if size := terminal_size(line):
                    await self._news.put(Input(size=size))
            rest = rest[-1024:]

    async def _wait_for_end(self) -> None:
        await self._gone.wait()
        await self._news.put(None)


def terminal_size(text: bytes) -> tuple[int, int] | None:
    """Columns and rows of a resize message; None when it has none."""
    with contextlib.suppress(*UNREADABLE):
        value = msgspec.json.decode(text)
        if isinstance(value, dict):
            columns, rows = value.get("Width"), value.get("Height")
            if isinstance(columns, int) and isinstance(rows, int) and 0 < columns < 1 << 16 and 0 < rows < 1 << 16:
                return columns, rows
    return None


def status_object(ended: Ended) -> dict[str, Any]:
    """The ``Status`` that tells how a command ended, in the kubelet's words."""
    if ended.problem:
        return {
            "metadata": {},
            "status": "Failure",
            "message": f"Internal error occurred: {ended.problem}",
            "reason": "InternalError",
            "code": 500,
        }
    if ended.exit_code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {ended.exit_code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(ended.exit_code)}]},
    }


def _status_text(ended: Ended, *, as_object: bool) -> bytes:
    status = status_object(ended)
    if as_object:
        return msgspec.json.encode(status)
    return str(status.get("message", "")).encode()
