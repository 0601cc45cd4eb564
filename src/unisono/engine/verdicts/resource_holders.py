"""Who holds what a job waits for."""

from __future__ import annotations

from collections.abc import Mapping

from unisono.api.resources import by_importance
from unisono.engine.cycle.context import Cycle
from unisono.engine.verdict import Holder

_MOST_HOLDERS = 3


def holders_of(cycle: Cycle, need: Mapping[str, int]) -> tuple[Holder, ...]:
    """Queues that hold most of what is needed, largest first."""
    registry = cycle.session.registry
    rows = {name: row for name in sorted(need, key=by_importance) if (row := registry.find(name)) is not None}
    if not rows:
        return ()
    first = next(iter(rows.values()))
    holding = sorted(
        (queue for queue in cycle.session.queues.values() if queue.allocated[first] > 0),
        key=lambda queue: (-int(queue.allocated[first]), queue.name),
    )
    return tuple(
        Holder("Queue", queue.name, {name: int(queue.allocated[row]) for name, row in rows.items()})
        for queue in holding[:_MOST_HOLDERS]
    )
