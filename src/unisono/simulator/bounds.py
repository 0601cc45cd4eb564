"""Bounds that no scheduler can beat, to say how much room is left."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import gcd, inf

import numpy as np

from unisono.errors import UnisonoError

# Lower bounds of mean job completion time and makespan, for schedulers that neither share GPUs nor resize jobs.
#
# The cluster is replaced by one machine as fast as all of its GPUs together, on which the job with least work left
# runs, preempted at will (shortest remaining processing time). Its mean flow time is at most that of any schedule of
# the jobs.

Work = tuple[float, float, float]
"""Arrival and run time in seconds, and GPUs."""


def mean_completion(jobs: Sequence[Work], gpus: float) -> float:
    """Least mean time in seconds from arrival to end on a cluster of so many GPUs.

    Raises:
        ValueError: there are no jobs, or no GPUs.
    """
    if not jobs or gpus <= 0:
        raise ValueError("a bound needs jobs and GPUs")
    alone = sum(seconds for _, seconds, _ in jobs) / len(jobs)
    return max(alone, _squashed(jobs, gpus))


def _squashed(jobs: Sequence[Work], gpus: float) -> float:
    """Mean flow time of shortest remaining work first on one machine of speed ``gpus``."""
    left: list[tuple[float, float]] = []
    now = total = 0.0
    for arrival, seconds, width in (*sorted(jobs), (float("inf"), 0.0, 0.0)):
        while left and now < arrival:
            work, began = heapq.heappop(left)
            ends = now + work / gpus
            if ends > arrival:
                heapq.heappush(left, (work - (arrival - now) * gpus, began))
                now = arrival
            else:
                now = ends
                total += now - began
        if arrival < float("inf"):
            now = max(now, arrival)
            heapq.heappush(left, (seconds * width, arrival))
    return total / len(jobs)


def makespan(jobs: Sequence[Work], gpus: float) -> float:
    """Least time in seconds from the first arrival to the last end.

    No job ends before it has run, and what arrives from some moment on cannot be done faster than by all GPUs.
    """
    if not jobs or gpus <= 0:
        raise ValueError("a bound needs jobs and GPUs")
    first = min(arrival for arrival, _, _ in jobs)
    longest = max(arrival + seconds for arrival, seconds, _ in jobs)
    work = packed = 0.0
    for arrival, seconds, width in sorted(jobs, reverse=True):
        work += seconds * width
        packed = max(packed, arrival + work / gpus)
    return max(longest, packed) - first


# How many GPUs pods could take at most with any scheduler: a linear programme over kinds of pods and of nodes.
#
# It lets pods be cut and spread over the nodes of one kind, and may choose among all pods at once, so that no scheduler
# allocates more. Parts of GPUs must fit together into whole ones all the same: the patterns in which they can be cut
# are paths through the sizes from 0 to 1000 (J. Valério de Carvalho, "Exact solution of bin-packing problems using
# column generation and branch-and-bound", Annals of Operations Research 86, 1999).

_WHOLE = 1000
_SIZES = (2, 4, 8)


class SolverMissing(UnisonoError):
    """The library that solves linear programmes is not installed."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A kind of pod: CPU in milli-cores, memory in MiB, ``gpus`` with ``milli`` of each, models (empty: any)."""

    cpu: int
    memory: int
    gpus: int
    milli: int
    models: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Shape:
    """A kind of node."""

    cpu: int
    memory: int
    gpus: int
    model: str = ""


class _Programme:
    """Rows and columns of ``maximise c x``, ``A x <= b``, ``E x = 0``, ``0 <= x <= u``."""

    def __init__(self) -> None:
        self.worth: list[float] = []
        self.limit: list[float] = []
        self.most: dict[object, tuple[float, list[tuple[int, float]]]] = {}
        self.flow: dict[object, list[tuple[int, float]]] = {}

    def column(self, worth: float, limit: float) -> int:
        self.worth.append(worth)
        self.limit.append(limit)
        return len(self.worth) - 1

    def row(self, key: object, most: float) -> list[tuple[int, float]]:
        return self.most.setdefault(key, (most, []))[1]

    def balance(self, key: object) -> list[tuple[int, float]]:
        return self.flow.setdefault(key, [])


