"""Streams between a client and a pod: commands (exec, attach) and forwarded ports."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from unisono.api.field_error import UNREADABLE
from unisono.apiserver.http import spdy
from unisono.apiserver.http.spdy import SpdySession, SpdyStream
from unisono.apiserver.http.wires import ERROR, RESIZE, Wire
from unisono.apiserver.http.wires import ChannelProtocol as Channels
from unisono.apiserver.nodes import STDERR, STDIN, STDOUT, ContainerTarget, Ended, Ports, PortStream, Session, Wanted
from unisono.errors import UnisonoError

# ``exec`` and ``attach`` on the wire: a session's streams to a client and back, by WebSocket or SPDY.


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


# ``port-forward`` on the wire: connections to a pod's ports, as SPDY streams or as channels of a WebSocket.

# How long a client may take to open the second stream of a connection.
_PAIR_SECONDS = 30.0
# More connections than that are not forwarded in one session: see Limits.forwarded_of_one.
_MOST_WAITING = 200


class SpdyForwarder:
    """Serves a client that opens two streams per connection: ``error`` and ``data``.

    Args:
        access: reaches the pods.
        target: the pod.
    """

    def __init__(self, access: Ports, target: ContainerTarget) -> None:
        self._access, self._target = access, target
        # By request: the stream that has come first, and what gives it up.
        self._waiting: dict[str, tuple[SpdyStream, asyncio.TimerHandle]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, wire: Wire) -> None:
        """Serve until the client is gone.

        Raises:
            ValueError: the client does not speak SPDY/3.1.
        """
        try:
            await SpdySession(wire, self._opened).run()
        finally:
            for _, timer in self._waiting.values():
                timer.cancel()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _opened(self, stream: SpdyStream) -> None:
        kind, port = stream.headers.get("streamtype", ""), stream.headers.get("port", "")
        if kind not in {"data", "error"}:
            raise ValueError(f'invalid stream type "{kind}"')
        number = port_number(port)
        # Clients of old do not number their requests: their streams come in pairs, error first.
        request = stream.headers.get("requestid") or str(stream.number - (2 if kind == "data" else 0))
        if request not in self._waiting:
            # Those count as well that the client has given up.
            if len(self._waiting) + len(self._tasks) >= _MOST_WAITING:
                raise ValueError("too many streams wait for their pair")
            timer = asyncio.get_running_loop().call_later(_PAIR_SECONDS, self._expire, request)
            self._waiting[request] = stream, timer
            return
        other, timer = self._waiting.pop(request)
        timer.cancel()
        if other.headers["streamtype"] == kind:
            raise ValueError(f"{kind} stream already assigned")
        data, error = (stream, other) if kind == "data" else (other, stream)
        self._keep(self._forward(number, data, error))

    def _expire(self, request: str) -> None:
        stream, _ = self._waiting.pop(request)
        self._keep(_give_up(stream))

    async def _forward(self, port: int, data: SpdyStream, error: SpdyStream) -> None:
        await error.drop_input()
        try:
            connection = await self._access.connect(self._target, port)
            await _join(data, connection)
        except (UnisonoError, OSError) as problem:
            await self._fail(port, data, error, str(problem))
        else:
            await data.end()
            await error.end()

    async def _fail(self, port: int, data: SpdyStream, error: SpdyStream, problem: str) -> None:
        with contextlib.suppress(ConnectionError):
            await error.write(failure(port, self._target, problem).encode())
            await error.end()
            await data.reset(spdy.INTERNAL_ERROR)

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _give_up(stream: SpdyStream) -> None:
    with contextlib.suppress(ConnectionError):
        await stream.reset(spdy.PROTOCOL_ERROR)


async def _join(data: SpdyStream, connection: PortStream) -> None:
    """Carry bytes both ways until the pod's side ends."""
    sending = asyncio.create_task(_send(data, connection))
    try:
        while piece := await connection.read():
            await data.write(piece)
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        await connection.close()


async def _send(data: SpdyStream, connection: PortStream) -> None:
    # The pod's side that is gone shows in what is read from it.
    with contextlib.suppress(OSError):
        while piece := await data.read():
            await connection.write(piece)
        connection.end_writing()


class ChannelForwarder:
    """Serves a client that names its ports in the URL: two channels per port, data and errors.

    Args:
        access: reaches the pods.
        target: the pod.
        ports: the ports, in the order of their channels.
        channels: the protocol.
    """

    def __init__(self, access: Ports, target: ContainerTarget, ports: list[int], channels: Channels) -> None:
        self._access, self._target, self._ports, self._channels = access, target, ports, channels
        self._connections: dict[int, PortStream] = {}

    async def run(self, wire: Wire) -> None:
        """Serve until every connection has ended or the client is gone.

        Raises:
            ValueError: the client does not keep to its protocol.
        """
        for index, port in enumerate(self._ports):
            for channel in (2 * index, 2 * index + 1):
                await wire.send(self._channels.encode(channel, struct.pack("<H", port)))
        opened = [await self._open(wire, index, port) for index, port in enumerate(self._ports)]
        pumps = asyncio.gather(*(self._pump(wire, index) for index, is_open in enumerate(opened) if is_open))
        inputs = asyncio.create_task(self._inputs(wire))
        try:
            both: set[asyncio.Future[Any]] = {pumps, inputs}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if inputs.done():
                inputs.result()
        finally:
            inputs.cancel()
            pumps.cancel()
            # A client that goes away cancels us here once more: the connections must be closed nevertheless.
            closing = asyncio.gather(*(c.close() for c in self._connections.values()), return_exceptions=True)
            await asyncio.shield(closing)
            await asyncio.gather(inputs, pumps, return_exceptions=True)

    async def _open(self, wire: Wire, index: int, port: int) -> bool:
        try:
            self._connections[index] = await self._access.connect(self._target, port)
        except (UnisonoError, OSError) as problem:
            text = failure(port, self._target, str(problem))
            await wire.send(self._channels.encode(2 * index + 1, text.encode()))
            return False
        return True

    async def _pump(self, wire: Wire, index: int) -> None:
        while data := await self._connections[index].read():
            await wire.send(self._channels.encode(2 * index, data))

    async def _inputs(self, wire: Wire) -> None:
        while raw := await wire.receive():
            message = self._channels.decode(raw)
            connection = self._connections.get(message.channel // 2) if message else None
            if message and connection and message.channel % 2 == 0 and message.data:
                with contextlib.suppress(OSError):
                    await connection.write(message.data)


def failure(port: int, target: ContainerTarget, problem: str) -> str:
    """What the client shows when a connection cannot be made, in the kubelet's words."""
    return f"error forwarding port {port} to pod {target.pod}, uid {target.uid}: {problem}"


def port_number(text: str) -> int:
    """A port.

    Raises:
        ValueError: it is none.
    """
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 1 << 16:
        raise ValueError(f'unable to parse "{text}" as a port')
    return int(text)
