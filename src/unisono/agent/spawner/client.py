"""The agent's side of the spawner: asks for processes, and starts another spawner when it has ended."""

from __future__ import annotations

import array
import asyncio
import contextlib
import marshal
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import structlog

from unisono.errors import AgentError
from unisono.kube.listening import give_back

# Waiting for file descriptors on the event loop, without reading ahead.


async def readable(fd: int) -> None:
    """Wait until a read does not block."""
    loop = asyncio.get_running_loop()
    news: asyncio.Future[None] = loop.create_future()
    loop.add_reader(fd, _wake, news)
    try:
        await news
    finally:
        loop.remove_reader(fd)


async def writable(fd: int) -> None:
    """Wait until a write takes something."""
    loop = asyncio.get_running_loop()
    news: asyncio.Future[None] = loop.create_future()
    loop.add_writer(fd, _wake, news)
    try:
        await news
    finally:
        loop.remove_writer(fd)


async def write_all(fd: int, data: bytes) -> None:
    """Write everything to a descriptor that does not block.

    Raises:
        OSError: it has no reader any more.
    """
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            await writable(fd)


def _wake(news: asyncio.Future[None]) -> None:
    if not news.done():
        news.set_result(None)


_MAIN = Path(__file__).parent / "__main__.py"
_SOCKET_FD = 3
_ANSWER_BYTES = 4096
_END_SECONDS = 5.0

_log = structlog.get_logger(__name__)


class SpawnerLost(Exception):
    """The spawner went away before it answered: the process may run, or not."""


class Spawner:
    """Starts processes by way of the spawner; one per event loop, started with the first request."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._pid = 0
        self._numbers = 0
        self._answers: dict[int, asyncio.Future[tuple[int, Any]]] = {}
        self._sending = asyncio.Lock()
        self._gone = asyncio.Event()

    @property
    def pid(self) -> int:
        """The spawner's process id; 0 when none runs."""
        return self._pid

    async def start(self, mode: str, spec: Path, fds: Sequence[int]) -> tuple[int, int]:
        """Start a process.

        Args:
            mode: ``run`` supervises a container, ``enter`` runs a command in one.
            spec: file with what the shim is to do.
            fds: its descriptors from 0 on; they stay open here.

        Returns:
            Process id, and start time in clock ticks since boot.

        Raises:
            SpawnerLost: it went away before it answered.
            AgentError: the machine cannot start another process.
        """
        async with self._sending:
            link = self._link()
            self._numbers += 1
            number = self._numbers
            answer = self._answers[number] = asyncio.get_running_loop().create_future()
            request = marshal.dumps((number, mode, str(spec)))
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
            try:
                await self._send(link, request, rights)
            except OSError:
                self._answers.pop(number, None)
                self._drop_socket()
                raise SpawnerLost from None
        try:
            pid, rest = await answer
        finally:
            self._answers.pop(number, None)
        if pid == 0:
            raise AgentError(f"The container's process cannot be started: {rest}.")
        return pid, int(rest)

    async def close(self) -> None:
        """End the spawner; what it started goes on."""
        if self._socket is None:
            return
        self._drop_socket()
        try:
            async with asyncio.timeout(_END_SECONDS):
                await self._gone.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, 9)
            await self._gone.wait()

    async def _send(self, link: socket.socket, request: bytes, rights: list[Any]) -> None:
        while True:
            try:
                link.sendmsg([request], rights)
            except BlockingIOError:
                await writable(link.fileno())
            else:
                return

    def _link(self) -> socket.socket:
        if self._socket is None:
            self._launch()
        if self._socket is None:
            raise SpawnerLost
        return self._socket

    def _launch(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        command = [sys.executable, "-I", "-S", str(_MAIN)]
        actions: list[tuple[Any, ...]] = [
            (os.POSIX_SPAWN_DUP2, theirs.fileno(), _SOCKET_FD),
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        ]
        if theirs.fileno() == _SOCKET_FD:
            os.set_inheritable(_SOCKET_FD, True)
            del actions[0]
        try:
            self._pid = os.posix_spawn(command[0], command, {"PATH": os.defpath}, file_actions=actions)
        except OSError as error:
            ours.close()
            raise AgentError(f"The process that starts containers cannot be started: {error.strerror}.") from error
        finally:
            theirs.close()
        give_back(self._pid)
        pidfd = os.pidfd_open(self._pid)
        self._socket = ours
        self._gone.clear()
        loop = asyncio.get_running_loop()
        loop.add_reader(ours, self._readable)
        loop.add_reader(pidfd, self._ended, self._pid, pidfd)

    def _readable(self) -> None:
        while self._socket is not None:
            try:
                data = self._socket.recv(_ANSWER_BYTES)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                _log.warning("spawner.lost", pid=self._pid)
                self._drop_socket()
                return
            number, pid, rest = marshal.loads(data)  # noqa: S302  # nosec B302 # from a process of our own
            answer = self._answers.get(number)
            if answer is not None and not answer.done():
                answer.set_result((pid, rest))

    def _drop_socket(self) -> None:
        """No more requests on this socket; those without an answer are lost."""
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(SpawnerLost())

    def _ended(self, pid: int, pidfd: int) -> None:
        """A spawner is gone; another one may be at work by now."""
        asyncio.get_running_loop().remove_reader(pidfd)
        os.close(pidfd)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)
        if pid != self._pid:
            return
        if self._socket is not None:
            self._readable()
            self._drop_socket()
        self._pid = 0
        self._gone.set()
