"""What clients of the API do to running containers: commands inside them, attached streams, connections to ports."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import marshal
import os
import socket
import struct
import tempfile
import termios
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from unisono.agent.layout import Layout, RunDir, read_json
from unisono.agent.processes import shims
from unisono.agent.shim.attach import CLOSE_STDIN, FRAME, PIECE, RESIZE, SOCKET, STDIN, TOO_SLOW
from unisono.agent.spawner.client import Spawner, SpawnerLost, readable, write_all
from unisono.errors import AgentError

# Commands inside running containers: what the shim is told, and the command's streams and end.

_NAMESPACES = {"root": ["pid", "mnt", "uts"], "user": ["user", "pid", "mnt", "uts"]}
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Finished:
    """How a command went: its exit code, or why it could not start."""

    exit_code: int
    problem: str = ""


class Entered:
    """A command that was started in a container.

    Args:
        status: descriptor on which the shim says how it went; owned from here on.
        pid: the shim's process id.
    """

    def __init__(self, status: int, pid: int) -> None:
        self.pid = pid
        self._status = status
        self.finished = asyncio.ensure_future(self._wait())

    async def _wait(self) -> Finished:
        text = b""
        try:
            while True:
                await readable(self._status)
                piece = os.read(self._status, 4096)
                if not piece:
                    break
                text += piece
        finally:
            os.close(self._status)
        word, _, rest = text.decode("utf-8", "replace").partition(" ")
        if word == "exit":
            return Finished(int(rest))
        return Finished(1, rest or "the process that watches the command was killed")

    async def kill(self) -> None:
        """End the command at once."""
        with contextlib.suppress(ProcessLookupError):
            # The command dies with the process that watches it.
            if not self.finished.done():
                os.kill(self.pid, 9)
        await asyncio.gather(self.finished, return_exceptions=True)


async def enter(
    spawner: Spawner,
    run: RunDir,
    spec: Mapping[str, Any],
    argv: list[str],
    stdio: tuple[int, int, int],
    *,
    tty: bool = False,
) -> Entered:
    """Start a command in the surroundings of a running container: its variables, directory, files, user and cgroup.

    Args:
        spawner: starts the process.
        run: the container's present run.
        spec: what its shim was told.
        argv: the command.
        stdio: its descriptors 0, 1 and 2; they stay open here.
        tty: they are a terminal, which becomes the command's own.

    Raises:
        AgentError: the container does not run, or the machine cannot start another process.
    """
    started = run.started()
    if started is None:
        raise AgentError("the container has not started")
    environment = {"TERM": "xterm", **spec["env"]} if tty else spec["env"]
    own = {
        **spec,
        "argv": argv,
        "env": environment,
        "init": int(started["init"]),
        "init_start_time": int(started["init_start_time"]),
        "namespaces": _NAMESPACES.get(spec["isolation"], []),
        "tty": tty,
    }
    descriptor, name = tempfile.mkstemp(prefix="exec-", dir=run.path)
    path = Path(name)
    with os.fdopen(descriptor, "wb") as file:
        file.write(marshal.dumps(own))
    reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    os.set_blocking(writer, True)
    try:
        pid = await _start(spawner, path, (*stdio, writer))
    except BaseException:
        os.close(reader)
        _forget(path)
        raise
    finally:
        os.close(writer)
    entered = Entered(reader, pid)
    entered.finished.add_done_callback(lambda _: _forget(path))
    return entered


def _forget(path: Path) -> None:
    path.unlink(missing_ok=True)


async def _start(spawner: Spawner, path: Path, fds: tuple[int, ...]) -> int:
    for _ in range(_TRIES):
        with contextlib.suppress(SpawnerLost):
            pid, _start_time = await spawner.start("enter", path, fds)
            return pid
    raise AgentError("the process that starts commands was killed again and again")


_PIECE = 1 << 16
_STDOUT = 1
_END_OF_TRANSMISSION = b"\x04"
_LOOPBACK = "127.0.0.1"
_SIZE = struct.Struct(">HH")


class Target(Protocol):
    """What is asked of a target: the server's has it."""

    @property
    def namespace(self) -> str: ...  # noqa: D102
    @property
    def pod(self) -> str: ...  # noqa: D102
    @property
    def uid(self) -> str: ...  # noqa: D102
    @property
    def node(self) -> str: ...  # noqa: D102
    @property
    def container(self) -> str: ...  # noqa: D102


