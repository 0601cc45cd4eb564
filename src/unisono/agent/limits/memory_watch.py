"""Memory limits where the kernel enforces none: measures containers once a second and ends those above theirs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import structlog

from unisono.agent.machine.procfs import PROC
from unisono.kube.clock import Clock

# The loop that limits are watched by: looks at an interval while there is something to watch, and never ends.

K = TypeVar("K")
V = TypeVar("V")

_log = structlog.get_logger(__name__)


class WatchLoop(Generic[K, V]):
    """What is watched, and the loop that looks at it.

    A look that raises is logged and repeated: an error is no reason to stop enforcing a limit.

    Args:
        name: what the log calls it.
        clock: paces the looks.
        seconds: from the end of one look to the next.
        look: called with all that is watched, by key.
    """

    def __init__(self, name: str, clock: Clock, seconds: float, look: Callable[[dict[K, V]], Awaitable[None]]) -> None:
        self._name, self._clock, self._seconds, self._look = name, clock, seconds, look
        self._watched: dict[K, V] = {}
        self._any = asyncio.Event()
        self._problem = ""

    def add(self, key: K, value: V) -> None:
        """Watch something until ``remove``."""
        self._watched[key] = value
        self._any.set()

    def remove(self, key: K) -> V | None:
        """Stop watching; answers what was watched."""
        return self._watched.pop(key, None)

    def get(self, key: K) -> V | None:
        """What is watched under a key; None after ``remove``."""
        return self._watched.get(key)

    async def run(self) -> None:
        """Look until cancelled; costs nothing while nothing is watched."""
        while True:
            await self._any.wait()
            await self._clock.sleep(self._seconds)
            if not self._watched:
                self._any.clear()
                continue
            try:
                await self._look(dict(self._watched))
            except Exception as error:
                self._say(f"{type(error).__name__}: {error}")
            else:
                self._say("")

    def _say(self, problem: str) -> None:
        """Log a problem once, until it changes."""
        if problem and problem != self._problem:
            _log.warning("limits.not_measured", what=self._name, error=problem)
        self._problem = problem


_PERIOD_SECONDS = 1.0
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Watched:
    """A container with a limit.

    Attributes:
        shim: process id of its shim, whose own memory does not count.
        limit: bytes.
        exceeded: called on the event loop when it uses more.
    """

    shim: int
    limit: int
    exceeded: Callable[[], None]


@dataclass(frozen=True, slots=True)
class ListedProcess:
    """A process as the kernel lists it.

    Attributes:
        pid: its id.
        started: when it started, clock ticks since boot.
        resident: bytes, with pages that it shares with others.
    """

    pid: int
    started: int
    resident: int


class MemoryWatch:
    """Watches containers of one node.

    Args:
        clock: paces the looks.
    """

    def __init__(self, clock: Clock) -> None:
        self._loop: WatchLoop[int, Watched] = WatchLoop("memory", clock, _PERIOD_SECONDS, self._look)

    def add(self, watched: Watched) -> None:
        """Watch a container until ``remove``."""
        self._loop.add(watched.shim, watched)

    def remove(self, shim: int) -> None:
        """The container has ended."""
        self._loop.remove(shim)

    async def run(self) -> None:
        """Look until cancelled."""
        await self._loop.run()

    async def _look(self, watched: dict[int, Watched]) -> None:
        limits = {shim: each.limit for shim, each in watched.items()}
        for shim in await asyncio.to_thread(above_limit, limits):
            if (entry := self._loop.get(shim)) is not None:
                entry.exceeded()


def above_limit(limits: dict[int, int], proc: Path = PROC) -> list[int]:
    """Shims whose containers use more memory than they may.

    Resident memory counts shared pages in each process: it only says which containers are worth an exact look, by
    proportional set sizes.

    Args:
        limits: bytes by process id of the shim.
        proc: where the kernel tells of processes.
    """
    children = processes(proc)
    exceeding = []
    for shim, limit in limits.items():
        running = descendants(shim, children)
        if sum(each.resident for each in running) > limit and sum(share(each, proc) for each in running) > limit:
            exceeding.append(shim)
    return exceeding


def processes(proc: Path) -> dict[int, list[ListedProcess]]:
    """All processes, by parent."""
    children: dict[int, list[ListedProcess]] = {}
    for entry in os.scandir(proc):
        if not entry.name.isdigit():
            continue
        try:
            stat = (proc / entry.name / "stat").read_text(errors="replace")
        except OSError:
            continue
        fields = stat[stat.rindex(")") + 2 :].split()
        process = ListedProcess(int(entry.name), int(fields[19]), int(fields[21]) * _PAGE)
        children.setdefault(int(fields[1]), []).append(process)
    return children


def descendants(shim: int, children: dict[int, list[ListedProcess]]) -> list[ListedProcess]:
    """What runs in a container, without its first process, which is a copy of the shim.

    Without a PID namespace orphans become children of the shim, younger than that one.
    """
    below = sorted(children.get(shim, []), key=lambda each: (each.started, each.pid))
    running = [*(children.get(below[0].pid, []) if below else ()), *below[1:]]
    for each in running:
        running.extend(children.get(each.pid, []))
    return running


def share(process: ListedProcess, proc: Path) -> int:
    """Proportional set size in bytes; 0 when the process has ended.

    A process can forbid others to read it (PR_SET_DUMPABLE): its resident memory counts then, shared pages included.
    """
    try:
        lines = (proc / str(process.pid) / "smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    except OSError:
        return process.resident
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))
