"""How decision time grows with nodes, pods and queues."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.clusters import Shape, state_of
from benchmarks.measure import decide

SERIES = ("nodes", "pods", "queues")
_NODES = (1_000, 2_000, 5_000, 10_000, 20_000)
_PODS = (1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000)
_QUEUES = (1, 10, 100, 1_000)


@dataclass(frozen=True, slots=True)
class Point:
    """``size`` of what grows; seconds of one cold cycle, and pods bound in it."""

    size: int
    seconds: float
    pods: int


def shapes(series: str, *, quick: bool = False) -> Iterator[tuple[int, Shape]]:
    """Sizes and clusters of a series.

    nodes: 10,000 pods in gangs of 20. pods: gangs of 20 on 5,000 nodes. queues: 10,000 pods in gangs of 10 on 1,000
    nodes, the gangs dealt out to the queues.
    """
    cut = slice(0, 2) if quick else slice(None)
    if series == "nodes":
        yield from ((nodes, Shape(nodes, 500, 20)) for nodes in _NODES[cut])
    elif series == "pods":
        yield from ((pods, Shape(5_000, pods // 20, 20)) for pods in _PODS[cut])
    else:
        yield from ((queues, Shape(1_000, 1_000, 10, queues=queues)) for queues in _QUEUES[cut])


def measure(series: str, *, quick: bool = False) -> Iterator[Point]:
    """The points of a series, smallest first."""
    for size, shape in shapes(series, quick=quick):
        seconds, decisions = decide(state_of(shape), 2)
        yield Point(size, seconds, len(decisions.binds))
