"""What limits refuse: whether they are the cluster itself, and what is left of them."""

from __future__ import annotations

from typing import Final

from unisono.engine.answers import Refusal
from unisono.engine.session.session import Session
from unisono.engine.verdict import Cause

LIMITS: Final = frozenset((Cause.CLUSTER_OVERCOMMITTED, Cause.OVER_CAPABILITY, Cause.OVER_SHARE))
"""Causes that speak of amounts, not of nodes."""


def is_whole_cluster(session: Session, refusal: Refusal) -> bool:
    """Whether the limit of the queue is all that the cluster has."""
    if refusal.cause not in (Cause.OVER_SHARE, Cause.OVER_CAPABILITY):
        return False
    short, there = shortened(refusal), session.usable_total
    return bool(short) and all(refusal.limit[name] >= there[session.registry.requested(name)] for name in short)


def shortened(refusal: Refusal) -> list[str]:
    """Resources that are asked for and limited."""
    return [name for name in refusal.need if name in refusal.limit]


def left(refusal: Refusal) -> dict[str, int]:
    """What is left of the limit."""
    return {name: max(limit - refusal.have.get(name, 0), 0) for name, limit in refusal.limit.items()}
