"""What the kernel tells about processes, mounts and addresses under /proc."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class MountLine:
    """One line of /proc/self/mounts."""

    target: str
    kind: str
    options: tuple[str, ...] = ()


def mounts(proc: Path = PROC) -> list[MountLine]:
    """The mounts of this process, in order; octal escapes of blanks are undone."""
    lines = []
    for line in (proc / "self/mounts").read_text().splitlines():
        fields = line.split()
        if len(fields) >= 3:
            target = fields[1].encode().decode("unicode_escape")
            lines.append(MountLine(target, fields[2], tuple(fields[3].split(",")) if len(fields) > 3 else ()))
    return lines


def boot_id() -> str:
    """Differs after every boot of the machine."""
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def is_running(pid: int, started: int, proc: Path = PROC) -> bool:
    """Whether this very process still exists (a zombie counts as ended)."""
    try:
        stat = (proc / str(pid) / "stat").read_text()
    except OSError:
        return False
    fields = stat[stat.rindex(")") + 2 :].split()
    return fields[0] not in "ZX" and int(fields[19]) == started


def children(pid: int, proc: Path = PROC) -> list[int]:
    """Ids of the direct children of a process, found by walking all processes."""
    pids = []
    for entry in os.scandir(proc):
        if not entry.name.isdigit():
            continue
        try:
            stat = (proc / entry.name / "stat").read_text()
        except OSError:
            continue
        if int(stat[stat.rindex(")") + 2 :].split()[1]) == pid:
            pids.append(int(entry.name))
    return pids
