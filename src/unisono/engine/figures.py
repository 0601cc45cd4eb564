"""Amounts of queues at the end of a cycle, for metrics: what plug-ins know of shares beside what the queues hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from unisono.cluster.resources import Vector
    from unisono.engine.session import QueueState, Session

Amounts = list[int]
UNLIMITED = 2**62
"""Stands for "no limit"."""


class ShareFigures(msgspec.Struct, frozen=True):
    """What the plug-in that divides the cluster says of one queue; engine units by resource row.

    Attributes:
        deserved: its share.
        limit: the most that it may hold.
        inqueue: what its admitted jobs are still promised.
        share: largest held part of what it deserves.
        overused: it holds all of its share.

    """

    deserved: Amounts
    limit: Amounts
    inqueue: Amounts
    share: float
    overused: bool


class QueueFigures(msgspec.Struct, frozen=True):
    """One queue; engine units by resource row.

    Attributes:
        allocated: what it and its children hold.
        request: the same of its own jobs, with what their pending pods ask for.
        capability: ``spec.capability``, None where it has none; `UNLIMITED` in rows that it does not name.
        shares: None where no plug-in divides the cluster, or not for this queue.

    """

    name: str
    weight: int
    allocated: Amounts
    request: Amounts
    capability: Amounts | None
    shares: ShareFigures | None


Source = Callable[["QueueState"], ShareFigures | None]
# Name in the session's shared books: a source refers to the session, and must end with it.
_SOURCE = "figures of queues"


def publish_figures(session: Session, source: Source) -> None:
    """Say who knows the shares of this session's queues; the last one counts."""
    session.shared[_SOURCE] = source


def figures_of(session: Session, queue: QueueState, allocated: Vector) -> QueueFigures:
    """Figures of one queue; ``allocated`` is what it and its children hold."""
    record, registry = queue.record, session.registry
    capability = None
    if record.capability is not None:
        capability = [record.capability.get(name, UNLIMITED) for name in registry.names]
    source: Source | None = session.shared.get(_SOURCE)
    shares = source(queue) if source is not None else None
    return QueueFigures(queue.name, record.weight, allocated.tolist(), record.request.tolist(), capability, shares)
