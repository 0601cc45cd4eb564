"""Labels that pods ask of their nodes: which nodes to put them on, and what to say where no node has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from unisono.api.core import NodeSelectorRequirement, NodeSelectorTerm
from unisono.api.keys import ARCH, HOSTNAME, OS, REGION_BETA, TOPOLOGY_REGION, TOPOLOGY_ZONE, ZONE_BETA
from unisono.cluster.podclass import PodClass
from unisono.cluster.taints import repels
from unisono.engine.answers import BoolArray
from unisono.engine.changes import AddLabels, Change, RelaxRule, Together, UseLabel
from unisono.engine.plugins.common.node_selectors import match_pod, match_term, per_node, required_of
from unisono.engine.session.node_view import NodeView
from unisono.engine.verdicts.draft import Ladders
from unisono.engine.verdicts.selector_causes import meant_label, selector_cause, unmatched, values_beside

_TERMS_TRIED = 3
_MOST_ASKED = 16
_VALUES_TRIED = 3
_OF_THE_MACHINE = frozenset(
    (
        *(HOSTNAME, ARCH, OS),
        *("beta.kubernetes.io/arch", "beta.kubernetes.io/os", "beta.kubernetes.io/instance-type"),
        *("node.kubernetes.io/instance-type", "node.kubernetes.io/windows-build"),
        *(TOPOLOGY_ZONE, TOPOLOGY_REGION),
        *(ZONE_BETA, REGION_BETA),
    )
)
"""Labels that tell what a node is: another value would be a lie."""


def labelled(pod_class: PodClass, nodes: NodeView, room: npt.NDArray[np.int64], missing: int) -> list[Change]:
    """Labels on nodes that have room for ``missing`` pods, one step for each way to meet what the pods require.

    None where some node has them: the others lack them on purpose.

    Args:
        pod_class: its node selector and required node affinity are meant.
        nodes: all nodes.
        room: ``[N]`` how many pods of the class each node could take now.
        missing: how many pods need a place.
    """
    if match_pod(pod_class, nodes).any():
        return []
    usable = nodes.table.ready & ~nodes.table.unschedulable
    usable &= per_node(nodes, lambda taints: repels(taints, pod_class.tolerations)) == 0
    steps: list[Change] = []
    for labels, allowed in _ways(pod_class, nodes):
        if any(meant_label(nodes, key, value) for key, value in labels.items()):
            continue
        chosen = enough(usable & allowed, room, missing) if labels and not labels.keys() & _OF_THE_MACHINE else []
        if chosen:
            steps.append(AddLabels(tuple(nodes.table.names[at] for at in chosen), labels))
    return steps


def other_labels(pod_class: PodClass, nodes: NodeView, room: npt.NDArray[np.int64], missing: int) -> Ladders:
    """Labels that nodes have, in place of what the node selector and the node affinity ask for.

    Near misses; else values of the same label on nodes that match all the rest, the roomiest first. Where some node
    matches all of it, only those whose nodes have room for ``missing`` pods, and ``room`` ``[N]`` tells how many.
    """
    some = match_pod(pod_class, nodes).any()
    usable = nodes.table.ready & ~nodes.table.unschedulable
    usable &= per_node(nodes, lambda taints: repels(taints, pod_class.tolerations)) == 0
    free, near_misses, roomier = np.where(usable, room, 0), list[UseLabel](), list[tuple[int, UseLabel]]()
    selected = list(pod_class.node_selector.items()) if required_of(pod_class) is None else []
    asked = dict.fromkeys([*unmatched(pod_class, nodes), *selected] if some else _asked_labels(pod_class))
    for key, value in list(asked)[:_MOST_ASKED]:
        near = meant_label(nodes, key, value)
        if near is not None:
            near_misses.append(UseLabel(*near, key, value))
        elif value and key not in (HOSTNAME, ARCH, OS) and (not some or free.sum() >= missing):
            others = {other: int(free[mask].sum()) for other, mask in values_beside(pod_class, nodes, key).items()}
            ways = sorted((-number, other) for other, number in others.items() if other != value)
            roomier += [(number, UseLabel(key, other, key, value)) for number, other in ways[:_VALUES_TRIED]]
    if not some:
        return [[one] for one in (*near_misses, *(one for _, one in roomier))]
    enough_there = sorted((each for each in roomier if -each[0] >= missing), key=lambda each: each[0])
    roomiest: list[Change] = [one for _, one in enough_there[:_VALUES_TRIED]]
    likely: Ladders = [[one] for one in near_misses]
    return [*likely, roomiest]


def unselected(pod_class: PodClass, nodes: NodeView) -> list[list[Change]]:
    """Without what selects nodes, where no node matches it and it is not about what a machine can run.

    Of a node selector only the labels go that no node has, where there are such.
    """
    if match_pod(pod_class, nodes).any():
        return []
    selected = pod_class.node_selector
    nowhere_there = [each for each in selected.items() if each[1] not in nodes.table.present_values(each[0])]
    asked = {one.key for term in _terms(pod_class) for one in term.match_expressions or ()}
    asked |= dict(nowhere_there or selected).keys()
    if asked & {ARCH, OS} or (HOSTNAME in asked and not nowhere_there):
        return []
    rules = {"nodeSelector": bool(selected) and not nowhere_there, "nodeAffinity": required_of(pod_class) is not None}
    less = tuple(UseLabel("", "", key, value) for key, value in sorted(nowhere_there))
    ladders: list[list[Change]] = [[less[0] if len(less) == 1 else Together(less)]] if less else []
    return ladders + [[RelaxRule(rule)] for rule, given in rules.items() if given]


def _asked_labels(pod_class: PodClass) -> list[tuple[str, str]]:
    asked = list(pod_class.node_selector.items())
    for term in _terms(pod_class):
        requirements = [one for one in term.match_expressions or () if one.operator in ("In", "Exists")]
        asked += [(one.key, value) for one in requirements for value in one.values or ("",)]
    return asked


def _terms(pod_class: PodClass) -> Sequence[NodeSelectorTerm]:
    required = required_of(pod_class)
    return (required.node_selector_terms or ()) if required is not None else ()


def nowhere(pod_class: PodClass, nodes: NodeView) -> str:
    """What to do where no node matches what the pods select, in words; ``""`` where one does."""
    if not (pod_class.node_selector or required_of(pod_class)) or not nodes.size or match_pod(pod_class, nodes).any():
        return ""
    labels = next((labels for labels, _ in _ways(pod_class, nodes) if labels), {})
    if not labels:
        return "change the node affinity that its pods require: no node matches it"
    if any(meant_label(nodes, key, value) for key, value in labels.items()):
        return f"change the node selector of its pods: {selector_cause(pod_class, nodes)}"
    text = ", ".join(f"{key}={value}" for key, value in sorted(labels.items()))
    mend = "add nodes with" if labels.keys() & _OF_THE_MACHINE else "label nodes with room, or add nodes, with"
    return f"{mend} {text}, which no node has, or change the node selector of its pods"


def enough(allowed: BoolArray, room: npt.NDArray[np.int64], missing: int) -> list[int]:
    """Columns of the roomiest allowed nodes that together hold ``missing`` pods; none when they cannot."""
    if missing <= 0:
        return []
    able = np.flatnonzero(allowed & (room > 0))
    order = able[np.argsort(-room[able], kind="stable")]
    held = np.cumsum(np.minimum(room[order], missing))
    if not order.size or held[-1] < missing:
        return []
    return sorted(order[: int(np.searchsorted(held, missing)) + 1].tolist())


def _ways(pod_class: PodClass, nodes: NodeView) -> list[tuple[dict[str, str], BoolArray]]:
    """Labels that meet the node selector and one term of the affinity, and the nodes that they can do it for."""
    everywhere = np.ones(nodes.size, dtype=np.bool_)
    given = dict(pod_class.node_selector)
    required = required_of(pod_class)
    if required is None:
        return [(given, everywhere)]
    ways = []
    for term in (required.node_selector_terms or ())[:_TERMS_TRIED]:
        parts = _labels_for(term, given)
        if parts is None:
            continue
        labels, rest = parts
        unmet = bool(rest.match_expressions or rest.match_fields)
        ways.append((labels, match_term(rest, nodes) if unmet else everywhere))
    return ways


def _labels_for(term: NodeSelectorTerm, given: Mapping[str, str]) -> tuple[dict[str, str], NodeSelectorTerm] | None:
    """Labels that meet a term, and what of it no label can meet; None where they contradict the node selector."""
    labels, rest = dict(given), []
    for requirement in term.match_expressions or ():
        if requirement.operator in ("NotIn", "DoesNotExist"):
            rest.append(requirement)
            continue
        value = _value_for(requirement, labels.get(requirement.key))
        if value is None:
            return None
        labels[requirement.key] = value
    return labels, NodeSelectorTerm(match_expressions=rest or None, match_fields=term.match_fields)


def _value_for(requirement: NodeSelectorRequirement, given: str | None) -> str | None:
    """A value of the label that meets the requirement: the one that is wanted anyway, where it does.

    None for bounds: a number tells what a node is.
    """
    values = requirement.values or []
    match requirement.operator:
        case "In":
            fitting = [value for value in values if given in (None, value)]
            return fitting[0] if fitting else None
        case "Exists":
            return "true" if given is None else given
    return None
