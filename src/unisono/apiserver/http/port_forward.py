"""``port-forward`` on the wire: connections to a pod's ports, as SPDY streams or as channels of a WebSocket."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Coroutine
from typing import Any

from unisono.apiserver.http import spdy
from unisono.apiserver.http.spdy import SpdySession, SpdyStream
from unisono.apiserver.http.wires import ChannelProtocol as Channels
from unisono.apiserver.http.wires import Wire
from unisono.apiserver.nodes import ContainerTarget, Ports, PortStream
from unisono.errors import UnisonoError

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
