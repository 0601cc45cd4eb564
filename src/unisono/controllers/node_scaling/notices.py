"""What nodes say about machines that their cloud takes back, and what their pods must do about it (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from unisono.api import keys
from unisono.api.annotations import INTERRUPTED_AT
from unisono.api.core import Node
from unisono.api.times import time_or

TAKEN_BACK: Mapping[str, float] = {
    keys.AWS_SPOT_INTERRUPTION: 120.0,
    keys.AWS_MAINTENANCE: 120.0,
    keys.AWS_SCALE_IN: 120.0,
    keys.GKE_TERMINATION: 30.0,
    keys.AKS_PREEMPTION: 30.0,
}
"""Seconds between such a taint and the end of the machine."""
DRAINED_BY_OTHERS = (keys.AWS_REBALANCE, keys.KARPENTER_DISRUPTED, keys.AUTOSCALER_DELETES)
"""Taints of machines that may go or that others drain: pods are told to save their work, and not ended."""
_AZURE_CONDITION, _AZURE_REASONS, _AZURE_SECONDS = "VMEventScheduled", ("PreemptScheduled", "TerminateScheduled"), 30.0
_DRAIN_SECONDS = 120.0
MARGIN = 5.0
"""Seconds that are left between the end of the last container and the end of the machine."""


@dataclass(frozen=True, slots=True)
class Notice:
    """A machine is about to go.

    Attributes:
        source: the taint, condition or annotation that says so.
        ends: when the machine goes, seconds since 1970.
        ours: its pods are to be ended in time; otherwise someone else drains the node.
        tainted: the notice keeps new pods away by itself.

    """

    source: str
    ends: float
    ours: bool = True
    tainted: bool = True


def notice_of(node: Node, seen: float) -> Notice | None:
    """The notice on the node that ends first, those that take the machine for certain before others; None without one.

    Args:
        node: the node.
        seen: since when its notice is known here; counts where the notice does not say.

    """
    found = []
    for taint in node.spec.taints or ():
        since = time_or(taint.time_added, seen)
        if taint.key in TAKEN_BACK:
            found.append(Notice(taint.key, since + TAKEN_BACK[taint.key], tainted=taint.effect != "PreferNoSchedule"))
        elif taint.key in DRAINED_BY_OTHERS:
            found.append(Notice(taint.key, since + _DRAIN_SECONDS, ours=False))
    for each in node.status.conditions or ():
        if (each.type, each.status) == (_AZURE_CONDITION, "True") and each.reason in _AZURE_REASONS:
            ends = time_or(each.last_transition_time, seen) + _AZURE_SECONDS
            found.append(Notice(f"{each.type}: {each.reason}", ends, tainted=False))
    said = (node.metadata.annotations or {}).get(INTERRUPTED_AT)
    if said is not None and (ends := time_or(said, -1.0)) >= 0:
        found.append(Notice(INTERRUPTED_AT, ends, tainted=False))
    return min(found, key=lambda each: (not each.ours, each.ends), default=None)


def is_taken_back(node: Node, seen: float) -> bool:
    """The cloud has announced that it takes the machine of this node."""
    found = notice_of(node, seen)
    return found is not None and found.ours


def ending(notice: Notice, grace: float, now: float) -> tuple[float, int]:
    """When a pod must get SIGTERM, in seconds from now, and the grace that it gets then, whole seconds of at least 1.

    A pod works on for as long as its own grace period allows.

    Args:
        notice: of its node.
        grace: its ``terminationGracePeriodSeconds``.
        now: seconds since 1970.

    """
    left = notice.ends - MARGIN - now
    wait = max(0.0, left - grace)
    return wait, max(1, int(min(grace, left - wait)))
