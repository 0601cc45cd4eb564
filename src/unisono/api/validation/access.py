"""Rules of roles, bindings and webhook configurations."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection, Iterator, Sequence
from urllib.parse import urlsplit

from unisono.api import names
from unisono.api.cel import CompileError, compile_expression
from unisono.api.field_error import FieldError, duplicate, invalid, not_supported, required
from unisono.api.groups.access import GROUP, ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, Subject
from unisono.api.groups.admission_registration import (
    CONDITION_VARIABLES,
    MatchCondition,
    MutatingWebhook,
    MutatingWebhookConfiguration,
    RuleWithOperations,
    ValidatingWebhook,
    ValidatingWebhookConfiguration,
    WebhookClientConfig,
)
from unisono.api.validation.meta import by, one_of, validate_selector

# Rules of roles and bindings.


def validate_role(role: Role, old: Role | None) -> Iterator[FieldError]:
    """Rules about resources only."""
    for index, rule in enumerate(role.rules or ()):
        yield from _policy_rule(rule, f"rules[{index}]", namespaced=True)


def validate_cluster_role(role: ClusterRole, old: ClusterRole | None) -> Iterator[FieldError]:
    """Rules about resources or paths, and selectors of roles to aggregate."""
    for index, rule in enumerate(role.rules or ()):
        yield from _policy_rule(rule, f"rules[{index}]", namespaced=False)
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


def _policy_rule(rule: PolicyRule, path: str, *, namespaced: bool) -> Iterator[FieldError]:
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


# Rules of webhook configurations.

_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_LONGEST_SECONDS = 30
_MOST_CONDITIONS = 64

Configuration = MutatingWebhookConfiguration | ValidatingWebhookConfiguration


def validate_webhooks(configuration: Configuration, old: Configuration | None) -> Iterator[FieldError]:
    """Names, addresses, rules, policies and times."""
    seen: set[str] = set()
    # As in Kubernetes, an expression that is stored already may stay.
    stored = {
        condition.expression for hook in (old and old.webhooks) or () for condition in hook.match_conditions or ()
    }
    for index, hook in enumerate(configuration.webhooks or ()):
        path = f"webhooks[{index}]"
        yield from _name(hook, path)
        if hook.name in seen:
            yield duplicate(f"{path}.name", hook.name)
        seen.add(hook.name)
        yield from _hook(hook, stored, path)


def _name(hook: ValidatingWebhook, path: str) -> Iterator[FieldError]:
    if not hook.name:
        yield required(f"{path}.name")
        return
    yield from by(names.dns_subdomain, f"{path}.name", hook.name)
    if hook.name.count(".") < 2:
        detail = "should be a domain with at least three segments separated by dots"
        yield invalid(f"{path}.name", hook.name, detail)


def _hook(hook: ValidatingWebhook, stored: Collection[str], path: str) -> Iterator[FieldError]:
    versions = hook.admission_review_versions
    if not versions:
        yield required(f"{path}.admissionReviewVersions", "must specify one of v1, v1beta1")
    elif "v1" not in versions:
        yield invalid(f"{path}.admissionReviewVersions", versions, "must include at least one of v1")
    for number, rule in enumerate(hook.rules or ()):
        yield from _webhook_rule(rule, f"{path}.rules[{number}]")
    yield from one_of(f"{path}.failurePolicy", hook.failure_policy, ("Fail", "Ignore"))
    yield from one_of(f"{path}.matchPolicy", hook.match_policy, ("Equivalent", "Exact"))
    if hook.side_effects is None:
        yield required(f"{path}.sideEffects", 'must specify one of "None", "NoneOnDryRun"')
    elif hook.side_effects not in ("None", "NoneOnDryRun"):
        yield not_supported(f"{path}.sideEffects", hook.side_effects, ("None", "NoneOnDryRun"))
    seconds = hook.timeout_seconds
    if seconds is not None and not 1 <= seconds <= _LONGEST_SECONDS:
        detail = f"the timeout value must be between 1 and {_LONGEST_SECONDS} seconds"
        yield invalid(f"{path}.timeoutSeconds", seconds, detail)
    yield from validate_selector(hook.namespace_selector, f"{path}.namespaceSelector")
    yield from validate_selector(hook.object_selector, f"{path}.objectSelector")
    if isinstance(hook, MutatingWebhook):
        yield from one_of(f"{path}.reinvocationPolicy", hook.reinvocation_policy, ("IfNeeded", "Never"))
    yield from validate_client(hook.client_config, f"{path}.clientConfig")
    yield from _conditions(hook.match_conditions or (), stored, f"{path}.matchConditions")


def _conditions(conditions: Sequence[MatchCondition], stored: Collection[str], path: str) -> Iterator[FieldError]:
    if len(conditions) > _MOST_CONDITIONS:
        yield FieldError(path, "FieldValueTooMany", len(conditions), f"must have at most {_MOST_CONDITIONS} items")
        return
    for number, condition in enumerate(conditions):
        at = f"{path}[{number}]"
        if not condition.name:
            yield required(f"{at}.name")
        else:
            yield from by(names.qualified_name, f"{at}.name", condition.name)
        expression = condition.expression.strip()
        if not expression:
            yield required(f"{at}.expression")
        elif condition.expression not in stored:
            try:
                compile_expression(expression, CONDITION_VARIABLES)
            except CompileError as error:
                yield invalid(f"{at}.expression", expression, f"compilation failed: {error}")


def _webhook_rule(rule: RuleWithOperations, path: str) -> Iterator[FieldError]:
    for name, values in (
        ("operations", rule.operations),
        ("apiGroups", rule.api_groups),
        ("apiVersions", rule.api_versions),
        ("resources", rule.resources),
    ):
        if not values:
            yield required(f"{path}.{name}")
        elif len(values) > 1 and "*" in values:
            detail = "if '*' is present, must not specify other " + name
            yield invalid(f"{path}.{name}", values, detail)
    for index, operation in enumerate(rule.operations or ()):
        if operation not in _OPERATIONS:
            yield not_supported(f"{path}.operations[{index}]", operation, _OPERATIONS)
    yield from one_of(f"{path}.scope", rule.scope, ("*", "Cluster", "Namespaced"))


def validate_client(client: WebhookClientConfig | None, path: str) -> Iterator[FieldError]:
    """Rules of where a webhook listens; ``path`` names the field."""
    if client is None or (client.url is None) == (client.service is None):
        yield required(path, "exactly one of url or service is required")
        return
    if client.ca_bundle is not None:
        try:
            base64.b64decode(client.ca_bundle, validate=True)
        except (binascii.Error, ValueError):
            yield invalid(f"{path}.caBundle", client.ca_bundle, "must be base64")
    if client.url is not None:
        found = urlsplit(client.url)
        if found.scheme != "https":
            yield invalid(
                f"{path}.url",
                found.scheme,
                "'https' is the only allowed URL scheme; desired format: https://host[/path]",
            )
        if not found.hostname:
            yield invalid(f"{path}.url", "", "host must be specified; desired format: https://host[/path]")
        for part, word in ((found.query, "query parameters"), (found.fragment, "fragments")):
            if part:
                yield invalid(f"{path}.url", part, f"{word} are not permitted in the URL")
    elif client.service is not None:
        service = client.service
        for name, value in (("name", service.name), ("namespace", service.namespace)):
            if not value:
                yield required(f"{path}.service.{name}")
        if service.path is not None and not service.path.startswith("/"):
            yield invalid(f"{path}.service.path", service.path, "must start with a '/'")
        for problem in names.port_number(service.port or 0):
            yield invalid(f"{path}.service.port", service.port, problem)
