"""What travels on connections that have left HTTP: SPDY frames and numbered channels, cut anywhere."""

from __future__ import annotations

import json
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.apiserver.http import spdy, wires
from unisono.apiserver.http.remote_command import status_object, terminal_size
from unisono.apiserver.http.spdy import DICTIONARY, Data, Decoder, Encoder, Frame
from unisono.apiserver.http.wires import ChannelProtocol, Message

NAMES = st.text(st.characters(codec="ascii", categories=["Ll", "Nd"]), min_size=1, max_size=20)
VALUES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40)
HEADERS = st.dictionaries(NAMES, VALUES, max_size=3)
STREAMS = st.integers(1, 0x7FFFFFFF)
STATUS = st.integers(0, 0xFFFFFFFF)
CONTROL = st.one_of(
    st.builds(Frame, st.sampled_from([spdy.SYN_STREAM, spdy.SYN_REPLY, spdy.HEADERS]), STREAMS, st.booleans(), HEADERS),
    st.builds(Frame, st.sampled_from([spdy.RST_STREAM, spdy.GOAWAY]), STREAMS, status=STATUS),
    st.builds(Frame, st.just(spdy.PING), STREAMS),
)
DATA = st.builds(Data, STREAMS, st.binary(max_size=200), st.booleans())
NOISE = [struct.pack(">HHI", 0x8003, spdy.SETTINGS, 4) + b"\0\0\0\0", struct.pack(">HHIII", 0x8003, 9, 8, 1, 65536)]


def joined(pieces: list[Frame | Data]) -> list[Frame | Data]:
    """Parts of one data frame put together again."""
    found: list[Frame | Data] = []
    for piece in pieces:
        last = found[-1] if found else None
        if isinstance(piece, Data) and isinstance(last, Data) and last.stream == piece.stream and not last.fin:
            found[-1] = Data(piece.stream, last.data + piece.data, piece.fin)
        else:
            found.append(piece)
    return found


@given(st.lists(st.one_of(CONTROL, DATA), max_size=6), st.lists(st.integers(1, 90), min_size=1, max_size=8), st.data())
def test_frames_survive_the_wire_however_it_cuts_them(
    frames: list[Frame | Data], cuts: list[int], data: st.DataObject
) -> None:
    encoder, decoder, raw = Encoder(), Decoder(), b""
    for frame in frames:
        if data.draw(st.booleans()):
            raw += data.draw(st.sampled_from(NOISE))
        raw += encoder.frame(frame) if isinstance(frame, Frame) else encoder.data(frame.stream, frame.data, frame.fin)
    found, at = [], 0
    while at < len(raw):
        size = cuts[len(found) % len(cuts)]
        found += filter(None, decoder.feed(raw[at : at + size]))
        at += size
    assert joined(found) == joined(frames)


@given(st.binary(max_size=300))
def test_bytes_that_are_no_frames_end_the_connection_and_nothing_else(raw: bytes) -> None:
    try:
        list(Decoder().feed(raw))
    except ValueError as error:
        assert str(error)


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", None),
        (struct.pack(">HHI", 0x8002, spdy.PING, 4) + b"\0\0\0\1", "version 2"),
        (struct.pack(">HHI", 0x8003, spdy.SYN_STREAM, 1 << 20), "has 1048576 bytes"),
        (struct.pack(">HHI", 0x8003, spdy.PING, 2) + b"\0\0", "cut short"),
        (struct.pack(">HHI", 0x8003, spdy.SYN_STREAM, 12) + b"\0\0\0\1" + b"\xff" * 8, "decompressed"),
    ],
)
def test_wrong_frames_are_named(raw: bytes, problem: str | None) -> None:
    if problem is None:
        # Text looks like the beginning of a data frame of a stream that nobody opened.
        assert all(isinstance(piece, Data) for piece in Decoder().feed(raw))
        return
    with pytest.raises(ValueError, match=problem):
        list(Decoder().feed(raw))