class Wanted(Protocol):
    """Which streams a client opens."""

    @property
    def stdin(self) -> bool: ...  # noqa: D102
    @property
    def stdout(self) -> bool: ...  # noqa: D102
    @property
    def stderr(self) -> bool: ...  # noqa: D102
    @property
    def tty(self) -> bool: ...  # noqa: D102


class FilePodAccess:
    """Reaches into the pods below an agent's data directory.

    Args:
        data_dir: the agent's data directory.
        spawner: starts the commands.
    """

    def __init__(self, data_dir: Path, spawner: Spawner) -> None:
        self._layout, self._spawner = Layout(data_dir), spawner

    async def exec(self, target: Target, command: list[str], wanted: Wanted) -> CommandSession:
        """Start a command in a running container.

        Raises:
            AgentError: the container does not run here, or the command cannot be started.
        """
        run = await self._running(target)
        streams = Streams(wanted.stdin, wanted.stdout, wanted.stderr, wanted.tty)
        try:
            entered = await enter(
                self._spawner, run, shims.read_spec(run), command, streams.command_side, tty=wanted.tty
            )
        except BaseException:
            streams.close()
            raise
        finally:
            streams.close_command_side()
        return CommandSession(streams, entered)

    async def attach(self, target: Target, wanted: Wanted) -> AttachedSession:
        """Join the streams of a running container; its stdin only where the manifest gives it one.

        Raises:
            AgentError: the container does not run here, or cannot be attached to.
        """
        run = await self._running(target)
        return await attach(run, stdin=wanted.stdin, outputs={1: wanted.stdout, 2: wanted.stderr})

    async def connect(self, target: Target, port: int) -> PortConnection:
        """Connect to a TCP port of a pod.

        Raises:
            AgentError: nothing of the pod runs here, or nothing listens on the port.
        """
        directory = self._layout.pod(target.uid)
        if not any(run.is_held() for run in directory.all_runs()):
            raise AgentError(self._elsewhere(target) or f'pod not found ("{target.pod}_{target.namespace}")')
        record = directory.record()
        address = str(read_json(self._layout.addresses, {}).get(target.uid, _LOOPBACK))
        # On a node where pods share the machine's ports a program may listen on 127.0.0.1 alone.
        places = [address] if record is None or record.own_ports else [address, _LOOPBACK]
        for place in places:
            with contextlib.suppress(OSError):
                return PortConnection(*await asyncio.open_connection(place, port, limit=_PIECE))
        raise AgentError(f"failed to connect to localhost:{port} inside the pod: connection refused")

    async def _running(self, target: Target) -> RunDir:
        runs = self._layout.pod(target.uid).spawned_runs(target.container)
        # The API says that a container runs from the start of its shim on, a moment before its command does.
        if runs and await shims.begun(runs[-1]) and runs[-1].exit() is None:
            return runs[-1]
        raise AgentError(self._elsewhere(target) or f'container not found ("{target.container}")')

    def _elsewhere(self, target: Target) -> str:
        """Why nothing of a pod can run here, where that is so."""
        if self._layout.pod(target.uid).path.exists():
            return ""
        return (
            f"pod {target.pod} has no processes on this machine: node {target.node} is simulated, or it has not "
            "started the pod yet"
        )


