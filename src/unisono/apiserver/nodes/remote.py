"""Commands in containers and connections to their ports: the node agent makes them, the server relays them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

STDIN, STDOUT, STDERR = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which streams a client opens.

    Attributes:
        tty: stdin and stdout are a terminal; there is no stderr then.
    """

    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool


@dataclass(frozen=True, slots=True)
class Target:
    """A container, or for ports the pod alone.

    Attributes:
        uid: the incarnation of the pod.
        node: the node that it is bound to.
        container: empty where the pod is meant.
    """

    namespace: str
    pod: str
    uid: str
    node: str
    container: str = ""


class Ended(Protocol):
    """How a session ended."""

    @property
    def exit_code(self) -> int:
        """Of the command; 0 for an attached container, whose own status tells how it ended."""
        ...

    @property
    def problem(self) -> str:
        """Why there is no exit code; empty when there is one."""
        ...


class Session(Protocol):
    """A command in a container, or a container itself, with its streams.

    Nothing is read ahead: who does not call ``read`` holds the command up, and no memory.
    """

    async def read(self, stream: int) -> bytes:
        """The next bytes of ``STDOUT`` or ``STDERR``; empty at the end."""
        ...

    async def write(self, data: bytes) -> None:
        """Hand bytes to stdin; returns when they are taken, or when their reader has gone."""
        ...

    def close_stdin(self) -> None:
        """Nothing more comes on stdin."""
        ...

    def resize(self, columns: int, rows: int) -> None:
        """The client's terminal has another size."""
        ...

    async def wait(self) -> Ended:
        """How it ended, once both outputs are read to their end."""
        ...

    async def close(self) -> None:
        """Let go of every stream; a command that still runs goes on without them."""
        ...


class PortStream(Protocol):
    """A connection to a port of a pod."""

    async def read(self) -> bytes:
        """The next bytes; empty at the end."""
        ...

    async def write(self, data: bytes) -> None:
        """Send bytes.

        Raises:
            OSError: the other side is gone.
        """
        ...

    def end_writing(self) -> None:
        """Nothing more is sent."""
        ...

    async def close(self) -> None:
        """End the connection."""
        ...


class Ports(Protocol):
    """Reaches the ports of pods."""

    async def connect(self, target: Target, port: int) -> PortStream:
        """Connect to a TCP port of a pod.

        Raises:
            unisono.errors.UnisonoError: it cannot be done; the message is shown to the user.
        """
        ...


class PodCommands(Protocol):
    """Runs commands in containers.

    Every call raises ``unisono.errors.UnisonoError`` where it cannot be done; the message is shown to the user.
    """

    async def exec(self, target: Target, command: list[str], wanted: Wanted) -> Session:
        """Start a command in a running container, in the surroundings that the container itself has."""
        ...

    async def attach(self, target: Target, wanted: Wanted) -> Session:
        """Join the streams of a running container."""
        ...


class PodAccess(Ports, PodCommands, Protocol):
    """Reaches into the pods of this machine."""