def most_allocated(pods: Iterable[Ask], nodes: Iterable[Shape]) -> float:
    """Thousandths of GPUs that can be allocated at most.

    Raises:
        SolverMissing: install the extra ``solver``.
    """
    asks, shapes = Counter(pods), Counter(nodes)
    programme = _Programme()
    opened = {shape: programme.column(0.0, number * shape.gpus) for shape, number in shapes.items()}
    for shape, number in shapes.items():
        for key, amount in (("cpu", shape.cpu), ("memory", shape.memory), ("gpus", shape.gpus)):
            programme.row((key, shape), number * amount)
        programme.row(("gpus", shape), 0).append((opened[shape], 1.0))
        programme.row(("part", shape), 0).append((opened[shape], -float(_WHOLE)))
        for size in _SIZES:
            programme.row((size, shape), shape.gpus // size * size * number)
    for ask, number in asks.items():
        for shape, there in shapes.items():
            if _fits(ask, shape):
                _place(programme, ask, number, shape, there)
    _cut(programme, [ask for ask in asks if _is_part(ask)], list(opened.values()))
    return _solve(programme)


def _is_part(ask: Ask) -> bool:
    return ask.gpus == 1 and ask.milli < _WHOLE


def _fits(ask: Ask, shape: Shape) -> bool:
    right = not ask.models or not ask.gpus or shape.model in ask.models
    return right and ask.cpu <= shape.cpu and ask.memory <= shape.memory and ask.gpus <= shape.gpus


def _place(programme: _Programme, ask: Ask, number: int, shape: Shape, there: int) -> None:
    column = programme.column(float(ask.gpus * ask.milli), float(number))
    programme.row(("pods", ask), number).append((column, 1.0))
    programme.row(("cpu", shape), 0).append((column, float(ask.cpu)))
    programme.row(("memory", shape), 0).append((column, float(ask.memory)))
    if _is_part(ask):
        programme.row(("part", shape), 0).append((column, float(ask.milli)))
        programme.balance(("size", ask.milli)).append((column, -1.0))
        return
    programme.row(("gpus", shape), 0).append((column, float(ask.gpus)))
    for size in _SIZES:
        if ask.gpus >= size:
            programme.row((size, shape), 0).append((column, float(ask.gpus)))


def _cut(programme: _Programme, parts: list[Ask], opened: list[int]) -> None:
    """Whole GPUs are cut along paths from 0 to 1000; each step is a part, or is lost."""
    sizes = sorted({ask.milli for ask in parts})
    grain = reduce(gcd, sizes, _WHOLE)
    for column in opened:
        programme.balance(("at", 0)).append((column, 1.0))
        programme.balance(("at", _WHOLE)).append((column, -1.0))
    for start in range(0, _WHOLE, grain):
        for size in (grain, *sizes):
            lost = size == grain
            if start + size <= _WHOLE:
                _step(programme, start, size, None if lost and grain not in sizes else size)
        if grain in sizes:
            _step(programme, start, grain, None)


def _step(programme: _Programme, start: int, size: int, part: int | None) -> None:
    arc = programme.column(0.0, float("inf"))
    programme.balance(("at", start)).append((arc, -1.0))
    programme.balance(("at", start + size)).append((arc, 1.0))
    if part is not None and ("size", part) in programme.flow:
        programme.balance(("size", part)).append((arc, 1.0))


def _solve(programme: _Programme) -> float:
    try:
        from scipy.optimize import linprog
        from scipy.sparse import csr_matrix
    except ImportError:
        raise SolverMissing("bounds of filling need scipy: install unisono[solver]") from None

    def matrix(rows: Mapping[int, list[tuple[int, float]]]) -> object:
        entries = [(value, at, column) for at, row in rows.items() for column, value in row]
        values, at, columns = zip(*entries, strict=True)
        return csr_matrix((values, (at, columns)), shape=(len(rows), len(programme.worth)))

    solution = linprog(
        -np.array(programme.worth),
        A_ub=matrix({at: row for at, (_, row) in enumerate(programme.most.values())}),
        b_ub=[most for most, _ in programme.most.values()],
        A_eq=matrix(dict(enumerate(programme.flow.values()))),
        b_eq=np.zeros(len(programme.flow)),
        bounds=[(0, None if limit == float("inf") else limit) for limit in programme.limit],
        method="highs",
    )
    if not solution.success:
        raise UnisonoError(f"the bound was not found: {solution.message}")
    return float(-solution.fun)


# The least distance between the hosts of a gang in a tree of domains: a bound at any time, and for what is free now.
#
# The distance of two hosts is twice the tier of the lowest domain that has both: 2 below one leaf, 4 in one pod of
# leaves, and so on. The cost of a gang is its sum over all pairs.

_MOST = 4096
"""Hosts of a gang."""


def least_cost(paths: Mapping[str, Sequence[str]], hosts: int) -> float:
    """Least sum of distances over the pairs of ``hosts`` hosts; infinite where there are too few.

    A dynamic programme over the tree: what it costs to take k hosts below a domain follows from what it costs below its
    children. Pairs of different children are as far apart as the domain's tier says.

    Args:
        paths: domains of each host that may be taken, from the leaf upwards, all of one length.
        hosts: of the gang, at most 4096.

    Raises:
        ValueError: paths have different lengths, or ``hosts`` is out of range.
    """
    lengths = {len(path) for path in paths.values()}
    if len(lengths) > 1 or not 0 < hosts <= _MOST:
        raise ValueError(f"a gang has 1 to {_MOST} hosts, and all hosts lie equally deep")
    depth = lengths.pop() if lengths else 0
    below: dict[tuple[str, ...], list[float]] = {}
    for path in paths.values():
        key = tuple(reversed(path))
        below[key] = _joined(below.get(key, [0.0]), [0.0, 0.0], 1, hosts)
    for tier in range(2, depth + 1):
        above: dict[tuple[str, ...], list[float]] = {}
        for key, costs in below.items():
            above[key[:-1]] = _joined(above.get(key[:-1], [0.0]), costs, tier, hosts)
        below = above
    whole = [0.0]
    for costs in below.values():
        whole = _joined(whole, costs, depth + 1, hosts)
    return whole[hosts] if hosts < len(whole) else inf


def _joined(one: list[float], other: list[float], tier: int, most: int) -> list[float]:
    """Costs by number of hosts below two domains together, whose hosts are ``2 * tier`` apart."""
    costs = [inf] * min(len(one) + len(other) - 1, most + 1)
    for left, cost in enumerate(one):
        for right in range(min(len(other), len(costs) - left)):
            total = cost + other[right] + 2 * tier * left * right
            costs[left + right] = min(costs[left + right], total)
    return costs
