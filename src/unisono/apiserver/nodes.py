"""What the server asks of node agents: logs, commands and connections of pods."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from unisono.api.pod_states import LogOptions

# Where container logs come from: the node agent implements this, the server only relays it.


class LogSource(Protocol):
    """Reads the logs of containers that run, or ran, on this machine."""

    def open(
        self, namespace: str, pod: str, uid: str, container: str, options: LogOptions = ...
    ) -> AsyncIterator[bytes]:
        """Stream one container's log as raw bytes; chunks need not end at line ends.

        Args:
            namespace: the pod's namespace.
            pod: the pod's name.
            uid: the incarnation of the pod whose log is meant.
            container: container or init container name; the caller has checked that the pod has it.
            options: which part of the log.

        Raises:
            unisono.errors.UnisonoError: the log cannot be read; the message is shown to the user.
        """
        ...

    def keeps(self, namespace: str, pod: str, uid: str, container: str) -> bool:
        """Whether the log of a container can be read although the API has no such pod any more."""
        ...


# Commands in containers and connections to their ports: the node agent makes them, the server relays them.

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
class ContainerTarget:
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

    async def connect(self, target: ContainerTarget, port: int) -> PortStream:
        """Connect to a TCP port of a pod.

        Raises:
            unisono.errors.UnisonoError: it cannot be done; the message is shown to the user.
        """
        ...


class PodCommands(Protocol):
    """Runs commands in containers.

    Every call raises ``unisono.errors.UnisonoError`` where it cannot be done; the message is shown to the user.
    """

    async def exec(self, target: ContainerTarget, command: list[str], wanted: Wanted) -> Session:
        """Start a command in a running container, in the surroundings that the container itself has."""
        ...

    async def attach(self, target: ContainerTarget, wanted: Wanted) -> Session:
        """Join the streams of a running container."""
        ...


class PodAccess(Ports, PodCommands, Protocol):
    """Reaches into pods."""


# Pods that run elsewhere and can be read here: the hub of a fleet knows them, the server relays what it answers.


class RemotePods(Protocol):
    """Reads pods of the jobs of this API that other clusters run; the caller has checked the rights of the user."""

    async def find(self, namespace: str, name: str) -> bytes | None:
        """The pod as JSON; None where no job of the namespace has such a pod anywhere.

        Raises:
            ApiError: the cluster that has it does not answer.
        """
        ...

    async def listed(self, namespace: str | None, query: Mapping[str, str]) -> tuple[Sequence[bytes], Sequence[str]]:
        """Pods of the jobs of a namespace, None for all, and one sentence for each cluster that does not tell.

        Args:
            namespace: of the jobs.
            query: ``labelSelector`` and ``fieldSelector``.
        """
        ...

    async def reach(self, namespace: str, name: str) -> tuple[bytes, PodAccess] | None:
        """The pod as JSON and what reaches into it; None where no job of the namespace has such a pod anywhere.

        Raises:
            ApiError: the cluster that has it does not answer.
        """
        ...

    def log(self, namespace: str, name: str, query: Mapping[str, str]) -> AsyncIterator[bytes]:
        """Stream a log of the pod.

        Args:
            namespace: of the pod.
            name: of the pod.
            query: what of the log is asked for, in Kubernetes' words.

        Raises:
            NotFound: there is no such pod.
            ApiError: the cluster that has it refuses, or does not answer.
        """
        ...
