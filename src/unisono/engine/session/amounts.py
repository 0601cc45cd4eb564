"""Helpers on resource amounts that quota plug-ins share.

Clusters have a handful of resources, and quota is asked about once per job: plain lists of whole numbers by resource
row are several times faster here than arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from unisono.api.resources import readable
from unisono.cluster.podclass import PodClass
from unisono.cluster.resources import PODS, Matrix, ResourceRegistry, Vector, fitted

Amounts = list[int]
"""Engine units by resource row, one entry per row of the registry."""

UNLIMITED = 2**62
"""Stands for "no limit"."""


def aligned(vector: Vector, registry: ResourceRegistry) -> Vector:
    """``vector`` with as many rows as the registry has."""
    return fitted(vector, len(registry))


def listed(vector: Vector, registry: ResourceRegistry) -> Amounts:
    """A vector as a list with one entry per row of the registry."""
    amounts: Amounts = vector.tolist()
    return amounts + [0] * (len(registry) - len(amounts))


def by_row(amounts: Mapping[str, int] | None, registry: ResourceRegistry, default: int = 0) -> Amounts:
    """Amounts by name as a list, ``default`` for what is not named; names without a row are left out."""
    result = [default] * len(registry)
    for name, amount in (amounts or {}).items():
        row = registry.find(name)
        if row is not None:
            result[row] = amount
    return result


def tasks_fitting(free: Matrix, pod_class: PodClass) -> Vector:
    """``[M]`` how many tasks of the class fit into each column of ``free`` (``[R, M]``)."""
    each = np.maximum(free[pod_class.rows], 0) // pod_class.amounts[:, None]
    return np.asarray(each.min(axis=0), dtype=np.int64)


def exceeded(taken: Sequence[int], request: Sequence[int], limit: Sequence[int]) -> list[int]:
    """Rows that are asked for and in which ``taken`` plus ``request`` is above ``limit``; ``pods`` never counts."""
    return [
        row
        for row, (held, more, most) in enumerate(zip(taken, request, limit, strict=True))
        if more > 0 and held + more > most and row != PODS
    ]


def dominant_share(held: Sequence[int], total: Sequence[int]) -> float:
    """Largest ``held / total`` over the resources of which there is any."""
    return max([mine / whole for mine, whole in zip(held, total, strict=True) if whole > 0], default=0.0)


def named(registry: ResourceRegistry, amounts: Sequence[int], rows: Sequence[int]) -> dict[str, int]:
    """Amounts of ``rows`` by resource name, zeros included."""
    return {registry.names[row]: amounts[row] for row in rows}


def text(registry: ResourceRegistry, amounts: Sequence[int], rows: Sequence[int]) -> str:
    """``cpu 4, memory 8Gi``."""
    return ", ".join(f"{name} {amount}" for name, amount in readable(named(registry, amounts, rows)).items())
