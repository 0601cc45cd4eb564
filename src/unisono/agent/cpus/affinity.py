"""Keeping the processes of running containers on the CPUs that are theirs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from unisono.agent.machine.limit_groups import LimitGroups
from unisono.agent.machine.procfs import PROC

# A container that starts processes while its others are moved is looked at again.
_ROUNDS = 5


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
