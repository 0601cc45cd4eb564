"""Rules of roles and bindings."""

from __future__ import annotations

from collections.abc import Iterator

from unisono.api import names
from unisono.api.field_error import FieldError, invalid, not_supported, required
from unisono.api.rbac import GROUP, ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, Subject
from unisono.api.validation.meta import by, validate_selector


def validate_role(role: Role, old: Role | None) -> Iterator[FieldError]:
    """Rules about resources only."""
    for index, rule in enumerate(role.rules or ()):
        yield from _rule(rule, f"rules[{index}]", namespaced=True)


def validate_cluster_role(role: ClusterRole, old: ClusterRole | None) -> Iterator[FieldError]:
    """Rules about resources or paths, and selectors of roles to aggregate."""
    for index, rule in enumerate(role.rules or ()):
        yield from _rule(rule, f"rules[{index}]", namespaced=False)
    aggregation = role.aggregation_rule
    if aggregation is None:
        return
    path = "aggregationRule.clusterRoleSelectors"
    if not aggregation.cluster_role_selectors:
        yield required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil")
    for index, selector in enumerate(aggregation.cluster_role_selectors or ()):
        yield from validate_selector(selector, f"{path}[{index}]")


def validate_role_binding(binding: RoleBinding, old: RoleBinding | None) -> Iterator[FieldError]:
    """A Role or ClusterRole that stays the same, and subjects."""
    yield from _reference(binding, old, ("Role", "ClusterRole"))
    for index, subject in enumerate(binding.subjects or ()):
        yield from _subject(subject, f"subjects[{index}]", namespaced=True)


def validate_cluster_role_binding(binding: ClusterRoleBinding, old: ClusterRoleBinding | None) -> Iterator[FieldError]:
    """A ClusterRole that stays the same, and subjects."""
    yield from _reference(binding, old, ("ClusterRole",))
    for index, subject in enumerate(binding.subjects or ()):
        yield from _subject(subject, f"subjects[{index}]", namespaced=False)


def _rule(rule: PolicyRule, path: str, *, namespaced: bool) -> Iterator[FieldError]:
    if not rule.verbs:
        yield required(f"{path}.verbs", "verbs must contain at least one value")
    urls = rule.non_resource_urls
    if urls:
        if namespaced:
            detail = "namespaced rules cannot apply to non-resource URLs"
            yield invalid(f"{path}.nonResourceURLs", urls, detail)
        if rule.api_groups or rule.resources or rule.resource_names:
            detail = "rules cannot apply to both regular resources and non-resource URLs"
            yield invalid(f"{path}.nonResourceURLs", urls, detail)
        return
    if not rule.api_groups:
        yield required(f"{path}.apiGroups", "resource rules must supply at least one api group")
    if not rule.resources:
        yield required(f"{path}.resources", "resource rules must supply at least one resource")


def _reference(
    binding: RoleBinding | ClusterRoleBinding, old: RoleBinding | ClusterRoleBinding | None, kinds: tuple[str, ...]
) -> Iterator[FieldError]:
    ref = binding.role_ref
    if ref.api_group != GROUP:
        yield not_supported("roleRef.apiGroup", ref.api_group or "", (GROUP,))
    if ref.kind not in kinds:
        yield not_supported("roleRef.kind", ref.kind, kinds)
    if not ref.name:
        yield required("roleRef.name")
    else:
        yield from by(names.path_segment, "roleRef.name", ref.name)
    if old is not None and old.role_ref != ref:
        yield invalid("roleRef", ref, "cannot change roleRef")


def _subject(subject: Subject, path: str, *, namespaced: bool) -> Iterator[FieldError]:
    if not subject.name:
        yield required(f"{path}.name")
    group = subject.api_group or ""
    match subject.kind:
        case "ServiceAccount":
            if subject.name:
                yield from by(names.dns_subdomain, f"{path}.name", subject.name)
            if group:
                yield not_supported(f"{path}.apiGroup", group, ("",))
            if not namespaced and not subject.namespace:
                yield required(f"{path}.namespace")
        case "User" | "Group":
            if group != GROUP:
                yield not_supported(f"{path}.apiGroup", group, (GROUP,))
        case kind:
            yield not_supported(f"{path}.kind", kind, ("ServiceAccount", "User", "Group"))
