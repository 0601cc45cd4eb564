"""What this machine and the containers on it use, measured on request."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from unisono.agent.colocation.machine import machine_memory, machine_seconds
from unisono.agent.layout import Layout
from unisono.agent.limits.memory_watch import ListedProcess, descendants, processes, share
from unisono.agent.machine.procfs import PROC
from unisono.api.groups.resource_metrics import Amounts, Metered
from unisono.kube.clock import SYSTEM_CLOCK, Clock

_FRESH = 5.0
"""Seconds for which an answer is given again."""
_SHORTEST = 1.0
"""Seconds between the two looks of a measurement."""
_LONGEST = 60.0
"""An earlier look than that is not compared with: what has happened since is not what is used now."""
_TICKS = os.sysconf("SC_CLK_TCK")

Run = tuple[str, str, int]
"""Uid of a pod, name of a container, process id of the shim of its present run."""


@dataclass(frozen=True, slots=True)
class _Look:
    at: float
    machine: float
    memory: int
    runs: Mapping[Run, tuple[float, int]]


class FileMeter:
    """Measures by the files of the agent in ``folder`` and by what the kernel tells of processes.

    Args:
        node: name of this machine's node.
        folder: the agent's data directory.
        clock: paces the looks.
        proc: where the kernel tells of processes.
        offload: runs a look, which reads many files, away from the event loop.

    """

    def __init__(
        self,
        node: str,
        folder: Path,
        clock: Clock = SYSTEM_CLOCK,
        proc: Path = PROC,
        offload: Callable[[Callable[[], _Look]], Awaitable[_Look]] = asyncio.to_thread,
    ) -> None:
        self._node, self._layout, self._clock, self._proc = node, Layout(folder), clock, proc
        self._offload = offload
        self._last: _Look | None = None
        self._answer: Metered | None = None
        self._one = asyncio.Lock()

    async def read(self) -> Metered:
        """What is used now; an answer that is a few seconds old is given again."""
        async with self._one:
            before = self._last
            if self._answer is not None and before is not None and self._clock.monotonic() - before.at < _FRESH:
                return self._answer
            if before is None or self._clock.monotonic() - before.at > _LONGEST:
                before = await self._offload(self._look)
                await self._clock.sleep(_SHORTEST)
            now = await self._offload(self._look)
            self._last, self._answer = now, self._between(before, now)
            return self._answer

    def _between(self, before: _Look, now: _Look) -> Metered:
        seconds = max(now.at - before.at, 1e-3)
        pods: dict[str, dict[str, Amounts]] = {}
        for run, (spent, memory) in now.runs.items():
            # What a container has spent before it was first seen, it has spent since the look before.
            used = spent - before.runs.get(run, (0.0, 0))[0]
            pods.setdefault(run[0], {})[run[1]] = Amounts(_milli(used, seconds), memory)
        machine = Amounts(_milli(now.machine - before.machine, seconds), now.memory)
        return Metered(self._node, self._clock.time(), seconds, machine, pods)

    def _look(self) -> _Look:
        children = processes(self._proc)
        runs = {}
        for run in self._runs():
            found = descendants(run[2], children)
            if found:
                runs[run] = sum(self._spent(each) for each in found), sum(share(each, self._proc) for each in found)
        return _Look(self._clock.monotonic(), machine_seconds(self._proc), machine_memory(self._proc), runs)

    def _runs(self) -> list[Run]:
        found = []
        for pod in self._layout.pods():
            for run in pod.all_runs():
                started = run.started()
                if started is not None and run.exit() is None:
                    found.append((pod.uid, run.path.parent.name, int(started["pid"])))
        return found

    def _spent(self, process: ListedProcess) -> float:
        """Seconds of processor time of a process and of its children that have ended."""
        try:
            stat = (self._proc / str(process.pid) / "stat").read_text(errors="replace")
        except OSError:
            return 0.0
        fields = stat[stat.rindex(")") + 2 :].split()
        return sum(int(each) for each in fields[11:15]) / _TICKS


def _milli(seconds: float, of: float) -> int:
    return max(0, round(seconds / of * 1000))
