"""CPUs and NUMA nodes, and which of them a pod gets: the rules of the kubelet, for schedulers and agents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

# Sets of CPUs as bit masks, the topology that they sit in, and which of them a request takes.

_RANGE = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?")


def parse_cpus(text: str) -> int:
    """Mask of ``0-3,8``; raises ValueError for anything else."""
    mask = 0
    for part in filter(None, (part.strip() for part in text.split(","))):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise ValueError(f"not a list of CPUs: {text!r}")
        first, last = int(match[1]), int(match[2] or match[1])
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


# The kubelet's topology manager for CPUs: hints, the best of them, whether a policy admits, and the CPUs given.

NONE, BEST_EFFORT, RESTRICTED, SINGLE = "none", "best-effort", "restricted", "single-numa-node"
POLICIES = (NONE, BEST_EFFORT, RESTRICTED, SINGLE)
STATIC = "static"
"""The policy of the CPU manager with which containers have CPUs for themselves."""
_MOST_NUMA_NODES = 8
"""The kubelet's own limit, because hints are all subsets; on larger machines only the first nodes are hinted."""


@dataclass(frozen=True, slots=True)
class Hint:
    """A set of NUMA nodes, as a mask of positions, from which a request could be served."""

    nodes: int
    preferred: bool


def hints(topology: CpuTopology, free: int, wanted: int) -> list[Hint]:
    """Every set of NUMA nodes with enough free CPUs; preferred are those as small as an idle machine would allow."""
    number = min(len(topology.numa), _MOST_NUMA_NODES)
    candidates: list[int] = []
    smallest = number
    for nodes in range(1, 1 << number):
        cpus = topology.within(nodes)
        if cpus.bit_count() >= wanted:
            smallest = min(smallest, nodes.bit_count())
        if (cpus & free).bit_count() >= wanted:
            candidates.append(nodes)
    return [Hint(nodes, nodes.bit_count() == smallest) for nodes in candidates]


def best(candidates: Sequence[Hint], every: int, policy: str) -> Hint:
    """Preferred before not, then fewest nodes, then lowest numbers; all nodes, not preferred, when there is none."""
    if policy == SINGLE:
        candidates = [hint for hint in candidates if hint.preferred and hint.nodes.bit_count() == 1]
    ordered = sorted(candidates, key=lambda hint: (not hint.preferred, hint.nodes.bit_count(), hint.nodes))
    return ordered[0] if ordered else Hint(every, preferred=False)


def admits(hint: Hint, policy: str) -> bool:
    """Whether a policy lets a container start with the best hint that there is."""
    return policy in (NONE, BEST_EFFORT) or hint.preferred


@lru_cache(maxsize=65536)
def assign(topology: CpuTopology, free: int, wanted: tuple[int, ...], policy: str) -> tuple[int, ...] | None:
    """CPUs for the containers of a pod, one after the other.

    Args:
        topology: of the node.
        free: mask of its free CPUs.
        wanted: CPUs per container; 0 for containers that share what is left.
        policy: of the topology manager.

    Returns:
        a mask per container (0 where it wants none, or where best effort finds too few), or None when the policy
        refuses.
    """
    number = min(len(topology.numa), _MOST_NUMA_NODES)
    given = []
    for request in wanted:
        if not request:
            given.append(0)
            continue
        hint = best(hints(topology, free, request), (1 << number) - 1, policy)
        if not admits(hint, policy):
            return None
        cpus = _aligned(topology, free, request, hint)
        given.append(cpus)
        free &= ~cpus
    return tuple(given)


def _aligned(topology: CpuTopology, free: int, request: int, hint: Hint) -> int:
    """From the hinted NUMA nodes as far as they reach, then from anywhere; 0 when the machine has too few."""
    near = free & topology.within(hint.nodes)
    first = take(topology, near, min(request, near.bit_count())) or 0
    rest = take(topology, free & ~first, request - first.bit_count())
    return 0 if rest is None else first | rest


def numa_nodes(topology: CpuTopology, given: Sequence[int]) -> int:
    """How many NUMA nodes the CPUs given to a pod sit in."""
    cpus = 0
    for mask in given:
        cpus |= mask
    return sum(1 for _, mask in topology.numa if mask & cpus)


def reserve(topology: CpuTopology, free: int, counts: dict[int, int]) -> int:
    """``free`` without so many CPUs of each NUMA node (by id), as many as there are."""
    for node, mask in topology.numa:
        near = free & mask
        count = min(counts.get(node, 0), near.bit_count())
        free &= ~(take(topology, near, count) or 0)
    return free
