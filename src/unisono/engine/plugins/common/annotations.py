"""What annotations of nodes and pods say to plugins: values as JSON, and the measured load of a node."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from unisono.api.node_usage import NodeUsage, usage_in

if TYPE_CHECKING:
    from unisono.engine.session.session import Session


# JSON that users write into annotations.


def decoded(text: str) -> Any:
    """The value of a JSON text; ValueError for every text that has none, too deep a nesting included."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None


# The measured load of a node, as plug-ins look at it.

FRESH_SECONDS = 300.0
"""Older values are not looked at."""


def measured(session: Session, column: int) -> NodeUsage | None:
    """The later of what a source of metrics and the node's annotations say; None when that is stale or missing."""
    facts = session.snapshot.nodes.facts[column]
    told = [session.snapshot.node_usage.get(facts.name), usage_in(facts.annotations)]
    latest = max((usage for usage in told if usage is not None), key=lambda usage: usage.time, default=None)
    return latest if latest is not None and session.now - latest.time <= FRESH_SECONDS else None
