"""Scores of placement rules as array formulas; ``M`` nodes, CPU in milli-cores, GPUs in thousandths.

As "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent" (USENIX ATC 2023)
compares them; scores are whole numbers from 0 to 100, and so ties are common.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unisono.engine.answers import BoolArray, FloatArray

Ints = npt.NDArray[np.int64]


def dot_product(cpu: Ints, gpu: Ints, asked: tuple[int, int], largest: tuple[int, int]) -> FloatArray:
    """``[M]`` 100 less the mean of the products of what is idle and what is asked for, in shares of the largest node.

    ``cpu`` and ``gpu`` are idle before the placement; ``asked`` and ``largest`` are CPU and GPUs of the pod, and the
    most of any node.
    """
    aligned = cpu / largest[0] * (asked[0] / largest[0]) + gpu / largest[1] * (asked[1] / largest[1])
    return np.asarray(np.trunc(100.0 * (1.0 - aligned / 2.0)))


def best_fit(cpu: Ints, gpu: Ints, asked: tuple[int, int], largest: tuple[int, int], among: BoolArray) -> FloatArray:
    """``[M]`` least is left after the placement, spread from 0 to 100 over the nodes of ``among``."""
    left = (cpu - asked[0]) / largest[0] + (gpu - asked[1]) / largest[1]
    points = np.trunc(100.0 * (1.0 - left / 2.0))
    if not among.any():
        return np.asarray(points)
    low, high = float(points[among].min()), float(points[among].max())
    if low == high:
        return np.zeros(len(points))
    return np.asarray(np.trunc(100.0 * (points - low) / (high - low)))


def clustering(gpu: Ints, same: Ints, others: Ints, largest: int) -> FloatArray:
    """``[M]`` pods of one kind together: 75 on nodes with this kind only, 50 with others too, 25 on empty ones.

    ``gpu`` is idle, ``largest`` the most of any node; ``same`` counts pods of the kind on the node, ``others`` further
    kinds.
    """
    base = np.where(same > 0, np.where(others > 0, 50, 75), np.where(others > 0, 0, 25))
    return np.asarray((base + 25 * (largest - gpu) // largest).astype(np.float64))


def packing(free: Ints, milli: int, count: int) -> FloatArray:
    """``[M]`` cards in use first, then idle cards of nodes in use, then idle nodes with few cards.

    ``free`` is ``[M, C]``, the idle part of each card, -1 where there is none; ``milli`` is asked of ``count`` cards.
    """
    present = free >= 0
    whole = (free == 1000).sum(axis=1)
    number = present.sum(axis=1)
    order = np.sort(np.where(present & (free >= milli), free, _NONE), axis=1)[:, :count]
    fits = np.asarray((order < _NONE).all(axis=1))
    untouched = np.where(fits, (order == 1000).sum(axis=1), 0)
    shares = np.where(fits[:, None], order // 10, 0).sum(axis=1)
    used = np.where(untouched > 0, np.maximum(33, 50 - untouched), np.maximum(50, 100 - shares // 10))
    return np.asarray(np.where(whole == number, np.maximum(33 - whole, whole), used).astype(np.float64))


_NONE = 1 << 40
