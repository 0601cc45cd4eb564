"""Ports for servers that a test starts later, or in another process."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator

# Below what systems give to connections that name no port themselves (Linux from 32768 on): one that is closed here to
# be opened there could otherwise be anybody's by then.
_FIRST, _COUNT = 12_000, 18_000


def _candidates() -> Iterator[int]:
    # Processes of one run begin at different places, so that they seldom look at the same port at one moment.
    start = os.getpid() * 61 % _COUNT
    while True:
        yield _FIRST + start
        start = (start + 1) % _COUNT


_next = _candidates()


def free_port() -> int:
    """A TCP port that nobody listens on, on any address, and that this process has not given out before."""
    for _ in range(_COUNT):
        port = next(_next)
        try:
            with socket.create_server(("", port)):
                return port
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
    raise AssertionError(f"no port from {_FIRST} to {_FIRST + _COUNT - 1} is free")