class Streams:
    """Pipes or a terminal between a client and a command.

    Args:
        stdin: the client sends something; otherwise the command reads nothing.
        stdout: the client wants it; otherwise it is thrown away, like ``stderr``.
        stderr: the same for stderr.
        tty: all are one terminal.
    """

    def __init__(self, stdin: bool, stdout: bool, stderr: bool, tty: bool) -> None:
        self.tty = tty
        self.stdin: int | None = None
        self.outputs: dict[int, int] = {}
        if tty:
            own, other = os.openpty()
            os.set_blocking(own, False)
            self.stdin, self.outputs = own, {_STDOUT: own}
            self.command_side = (other, other, other)
            return
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        sides = [null, null, null]
        if stdin:
            sides[0], self.stdin = _pipe()
            os.set_blocking(self.stdin, False)
        for number, asked in ((1, stdout), (2, stderr)):
            if asked:
                self.outputs[number], sides[number] = _pipe()
                os.set_blocking(self.outputs[number], False)
        self.command_side = (sides[0], sides[1], sides[2])
        self._null = null

    def close_command_side(self) -> None:
        """The command has its descriptors: ours would hide that it closed them."""
        for fd in {*self.command_side, *((self._null,) if not self.tty else ())}:
            os.close(fd)

    def close_stdin(self) -> None:
        """The client sends no more; a terminal's reader is told by Ctrl-D."""
        if self.tty:
            with contextlib.suppress(OSError):
                os.write(self.outputs[_STDOUT], _END_OF_TRANSMISSION)
        elif self.stdin is not None:
            os.close(self.stdin)
            self.stdin = None

    def close(self) -> None:
        """Let go of everything."""
        for fd in {*self.outputs.values(), *(() if self.stdin is None else (self.stdin,))}:
            os.close(fd)
        self.outputs, self.stdin = {}, None


class CommandSession:
    """A command that a client started."""

    def __init__(self, streams: Streams, entered: Entered) -> None:
        self._streams, self._entered = streams, entered
        self._closing: asyncio.Task[None] | None = None

    async def read(self, stream: int) -> bytes:
        """The next bytes of an output; empty when the command closed it, or has ended and said everything.

        A process that the command left behind may hold the output open; that one is not waited for.
        """
        while (fd := self._streams.outputs.get(stream)) is not None:
            try:
                return os.read(fd, _PIECE)
            except BlockingIOError:
                if self._entered.finished.done():
                    return b""
            except OSError as error:
                if error.errno == errno.EIO:  # no process has the terminal open any more
                    return b""
                raise
            await self._news(fd)
        return b""

    async def write(self, data: bytes) -> None:
        """Hand bytes to stdin; what has no reader any more is dropped."""
        if self._streams.stdin is not None:
            with contextlib.suppress(OSError):
                await write_all(self._streams.stdin, data)

    def close_stdin(self) -> None:
        """Nothing more comes on stdin."""
        self._streams.close_stdin()

    def resize(self, columns: int, rows: int) -> None:
        """The client's terminal has another size."""
        if self._streams.tty and (fd := self._streams.outputs.get(_STDOUT)) is not None:
            with contextlib.suppress(OSError):
                fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    async def wait(self) -> Finished:
        """How it ended."""
        finished = await asyncio.shield(self._entered.finished)
        if finished.problem:
            return Finished(1, f"error executing command in container: {finished.problem}")
        return finished

    async def close(self) -> None:
        """Let go of the streams; a command that still runs meets closed ones."""
        self._streams.close()

    async def _news(self, fd: int) -> None:
        coming = asyncio.ensure_future(readable(fd))
        try:
            await asyncio.wait({coming, self._entered.finished}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)


class PortConnection:
    """A TCP connection to a pod."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def read(self) -> bytes:
        """The next bytes; empty at the end."""
        return await self._reader.read(_PIECE)

    async def write(self, data: bytes) -> None:
        """Send bytes; returns when the pod's side takes more."""
        self._writer.write(data)
        await self._writer.drain()

    def end_writing(self) -> None:
        """Nothing more is sent."""
        if self._writer.can_write_eof():
            self._writer.write_eof()

    async def close(self) -> None:
        """End the connection."""
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


