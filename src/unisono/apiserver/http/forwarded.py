"""How many connections to ports of pods are open: in all, and in one session."""

from __future__ import annotations

from collections.abc import Callable

from unisono.apiserver.flow_control.limits import Limits
from unisono.apiserver.http.status import too_many_requests
from unisono.apiserver.nodes.remote import Ports, PortStream, Target


class Forwarded:
    """Counts the connections of all sessions.

    Args:
        ports: reaches the pods.
        refused: hears of each connection that is refused.

    """

    def __init__(self, ports: Ports, refused: Callable[[str], None]) -> None:
        self._ports, self._refused = ports, refused
        self._open = 0

    def session(self, limits: Limits) -> SessionPorts:
        """The ports as one session may use them."""
        return SessionPorts(self, limits)

    async def connect(self, target: Target, port: int, most: int) -> PortStream:
        """Connect where fewer than ``most`` connections are open.

        Raises:
            UnisonoError: too many are, or the port cannot be reached.

        """
        if self._open >= most:
            raise self.refusal("forwarded")
        self._open += 1
        try:
            return await self._ports.connect(target, port)
        except BaseException:
            self._open -= 1
            raise

    def refusal(self, cause: str) -> Exception:
        """Counts a refusal, and says so."""
        self._refused(cause)
        return too_many_requests("too many connections are forwarded: close some")

    def closed(self) -> None:
        """A connection has ended."""
        self._open -= 1


class SessionPorts:
    """Counts the connections of one session."""

    def __init__(self, forwarded: Forwarded, limits: Limits) -> None:
        self._forwarded, self._limits = forwarded, limits
        self._open = 0

    async def connect(self, target: Target, port: int) -> PortStream:
        """Connect to a TCP port of a pod."""
        if self._open >= self._limits.forwarded_of_one:
            raise self._forwarded.refusal("session_forwarded")
        self._open += 1
        try:
            stream = await self._forwarded.connect(target, port, self._limits.forwarded)
        except BaseException:
            self._open -= 1
            raise
        return _Counted(stream, self._closed)

    def _closed(self) -> None:
        self._open -= 1
        self._forwarded.closed()


class _Counted:
    """A connection that says once that it has ended."""

    def __init__(self, stream: PortStream, closed: Callable[[], None]) -> None:
        self._stream, self._closed, self._ended = stream, closed, False
        self.read, self.write, self.end_writing = stream.read, stream.write, stream.end_writing

    async def close(self) -> None:
        """End the connection."""
        if not self._ended:
            self._ended = True
            self._closed()
        await self._stream.close()
