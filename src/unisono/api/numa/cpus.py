"""Sets of CPUs as bit masks, the topology that they sit in, and which of them a request takes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

_RANGE = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?")


def parse_cpus(text: str) -> int:
    """Mask of ``0-3,8``; raises ValueError for anything else."""
    mask = 0
    for part in filter(None, (part.strip() for part in text.split(","))):
        found = _RANGE.fullmatch(part)
        if found is None:
            raise ValueError(f"not a list of CPUs: {text!r}")
        first, last = int(found[1]), int(found[2] or found[1])
        if last < first:
            raise ValueError(f"not a list of CPUs: {text!r}")
        mask |= (1 << (last + 1)) - (1 << first)
    return mask


def write_cpus(mask: int) -> str:
    """``0-3,8`` of a mask."""
    parts: list[str] = []
    numbers = list(bits(mask))
    while numbers:
        first = last = numbers.pop(0)
        while numbers and numbers[0] == last + 1:
            last = numbers.pop(0)
        parts.append(str(first) if first == last else f"{first}-{last}")
    return ",".join(parts)


def bits(mask: int) -> Iterator[int]:
    """Numbers of the bits that are set, lowest first."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


@dataclass(frozen=True, eq=False)
class CpuTopology:
    """The CPUs of one kind of machine; equal machines share one object.

    Attributes:
        numa: ``(id, mask of CPUs)`` per NUMA node, by id.
        sockets: mask of CPUs per socket, by id.
        cores: mask of CPUs per core, by socket and core id.

    """

    numa: tuple[tuple[int, int], ...]
    sockets: tuple[int, ...]
    cores: tuple[int, ...]

    @staticmethod
    def of(detail: Mapping[int, tuple[int, int, int]]) -> CpuTopology:
        """From ``{cpu: (numa, socket, core)}``; a core id counts within its socket."""
        numa: dict[int, int] = {}
        sockets: dict[int, int] = {}
        cores: dict[tuple[int, int], int] = {}
        for cpu, (node, socket, core) in detail.items():
            numa[node] = numa.get(node, 0) | 1 << cpu
            sockets[socket] = sockets.get(socket, 0) | 1 << cpu
            cores[socket, core] = cores.get((socket, core), 0) | 1 << cpu
        return _shared(
            tuple(sorted(numa.items())),
            tuple(mask for _, mask in sorted(sockets.items())),
            tuple(mask for _, mask in sorted(cores.items())),
        )

    @property
    def all(self) -> int:
        """Mask of every CPU."""
        mask = 0
        for _, cpus in self.numa:
            mask |= cpus
        return mask

    def within(self, nodes: int) -> int:
        """CPUs of NUMA nodes, given as a mask of positions in ``numa``."""
        mask = 0
        for position in bits(nodes):
            mask |= self.numa[position][1]
        return mask

    def spread(self, cpus: int) -> dict[int, int]:
        """How many of ``cpus`` sit in each NUMA node, by id; nodes with none are left out."""
        counts = {node: (cpus & mask).bit_count() for node, mask in self.numa}
        return {node: count for node, count in counts.items() if count}


@lru_cache(maxsize=1024)
def _shared(numa: tuple[tuple[int, int], ...], sockets: tuple[int, ...], cores: tuple[int, ...]) -> CpuTopology:
    return CpuTopology(numa, sockets, cores)


def take(topology: CpuTopology, free: int, wanted: int) -> int | None:
    """Which of ``free`` a request for ``wanted`` CPUs gets: whole sockets, then whole cores, then single threads.

    Sockets and cores go by number of free neighbours, fewest first, so that large pieces stay whole; None when too few
    are free.
    """
    if free.bit_count() < wanted:
        return None
    taken = 0
    for pieces in (topology.sockets, _by_socket(topology, free)):
        for piece in pieces:
            size = piece.bit_count()
            if piece & free == piece and size <= wanted:
                taken, free, wanted = taken | piece, free & ~piece, wanted - size
    for cpu in _threads(topology, free, taken):
        if not wanted:
            break
        taken, wanted = taken | 1 << cpu, wanted - 1
    return taken


def _by_socket(topology: CpuTopology, free: int) -> list[int]:
    """Cores, those of sockets with fewer free cores first."""
    whole = {
        socket: sum(1 for core in topology.cores if core & socket and core & free == core)
        for socket in topology.sockets
    }
    order = {socket: position for position, socket in enumerate(topology.sockets)}
    ranked = [
        (whole[socket], order[socket], position, core)
        for position, core in enumerate(topology.cores)
        for socket in topology.sockets
        if core & socket
    ]
    return [core for *_, core in sorted(ranked)]


def _threads(topology: CpuTopology, free: int, taken: int) -> list[int]:
    """Single CPUs: near those taken already, then from the fullest socket and core, then by number."""
    socket_of = {cpu: socket for socket in topology.sockets for cpu in bits(socket)}
    core_of = {cpu: core for core in topology.cores for cpu in bits(core)}

    def key(cpu: int) -> tuple[int, int, int, int]:
        socket, core = socket_of[cpu], core_of[cpu]
        return -(socket & taken).bit_count(), (socket & free).bit_count(), (core & free).bit_count(), cpu

    return sorted(bits(free), key=key)
