"""Where the CPUs of this machine sit: socket, core and NUMA node of each, as the kernel tells under /sys."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from unisono.api.numa import bits, parse_cpus

SYSTEM = Path("/sys/devices/system")
Place = tuple[int, int, int]
"""NUMA node, socket and core."""


def read_cpus(system: Path = SYSTEM, allowed: Iterable[int] | None = None) -> dict[int, Place]:
    """The place of each CPU that is online.

    Args:
        system: the kernel's folder of CPUs and NUMA nodes.
        allowed: only these CPUs; None takes those that this process may use.

    Returns:
        Nothing where the kernel does not tell. A CPU whose place is not told counts as a core of its own on socket 0;
        one that no NUMA node lists is on node 0.
    """
    online = _cpus(system / "cpu" / "online")
    may = set(os.sched_getaffinity(0) if allowed is None else allowed)
    nodes = {cpu: node for node, mask in _numa_nodes(system) for cpu in bits(mask)}
    found = {}
    for cpu in bits(online):
        if cpu in may:
            folder = system / "cpu" / f"cpu{cpu}" / "topology"
            # Some virtual machines say -1.
            socket = max(0, _number(folder / "physical_package_id", 0))
            core = _number(folder / "core_id", cpu)
            found[cpu] = (nodes.get(cpu, 0), socket, cpu if core < 0 else core)
    return found


def online_cpus(system: Path = SYSTEM) -> list[int]:
    """Numbers of the CPUs that are online, whether this process may use them or not."""
    return list(bits(_cpus(system / "cpu" / "online")))


def _numa_nodes(system: Path) -> list[tuple[int, int]]:
    found = []
    for path in (system / "node").glob("node*/cpulist"):
        name = path.parent.name.removeprefix("node")
        if name.isascii() and name.isdigit():
            found.append((int(name), _cpus(path)))
    return sorted(found)


def _cpus(path: Path) -> int:
    try:
        return parse_cpus(path.read_text().strip())
    except (OSError, ValueError):
        return 0


def _number(path: Path, default: int) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return default
