"""How scarce GPUs of each kind are: how much of a node's GPUs is wanted by pods that cannot go everywhere."""

from __future__ import annotations

import numpy as np

from unisono.engine.plugins.fragmentation.formula import NEVER, Floats, Ints
from unisono.engine.plugins.fragmentation.workload import Target

_MOST = 1.5
"""A kind that is wanted more than it is there is not dearer without end."""


def prices(target: Target, cards: Ints) -> Floats:
    """``[N]`` 0 where any pod may go, about 1 where pods that need this kind of node would fill it.

    The demand of the target workload is scaled to all the GPUs that there are. Pods whose selectors allow some of the
    nodes with GPUs only spread their demand evenly over the GPUs of those.

    Args:
        target: what usual pods ask for, and where they may go.
        cards: ``[N]`` GPUs of each node.

    """
    has = cards > 0
    found = np.zeros(len(cards))
    whole = int(target.demand.sum())
    if not whole or not has.any():
        return found
    total = float(cards.sum())
    for demand, allowed, need in zip(target.demand.tolist(), target.allowed, target.work.need, strict=True):
        open_to = allowed & has
        reach = float(cards[open_to].sum())
        if demand and reach and not (allowed | ~has).all() and (need < NEVER).any():
            found[open_to] += demand / whole * total / reach
    return np.asarray(np.minimum(found, _MOST))
