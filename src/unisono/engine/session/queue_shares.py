"""What the plug-in that divides the cluster tells other plug-ins of a session about queues."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from unisono.cluster.resources import Vector
from unisono.engine.queue_metrics import ShareMetrics
from unisono.engine.session.amounts import Amounts
from unisono.engine.session.job_state import JobState, QueueState


@dataclass(slots=True)
class QueueShares:
    """Shares of queues; where several plug-ins tell the same, the last one counts.

    Attributes:
        plugin: the name of the plug-in that tells it.
        room_of: what a queue may still place, ``[R]``, or None where it is not limited.
        deserved: what queues deserve by weight, by name; empty where no plug-in has divided the cluster so.
        metrics_of: shares of a queue for metrics, or None where it has none.
        may_exceed: whether a gang that waits may go over the share of its queue, where the cluster has idle resources
            that no work within shares has used; None: no gang ever may.
        exceeding: the queue whose gang is being placed beyond its share just now, if one is.

    """

    plugin: str = ""
    room_of: Callable[[QueueState], Vector | None] | None = None
    deserved: Mapping[str, Amounts] = field(default_factory=dict)
    metrics_of: Callable[[QueueState], ShareMetrics | None] | None = None
    may_exceed: Callable[[JobState], bool] | None = None
    exceeding: QueueState | None = None

    def room(self, queue: QueueState) -> Vector | None:
        """``[R]`` what the queue may still place, None when no plug-in divides the cluster."""
        return None if self.room_of is None else self.room_of(queue)
