"""In which HyperNodes of a larger domain a sub-group is placed, so that it needs as few of them as possible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unisono.cluster.hypertree import HyperNodeTree, Index
from unisono.engine.answers import FloatArray
from unisono.engine.session.session import Session
from unisono.engine.session.sub_groups import SubGroup


def fewest_domains(
    session: Session, tree: HyperNodeTree, group: SubGroup, columns: Index, leaves: Sequence[int], codes: Index
) -> FloatArray:
    """``[leaves]`` points between 0 and 1 of the lowest HyperNodes of a domain for the next task of a sub-group.

    Tier by tier from above: first the HyperNode that has tasks of it, then the one with room for most of those that
    are left, and of several with room for all of them the one with least.

    Args:
        session: how things stand.
        tree: the HyperNodes.
        group: the sub-group; its tasks count as if they were all alike.
        columns: nodes of the domain.
        leaves: the lowest HyperNodes of these nodes.
        codes: which of ``leaves`` is each node's.

    """
    rest = len(group.tasks) - sum(group.on.values())
    if rest < 1:
        return np.zeros(len(leaves), dtype=np.float64)
    pod_class, nodes = group.tasks[0].pod_class, session.nodes
    where = np.ix_(pod_class.rows, columns)
    fitting = (nodes.allocatable[where] - nodes.used[where]) // np.maximum(pod_class.amounts, 1)[:, None]
    each = fitting.min(axis=0, initial=rest).clip(min=0)
    room = np.bincount(codes, weights=each, minlength=len(leaves))
    own = np.array([group.on.get(leaf, 0) for leaf in leaves], dtype=np.float64)
    first = np.unique(codes, return_index=True)[1]
    keys: list[np.ndarray[Any, Any]] = []
    for tier in tree.levels:  # np.lexsort takes the last key first
        _, owner = np.unique(tree.at_tier[tier][columns[first]], return_inverse=True)
        held, has = np.bincount(owner, weights=room)[owner], np.bincount(owner, weights=own)[owner]
        keys += [held, -np.minimum(held, rest), -np.where(held > 0, has, 0.0)]
    points: FloatArray = np.empty(len(leaves), dtype=np.float64)
    points[np.lexsort(keys)] = 1.0 - np.arange(len(leaves)) / len(leaves)
    return points * (1.0 - 1e-9)
