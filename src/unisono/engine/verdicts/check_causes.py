"""What plug-in node-checks refuses: how many nodes wait for a check, are being checked, and are out."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from unisono.api.messages import counted, plural
from unisono.api.node_checks import CHECKING, CheckRule, book_of, quarantined_by, without_quarantine
from unisono.cluster.podclass import PodClass
from unisono.cluster.resources import Vector
from unisono.cluster.taints import repels
from unisono.engine.answers import BoolArray
from unisono.engine.changes import Change, LiftQuarantine, listed
from unisono.engine.cycle.context import Cycle
from unisono.engine.plugins.common.node_selectors import match_pod, per_node
from unisono.engine.plugins.node_checks import NodeChecksPlugin, reason_of
from unisono.engine.session.limit import tasks_fitting
from unisono.engine.session.node_view import NodeView
from unisono.engine.verdicts.labels import enough


def waiting_for_checks(cycle: Cycle, counts: Mapping[str, int]) -> str:
    """Sentences about the checks for which nodes wait; empty where none of ``counts`` (nodes by reason) names one."""
    sentences, table = list[str](), cycle.session.nodes.table
    for rule, closed in _refusing(cycle, counts):
        facts = [table.facts[at] for at in np.flatnonzero(closed).tolist()]
        marks = ((one.name, book_of(one.annotations).get(rule.name)) for one in facts)
        busy = tuple(name for name, mark in marks if mark is not None and mark.state == CHECKING)
        out = sum(quarantined_by(one.taints) == rule.name for one in table.facts)
        sentences.append(
            f"{counted(len(facts), 'node')} {'waits' if len(facts) == 1 else 'wait'} for NodeCheck {rule.name}, "
            f"{len(busy)} being checked now{f' ({listed(busy)})' if busy else ''}; "
            f"{out} failed it and {'is' if out == 1 else 'are'} out"
        )
    return f" {'; '.join(sentences)}." if sentences else ""


def end_of_check(cycle: Cycle, counts: Mapping[str, int]) -> str:
    """What helps where no change is known to: to wait until nodes have passed."""
    for rule, closed in _refusing(cycle, counts):
        names = tuple(cycle.session.nodes.table.names[at] for at in np.flatnonzero(closed).tolist())
        have = "has" if len(names) == 1 else "have"
        return f"wait until {plural(len(names), 'node')} {listed(names)} {have} passed NodeCheck {rule.name}"
    return ""


def soon_enough(cycle: Cycle, pod_class: PodClass, missing: int) -> bool:
    """Whether nodes that wait for a check, and that nothing else closes, hold ``missing`` pods: none need be added."""
    closed = [mask for plugin in _plugins(cycle) if plugin.concerns(pod_class) for _, mask in plugin.waiting]
    if not closed:
        return False
    nodes = cycle.session.nodes
    usable = nodes.table.ready & ~nodes.table.unschedulable & match_pod(pod_class, nodes)
    usable &= per_node(nodes, lambda taints: repels(taints, pod_class.tolerations)) == 0
    return bool(enough(usable & np.logical_or.reduce(closed), tasks_fitting(nodes.idle, pod_class), missing))


def out_of_quarantine(nodes: NodeView, pod_class: PodClass, room: Vector, missing: int) -> list[Change]:
    """To let nodes take jobs again that failed a check; the fewest that hold what is missing, or all that hold some."""
    codes = [
        code
        for code, taints in enumerate(nodes.table.taint_sets)
        if quarantined_by(taints) and not repels(without_quarantine(taints), pod_class.tolerations)
    ]
    out = np.isin(nodes.taint_codes, codes) & nodes.table.ready & ~nodes.table.unschedulable
    chosen = enough(out, room, missing) or np.flatnonzero(out & (room > 0)).tolist()[:missing]
    return [LiftQuarantine(tuple(nodes.table.names[at] for at in chosen))] if chosen else []


def _refusing(cycle: Cycle, counts: Mapping[str, int]) -> list[tuple[CheckRule, BoolArray]]:
    waiting = [each for plugin in _plugins(cycle) for each in plugin.waiting]
    return [(rule, closed) for rule, closed in waiting if reason_of(rule.name).text in counts]


def _plugins(cycle: Cycle) -> list[NodeChecksPlugin]:
    plugins = (one for one in cycle.hooks.plugins() if isinstance(one, NodeChecksPlugin))
    return [one for one in plugins if not cycle.hooks.guard.dead(one)][:1]
