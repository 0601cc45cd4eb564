"""How much of the machine a pod gets beside others, by its QoS level: weights and memory of its cgroup."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from unisono.agent.machine.limit_groups import LimitGroups, write
from unisono.api.colocation import limits_of, qos_level, requests_of
from unisono.api.core import Pod

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
