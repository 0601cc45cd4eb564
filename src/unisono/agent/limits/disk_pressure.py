"""Disk pressure: a node whose disk runs full says so, takes no further pods and evicts some, as a kubelet does."""

from __future__ import annotations

import asyncio
import math
import os
import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from unisono.agent.layout import PodDir
from unisono.agent.lifecycle import Reason
from unisono.agent.limits.disk_usage import disk_usage
from unisono.agent.limits.eviction_thresholds import DEFAULT_EVICTION, Disk, Shortage, Threshold, shortage
from unisono.agent.limits.watch_loop import WatchLoop
from unisono.api.core import Pod
from unisono.api.quantity import readable_bytes
from unisono.api.resources import pod_requests
from unisono.kube.clock import Clock

_PERIOD_SECONDS = 10.0
# How long the condition outlives its cause, so that it does not come and go (eviction-pressure-transition-period).
_TRANSITION_SECONDS = 300.0
_STORAGE = "ephemeral-storage"
# Priority of system-cluster-critical; such pods start under pressure, too.
_CRITICAL = 2_000_000_000

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Occupant:
    """A pod whose files are on the node's disk.

    Attributes:
        pod: the pod.
        directory: where its files are.
        ended: nothing of it runs any more, nor will.
        ending: it is being evicted or deleted.
        evict: ends it, with a message.
    """

    pod: Pod
    directory: PodDir
    ended: bool
    ending: bool
    evict: Callable[[str], None]


def read_disk(path: Path) -> Disk:
    """The file system below a path."""
    found = os.statvfs(path)
    return Disk(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize, found.f_favail, found.f_files)


def ranked(occupants: Sequence[Occupant], usage: Mapping[Path, int], requests: bool = True) -> list[Occupant]:
    """Pods in the order in which they are evicted: above their requests, then low priority, then large usage.

    Args:
        occupants: pods that run.
        usage: bytes or inodes by the pod's directory; a pod that could not be measured counts as the largest.
        requests: what is measured can be requested.
    """

    def key(occupant: Occupant) -> tuple[bool, int, float]:
        above = usage.get(occupant.directory.path, math.inf) - (_requested(occupant.pod) if requests else 0)
        return above <= 0, occupant.pod.spec.priority or 0, -above

    return sorted(occupants, key=key)


class DiskPressure:
    """Watches the disk of one node.

    Args:
        clock: paces the looks.
        read: tells how full the disk is.
        occupants: the pods whose files are on it.
        report: tells the API of pressure, or of its end.
        thresholds: from when on there is pressure.
    """

    def __init__(
        self,
        clock: Clock,
        read: Callable[[], Disk],
        occupants: Callable[[], Sequence[Occupant]],
        report: Callable[[bool], Awaitable[None]],
        thresholds: Sequence[Threshold] = DEFAULT_EVICTION,
    ) -> None:
        self._clock, self._read, self._occupants, self._report = clock, read, occupants, report
        self._thresholds = thresholds
        self._pressure = self._reported = False
        self._last = 0.0
        self._loop: WatchLoop[str, None] = WatchLoop("disk", clock, _PERIOD_SECONDS, self._look)
        self._loop.add("node", None)

    def refusal(self, pod: Pod) -> Reason | None:
        """Why the node does not take a pod now; None when it does."""
        if not self._pressure or (pod.spec.priority or 0) >= _CRITICAL:
            return None
        return Reason("Evicted", "The node had condition: [DiskPressure].")

    async def run(self) -> None:
        """Look until cancelled."""
        await self._loop.run()

    async def _look(self, _: object) -> None:
        short = shortage(self._thresholds, await asyncio.to_thread(self._read))
        now = self._clock.monotonic()
        if short is not None:
            self._last = now
        pressure = short is not None or (self._pressure and now - self._last < _TRANSITION_SECONDS)
        if pressure != self._pressure:
            self._pressure = pressure
            if short is not None:
                _log.warning("node.disk_pressure", signal=short.signal, available=short.available, limit=short.limit)
            else:
                _log.info("node.disk_pressure_over")
        try:
            if short is not None:
                await self._relieve(short)
        finally:
            # Told again at the next look when the API did not hear of it.
            if self._reported != self._pressure:
                await self._report(self._pressure)
                self._reported = self._pressure

    async def _relieve(self, short: Shortage) -> None:
        """Remove files of pods that have ended; where that is not enough, evict one pod and wait for its end."""
        occupants = self._occupants()
        left = [each.directory.path / "volumes" for each in occupants if each.ended]
        if await asyncio.to_thread(_remove, left) and shortage(self._thresholds, self._read()) is None:
            return
        running = [each for each in occupants if not each.ended]
        if not running or any(each.ending for each in running):
            return
        inodes = short.signal == "nodefs.inodesFree"
        usage = await disk_usage([each.directory.path for each in running], inodes=inodes)
        first = ranked(running, usage.sizes, requests=not inodes)[0]
        used = usage.sizes.get(first.directory.path)
        first.evict(_message(short, used, 0 if inodes else _requested(first.pod)))


def _message(short: Shortage, used: int | None, requested: int) -> str:
    inodes = short.signal == "nodefs.inodesFree"
    write = str if inodes else readable_bytes
    return (
        f"The node was low on resource: {'inodes' if inodes else _STORAGE}. Threshold quantity: {write(short.limit)}, "
        f"available: {write(short.available)}. The pod was using {'an unknown amount' if used is None else write(used)}"
        f"{'' if inodes else f', request is {write(requested)}'}."
    )


def _requested(pod: Pod) -> int:
    return pod_requests(pod.spec).get(_STORAGE, 0)


def _remove(folders: list[Path]) -> bool:
    """Remove folders; whether there were any."""
    there = [folder for folder in folders if folder.is_dir()]
    for folder in there:
        shutil.rmtree(folder, ignore_errors=True)
    return bool(there)
