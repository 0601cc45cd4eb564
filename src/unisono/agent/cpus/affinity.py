"""Keeping the processes of running containers on the CPUs that are theirs.

A container applies the CPUs that were its own when it was prepared. If another one was given some of them meanwhile,
and the agent moved all others before this one's command ran, nobody else would notice: so the keeper looks again and
again, as the kubelet's CPU manager does.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from unisono.agent.cpus.book import CpuBook
from unisono.agent.limits.memory_watch import WatchLoop
from unisono.agent.machine.cgroups import LimitGroups
from unisono.agent.machine.procfs import PROC
from unisono.kube.clock import Clock

# A container that starts processes while its others are moved is looked at again.
_ROUNDS = 5
# As often as the kubelet reconciles.
_LOOK_SECONDS = 10.0


def move(groups: LimitGroups, uid: str, cpus: Callable[[str], Iterable[int] | None], proc: Path = PROC) -> int:
    """Move all threads of a pod's containers to the CPUs that are theirs; answers how many were moved.

    Threads inherit the CPUs of the thread that starts them, so that later ones follow.

    Args:
        groups: where processes are listed.
        uid: the pod.
        cpus: where a container is to run; None is where it is.
        proc: where the kernel lists threads.
    """
    return _move(groups, uid, cpus, proc, lambda _thread, _wanted: True)


def move_strays(groups: LimitGroups, uid: str, cpus: Callable[[str], Iterable[int] | None], proc: Path = PROC) -> int:
    """As `move`, but of threads that may run elsewhere only: a program may choose among the CPUs that are its own."""
    return _move(groups, uid, cpus, proc, _is_stray)


def _move(
    groups: LimitGroups,
    uid: str,
    cpus: Callable[[str], Iterable[int] | None],
    proc: Path,
    must_move: Callable[[int, Iterable[int]], bool],
) -> int:
    seen: set[int] = set()
    moved = 0
    for _ in range(_ROUNDS):
        found = {
            thread: wanted
            for leaf, pids in groups.processes(uid).items()
            if (wanted := cpus(leaf.rpartition(".")[0]))
            for pid in pids
            for thread in _threads(pid, proc)
            if thread not in seen
        }
        if not found:
            break
        for thread, wanted in found.items():
            # It may have ended.
            with contextlib.suppress(OSError):
                if must_move(thread, wanted):
                    os.sched_setaffinity(thread, wanted)
                    moved += 1
        seen |= set(found)
    return moved


def _is_stray(thread: int, wanted: Iterable[int]) -> bool:
    return not os.sched_getaffinity(thread) <= set(wanted)


def _threads(pid: int, proc: Path) -> list[int]:
    try:
        return [int(path.name) for path in (proc / str(pid) / "task").iterdir()]
    except OSError:
        return []


class AffinityKeeper:
    """Keeps containers off the CPUs of others, where containers can have CPUs for themselves.

    Args:
        clock: paces the looks.
        book: which containers have which CPUs.
        groups: where processes are listed.
        pods: uids of the pods on this node.
    """

    def __init__(self, clock: Clock, book: CpuBook, groups: LimitGroups, pods: Callable[[], Iterable[str]]) -> None:
        self._book, self._groups, self._pods = book, groups, pods
        self._loop: WatchLoop[str, None] = WatchLoop("cpus", clock, _LOOK_SECONDS, self._look)
        if book.pins:
            self._loop.add("node", None)

    async def run(self) -> None:
        """Look until cancelled."""
        await self._loop.run()

    async def _look(self, _: object) -> None:
        for uid in list(self._pods()):
            # Not in another thread: the book must not change between the question and the move.
            move_strays(self._groups, uid, partial(self._book.cpus_of, uid))
            await asyncio.sleep(0)
