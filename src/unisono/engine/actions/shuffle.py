"""shuffle: evicts running pods that a plug-in wants to leave their nodes."""

from __future__ import annotations

import numpy as np

from unisono.engine.answers import Purpose
from unisono.engine.cycle.context import Cycle
from unisono.engine.eviction.search import evictions_of


def run(cycle: Cycle) -> None:
    """Ask about all running tasks that may be evicted; nothing is placed, and gangs are not looked at."""
    if not cycle.hooks.has("shuffled"):
        return
    evictions = evictions_of(cycle)
    index = evictions.index
    movable = index.running & index.alive & evictions.pool.unprotected(Purpose.SHUFFLE)
    candidates = [index.tasks[at] for at in np.flatnonzero(movable).tolist()]
    mark = cycle.transaction.checkpoint()
    for task, chosen in zip(candidates, cycle.hooks.shuffled(candidates).tolist(), strict=True):
        if chosen and evictions.allowed(task):
            evictions.evict(task, int(index.column[index.at(task)]), Purpose.SHUFFLE.value)
    cycle.commit(mark, None)
