"""Memory limits where the kernel enforces none: looks at the containers once a second and ends those above theirs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from unisono.agent.procfs import PROC
from unisono.kube.clock import Clock

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


class MemoryWatch:
    """Watches containers of one node.

    Args:
        clock: paces the looks.
        proc: where the kernel tells of processes.
    """

    def __init__(self, clock: Clock, proc: Path = PROC) -> None:
        self._clock, self._proc = clock, proc
        self._watched: dict[int, Watched] = {}
        self._any = asyncio.Event()

    def add(self, watched: Watched) -> None:
        """Watch a container until ``remove``."""
        self._watched[watched.shim] = watched
        self._any.set()

    def remove(self, shim: int) -> None:
        """The container has ended."""
        self._watched.pop(shim, None)

    async def run(self) -> None:
        """Look until cancelled; costs nothing while there is nothing to watch."""
        while True:
            await self._any.wait()
            await self._clock.sleep(_PERIOD_SECONDS)
            if not self._watched:
                self._any.clear()
                continue
            limits = {shim: each.limit for shim, each in self._watched.items()}
            for shim in await asyncio.to_thread(above_limit, limits, self._proc):
                if (found := self._watched.get(shim)) is not None:
                    found.exceeded()


def above_limit(limits: dict[int, int], proc: Path = PROC) -> list[int]:
    """Shims whose containers use more memory than they may.

    Resident memory counts shared pages in each process: it only says which containers are worth an exact look, by
    proportional set sizes.

    Args:
        limits: bytes by process id of the shim.
        proc: where the kernel tells of processes.
    """
    children, resident = _processes(proc)
    found = []
    for shim, limit in limits.items():
        pids = _descendants(shim, children)
        if sum(resident[pid] for pid in pids) > limit and sum(_share(pid, proc) for pid in pids) > limit:
            found.append(shim)
    return found


def _processes(proc: Path) -> tuple[dict[int, list[int]], dict[int, int]]:
    """Children by parent, and resident bytes by process."""
    children: dict[int, list[int]] = {}
    resident: dict[int, int] = {}
    for entry in os.scandir(proc):
        if not entry.name.isdigit():
            continue
        try:
            stat = (proc / entry.name / "stat").read_text(errors="replace")
        except OSError:
            continue
        fields = stat[stat.rindex(")") + 2 :].split()
        pid = int(entry.name)
        children.setdefault(int(fields[1]), []).append(pid)
        resident[pid] = int(fields[21]) * _PAGE
    return children, resident


def _descendants(shim: int, children: dict[int, list[int]]) -> list[int]:
    """What runs below the container's first process, which is the shim's only child and copied from it."""
    first = children.get(shim, [])
    found = [pid for init in first for pid in children.get(init, [])]
    for pid in found:
        found.extend(children.get(pid, []))
    return found


def _share(pid: int, proc: Path) -> int:
    """Proportional set size in bytes; 0 when the process is gone."""
    try:
        lines = (proc / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))
