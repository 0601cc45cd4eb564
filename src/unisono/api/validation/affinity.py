"""Rules of affinity, tolerations, taints and spreading."""

from __future__ import annotations

from collections.abc import Iterator

from unisono.api import names
from unisono.api.core.affinity import (
    Affinity,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    Taint,
    Toleration,
    TopologySpreadConstraint,
)
from unisono.api.field_error import FieldError, duplicate, forbidden, invalid, not_supported, required
from unisono.api.validation.meta import by, one_of, validate_selector

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def validate_affinity(affinity: Affinity | None, path: str) -> Iterator[FieldError]:
    """Node and pod affinity."""
    if affinity is None:
        return
    node = affinity.node_affinity
    if node is not None:
        wanted = node.required_during_scheduling_ignored_during_execution
        if wanted is not None:
            at = f"{path}.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
            if not wanted.node_selector_terms:
                yield required(at, "must have at least one node selector term")
            for index, term in enumerate(wanted.node_selector_terms or ()):
                yield from _term(term, f"{at}[{index}]")
        for index, preferred in enumerate(node.preferred_during_scheduling_ignored_during_execution or ()):
            at = f"{path}.nodeAffinity.{_PREFERRED}[{index}]"
            yield from _weight(preferred.weight, at)
            if preferred.preference is not None:
                yield from _term(preferred.preference, f"{at}.preference")
    yield from _pods(affinity.pod_affinity, f"{path}.podAffinity")
    yield from _pods(affinity.pod_anti_affinity, f"{path}.podAntiAffinity")


def _weight(weight: int | None, path: str) -> Iterator[FieldError]:
    if not 1 <= (weight or 0) <= 100:
        yield invalid(f"{path}.weight", weight or 0, "must be in the range 1-100")


