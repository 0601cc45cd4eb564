"""What plug-in nodegroup refuses: which groups of nodes a queue may use, which there are, and which was meant."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from unisono.api.keys import NODE_GROUP
from unisono.api.names import nearest
from unisono.cluster.records import Task
from unisono.engine.changes import AddLabels, Change, UseNodeGroup, listed
from unisono.engine.cycle.context import Cycle
from unisono.engine.plugins.nodegroup import NO_GROUP, NO_RULES, REFUSED, rules_of
from unisono.engine.session.job_state import QueueState
from unisono.engine.session.limit import tasks_fitting
from unisono.engine.verdicts.draft import Ladders
from unisono.engine.verdicts.labels import enough
from unisono.engine.verdicts.limits import chain

_TEXTS = (NO_GROUP.text, NO_RULES.text, REFUSED.text)
_GROUPS_TRIED = 2


def node_groups(cycle: Cycle, queue: QueueState, reasons: Mapping[str, int]) -> str:
    """One sentence; empty where the plug-in refuses no node."""
    if not any(text in reasons for text in _TEXTS):
        return ""
    rules = rules_of(queue.record)
    allowed = tuple(dict.fromkeys((*rules.required, *rules.preferred, *rules.avoided)))
    there = tuple(sorted(group for group in cycle.session.snapshot.nodes.label_values(NODE_GROUP) if group))
    may = f"may use the node groups {listed(allowed)}" if allowed else "names no node group that it may use"
    return f" Queue {queue.name} {may} (spec.affinity); there are {listed(there) if there else 'none'}."


def for_node_groups(cycle: Cycle, queue: QueueState, task: Task, missing: int, reasons: Mapping[str, int]) -> Ladders:
    """The group that was meant; where none is near, nodes of no group that the one which is named could have.

    Args:
        cycle: at its end.
        queue: of the job.
        task: one of its pods that no node takes.
        missing: how many wait.
        reasons: why nodes refuse it.

    """
    if not any(text in reasons for text in _TEXTS):
        return []
    nodes, queues = cycle.session.nodes, cycle.session.queues
    owner = next((name for name in chain(cycle.session, queue.name) if rules_of(queues[name].record)), "")
    there = nodes.table.present_values(NODE_GROUP)
    rules = rules_of(queues[owner].record if owner else queue.record)
    lacking = [name for name in (*rules.required, *rules.preferred) if name not in there][:_GROUPS_TRIED]
    found: list[Change] = [UseNodeGroup(owner, name, near) for name in lacking if (near := nearest(name, there))]
    if found or not lacking:
        return [found] if found else []
    usable = (nodes.table.label_column(NODE_GROUP) < 0) & nodes.table.ready & ~nodes.table.unschedulable
    chosen = enough(usable, tasks_fitting(np.maximum(nodes.future_idle, 0), task.pod_class), missing)
    return [[AddLabels(tuple(nodes.table.names[at] for at in chosen), {NODE_GROUP: lacking[0]})]] if chosen else []
