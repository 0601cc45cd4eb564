"""The amounts of a queue for metrics, from what it holds and what plug-ins know of its share."""

from __future__ import annotations

from unisono.cluster.resources import Vector
from unisono.engine.queue_metrics import UNLIMITED, QueueMetrics
from unisono.engine.session.job_state import QueueState
from unisono.engine.session.session import Session


def figures_of(session: Session, queue: QueueState, allocated: Vector) -> QueueMetrics:
    """Figures of one queue; ``allocated`` is what it and its children hold."""
    record, registry = queue.record, session.registry
    capability = None
    if record.capability is not None:
        capability = [record.capability.get(name, UNLIMITED) for name in registry.names]
    metrics_of = session.book.shares.metrics_of
    shares = metrics_of(queue) if metrics_of is not None else None
    return QueueMetrics(queue.name, record.weight, allocated.tolist(), record.request.tolist(), capability, shares)
