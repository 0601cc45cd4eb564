"""The measured load of a node, as plug-ins look at it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unisono.api.node_usage import NodeUsage, usage_in

if TYPE_CHECKING:
    from unisono.engine.session.session import Session

FRESH_SECONDS = 300.0
"""Older values are not looked at."""


def measured(session: Session, column: int) -> NodeUsage | None:
    """The later of what a source of metrics and the node's annotations say; None when that is stale or missing."""
    facts = session.snapshot.nodes.facts[column]
    told = [session.snapshot.node_usage.get(facts.name), usage_in(facts.annotations)]
    latest = max((usage for usage in told if usage is not None), key=lambda usage: usage.time, default=None)
    return latest if latest is not None and session.now - latest.time <= FRESH_SECONDS else None
