"""What queues may deserve below one that has a capability: together no more than that capability."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from unisono.api.membership import lineage
from unisono.cluster.resources import PODS
from unisono.engine.plugins.proportion.waterfill import Share, fill
from unisono.engine.session.amounts import UNLIMITED, Amounts, by_row

if TYPE_CHECKING:
    from unisono.engine.session.session import Session


def limits_in_families(
    session: Session,
    requests: Mapping[str, Amounts],
    capability: Mapping[str, Amounts],
    guarantees: Mapping[str, Amounts],
) -> dict[str, Amounts]:
    """Lower ``capability`` so that queues below a capped queue share its capability by weight.

    Without it a queue that holds all of its parent's capability deserves what it holds, and its siblings starve: the
    parent lets them place nothing, and nothing can be reclaimed.

    Args:
        session: gives weights, parents and capabilities.
        requests: per queue with jobs what it holds and asks for, by resource row.
        capability: likewise, what it may hold.
        guarantees: likewise, what it gets at least.

    Returns:
        per queue with jobs what it may deserve at most.

    """
    limits = {name: list(amounts) for name, amounts in capability.items()}
    if not any(queue.record.capability for queue in session.queues.values()):
        return limits
    parents = {name: queue.record.parent for name, queue in session.queues.items()}
    families: dict[str, list[str]] = {}
    heights: dict[str, int] = {}
    for name in limits:
        path = lineage(name, parents)
        for depth, above in enumerate(reversed(path)):
            families.setdefault(above, []).append(name)
            heights[above] = depth
    for above in sorted(families, key=lambda name: (-heights[name], name)):
        queue, family = session.queues.get(above), families[above]
        if queue is None or not queue.record.capability or family == [above]:
            continue
        for row, most in enumerate(by_row(queue.record.capability, session.registry, UNLIMITED)):
            if row == PODS or most >= UNLIMITED:
                continue
            shares = [
                Share(session.queues[name].record.weight, requests[name][row], limits[name][row], guarantees[name][row])
                for name in family
            ]
            for name, part in zip(family, fill(most, shares), strict=True):
                limits[name][row] = min(limits[name][row], part)
    return limits
