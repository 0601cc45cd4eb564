"""Whether a template may run on a node, as far as labels, names and taints tell (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from unisono.api.core import (
    DeviceTaint,
    DeviceToleration,
    Node,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodSpec,
    Taint,
    Toleration,
)


def fits(spec: PodSpec, node: Node) -> bool:
    """Whether node selector and required node affinity of the pod allow the node."""
    labels = node.metadata.labels or {}
    if any(labels.get(key) != value for key, value in (spec.node_selector or {}).items()):
        return False
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    return required is None or allows(required, node.metadata.name, labels)


def allows(required: NodeSelector, name: str, labels: Mapping[str, str]) -> bool:
    """Whether required node affinity allows a node of that name with these labels."""
    return any(_term_fits(term, name, labels) for term in required.node_selector_terms or ())


def tolerates(tolerations: Sequence[Toleration], taint: Taint) -> bool:
    """Whether one of the tolerations covers the taint."""
    return any(covers(each, taint) for each in tolerations)


def covers(toleration: Toleration | DeviceToleration, taint: Taint | DeviceTaint) -> bool:
    """Whether the toleration covers the taint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and (toleration.value or "") == (taint.value or "")


def blocking(spec: PodSpec, node: Node, effects: tuple[str, ...]) -> list[Taint]:
    """Taints of the node with one of these effects that the pod does not tolerate."""
    taints = [taint for taint in node.spec.taints or () if taint.effect in effects]
    return [taint for taint in taints if not tolerates(spec.tolerations or (), taint)]


def _term_fits(term: NodeSelectorTerm, name: str, labels: Mapping[str, str]) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {"metadata.name": name}
    return all(_holds(each, labels.get(each.key)) for each in term.match_expressions or ()) and all(
        _holds(each, fields.get(each.key)) for each in term.match_fields or ()
    )


def _holds(requirement: NodeSelectorRequirement, value: str | None) -> bool:
    values = requirement.values or []
    match requirement.operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            if value is None or len(values) != 1:
                return False
            try:
                left, right = int(value), int(values[0])
            except ValueError:
                return False
            return left > right if requirement.operator == "Gt" else left < right
        case _:
            return False
