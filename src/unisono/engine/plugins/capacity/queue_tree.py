"""capacity over a tree of queues: limits and shares hold at every level, and only leaves run jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unisono.engine.answers import Key, Reach
from unisono.engine.plugins.capacity.queues import QueueCapacity

if TYPE_CHECKING:
    from unisono.engine.session.job_state import QueueState


class QueueTreeCapacity(QueueCapacity):
    """As `QueueCapacity`, with ``spec.parent``."""

    order_reach = Reach.CLUSTER
    hierarchical = True

    def queue_key(self, queue: QueueState) -> Key:
        """Higher ``spec.priority`` first, leaves first, then branch against branch from the root down.

        Two queues are told apart by their ancestors just below the deepest common one: by shares, and where these are
        equal by age and name, so that neither a short path is an advantage nor what they hold further down counts.
        """
        branch = self.branches[queue.name]
        path = [(one.share, not any(one.deserved), one.created, one.name) for one in branch.chain()]
        return -queue.record.priority, bool(branch.children), tuple(reversed(path))

    def victim_queue_key(self, queue: QueueState, actor: QueueState) -> Key:
        """Queues with the deeper common ancestor give first: a family settles its own affairs."""
        ours = {id(one) for one in self.branches[actor.name].chain()}
        return -sum(id(one) in ours for one in self.branches[queue.name].chain())
