"""The kubelet's topology manager for CPUs: hints, the best of them, whether a policy admits, and the CPUs given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from unisono.api.numa.cpus import CpuTopology, take

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
    found: list[int] = []
    smallest = number
    for nodes in range(1, 1 << number):
        cpus = topology.within(nodes)
        if cpus.bit_count() >= wanted:
            smallest = min(smallest, nodes.bit_count())
        if (cpus & free).bit_count() >= wanted:
            found.append(nodes)
    return [Hint(nodes, nodes.bit_count() == smallest) for nodes in found]


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
        wanted = min(counts.get(node, 0), near.bit_count())
        free &= ~(take(topology, near, wanted) or 0)
    return free
