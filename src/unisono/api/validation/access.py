"""Rules of roles, bindings and webhook configurations."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from fractions import Fraction
from urllib.parse import urlsplit

from unisono.api import names
from unisono.api.base import IntOrString
from unisono.api.cel import CompileError, compile_expression
from unisono.api.core.cluster import (
    LimitRange,
    LimitRangeItem,
    PodDisruptionBudget,
    ResourceQuota,
    ResourceQuotaSpec,
    ScopeSelector,
)
from unisono.api.field_error import FieldError, duplicate, forbidden, invalid, not_supported, required
from unisono.api.groups import admission_registration
from unisono.api.groups.access import GROUP, ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, Subject
from unisono.api.quantity import canonical, parse_quantity, to_milli
from unisono.api.validation import meta


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
        yield from meta.validate_selector(selector, f"{path}[{index}]")


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
        yield from meta.by(names.path_segment, "roleRef.name", ref.name)
    if old is not None and old.role_ref != ref:
        yield invalid("roleRef", ref, "cannot change roleRef")


def _subject(subject: Subject, path: str, *, namespaced: bool) -> Iterator[FieldError]:
    if not subject.name:
        yield required(f"{path}.name")
    group = subject.api_group or ""
    match subject.kind:
        case "ServiceAccount":
            if subject.name:
                yield from meta.by(names.dns_subdomain, f"{path}.name", subject.name)
            if group:
                yield not_supported(f"{path}.apiGroup", group, ("",))
            if not namespaced and not subject.namespace:
                yield required(f"{path}.namespace")
        case "User" | "Group":
            if group != GROUP:
                yield not_supported(f"{path}.apiGroup", group, (GROUP,))
        case kind:
            yield not_supported(f"{path}.kind", kind, ("ServiceAccount", "User", "Group"))


_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_LONGEST_SECONDS = 30
_MOST_CONDITIONS = 64

Configuration = (
    admission_registration.MutatingWebhookConfiguration | admission_registration.ValidatingWebhookConfiguration
)


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


def _name(hook: admission_registration.ValidatingWebhook, path: str) -> Iterator[FieldError]:
    if not hook.name:
        yield required(f"{path}.name")
        return
    yield from meta.by(names.dns_subdomain, f"{path}.name", hook.name)
    if hook.name.count(".") < 2:
        detail = "should be a domain with at least three segments separated by dots"
        yield invalid(f"{path}.name", hook.name, detail)


def _hook(hook: admission_registration.ValidatingWebhook, stored: Collection[str], path: str) -> Iterator[FieldError]:
    versions = hook.admission_review_versions
    if not versions:
        yield required(f"{path}.admissionReviewVersions", "must specify one of v1, v1beta1")
    elif "v1" not in versions:
        yield invalid(f"{path}.admissionReviewVersions", versions, "must include at least one of v1")
    for number, rule in enumerate(hook.rules or ()):
        yield from _webhook_rule(rule, f"{path}.rules[{number}]")
    yield from meta.one_of(f"{path}.failurePolicy", hook.failure_policy, ("Fail", "Ignore"))
    yield from meta.one_of(f"{path}.matchPolicy", hook.match_policy, ("Equivalent", "Exact"))
    if hook.side_effects is None:
        yield required(f"{path}.sideEffects", 'must specify one of "None", "NoneOnDryRun"')
    elif hook.side_effects not in ("None", "NoneOnDryRun"):
        yield not_supported(f"{path}.sideEffects", hook.side_effects, ("None", "NoneOnDryRun"))
    seconds = hook.timeout_seconds
    if seconds is not None and not 1 <= seconds <= _LONGEST_SECONDS:
        detail = f"the timeout value must be between 1 and {_LONGEST_SECONDS} seconds"
        yield invalid(f"{path}.timeoutSeconds", seconds, detail)
    yield from meta.validate_selector(hook.namespace_selector, f"{path}.namespaceSelector")
    yield from meta.validate_selector(hook.object_selector, f"{path}.objectSelector")
    if isinstance(hook, admission_registration.MutatingWebhook):
        yield from meta.one_of(f"{path}.reinvocationPolicy", hook.reinvocation_policy, ("IfNeeded", "Never"))
    yield from validate_client(hook.client_config, f"{path}.clientConfig")
    yield from _conditions(hook.match_conditions or (), stored, f"{path}.matchConditions")


def _conditions(
    conditions: Sequence[admission_registration.MatchCondition], stored: Collection[str], path: str
) -> Iterator[FieldError]:
    if len(conditions) > _MOST_CONDITIONS:
        yield FieldError(path, "FieldValueTooMany", len(conditions), f"must have at most {_MOST_CONDITIONS} items")
        return
    for number, condition in enumerate(conditions):
        at = f"{path}[{number}]"
        if not condition.name:
            yield required(f"{at}.name")
        else:
            yield from meta.by(names.qualified_name, f"{at}.name", condition.name)
        expression = condition.expression.strip()
        if not expression:
            yield required(f"{at}.expression")
        elif condition.expression not in stored:
            try:
                compile_expression(expression, admission_registration.CONDITION_VARIABLES)
            except CompileError as error:
                yield invalid(f"{at}.expression", expression, f"compilation failed: {error}")


def _webhook_rule(rule: admission_registration.RuleWithOperations, path: str) -> Iterator[FieldError]:
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
    yield from meta.one_of(f"{path}.scope", rule.scope, ("*", "Cluster", "Namespaced"))


def validate_client(client: admission_registration.WebhookClientConfig | None, path: str) -> Iterator[FieldError]:
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
        parsed = urlsplit(client.url)
        if parsed.scheme != "https":
            yield invalid(
                f"{path}.url",
                parsed.scheme,
                "'https' is the only allowed URL scheme; desired format: https://host[/path]",
            )
        if not parsed.hostname:
            yield invalid(f"{path}.url", "", "host must be specified; desired format: https://host[/path]")
        for part, word in ((parsed.query, "query parameters"), (parsed.fragment, "fragments")):
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


# Rules of resource quotas, limit ranges and disruption budgets.

SCOPES = (
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
)
# What pods use at once, and what is counted in the namespace.
_COMPUTE = frozenset(
    f"{prefix}{name}" for prefix in ("", "requests.", "limits.") for name in ("cpu", "memory", "ephemeral-storage")
) | {"pods"}
_COUNTED = frozenset(
    (
        "requests.storage",
        "persistentvolumeclaims",
        "configmaps",
        "secrets",
        "resourcequotas",
        "replicationcontrollers",
        "services",
        "services.nodeports",
        "services.loadbalancers",
    )
)
_PERCENT = re.compile(r"[0-9]+%")
_PERCENT_RULE = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', "
    "regex used for validation is '[0-9]+%')"
)
TYPES = ("Pod", "Container", "PersistentVolumeClaim")
_FIELDS = (
    ("max", "max"),
    ("min", "min"),
    ("default", "default"),
    ("default_request", "defaultRequest"),
    ("max_limit_request_ratio", "maxLimitRequestRatio"),
)


def validate_quota(quota: ResourceQuota, old: ResourceQuota | None) -> Iterator[FieldError]:
    """Names and amounts; scopes fit the resources, do not contradict each other and stay as they are."""
    spec = quota.spec
    for name, amount in (spec.hard or {}).items():
        path = f"spec.hard[{name}]"
        yield from meta.by(names.qualified_name, path, name)
        if "/" not in name and not is_standard_quota(name):
            yield invalid(path, name, "must be a standard resource type or fully qualified")
            yield invalid(path, name, "must be a standard resource for quota")
        yield from meta.validate_amount(path, amount)
    yield from _scopes(spec)
    if spec.scope_selector is not None:
        yield from _selector(spec, spec.scope_selector)
    if old is not None and set(spec.scopes or ()) != set(old.spec.scopes or ()):
        yield invalid("spec.scopes", spec.scopes, "field is immutable")
    yield from meta.validate_resource_map(quota.status.hard, "status.hard")
    yield from meta.validate_resource_map(quota.status.used, "status.used")


def is_standard_quota(name: str) -> bool:
    """Names without a slash that a quota may limit."""
    return name in _COMPUTE or name in _COUNTED or name.startswith(("hugepages-", "requests.hugepages-"))


def _fits(scope: str, name: str) -> bool:
    """Whether a scope can select the objects that use a resource; names with a slash fit every scope."""
    if scope == "BestEffort":
        return name == "pods" or not is_standard_quota(name)
    return name in _COMPUTE or not is_standard_quota(name)


def _scopes(spec: ResourceQuotaSpec) -> Iterator[FieldError]:
    for scope in spec.scopes or ():
        if scope not in SCOPES:
            yield invalid("spec.scopes", spec.scopes, "unsupported scope")
        elif not all(_fits(scope, name) for name in spec.hard or ()):
            yield invalid("spec.scopes", spec.scopes, "unsupported scope applied to resource")
    yield from _contradictions(spec, spec.scopes or ())


def _selector(spec: ResourceQuotaSpec, selector: ScopeSelector) -> Iterator[FieldError]:
    path = "spec.scopeSelector.matchExpressions"
    for one in selector.match_expressions or ():
        if one.scope_name not in SCOPES:
            yield invalid(f"{path}.scopeName", one.scope_name, "unsupported scope")
        elif not all(_fits(one.scope_name, name) for name in spec.hard or ()):
            yield invalid(path, selector, "unsupported scope applied to resource")
        if one.scope_name in SCOPES and one.scope_name != "PriorityClass" and one.operator != "Exists":
            yield invalid(f"{path}.operator", one.operator, f"must be 'Exists' when scope is {one.scope_name}")
        if one.operator in ("In", "NotIn"):
            if not one.values:
                detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                yield required(f"{path}.values", detail)
        elif one.operator in ("Exists", "DoesNotExist"):
            if one.values:
                detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
                yield invalid(f"{path}.values", one.values, detail)
        else:
            yield invalid(f"{path}.operator", one.operator, "not a valid selector operator")
    yield from _contradictions(spec, [one.scope_name for one in selector.match_expressions or ()])


def _contradictions(spec: ResourceQuotaSpec, scopes: Iterable[str]) -> Iterator[FieldError]:
    given = set(scopes)
    for pair in ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"}):
        if pair <= given:
            yield invalid("spec.scopes", spec.scopes, "conflicting scopes")


def validate_budget(budget: PodDisruptionBudget, old: PodDisruptionBudget | None) -> Iterator[FieldError]:
    """One of the two limits, as a number or a percentage."""
    spec = budget.spec
    if spec.min_available is not None and spec.max_unavailable is not None:
        yield invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set")
    yield from _amount("spec.minAvailable", spec.min_available)
    yield from _amount("spec.maxUnavailable", spec.max_unavailable)
    yield from meta.validate_selector(spec.selector, "spec.selector")
    policy = spec.unhealthy_pod_eviction_policy
    yield from meta.one_of("spec.unhealthyPodEvictionPolicy", policy, ("AlwaysAllow", "IfHealthyBudget"))


def _amount(path: str, value: IntOrString | None) -> Iterator[FieldError]:
    if isinstance(value, int):
        if value < 0:
            yield invalid(path, value, "must be greater than or equal to 0")
    elif value is not None:
        if not _PERCENT.fullmatch(value):
            yield invalid(path, value, _PERCENT_RULE)
        elif int(value[:-1]) > 100:
            yield invalid(path, value, "must not be greater than 100%")


def validate_limit_range(limits: LimitRange, old: LimitRange | None) -> Iterator[FieldError]:
    """Every type once, amounts in order: min, default request, default, max."""
    seen: set[str] = set()
    for index, item in enumerate(limits.spec.limits):
        path = f"spec.limits[{index}]"
        if not item.type:
            yield required(f"{path}.type")
        elif item.type not in TYPES and "/" not in item.type:
            yield invalid(f"{path}.type", item.type, "must be a standard limit type or fully qualified")
        if item.type in seen:
            yield duplicate(f"{path}.type", item.type)
        seen.add(item.type)
        yield from _item(item, path)


def _item(item: LimitRangeItem, path: str) -> Iterator[FieldError]:
    broken = False
    for attribute, name in _FIELDS:
        for error in meta.validate_resource_map(getattr(item, attribute), f"{path}.{name}"):
            broken = True
            yield error
    if item.type == "Pod":
        if item.default:
            yield forbidden(f"{path}.default", "may not be specified when `type` is 'Pod'")
        if item.default_request:
            yield forbidden(f"{path}.defaultRequest", "may not be specified when `type` is 'Pod'")
    if item.type == "PersistentVolumeClaim" and "storage" not in {**(item.min or {}), **(item.max or {})}:
        detail = "either minimum or maximum storage value is required, but neither was provided"
        yield required(f"{path}.limits", detail)
    if broken:
        return
    amounts_by_field = {name: getattr(item, attribute) or {} for attribute, name in _FIELDS}
    for resource in sorted({resource for amounts in amounts_by_field.values() for resource in amounts}):
        texts = {
            name: canonical(amounts[resource]) for name, amounts in amounts_by_field.items() if resource in amounts
        }
        yield from _order(texts, path, resource)
        yield from _ratio(texts, path, resource)


# Lower field, upper field, the field that is blamed, whose value is shown, and how Kubernetes words it.
_ORDER = (
    ("min", "max", "min", "min", "min value {} is greater than max value {}"),
    (
        "min",
        "defaultRequest",
        "defaultRequest",
        "defaultRequest",
        "min value {} is greater than default request value {}",
    ),
    (
        "defaultRequest",
        "max",
        "defaultRequest",
        "defaultRequest",
        "default request value {} is greater than max value {}",
    ),
    (
        "defaultRequest",
        "default",
        "defaultRequest",
        "defaultRequest",
        "default request value {} is greater than default limit value {}",
    ),
    ("min", "default", "default", "min", "min value {} is greater than default value {}"),
    ("default", "max", "default", "max", "default value {} is greater than max value {}"),
)


def _order(texts: dict[str, str], path: str, resource: str) -> Iterator[FieldError]:
    for lower, upper, blamed, shown, wording in _ORDER:
        if lower in texts and upper in texts and parse_quantity(texts[lower]) > parse_quantity(texts[upper]):
            detail = wording.format(texts[lower], texts[upper])
            yield invalid(f"{path}.{blamed}[{resource}]", texts[shown], detail)
    limit, request = texts.get("default"), texts.get("defaultRequest")
    fixed = meta.is_extended(resource) or resource.startswith("hugepages-")
    if fixed and limit is not None and request is not None and parse_quantity(limit) != parse_quantity(request):
        detail = f"default value {limit} must equal to defaultRequest value {request} in {resource}"
        yield invalid(f"{path}.defaultRequest[{resource}]", request, detail)


def _ratio(texts: dict[str, str], path: str, resource: str) -> Iterator[FieldError]:
    ratio = texts.get("maxLimitRequestRatio")
    if ratio is None:
        return
    where = f"{path}.maxLimitRequestRatio[{resource}]"
    if parse_quantity(ratio) < 1:
        yield invalid(where, ratio, f"ratio {ratio} is less than 1")
    if "min" in texts and "max" in texts and to_milli(texts["min"]) > 0:
        most = Fraction(to_milli(texts["max"]), to_milli(texts["min"]))
        if parse_quantity(ratio) > most:
            yield invalid(where, ratio, f"ratio {ratio} is greater than max/min = {float(most):f}")