def test_headers_that_unpack_to_far_more_than_they_are_are_refused() -> None:
    bomb = Encoder().frame(Frame(spdy.SYN_STREAM, 1, headers={"name": "a" * (1 << 20)}))
    assert len(bomb) < 4096
    with pytest.raises(ValueError, match="more than"):
        list(Decoder().feed(bomb))
    # The same number of bytes as many headers without a letter would take a hundred times as long.
    many = struct.pack(">I", 500) + bytes(8 * 500)
    packer = zlib.compressobj(zdict=DICTIONARY)
    frame = struct.pack(">I6x", 1) + packer.compress(many) + packer.flush()
    with pytest.raises(ValueError, match="500 headers"):
        list(Decoder().feed(struct.pack(">HHI", 0x8003, spdy.SYN_STREAM, len(frame)) + frame))


def test_the_dictionary_is_that_of_the_protocol() -> None:
    """Length and ends as in the draft; a wrong byte anywhere shows as an unreadable first header of every client."""
    assert len(DICTIONARY) == 1423
    assert DICTIONARY.startswith(b"\0\0\0\7options\0\0\0\4head")
    assert DICTIONARY.endswith(b",enq=0.")


BINARY = [ChannelProtocol(name) for name in ("", "channel.k8s.io", "v4.channel.k8s.io", "v5.channel.k8s.io")]
TEXT = [ChannelProtocol(name) for name in ("base64.channel.k8s.io", "v4.base64.channel.k8s.io")]


@given(st.sampled_from([*BINARY, *TEXT]), st.integers(0, 4), st.binary(max_size=100))
def test_channels_survive_the_wire(protocol: ChannelProtocol, channel: int, data: bytes) -> None:
    assert protocol.decode(protocol.encode(channel, data)) == Message(channel, data)


@given(st.sampled_from([*BINARY, *TEXT]), st.binary(max_size=20))
def test_any_message_is_read_or_refused(protocol: ChannelProtocol, raw: bytes) -> None:
    try:
        protocol.decode(raw)
    except ValueError as error:
        assert "message" in str(error)


def test_only_version_5_closes_channels() -> None:
    assert ChannelProtocol("v5.channel.k8s.io").decode(b"\xff\0") == Message(0, b"", closed=True)
    assert ChannelProtocol("v4.channel.k8s.io").decode(b"\xff\0") == Message(255, b"\0")
    with pytest.raises(ValueError, match="name one channel"):
        ChannelProtocol("v5.channel.k8s.io").decode(b"\xff")


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (["v5.channel.k8s.io", "v4.channel.k8s.io"], "v5.channel.k8s.io"),
        (["v4.channel.k8s.io", "v5.channel.k8s.io"], "v4.channel.k8s.io"),
        (["v9.channel.k8s.io", "v4.base64.channel.k8s.io"], "v4.base64.channel.k8s.io"),
        ([], ""),
    ],
)
def test_the_client_s_first_known_protocol_is_taken(offered: list[str], chosen: str) -> None:
    assert wires.choose(offered, wires.REMOTE_COMMAND) == ChannelProtocol(chosen)


def test_no_common_protocol_is_none() -> None:
    assert wires.choose(["v9.channel.k8s.io"], wires.REMOTE_COMMAND) is None


class Ended:
    def __init__(self, exit_code: int, problem: str = "") -> None:
        self.exit_code, self.problem = exit_code, problem


def test_exit_codes_are_told_in_the_words_that_clients_look_for() -> None:
    assert status_object(Ended(0)) == {"metadata": {}, "status": "Success"}
    failed = status_object(Ended(3))
    assert failed["reason"] == "NonZeroExitCode"
    assert failed["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]
    assert status_object(Ended(1, "no such thing"))["message"] == "Internal error occurred: no such thing"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (json.dumps({"Width": 80, "Height": 24}).encode(), (80, 24)),
        (b'{"Width":0,"Height":24}', None),
        (b'{"Width":"80","Height":24}', None),
        (b'{"Width":70000,"Height":24}', None),
        (b"[]", None),
        (b"{", None),
    ],
)
def test_sizes_of_terminals_that_make_no_sense_are_passed_over(text: bytes, size: tuple[int, int] | None) -> None:
    assert terminal_size(text) == size
