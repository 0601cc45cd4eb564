"""Rules of Workloads and Kubernetes' PodGroups (scheduling.k8s.io), as Kubernetes validates them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from unisono.api import names
from unisono.api.field_error import FieldError, duplicate, invalid, required
from unisono.api.validation.meta import at_least, by, one_of
from unisono.api.workload import (
    DISRUPTION_MODES,
    PodGroupResourceClaim,
    PodGroupSchedulingPolicy,
    PodGroupTemplate,
    TopologyConstraint,
    Workload,
    WorkloadPodGroup,
    WorkloadPodGroupSpec,
)

_MOST_TEMPLATES = 8
_MOST_CLAIMS = 4
_IMMUTABLE = "field is immutable"


def validate_workload(workload: Workload, old: Workload | None) -> Iterator[FieldError]:
    """One to eight templates of different names; nothing in the spec changes but a reference that was absent."""
    spec = workload.spec
    reference = spec.controller_ref
    if reference is not None:
        if reference.api_group:
            yield from by(names.dns_subdomain, "spec.controllerRef.apiGroup", reference.api_group)
        for field, value in (("kind", reference.kind), ("name", reference.name)):
            if not value:
                yield required(f"spec.controllerRef.{field}")
    templates, path = spec.pod_group_templates or [], "spec.podGroupTemplates"
    if not templates:
        yield required(path, "must have at least one item")
    yield from _at_most(path, templates, _MOST_TEMPLATES)
    seen: set[str] = set()
    for index, template in enumerate(templates[:_MOST_TEMPLATES]):
        at = f"{path}[{index}]"
        yield from _name(f"{at}.name", template.name, seen)
        yield from _policies(template, at)
    if old is not None:
        if old.spec.controller_ref is not None and old.spec.controller_ref != reference:
            yield invalid("spec.controllerRef", None, _IMMUTABLE)
        if old.spec.pod_group_templates != spec.pod_group_templates:
            yield invalid(path, None, _IMMUTABLE)


def validate_pod_group(group: WorkloadPodGroup, old: WorkloadPodGroup | None) -> Iterator[FieldError]:
    """A policy, at most one topology constraint, and a spec that never changes."""
    spec = group.spec
    reference = spec.pod_group_template_ref
    if reference is not None:
        at = "spec.podGroupTemplateRef"
        if reference.workload is None:
            yield required(at, "must specify one of: `workload`")
        else:
            yield from _needed(f"{at}.workload.workloadName", reference.workload.workload_name, names.dns_subdomain)
            wanted = reference.workload.pod_group_template_name
            yield from _needed(f"{at}.workload.podGroupTemplateName", wanted, names.dns_label)
    yield from _policies(spec, "spec")
    if old is not None and old.spec != spec:
        yield invalid("spec", None, _IMMUTABLE)


def _policies(spec: PodGroupTemplate | WorkloadPodGroupSpec, path: str) -> Iterator[FieldError]:
    yield from _policy(spec.scheduling_policy, f"{path}.schedulingPolicy")
    if spec.scheduling_constraints is not None:
        at = f"{path}.schedulingConstraints.topology"
        constraints = spec.scheduling_constraints.topology or []
        yield from _at_most(at, constraints, 1)
        for index, constraint in enumerate(constraints[:1]):
            yield from _constraint(constraint, f"{at}[{index}]")
    claims, at = spec.resource_claims or [], f"{path}.resourceClaims"
    yield from _at_most(at, claims, _MOST_CLAIMS)
    seen: set[str] = set()
    for index, claim in enumerate(claims[:_MOST_CLAIMS]):
        yield from _claim(claim, f"{at}[{index}]", seen)
    yield from one_of(f"{path}.disruptionMode", spec.disruption_mode, DISRUPTION_MODES)
    if spec.priority_class_name:
        yield from by(names.dns_subdomain, f"{path}.priorityClassName", spec.priority_class_name)


def _policy(policy: PodGroupSchedulingPolicy, path: str) -> Iterator[FieldError]:
    if (policy.basic is None) == (policy.gang is None):
        detail = "must specify one of: `basic`, `gang`"
        yield required(path, detail) if policy.gang is None else invalid(path, "{basic, gang}", detail)
    if policy.gang is not None:
        if policy.gang.min_count is None:
            yield required(f"{path}.gang.minCount")
        yield from at_least(f"{path}.gang.minCount", policy.gang.min_count, 1)


def _constraint(constraint: TopologyConstraint, path: str) -> Iterator[FieldError]:
    yield from _needed(f"{path}.key", constraint.key, names.qualified_name)


def _claim(claim: PodGroupResourceClaim, path: str, seen: set[str]) -> Iterator[FieldError]:
    yield from _name(f"{path}.name", claim.name, seen)
    if (claim.resource_claim_name is None) == (claim.resource_claim_template_name is None):
        yield invalid(path, claim.name, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")


def _name(path: str, value: str, seen: set[str]) -> Iterator[FieldError]:
    yield from _needed(path, value, names.dns_label)
    if value and value in seen:
        yield duplicate(path, value)
    seen.add(value)


def _needed(path: str, value: str, check: Any) -> Iterator[FieldError]:
    if value:
        yield from by(check, path, value)
    else:
        yield required(path)


def _at_most(path: str, items: list[Any], most: int) -> Iterator[FieldError]:
    if len(items) > most:
        yield FieldError(path, "FieldValueTooMany", len(items), f"must have at most {most} items")
