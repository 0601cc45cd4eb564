"""Starting shims, hearing of their end and signalling them; works for shims of an earlier agent too."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import marshal
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from unisono.agent.isolation import shim_command
from unisono.agent.layout import RunDir
from unisono.agent.procfs import is_running, start_time
from unisono.errors import AgentError

_LOCK_FD = 3


@dataclass(frozen=True, slots=True)
class Process:
    """A shim, told apart from a later process with the same id by its start time (clock ticks since boot)."""

    pid: int
    start_time: int

    def signal(self, number: int) -> bool:
        """Send a signal; False when the process is gone."""
        if not is_running(self.pid, self.start_time):
            return False
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True


def spawn(run: RunDir, spec: Mapping[str, Any]) -> Process:
    """Start the shim of a run; it holds the run's lock for as long as it lives.

    Raises:
        AgentError: the machine cannot start another process.
    """
    path = run.path / "spec"
    path.write_bytes(marshal.dumps(dict(spec)))
    path.chmod(0o600)
    lock = os.open(run.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    errors = os.open(run.path / "shim.err", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        command = shim_command(str(path))
        actions: list[tuple[Any, ...]] = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_DUP2, errors, 2),
            (os.POSIX_SPAWN_DUP2, lock, _LOCK_FD),
        ]
        pid = os.posix_spawn(command[0], command, {"PATH": os.defpath}, file_actions=actions)
    except OSError as error:
        raise AgentError(f"The container's process cannot be started: {error.strerror}.") from error
    finally:
        os.close(lock)
        os.close(errors)
    # Our child stays a zombie until we reap it, so its start time can be read whatever it does meanwhile.
    return Process(pid, start_time(pid) or 0)


def find(run: RunDir) -> Process | None:
    """The shim of a run that an earlier agent started; None when it ended or has not written its ids yet."""
    record = run.started()
    if record is None:
        return None
    process = Process(int(record["pid"]), int(record["start_time"]))
    return process if is_running(process.pid, process.start_time) else None


class Watch:
    """Calls back once when a process ended, on the event loop.

    Args:
        process: our child, or any other process of this machine.
        ended: called without arguments; at once (on the next turn of the loop) when it is gone already.
    """

    def __init__(self, process: Process, ended: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._pid, self._ended = process.pid, ended
        self._descriptor: int | None = None
        try:
            self._descriptor = os.pidfd_open(process.pid)
        except ProcessLookupError:
            self._loop.call_soon(ended)
            return
        self._loop.add_reader(self._descriptor, self._readable)

    def _readable(self) -> None:
        self.close()
        # Only our own children can be reaped; those of an earlier agent belong to process 1.
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, os.WNOHANG)
        self._ended()

    def close(self) -> None:
        """Stop watching."""
        if self._descriptor is not None:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None


def ask_to_end(process: Process) -> bool:
    """SIGTERM to the container's process group, by way of its shim; False when the shim is gone."""
    return process.signal(signal.SIGTERM)


def end_now(process: Process) -> bool:
    """SIGKILL to everything in the container, by way of its shim; False when the shim is gone."""
    return process.signal(signal.SIGUSR1)


def end_shim(process: Process) -> bool:
    """SIGKILL to the shim itself; its container dies with it (PR_SET_PDEATHSIG). For shims that do not listen."""
    return process.signal(signal.SIGKILL)


def read_spec(run: RunDir) -> dict[str, Any]:
    """What the shim of a run was told; a minimal spec when the file is damaged."""
    try:
        value = marshal.loads((run.path / "spec").read_bytes())  # noqa: S302  our own file, mode 0600
    except (OSError, ValueError, EOFError, TypeError):
        value = None
    if not isinstance(value, dict):
        return {"isolation": "none", "cgroup": "", "cwd": "/", "env": {}, "uid": None, "gid": None, "groups": None}
    return value
