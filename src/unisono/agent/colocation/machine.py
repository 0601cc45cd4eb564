"""Online and offline pods as the machine has them: their shares of cgroups, and how much of it is in use."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from unisono.agent.colocation.decide import Use
from unisono.agent.machine.cgroups import Cgroups, LimitGroups, write
from unisono.agent.machine.procfs import PROC
from unisono.api.core import Pod
from unisono.api.pod_states import limits_of, qos_level, requests_of

# How much of the machine a pod gets beside others, by its QoS level: weights and memory of its cgroup.

_WEIGHTS = {2: 800, 1: 200}
_DEFAULT_WEIGHT = 100
# Above this part of its limit an offline pod is slowed down and its memory reclaimed, before it reaches the limit.
_HIGH_PERCENT = 90


@dataclass(frozen=True, slots=True)
class Treatment:
    """What the kernel is told of a pod.

    Attributes:
        weight: of its CPU against the other pods', 100 is usual.
        idle: it gets CPU only where no other pod wants it.
        spared: bytes that are not reclaimed while others have memory to give.
        kept: they are not reclaimed at all.
        high: above so many bytes its memory is reclaimed; None is nowhere.
        first: its memory is reclaimed before that of others.
    """

    weight: int = _DEFAULT_WEIGHT
    idle: bool = False
    spared: int = 0
    kept: bool = False
    high: int | None = None
    first: bool = False


def treatment(pod: Pod) -> Treatment:
    """What its QoS level asks for; nothing where it has none."""
    level = qos_level(pod)
    if level < 0:
        limits = [limits_of(each)[1] for each in pod.spec.containers or ()]
        known = [each for each in limits if each is not None]
        high = sum(known) * _HIGH_PERCENT // 100 if known and len(known) == len(limits) else None
        return Treatment(weight=1, idle=True, high=high, first=True)
    if level == 0:
        return Treatment()
    return Treatment(weight=_WEIGHTS[level], spared=requests_of(pod.spec)[1], kept=level > 1)


def treat(groups: LimitGroups, uid: str, wanted: Treatment) -> frozenset[str]:
    """Tell the kernel; its groups are there already.

    Returns:
        The controllers, of ``cpu`` and ``memory``, that took it.
    """
    if wanted == Treatment():
        return frozenset()
    done = {"cpu": _cpu(groups, uid, wanted), "memory": _memory(groups, uid, wanted)}
    return frozenset(name for name, well in done.items() if well)


def _cpu(groups: LimitGroups, uid: str, wanted: Treatment) -> bool:
    found = groups.folder("cpu", uid)
    if found is None:
        return False
    folder, version = found
    if wanted.idle and write(folder / "cpu.idle", "1"):
        return True
    # Kernels before 5.15 have no idle groups: the least weight comes closest.
    if version == 2:
        return write(folder / "cpu.weight", str(wanted.weight))
    return write(folder / "cpu.shares", str(max(2, wanted.weight * 1024 // _DEFAULT_WEIGHT) if not wanted.idle else 2))


def _memory(groups: LimitGroups, uid: str, wanted: Treatment) -> bool:
    found = groups.folder("memory", uid)
    if found is None:
        return False
    folder, version = found
    if version == 1:
        if wanted.first:
            return write(folder / "memory.soft_limit_in_bytes", "0")
        return not wanted.spared or write(folder / "memory.soft_limit_in_bytes", str(wanted.spared))
    done = True
    if wanted.high is not None:
        done = write(folder / "memory.high", str(wanted.high))
    if wanted.spared:
        name = "memory.min" if wanted.kept else "memory.low"
        done = write(folder / name, str(wanted.spared)) and _raise_parent(folder.parent, name)
    return done


def _raise_parent(root: Path, name: str) -> bool:
    """What a group keeps comes out of what its parent keeps."""
    total = 0
    for path in root.glob(f"*/{name}"):
        with contextlib.suppress(OSError, ValueError):
            total += int(path.read_text())
    return write(root / name, str(total))


# How much of the machine is in use, and how much of that by offline pods.

_TICKS = os.sysconf("SC_CLK_TCK")
# Columns of the first line of /proc/stat in which no process runs: idle, iowait; guests are in user already.
_IDLE = (3, 4)
_COLUMNS = 8


class UseMeter:
    """Measures between one look and the next.

    Args:
        cgroups: the pods' cgroups (v2), which count CPU time also where they limit nothing; None where there are none.
        limits: groups of which the memory of pods is read.
        proc: where the kernel tells of the machine.
    """

    def __init__(self, cgroups: Cgroups | None, limits: LimitGroups, proc: Path = PROC) -> None:
        self._cgroups, self._limits, self._proc = cgroups, limits, proc
        self._before: tuple[float, float, dict[str, float]] | None = None

    @property
    def tells_pods(self) -> bool:
        """Whether the use of pods can be told from that of others; else all use counts as that of online pods."""
        return self._cgroups is not None

    def read(self, offline: Iterable[str], now: float) -> Use | None:
        """What was in use since the look before; None at the first one.

        Args:
            offline: uids of the offline pods.
            now: monotonic seconds.

        Raises:
            OSError: the kernel does not tell.
        """
        uids = list(offline)
        machine, pods = machine_seconds(self._proc), {uid: self._pod_seconds(uid) for uid in uids}
        before, self._before = self._before, (now, machine, pods)
        if before is None or now <= before[0]:
            return None
        seconds = now - before[0]
        spent = sum(max(0.0, pods[uid] - before[2].get(uid, 0.0)) for uid in uids)
        return Use(
            cpu=round(max(0.0, machine - before[1]) / seconds * 1000),
            memory=machine_memory(self._proc),
            offline_cpu=round(spent / seconds * 1000),
            offline_memory=sum(map(self._pod_memory, uids)),
        )

    def _pod_seconds(self, uid: str) -> float:
        if self._cgroups is None:
            return 0.0
        return _value(self._cgroups.root / uid / "cpu.stat", "usage_usec") / 1e6

    def _pod_memory(self, uid: str) -> int:
        """Bytes without files that the kernel can drop at once."""
        found = self._limits.folder("memory", uid)
        if found is None:
            return 0
        folder, version = found
        used, dropped = (
            ("memory.current", "inactive_file") if version == 2 else ("memory.usage_in_bytes", "total_inactive_file")
        )
        try:
            total = int((folder / used).read_text())
        except (OSError, ValueError):
            return 0
        return max(0, total - _value(folder / "memory.stat", dropped))


def machine_seconds(proc: Path = PROC) -> float:
    """Processor time that the machine has spent since it started, in seconds."""
    line = (proc / "stat").read_text().split("\n", 1)[0].split()
    columns = [int(each) for each in line[1 : 1 + _COLUMNS]]
    return sum(each for index, each in enumerate(columns) if index not in _IDLE) / _TICKS


def machine_memory(proc: Path = PROC) -> int:
    """Bytes of the machine's memory that are in use."""
    amounts = {}
    for line in (proc / "meminfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name in ("MemTotal", "MemAvailable"):
            amounts[name] = int(value.split()[0]) << 10
    return amounts["MemTotal"] - amounts["MemAvailable"]


def _value(path: Path, name: str) -> int:
    """One number of a file of names and numbers; 0 where it is missing: the pod may have ended."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{name} ")), 0)
