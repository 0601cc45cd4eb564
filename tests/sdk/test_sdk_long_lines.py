"""Lines of any length: in linear time, with bounded memory, and never torn inside a character."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from unisono.sdk.follow.log_lines import LONGEST, LineSplitter, lines, texts


class Server:
    """Sends a log in chunks."""

    def __init__(self, *chunks: bytes) -> None:
        self._chunks = chunks

    async def stream(self, path: str, params: Any) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk


@given(st.lists(st.text("ab\nü", max_size=8)))
def test_lines_are_those_of_the_text(pieces: list[str]) -> None:
    splitter = LineSplitter()
    found = [line for piece in pieces for line in splitter.feed(piece)]
    if rest := splitter.rest():
        found.append(rest)
    whole = "".join(pieces)
    assert found == (whole.removesuffix("\n").split("\n") if whole else [])


def test_what_is_kept_of_a_line_is_bounded() -> None:
    splitter, longest, total = LineSplitter(), 0, 0
    for _ in range(1000):
        for line in splitter.feed("x" * 65_536):
            longest, total = max(longest, len(line)), total + len(line)
    assert longest == LONGEST
    assert total + len(splitter.rest()) == 65_536_000


async def test_a_character_between_two_chunks_is_whole() -> None:
    raw = "Zürich\nü".encode()
    server = Server(*(raw[index : index + 1] for index in range(len(raw))))
    assert [line async for line in lines(server, "n", "p", {})] == ["Zürich", "ü"]  # type: ignore[arg-type]
    assert "".join([text async for text in texts(server, "n", "p", {})]) == "Zürich\nü"  # type: ignore[arg-type]