def _term(term: NodeSelectorTerm, path: str) -> Iterator[FieldError]:
    for index, requirement in enumerate(term.match_expressions or ()):
        yield from _requirement(requirement, f"{path}.matchExpressions[{index}]")
    for index, requirement in enumerate(term.match_fields or ()):
        at = f"{path}.matchFields[{index}]"
        if requirement.operator not in ("In", "NotIn"):
            yield invalid(f"{at}.operator", requirement.operator, "not a valid selector operator")
        elif len(requirement.values or ()) != 1:
            yield required(
                f"{at}.values", "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            )
        if requirement.key != "metadata.name":
            yield invalid(f"{at}.key", requirement.key, "not a valid field selector key")


def _requirement(requirement: NodeSelectorRequirement, path: str) -> Iterator[FieldError]:
    values = requirement.values or []
    match requirement.operator:
        case "In" | "NotIn":
            if not values:
                yield required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        case "Exists" | "DoesNotExist":
            if values:
                yield forbidden(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
        case "Gt" | "Lt":
            if len(values) != 1:
                yield required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
            elif not values[0].lstrip("-").isdecimal():
                yield invalid(f"{path}.values[0]", values[0], "for 'Gt', 'Lt' operators, the value must be an integer")
        case operator:
            yield invalid(f"{path}.operator", operator, "not a valid selector operator")
    yield from by(names.qualified_name, f"{path}.key", requirement.key)


def _pods(affinity: PodAffinity | PodAntiAffinity | None, path: str) -> Iterator[FieldError]:
    if affinity is None:
        return
    for index, term in enumerate(affinity.required_during_scheduling_ignored_during_execution or ()):
        yield from _pod_term(term, f"{path}.{_REQUIRED}[{index}]")
    for index, weighted in enumerate(affinity.preferred_during_scheduling_ignored_during_execution or ()):
        at = f"{path}.{_PREFERRED}[{index}]"
        yield from _weight(weighted.weight, at)
        if weighted.pod_affinity_term is None:
            yield required(f"{at}.podAffinityTerm")
        else:
            yield from _pod_term(weighted.pod_affinity_term, f"{at}.podAffinityTerm")


def _pod_term(term: PodAffinityTerm, path: str) -> Iterator[FieldError]:
    yield from validate_selector(term.label_selector, f"{path}.labelSelector")
    yield from validate_selector(term.namespace_selector, f"{path}.namespaceSelector")
    for index, namespace in enumerate(term.namespaces or ()):
        yield from by(names.dns_label, f"{path}.namespaces[{index}]", namespace)
    if not term.topology_key:
        yield required(f"{path}.topologyKey", "can not be empty")
    else:
        yield from by(names.qualified_name, f"{path}.topologyKey", term.topology_key)


def validate_tolerations(tolerations: list[Toleration] | None, path: str) -> Iterator[FieldError]:
    """Tolerations of a pod."""
    for index, toleration in enumerate(tolerations or ()):
        yield from _toleration(toleration, f"{path}[{index}]")


def _toleration(toleration: Toleration, path: str) -> Iterator[FieldError]:
    operator = toleration.operator or "Equal"
    if toleration.key:
        yield from by(names.qualified_name, f"{path}.key", toleration.key)
    elif operator != "Exists":
        detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield invalid(f"{path}.operator", toleration.operator or "", detail)
    match operator:
        case "Equal":
            yield from by(names.label_value, f"{path}.operator", toleration.value or "")
        case "Exists":
            if toleration.value:
                yield invalid(f"{path}.operator", toleration.value, "value must be empty when `operator` is 'Exists'")
        case _:
            yield not_supported(f"{path}.operator", operator, ("Equal", "Exists"))
    if toleration.toleration_seconds is not None and toleration.effect != "NoExecute":
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield invalid(f"{path}.effect", toleration.effect or "", detail)
    yield from one_of(f"{path}.effect", toleration.effect or None, EFFECTS)


def validate_taints(taints: list[Taint] | None, path: str) -> Iterator[FieldError]:
    """Taints of a node; key and effect together are unique."""
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints or ()):
        at = f"{path}[{index}]"
        yield from by(names.qualified_name, f"{at}.key", taint.key)
        yield from by(names.label_value, f"{at}.value", taint.value or "")
        if not taint.effect:
            yield required(f"{at}.effect")
        else:
            yield from one_of(f"{at}.effect", taint.effect, EFFECTS)
        if (taint.key, taint.effect) in seen:
            detail = {"key": taint.key, "value": taint.value or "", "effect": taint.effect}
            yield duplicate(at, detail, "taints must be unique by key and effect pair")
        seen.add((taint.key, taint.effect))


def validate_spread(constraints: list[TopologySpreadConstraint] | None, path: str) -> Iterator[FieldError]:
    """Topology spread constraints of a pod."""
    seen: set[tuple[str, str]] = set()
    for index, constraint in enumerate(constraints or ()):
        at = f"{path}[{index}]"
        if (constraint.max_skew or 0) <= 0:
            yield invalid(f"{at}.maxSkew", constraint.max_skew or 0, "must be greater than zero")
        if not constraint.topology_key:
            yield required(f"{at}.topologyKey", "can not be empty")
        else:
            yield from by(names.qualified_name, f"{at}.topologyKey", constraint.topology_key)
        if constraint.when_unsatisfiable not in ("DoNotSchedule", "ScheduleAnyway"):
            yield not_supported(
                f"{at}.whenUnsatisfiable", constraint.when_unsatisfiable, ("DoNotSchedule", "ScheduleAnyway")
            )
        pair = (constraint.topology_key, constraint.when_unsatisfiable)
        if pair in seen:
            yield duplicate(f"{at}.{{topologyKey, whenUnsatisfiable}}", f"{{{pair[0]}, {pair[1]}}}")
        seen.add(pair)
        if constraint.min_domains is not None:
            if constraint.min_domains <= 0:
                yield invalid(f"{at}.minDomains", constraint.min_domains, "must be greater than zero")
            if constraint.when_unsatisfiable != "DoNotSchedule":
                detail = (
                    f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {constraint.when_unsatisfiable}"
                )
                yield invalid(f"{at}.minDomains", constraint.min_domains, detail)
        for name, policy in (
            ("nodeAffinityPolicy", constraint.node_affinity_policy),
            ("nodeTaintsPolicy", constraint.node_taints_policy),
        ):
            yield from one_of(f"{at}.{name}", policy, ("Honor", "Ignore"))
        yield from validate_selector(constraint.label_selector, f"{at}.labelSelector")
