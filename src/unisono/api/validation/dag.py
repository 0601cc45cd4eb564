"""Graphs without cycles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter


def is_acyclic(graph: Mapping[str, Sequence[str]]) -> bool:
    """Does no vertex reach itself; ``graph`` maps a vertex to those that it depends on. Linear in its size."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError:
        return False
    return True
