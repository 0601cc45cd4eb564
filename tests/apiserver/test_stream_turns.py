"""Messages and frames of one client leave room for others, however many come at once."""

from __future__ import annotations

import asyncio
import struct
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp import WSMessage, WSMsgType

from unisono.apiserver.access.user import User
from unisono.apiserver.flow_control import Limits, Turns
from unisono.apiserver.http import spdy
from unisono.apiserver.http.exchange import Exchange
from unisono.apiserver.http.remote_command import SpdyForwarder
from unisono.apiserver.http.spdy import Encoder, Frame, SpdySession
from unisono.apiserver.http.wires import WebSocketWire
from unisono.apiserver.nodes import ContainerTarget

EACH = 16
NOTHING = struct.pack(">HHIII", 0x8003, spdy.WINDOW_UPDATE, 8, 1, 1)


class Pieces:
    """A client that has sent everything already, and reads all answers."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces, self.sent = list(pieces), bytearray()
        self._turns = Turns(EACH)

    async def receive(self) -> bytes:
        return self.pieces.pop(0) if self.pieces else b""

    async def turn(self, weight: int = 1) -> None:
        await self._turns.take(weight)

    async def send(self, data: bytes) -> None:
        self.sent += data


class Others:
    """Counts how often others run while something goes on."""

    def __init__(self) -> None:
        self.ran = 0

    async def __aenter__(self) -> Others:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()

    async def _run(self) -> None:
        while True:
            self.ran += 1
            await asyncio.sleep(0)


def streams(count: int, *, given_up: bool = False, kind: str = "error") -> bytes:
    """Frames that open streams, each of a request of its own."""
    encoder, raw = Encoder(), b""
    for number in range(1, 2 * count, 2):
        headers = {"streamtype": kind, "port": "80", "requestid": str(number)}
        raw += encoder.frame(Frame(spdy.SYN_STREAM, number, headers=headers))
        if given_up:
            raw += encoder.frame(Frame(spdy.RST_STREAM, number, status=spdy.CANCEL))
    return raw


@pytest.mark.parametrize(("raw", "frames"), [(NOTHING * 4_000, 4_000), (streams(300), 300), (bytes(8 * 4_000), 4_000)])
async def test_others_run_between_the_frames_of_one_message(raw: bytes, frames: int) -> None:
    async with Others() as others:
        await SpdySession(Pieces(raw), lambda _: None).run()
    assert others.ran >= frames // EACH


async def test_others_run_between_messages_that_have_come_already() -> None:
    count = 4_000
    empty = WSMessage(WSMsgType.BINARY, b"", None)
    messages = [empty] * count + [WSMessage(WSMsgType.CLOSE, None, None)]

    async def receive() -> WSMessage:
        return messages.pop(0)

    wire = WebSocketWire(exchange(), cast("Any", SimpleNamespace(receive=receive)))
    async with Others() as others:
        assert await wire.receive() == b""
    assert others.ran >= count // EACH


def exchange() -> Exchange:
    request = SimpleNamespace(transport=SimpleNamespace(abort=lambda: None, get_extra_info=lambda _: "tls"))
    user = User("joe")
    return Exchange(cast("Any", request), user, "audit", Limits(), Turns(EACH))


async def test_others_run_between_pieces_of_output_that_a_session_sends_without_a_pause() -> None:
    sent: list[bytes] = []

    async def send_bytes(data: bytes) -> None:
        sent.append(data)

    wire = WebSocketWire(exchange(), cast("Any", SimpleNamespace(send_bytes=send_bytes)))
    async with Others() as others:
        for _ in range(1_000):
            await wire.send(b"x" * 65_536)
    assert len(sent) == 1_000
    assert others.ran >= 4 * 1_000 // EACH


class NoPorts:
    async def connect(self, target: ContainerTarget, port: int) -> Any:
        raise OSError("connection refused")


async def test_streams_that_the_client_has_given_up_are_not_kept_without_bound() -> None:
    wire = Pieces(streams(5_000, given_up=True))
    await SpdyForwarder(NoPorts(), ContainerTarget("default", "p", "uid", "n1", "")).run(wire)
    refused = struct.pack(">I", spdy.REFUSED_STREAM)
    assert wire.sent.count(refused) >= 4_000
