"""Starting shims, hearing of their end and signalling them; works for shims of an earlier agent too."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import marshal
import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unisono.agent.layout import Layout, PodDir, RunDir
from unisono.agent.machine.cgroups import Cgroups, LimitGroups
from unisono.agent.machine.procfs import is_running
from unisono.agent.spawner.client import Spawner, SpawnerLost
from unisono.errors import AgentError
from unisono.kube.clock import Clock

_TRIES = 3
_POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Shim:
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


async def spawn(spawner: Spawner, run: RunDir, spec: Mapping[str, Any]) -> Shim:
    """Start the shim of a run; it holds the run's lock for as long as it lives.

    Raises:
        AgentError: the machine cannot start another process.
        OSError: who starts them was killed each time; a later try may succeed.
    """
    path = run.path / "spec"
    path.write_bytes(marshal.dumps(dict(spec)))
    path.chmod(0o600)
    for _ in range(_TRIES):
        try:
            return await _spawn_once(spawner, run, path)
        except SpawnerLost:
            # It may have died before the start of the shim, or behind it: then the shim holds the lock.
            if (process := await _started_nevertheless(run)) is not None:
                return process
    raise OSError("the process that starts containers was killed again and again")


async def _spawn_once(spawner: Spawner, run: RunDir, path: Path) -> Shim:
    opened: list[int] = []
    try:
        for name, flags in ((os.devnull, os.O_RDWR), ("shim.err", os.O_WRONLY | os.O_CREAT | os.O_APPEND)):
            opened.append(os.open(run.path / name, flags | os.O_CLOEXEC, 0o600))
        lock = os.open(run.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        opened.append(lock)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        null, errors, _ = opened
        return Shim(*await spawner.start("run", path, (null, null, errors, lock)))
    except OSError as error:
        raise AgentError(f"The container's process cannot be started: {error.strerror}.") from error
    finally:
        for descriptor in opened:
            os.close(descriptor)


async def _started_nevertheless(run: RunDir) -> Shim | None:
    """The shim of a start whose answer was lost; None when there is none."""
    await begun(run)
    record = run.started()
    return None if record is None else Shim(int(record["pid"]), int(record["start_time"]))


async def begun(run: RunDir) -> bool:
    """Wait until the run's command was started, or could not be; False when its shim does not live any more."""
    while (held := run.is_held()) and run.started() is None:  # noqa: ASYNC110  the shim tells by a file
        await asyncio.sleep(_POLL_SECONDS)
    return held


def find(run: RunDir) -> Shim | None:
    """The shim of a run that an earlier agent started; None when it ended or has not written its ids yet."""
    record = run.started()
    if record is None:
        return None
    process = Shim(int(record["pid"]), int(record["start_time"]))
    return process if is_running(process.pid, process.start_time) else None


class Watch:
    """Calls back once when a process ended, on the event loop.

    Args:
        process: our child, or any other process of this machine.
        ended: called without arguments; at once (on the next turn of the loop) when it is gone already.
    """

    def __init__(self, process: Shim, ended: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._pid, self._ended = process.pid, ended
        self._descriptor: int | None = None
        try:
            self._descriptor = os.pidfd_open(process.pid)
        except ProcessLookupError:
            self._loop.call_soon(ended)
            return
        if not is_running(process.pid, process.start_time):
            # Gone, or another process has its number by now.
            self.close()
            self._loop.call_soon(ended)
            return
        self._loop.add_reader(self._descriptor, self._readable)

    def _readable(self) -> None:
        self.close()
        # The spawner reaps its own; where that one was killed and we are process 1, they are our children.
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, os.WNOHANG)
        self._ended()

    def close(self) -> None:
        """Stop watching."""
        if self._descriptor is not None:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None


def ask_to_end(process: Shim) -> bool:
    """SIGTERM to the container's process group, by way of its shim; False when the shim is gone."""
    return process.signal(signal.SIGTERM)


def end_now(process: Shim) -> bool:
    """SIGKILL to everything in the container, by way of its shim; False when the shim is gone."""
    return process.signal(signal.SIGUSR1)


def end_shim(process: Shim) -> bool:
    """SIGKILL to the shim itself; its container dies with it (PR_SET_PDEATHSIG). For shims that do not listen."""
    return process.signal(signal.SIGKILL)


def read_spec(run: RunDir) -> dict[str, Any]:
    """What the shim of a run was told; a minimal spec when the file is damaged."""
    try:
        value = marshal.loads((run.path / "spec").read_bytes())  # noqa: S302  # nosec B302 # our own file, mode 0600
    except (OSError, ValueError, EOFError, TypeError):
        value = None
    if not isinstance(value, dict):
        return {
            "isolation": "none", "cgroups": [], "cwd": ["/"], "env": {},
            "uid": None, "gid": None, "groups": None, "own_user": False, "no_new_privileges": True,
        }  # fmt: skip
    return value


# Ending processes of pods without their agent: after a deletion that no agent saw, or when the user asks for it.

_PATIENCE = 5.0
_POLL = 0.02


def kill_leftover_pods(data_dir: Path) -> int:
    """End every process of every pod below an agent's data directory; the agent must not be running.

    Returns:
        How many pods had processes.
    """
    layout = Layout(data_dir)
    if not (layout.root / "pods").is_dir():
        return 0
    cgroups = Cgroups.find(layout.root)
    count = sum(end_pod(directory, cgroups) for directory in layout.pods())
    limits = LimitGroups.find(layout.root, cgroups)
    limits.sweep()
    limits.remove_root()
    if cgroups is not None:
        cgroups.remove_root()
    return count


def running_pods(data_dir: Path) -> list[str]:
    """``namespace/name`` of every pod with a process below an agent's data directory, sorted."""
    layout = Layout(data_dir)
    if not (layout.root / "pods").is_dir():
        return []
    held = (directory for directory in layout.pods() if any(run.is_held() for run in directory.all_runs()))
    records = ((directory, directory.record()) for directory in held)
    return sorted(f"{record.namespace}/{record.name}" if record else directory.uid for directory, record in records)


def end_pod(directory: PodDir, cgroups: Cgroups | None) -> bool:
    """Kill what runs of a pod and wait for its end (blocking); False when nothing ran."""
    held = [run for run in directory.all_runs() if run.is_held()]
    deadline = time.monotonic() + _PATIENCE
    # Asked again and again: a shim that has only just started does not listen yet.
    while (left := [run for run in held if run.is_held()]) and time.monotonic() < deadline:
        for process in _shims(left):
            end_now(process)
        time.sleep(_POLL)
    for process in _shims(left):
        end_shim(process)
    if cgroups is not None:
        cgroups.kill(directory.uid)
        _wait_for_removal(cgroups, directory.uid)
    return bool(held)


def _shims(runs: list[RunDir]) -> list[Shim]:
    return [process for run in runs if (process := find(run)) is not None]


def _wait_for_removal(cgroups: Cgroups, uid: str) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not cgroups.remove(uid) and time.monotonic() < deadline:
        time.sleep(_POLL)


async def remove_cgroup(cgroups: Cgroups, uid: str, clock: Clock) -> None:
    """Kill what is left in a pod's cgroup and remove it; gives up after a few seconds, the next start tries again."""
    cgroups.kill(uid)
    for _ in range(100):
        if cgroups.remove(uid):
            return
        for pid in cgroups.processes(uid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await clock.sleep(0.02)
