"""What changes of queues do to a snapshot: who comes first, who gives back, what one user may hold."""

from __future__ import annotations

from unisono.api.annotations import USER_LIMITS
from unisono.api.queues import raised, with_group
from unisono.engine import changes
from unisono.engine.verdicts.edit import Edit


def pass_over(change: changes.PassOver, edit: Edit, job: str) -> None:
    """Jobs start in any order."""
    edit.queue(change.queue).fifo = False


def raise_user_limits(change: changes.RaiseUserLimits, edit: Edit, job: str) -> None:
    """Every user of the queue may hold more."""
    record = edit.queue(change.queue)
    text = raised(record.annotations.get(USER_LIMITS, ""), change.amounts)
    record.annotations = {**record.annotations, USER_LIMITS: text}


def allow_reclaim(change: changes.AllowReclaim, edit: Edit, job: str) -> None:
    """Others may take back what it borrowed."""
    edit.queue(change.queue).reclaimable = True


def use_node_group(change: changes.UseNodeGroup, edit: Edit, job: str) -> None:
    """Its affinity names a group that exists."""
    record = edit.queue(change.queue)
    if record.affinity is not None:
        record.affinity = with_group(record.affinity, change.name, change.instead)
