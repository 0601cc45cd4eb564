"""What plug-in nodegroup refuses: which groups of nodes a queue may use, and which there are."""

from __future__ import annotations

from collections.abc import Mapping

from unisono.api.keys import NODE_GROUP
from unisono.engine.changes import listed
from unisono.engine.cycle.context import Cycle
from unisono.engine.plugins.nodegroup.plugin import NO_GROUP, NO_RULES, REFUSED
from unisono.engine.plugins.nodegroup.rules import rules_of
from unisono.engine.session.job_state import QueueState

_TEXTS = (NO_GROUP.text, NO_RULES.text, REFUSED.text)


def node_groups(cycle: Cycle, queue: QueueState, reasons: Mapping[str, int]) -> str:
    """One sentence; empty where the plug-in refuses no node."""
    if not any(text in reasons for text in _TEXTS):
        return ""
    rules = rules_of(queue.record)
    allowed = tuple(dict.fromkeys((*rules.required, *rules.preferred, *rules.avoided)))
    there = tuple(sorted(group for group in cycle.session.snapshot.nodes.label_values(NODE_GROUP) if group))
    may = f"may use the node groups {listed(allowed)}" if allowed else "names no node group that it may use"
    return f" Queue {queue.name} {may} (spec.affinity); there are {listed(there) if there else 'none'}."
