"""The ``channel.k8s.io`` protocols: numbered streams in the messages of a WebSocket (pure).

A message begins with the number of its channel: a byte, or in the ``base64`` protocols a digit before base64 text.
From version 5 on, a message of channel 255 says that the channel in its second byte is closed.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

ERROR, RESIZE, CLOSE = 3, 4, 255
# Largest first: a client that offers several is given the best. Of versions 2 and 3 there were SPDY streams only.
REMOTE_COMMAND = ("v5.channel.k8s.io", "v4.channel.k8s.io", "v4.base64.channel.k8s.io", "channel.k8s.io",
                  "base64.channel.k8s.io")  # fmt: skip
PORT_FORWARD = ("v4.channel.k8s.io", "v4.base64.channel.k8s.io")


@dataclass(frozen=True, slots=True)
class Message:
    """Bytes of one channel; ``closed`` says that no more come."""

    channel: int
    data: bytes
    closed: bool = False


@dataclass(frozen=True, slots=True)
class Protocol:
    """One of the protocols, by its name; no name is version 1."""

    name: str

    @property
    def is_text(self) -> bool:
        """Messages are base64 text."""
        return "base64" in self.name

    @property
    def has_status(self) -> bool:
        """The error channel carries a ``Status`` with the exit code; before version 4 it carries words."""
        return self.name.startswith(("v4.", "v5."))

    @property
    def has_close(self) -> bool:
        """Channels can be closed one by one."""
        return self.name.startswith("v5.")

    def decode(self, raw: bytes) -> Message | None:
        """Read a message; None for an empty one, which says nothing.

        Raises:
            ValueError: it is not of this protocol.
        """
        if not raw:
            return None
        if self.is_text:
            if not 48 <= raw[0] <= 57:
                raise ValueError("the first character of a message must be the number of its channel")
            try:
                return Message(raw[0] - 48, base64.b64decode(raw[1:], validate=True))
            except binascii.Error as error:
                raise ValueError(f"a message is not base64: {error}") from None
        if raw[0] == CLOSE and self.has_close:
            if len(raw) != 2:
                raise ValueError("a close message must name one channel")
            return Message(raw[1], b"", closed=True)
        return Message(raw[0], raw[1:])

    def encode(self, channel: int, data: bytes) -> bytes:
        """A message to the client."""
        if self.is_text:
            return bytes((48 + channel,)) + base64.b64encode(data)
        return bytes((channel,)) + data


def choose(offered: list[str], served: tuple[str, ...]) -> Protocol | None:
    """The first protocol of the client's list that is served; no list means version 1. None when there is none."""
    if not offered:
        return Protocol("")
    return next((Protocol(name) for name in offered if name in served), None)
