"""Helpers on resource vectors that quota plug-ins share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unisono.api.resources import to_wire
from unisono.cluster.resources import PODS, ResourceRegistry, Vector, fitted

if TYPE_CHECKING:
    from unisono.engine.session import Session


def usable_total(session: Session) -> Vector:
    """``[R]`` what queues can share: nodes that are ready and not cordoned, and what is in use on the others.

    Volcano counts every node it has heard of, so a queue deserves resources that nobody can use. What still runs on a
    cordoned node stays in the total, because it is in the queues' allocated sums as well.
    """
    nodes = session.nodes
    usable = nodes.table.ready & ~nodes.table.unschedulable
    stranded = np.minimum(nodes.used, nodes.allocatable)
    return np.asarray(np.where(usable, nodes.allocatable, stranded).sum(axis=1), dtype=np.int64)


def requested_rows(request: Vector) -> list[int]:
    """Rows that count in a quota check: those asked for, never ``pods``."""
    return [row for row in np.flatnonzero(request > 0).tolist() if row != PODS]


def exceeded(wanted: Vector, limit: Vector, request: Vector) -> list[int]:
    """Rows of ``request`` in which ``wanted`` is above ``limit``; all ``[R]``."""
    return [row for row in requested_rows(request) if wanted[row] > limit[row]]


def named(registry: ResourceRegistry, vector: Vector, rows: list[int]) -> dict[str, int]:
    """Amounts of ``rows`` by resource name, zeros included."""
    return {registry.names[row]: int(vector[row]) for row in rows}


def text(registry: ResourceRegistry, vector: Vector, rows: list[int]) -> str:
    """``cpu 4, memory 8Gi``."""
    return ", ".join(f"{name} {amount}" for name, amount in to_wire(named(registry, vector, rows)).items())


def dominant_share(held: Vector, total: Vector) -> float:
    """Largest ``held / total`` over the resources of which there is any; ``[R]`` each."""
    rows = total > 0
    return float((held[rows] / total[rows]).max(initial=0.0))


def aligned(vector: Vector, registry: ResourceRegistry) -> Vector:
    """``vector`` with as many rows as the registry has."""
    return fitted(vector, len(registry))
