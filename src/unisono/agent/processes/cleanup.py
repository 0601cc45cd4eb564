"""Ending processes of pods without their agent: after a deletion that no agent saw, or when the user asks for it."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from unisono.agent.layout import Layout, PodDir, RunDir
from unisono.agent.machine.cgroups import Cgroups
from unisono.agent.machine.limit_groups import LimitGroups
from unisono.agent.processes import shims
from unisono.agent.processes.shims import Process
from unisono.kube.clock import Clock

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
            shims.end_now(process)
        time.sleep(_POLL)
    for process in _shims(left):
        shims.end_shim(process)
    if cgroups is not None:
        cgroups.kill(directory.uid)
        _wait_for_removal(cgroups, directory.uid)
    return bool(held)


def _shims(runs: list[RunDir]) -> list[Process]:
    return [process for run in runs if (process := shims.find(run)) is not None]


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
