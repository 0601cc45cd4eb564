"""Commands inside running containers: what the shim is told, and the command's streams and end."""

from __future__ import annotations

import asyncio
import contextlib
import marshal
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unisono.agent.layout import RunDir
from unisono.agent.spawner.client import Spawner, SpawnerLost
from unisono.agent.spawner.descriptors import readable
from unisono.errors import AgentError

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