def _pipe() -> tuple[int, int]:
    return os.pipe2(os.O_CLOEXEC)


@dataclass(frozen=True, slots=True)
class Detached:
    """How an attached session ended; the container's own status tells its exit code."""

    exit_code: int = 0
    problem: str = ""


async def attach(run: RunDir, *, stdin: bool, outputs: Mapping[int, bool]) -> AttachedSession:
    """Join a running container.

    Args:
        run: its present run.
        stdin: the client sends something.
        outputs: which of stdout (1) and stderr (2) the client reads.

    Raises:
        AgentError: its shim does not listen.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.setblocking(False)
    # The run's path may be longer than the address of a socket may be.
    folder = os.open(run.path, os.O_PATH | os.O_CLOEXEC)
    try:
        connection.connect(f"/proc/self/fd/{folder}/{SOCKET}")
    except OSError as error:
        connection.close()
        raise AgentError(
            f"the container cannot be attached to ({error.strerror}): it has just ended, or an earlier version of "
            "Unisono started it"
        ) from None
    finally:
        os.close(folder)
    reader, writer = await asyncio.open_unix_connection(sock=connection, limit=PIECE)
    return AttachedSession(reader, writer, stdin, outputs)


class AttachedSession:
    """The streams of a container, shared with all clients that are attached."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, stdin: bool, outputs: Mapping[int, bool]
    ) -> None:
        self._reader, self._writer, self._stdin, self._outputs = reader, writer, stdin, outputs
        # One piece at a time is kept for each output: a client reads both, and in its own order.
        self._pieces: dict[int, asyncio.Queue[bytes]] = {n: asyncio.Queue(maxsize=1) for n in (1, 2) if outputs[n]}
        self._problem = ""
        self._receiving = asyncio.ensure_future(self._receive())

    async def read(self, stream: int) -> bytes:
        """The next bytes of an output; empty at the end."""
        return await self._pieces[stream].get() if stream in self._pieces else b""

    async def write(self, data: bytes) -> None:
        """Hand bytes to stdin; a container without stdin does not get them."""
        if self._stdin:
            for start in range(0, len(data), PIECE):
                await self._send(STDIN, data[start : start + PIECE])

    def close_stdin(self) -> None:
        """The client sends no more: with ``stdinOnce`` that is the end of the container's stdin."""
        if self._stdin:
            self._writer.write(FRAME.pack(CLOSE_STDIN, 0))

    def resize(self, columns: int, rows: int) -> None:
        """The client's terminal has another size."""
        self._writer.write(FRAME.pack(RESIZE, _SIZE.size) + _SIZE.pack(columns, rows))

    async def wait(self) -> Detached:
        """How it ended."""
        await asyncio.shield(self._receiving)
        return Detached(problem=self._problem)

    async def close(self) -> None:
        """Leave the container alone."""
        self._writer.close()
        self._receiving.cancel()
        await asyncio.gather(self._receiving, return_exceptions=True)
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def _send(self, channel: int, data: bytes) -> None:
        # A container that ended meanwhile shows in what is read.
        with contextlib.suppress(OSError):
            self._writer.write(FRAME.pack(channel, len(data)) + data)
            await self._writer.drain()

    async def _receive(self) -> None:
        try:
            while True:
                channel, length = FRAME.unpack(await self._reader.readexactly(FRAME.size))
                data = await self._reader.readexactly(length)
                if channel == TOO_SLOW:
                    self._problem = (
                        "error attaching to container: the output was not read for too long; the log has all of it"
                    )
                elif data and channel in self._pieces:
                    await self._pieces[channel].put(data)
        except (asyncio.IncompleteReadError, OSError):
            return
        finally:
            for queue in self._pieces.values():
                with contextlib.suppress(asyncio.CancelledError):
                    await queue.put(b"")
