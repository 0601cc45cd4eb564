"""Node selectors over whole columns of nodes (semantics of kube-scheduler 1.36)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from unisono.api import keys
from unisono.api.annotations import QUARANTINE
from unisono.api.core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Taint, Toleration
from unisono.cluster.podclass import PodClass
from unisono.cluster.taints import repels, tolerated
from unisono.engine.answers import BoolArray
from unisono.engine.session.node_view import NodeView

UNSCHEDULABLE = Taint(key=keys.NODE_UNSCHEDULABLE, effect="NoSchedule")
NOT_READY = Taint(key=keys.NODE_NOT_READY, effect="NoSchedule")
_STATES = (
    *("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "aws-node-termination-handler/"),
    *(keys.AUTOSCALER_DELETES, "DeletionCandidateOfClusterAutoscaler"),
    *(keys.KARPENTER_DISRUPTED, keys.KARPENTER_DISRUPTION, keys.KARPENTER_UNREGISTERED),
    QUARANTINE,
    *("startup-taint.cluster-autoscaler.kubernetes.io/", "status-taint.cluster-autoscaler.kubernetes.io/"),
    *("ignore-taint.cluster-autoscaler.kubernetes.io/", keys.GKE_TERMINATION, keys.AKS_PREEMPTION),
)
_BEGINNING = ("/agent-not-ready", "/not-ready")


def is_state(taint: Taint) -> bool:
    """Whether a taint tells a node's state, such as ``not-ready``: it comes and goes, and no pod should tolerate it."""
    key = taint.key or ""
    return key.startswith(_STATES) or key.endswith(_BEGINNING)


def discouraging(taints: Sequence[Taint], tolerations: Sequence[Toleration]) -> int:
    """Number of PreferNoSchedule taints that no toleration with that effect, or with none, covers."""
    fitting = [t for t in tolerations if not t.effect or t.effect == "PreferNoSchedule"]
    return sum(taint.effect == "PreferNoSchedule" and not tolerated(taint, fitting) for taint in taints)


def per_node(nodes: NodeView, ask: Callable[[Sequence[Taint]], int]) -> npt.NDArray[np.int64]:
    """``[M]`` answers of ``ask`` for each node's taints; each distinct set of taints is asked about once."""
    codes = nodes.taint_codes
    answers = np.zeros(len(nodes.table.taint_sets), dtype=np.int64)
    for code in np.flatnonzero(np.bincount(codes, minlength=len(answers))) if len(codes) else ():
        answers[code] = ask(nodes.table.taint_sets[code])
    return answers[codes]


_INTEGER = re.compile(r"[-+]?[0-9]+")
_INT64 = range(-(2**63), 2**63)


def match_labels(labels: Mapping[str, str], nodes: NodeView) -> BoolArray:
    """``[M]`` nodes that carry every label of ``spec.nodeSelector``."""
    mask = np.ones(nodes.size, dtype=np.bool_)
    for key, value in labels.items():
        mask &= nodes.label_codes(key) == nodes.table.label_code(key, value)
    return mask


def match_selector(selector: NodeSelector, nodes: NodeView) -> BoolArray:
    """``[M]`` nodes that match one of the selector's terms; no term matches no node."""
    mask = np.zeros(nodes.size, dtype=np.bool_)
    for term in selector.node_selector_terms or ():
        mask |= match_term(term, nodes)
    return mask


def required_of(pod_class: PodClass) -> NodeSelector | None:
    """Required node affinity of a class."""
    affinity = pod_class.affinity.node_affinity if pod_class.affinity else None
    return affinity.required_during_scheduling_ignored_during_execution if affinity else None


def match_pod(pod_class: PodClass, nodes: NodeView) -> BoolArray:
    """``[M]`` nodes that match node selector and required node affinity."""
    mask = match_labels(pod_class.node_selector, nodes)
    required = required_of(pod_class)
    return mask if required is None else mask & match_selector(required, nodes)


def match_term(term: NodeSelectorTerm, nodes: NodeView) -> BoolArray:
    """``[M]`` nodes that meet every requirement of the term; an empty term matches no node."""
    if not term.match_expressions and not term.match_fields:
        return np.zeros(nodes.size, dtype=np.bool_)
    mask = np.ones(nodes.size, dtype=np.bool_)
    for requirement in term.match_expressions or ():
        mask &= _match_label(requirement, nodes)
    for requirement in term.match_fields or ():
        mask &= _match_field(requirement, nodes)
    return mask


def _match_label(requirement: NodeSelectorRequirement, nodes: NodeView) -> BoolArray:
    key, values = requirement.key, requirement.values or []
    codes = nodes.label_codes(key)
    match requirement.operator:
        case "In":
            return np.isin(codes, _codes(key, values, nodes))
        case "NotIn":  # a node without the key counts as "not in"
            return ~np.isin(codes, _codes(key, values, nodes))
        case "Exists":
            return np.asarray(codes >= 0)
        case "DoesNotExist":
            return np.asarray(codes < 0)
        case "Gt" | "Lt":
            return _compare(requirement.operator, key, values, nodes)
    return np.zeros(nodes.size, dtype=np.bool_)


def _codes(key: str, values: Iterable[str], nodes: NodeView) -> list[int]:
    return [nodes.table.label_code(key, value) for value in values]


def _compare(operator: str, key: str, values: Sequence[str], nodes: NodeView) -> BoolArray:
    """Integer comparison; a bound or a label that is no integer matches nothing."""
    bound = parse_integer(values[0]) if len(values) == 1 else None
    codes = nodes.label_codes(key)
    numbers = [parse_integer(value) for value in nodes.table.label_values(key)]
    if bound is None or not numbers:
        return np.zeros(nodes.size, dtype=np.bool_)
    holds = np.array(
        [v is not None and (v > bound if operator == "Gt" else v < bound) for v in numbers], dtype=np.bool_
    )
    return np.asarray(holds[np.maximum(codes, 0)] & (codes >= 0))


def parse_integer(text: str) -> int | None:
    """A 64-bit integer as Go's ``ParseInt`` reads it, else None."""
    number = int(text) if _INTEGER.fullmatch(text) else None
    return number if number is not None and number in _INT64 else None


def _match_field(requirement: NodeSelectorRequirement, nodes: NodeView) -> BoolArray:
    """Only ``metadata.name`` with In or NotIn and one value is a field that Kubernetes knows."""
    values = requirement.values or []
    if requirement.key != "metadata.name" or requirement.operator not in ("In", "NotIn") or len(values) != 1:
        return np.zeros(nodes.size, dtype=np.bool_)
    named = nodes.columns == nodes.table.index.get(values[0], -1)
    return np.asarray(named if requirement.operator == "In" else ~named)


# Nodes that pods of a class may use, whatever room they have.


def open_nodes(pod_class: PodClass, nodes: NodeView) -> BoolArray:
    """``[N]`` nodes that selectors, affinity, taints, cordons and readiness let the class use."""
    mask = match_pod(pod_class, nodes) & (per_node(nodes, lambda taints: repels(taints, pod_class.tolerations)) == 0)
    if not tolerated(UNSCHEDULABLE, pod_class.tolerations):
        mask = mask & ~nodes.unschedulable
    if not tolerated(NOT_READY, pod_class.tolerations):
        mask = mask & nodes.table.ready
    return np.asarray(mask, dtype=np.bool_)
