"""What queues may deserve below one that has a capability or deserves an amount: together that at most or at least."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from unisono.api.membership import lineage
from unisono.cluster.resources import PODS
from unisono.engine.plugins.proportion.waterfill import Share, fill, fill_above
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
    for above, family in _families(session, limits):
        queue = session.queues.get(above)
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


def deserved_in_families(
    session: Session,
    requests: Mapping[str, Amounts],
    capability: Mapping[str, Amounts],
    guarantees: Mapping[str, Amounts],
) -> dict[str, Amounts]:
    """What queues deserve at least: what they state, and their part of what a queue above them states.

    Args:
        session: as for `limits_in_families`, and so the others.
        requests: per queue with jobs.
        capability: likewise.
        guarantees: likewise.

    Returns:
        per queue with jobs, by resource row; empty where no queue states anything.

    """
    if not any(queue.record.deserved for queue in session.queues.values()):
        return {}
    stated = {name: by_row(queue.record.deserved, session.registry) for name, queue in session.queues.items()}
    floors = {name: list(stated[name]) for name in requests}
    for above, family in _families(session, requests):
        if above not in stated or family == [above]:
            continue
        for row, amount in enumerate(stated[above]):
            if row != PODS and amount:
                limits = [
                    Share(
                        session.queues[name].record.weight,
                        requests[name][row],
                        capability[name][row],
                        guarantees[name][row],
                    )
                    for name in family
                ]
                parts = fill_above(amount, limits, [floors[name][row] for name in family])
                for name, part in zip(family, parts, strict=True):
                    floors[name][row] = max(floors[name][row], part)
    for floor in floors.values():
        floor[PODS] = 0
    return floors


def _families(session: Session, names: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Each queue that is or is above one of these, with those of them below it; the deepest first."""
    parents = {name: queue.record.parent for name, queue in session.queues.items()}
    families: dict[str, list[str]] = {}
    heights: dict[str, int] = {}
    for name in names:
        for depth, above in enumerate(reversed(lineage(name, parents))):
            families.setdefault(above, []).append(name)
            heights[above] = depth
    return [(above, families[above]) for above in sorted(families, key=lambda name: (-heights[name], name))]
