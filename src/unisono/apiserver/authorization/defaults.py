"""The roles and bindings that every cluster has: Kubernetes' default roles, with the kinds of this server.

They carry ``rbac.authorization.kubernetes.io/autoupdate: "true"``: each start adds rules and subjects that are missing.
Who wants to keep a change of a default role sets the annotation to ``"false"``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from unisono.api.annotations import SERVICE_ACCOUNTS
from unisono.api.base import LabelSelector, Object, ObjectMeta
from unisono.api.groups.access import (
    GROUP,
    AggregationRule,
    ClusterRole,
    ClusterRoleBinding,
    PolicyRule,
    RoleRef,
    Subject,
)
from unisono.api.keys import MASTERS
from unisono.api.kind import Kind
from unisono.api.kinds import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES
from unisono.apiserver.access.user import AUTHENTICATED, UNAUTHENTICATED
from unisono.apiserver.admission.request import View
from unisono.apiserver.authorization.authorizer import compact, uncovered

AUTO_UPDATE = "rbac.authorization.kubernetes.io/autoupdate"
_BOOTSTRAP = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"
_READ = ("get", "list", "watch")
_WRITE = ("create", "delete", "deletecollection", "patch", "update")
_HEALTH = ("/livez", "/readyz", "/healthz")
_VERSION = ("/version", "/version/")
_DISCOVERY = ("/openapi", "/openapi/*", "/api", "/api/*", "/apis", "/apis/*")
_ISSUER = (
    "/.well-known/openid-configuration",
    "/.well-known/openid-configuration/",
    "/openid/v1/jwks",
    "/openid/v1/jwks/",
)
_INTO_PODS = ("pods/attach", "pods/exec", "pods/portforward")

# What users of a namespace work with: group, resources that an editor writes, resources that a viewer only reads.
_WORK: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    (
        "",
        (
            "pods",
            "services",
            "persistentvolumeclaims",
            "configmaps",
            "serviceaccounts",
            "events",
            "replicationcontrollers",
        ),
        ("limitranges", "resourcequotas", "namespaces", "endpoints", "bindings"),
    ),
    ("events.k8s.io", ("events",), ()),
    ("apps", ("deployments", "replicasets", "statefulsets", "daemonsets"), ("controllerrevisions",)),
    ("batch", ("jobs", "cronjobs"), ()),
    ("autoscaling", ("horizontalpodautoscalers",), ()),
    ("policy", ("poddisruptionbudgets",), ()),
    ("networking.k8s.io", ("networkpolicies", "ingresses"), ()),
    ("discovery.k8s.io", (), ("endpointslices",)),
    ("resource.k8s.io", ("resourceclaims", "resourceclaimtemplates"), ()),
)
_BATCH_WORK: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("batch.volcano.sh", ("jobs", "cronjobs"), ()),
    ("bus.volcano.sh", ("commands",), ()),
    ("flow.volcano.sh", ("jobflows", "jobtemplates"), ()),
    ("scheduling.volcano.sh", (), ("podgroups",)),
    ("training.volcano.sh", ("hyperjobs",), ()),
    ("kubeflow.org", ("*",), ()),
    ("keda.sh", ("scaledobjects",), ()),
    ("metrics.k8s.io", (), ("nodes", "pods")),
    ("serving.knative.dev", ("services",), ()),
    ("trainer.kubeflow.org", ("trainjobs", "trainingruntimes"), ()),
    ("jobset.x-k8s.io", ("jobsets",), ()),
    ("ray.io", ("rayclusters", "rayjobs", "rayservices"), ()),
)
# Objects that belong to no namespace, and that every author of a job reads.
_CLUSTER_WIDE = PolicyRule(verbs=[*_READ], api_groups=["scheduling.volcano.sh"], resources=["queues"])


def default_roles() -> list[ClusterRole]:
    """Every ClusterRole, with its label and annotation."""
    return [
        _role("cluster-admin", [_rule("*", "*", "*"), _urls("*", verbs=("*",))]),
        _role("system:discovery", [_urls(*_HEALTH, *_VERSION, *_DISCOVERY)]),
        _role("system:public-info-viewer", [_urls(*_HEALTH, *_VERSION)]),
        _role("system:monitoring", [_urls("/metrics", *_HEALTH, *(f"{path}/*" for path in _HEALTH))]),
        _role("system:service-account-issuer-discovery", [_urls(*_ISSUER)]),
        _role("system:basic-user", _basic_rules()),
        _role("system:auth-delegator", _delegator_rules()),
        _aggregated("admin"),
        _aggregated("edit", into="admin"),
        _aggregated("view", into="edit"),
        _role("system:aggregate-to-admin", _admin_rules(), into="admin"),
        _role("system:aggregate-to-edit", _edit_rules(), into="edit"),
        _role("system:aggregate-to-view", _reading(_WORK, extra=("pods/log",)), into="view"),
        _role("unisono:aggregate-to-edit", _writing(_BATCH_WORK), into="edit"),
        _role("unisono:aggregate-to-view", _reading(_BATCH_WORK), into="view"),
        _role("unisono:queue-viewer", [_CLUSTER_WIDE]),
        # Rows are shown by what else a user may list.
        _role("unisono:history-reader", [_urls("/unisono/v1/history/*")]),
    ]


def default_bindings() -> list[ClusterRoleBinding]:
    """Every ClusterRoleBinding, with its label and annotation."""
    return [
        _binding("cluster-admin", MASTERS),
        _binding("system:monitoring", "system:monitoring"),
        _binding("system:discovery", AUTHENTICATED),
        _binding("system:basic-user", AUTHENTICATED),
        _binding("system:public-info-viewer", AUTHENTICATED, UNAUTHENTICATED),
        _binding("system:service-account-issuer-discovery", SERVICE_ACCOUNTS),
        _binding("unisono:queue-viewer", AUTHENTICATED),
        _binding("unisono:history-reader", AUTHENTICATED),
    ]


def _basic_rules() -> list[PolicyRule]:
    reviews = ("selfsubjectaccessreviews", "selfsubjectrulesreviews")
    return [
        PolicyRule(verbs=["create"], api_groups=["authorization.k8s.io"], resources=[*reviews]),
        PolicyRule(verbs=["create"], api_groups=["authentication.k8s.io"], resources=["selfsubjectreviews"]),
    ]


def _delegator_rules() -> list[PolicyRule]:
    return [
        _rule("create", "authentication.k8s.io", "tokenreviews"),
        _rule("create", "authorization.k8s.io", "subjectaccessreviews"),
    ]


def _admin_rules() -> list[PolicyRule]:
    verbs = [*_WRITE, *_READ]
    return [
        _rule("create", "authorization.k8s.io", "localsubjectaccessreviews"),
        PolicyRule(verbs=verbs, api_groups=[GROUP], resources=["roles", "rolebindings"]),
    ]


def _edit_rules() -> list[PolicyRule]:
    return [
        PolicyRule(verbs=[*_READ, *_WRITE], api_groups=[""], resources=["secrets"]),
        PolicyRule(verbs=[*_READ, *_WRITE], api_groups=["coordination.k8s.io"], resources=["leases"]),
        PolicyRule(verbs=["get", "create"], api_groups=[""], resources=[*_INTO_PODS]),
        PolicyRule(verbs=["create"], api_groups=[""], resources=["pods/eviction", "serviceaccounts/token"]),
        _rule("impersonate", "", "serviceaccounts"),
        *_writing(_WORK),
    ]


def _writing(work: Sequence[tuple[str, tuple[str, ...], tuple[str, ...]]]) -> list[PolicyRule]:
    return [
        PolicyRule(verbs=[*_WRITE], api_groups=[group], resources=[*written, *_scales(group, written)])
        for group, written, _ in work
        if written
    ]


def _reading(
    work: Sequence[tuple[str, tuple[str, ...], tuple[str, ...]]], extra: tuple[str, ...] = ()
) -> list[PolicyRule]:
    rules = []
    for group, written, read in work:
        names = (*written, *read)
        below = [] if "*" in names else [f"{name}/status" for name in names]
        more = [*extra] if group == "" else []
        resources = [*names, *below, *_scales(group, written), *more]
        rules.append(PolicyRule(verbs=[*_READ], api_groups=[group], resources=resources))
    return rules


def _scales(group: str, names: tuple[str, ...]) -> list[str]:
    scaled = {"apps": set(names) - {"daemonsets"}, "batch.volcano.sh": {"jobs"}}.get(group, set())
    return [f"{name}/scale" for name in names if name in scaled]


def _rule(verb: str, group: str, resource: str) -> PolicyRule:
    return PolicyRule(verbs=[verb], api_groups=[group], resources=[resource])


def _urls(*urls: str, verbs: tuple[str, ...] = ("get",)) -> PolicyRule:
    return PolicyRule(verbs=[*verbs], non_resource_urls=[*urls])


def _meta(name: str, into: str = "") -> ObjectMeta:
    labels = {**_BOOTSTRAP, **({f"{_AGGREGATE}{into}": "true"} if into else {})}
    return ObjectMeta(name=name, labels=labels, annotations={AUTO_UPDATE: "true"})


def _role(name: str, rules: list[PolicyRule], into: str = "") -> ClusterRole:
    return ClusterRole(metadata=_meta(name, into), rules=rules)


def _aggregated(name: str, into: str = "") -> ClusterRole:
    selector = LabelSelector(match_labels={f"{_AGGREGATE}{name}": "true"})
    return ClusterRole(metadata=_meta(name, into), aggregation_rule=AggregationRule(cluster_role_selectors=[selector]))


def _binding(role: str, *groups: str) -> ClusterRoleBinding:
    return ClusterRoleBinding(
        metadata=_meta(role),
        subjects=[Subject(kind="Group", api_group=GROUP, name=group) for group in groups],
        role_ref=RoleRef(api_group=GROUP, kind="ClusterRole", name=role),
    )


# Brings the default roles and bindings of a store up to date: adds what is missing, takes nothing away.


def missing_or_outdated(view: View) -> Iterator[tuple[Kind[Any], Object]]:
    """Default roles and bindings as they must be stored, where they are not yet; the present ones keep their metadata.

    Objects whose ``autoupdate`` annotation is not "true" are left alone.
    """
    for role in default_roles():
        present = view.find(CLUSTER_ROLES, role.metadata.name)
        if present is None:
            yield CLUSTER_ROLES, role
        elif _kept_up(present) and _extend_role(present, role):
            yield CLUSTER_ROLES, present
    for binding in default_bindings():
        bound = view.find(CLUSTER_ROLE_BINDINGS, binding.metadata.name)
        if bound is None:
            yield CLUSTER_ROLE_BINDINGS, binding
        elif _kept_up(bound) and _extend_binding(bound, binding):
            yield CLUSTER_ROLE_BINDINGS, bound


def _kept_up(obj: Object) -> bool:
    return (obj.metadata.annotations or {}).get(AUTO_UPDATE) == "true"


def _extend_role(present: ClusterRole, wanted: ClusterRole) -> bool:
    changed = False
    labels = {**(present.metadata.labels or {}), **(wanted.metadata.labels or {})}
    if labels != present.metadata.labels:
        present.metadata.labels, changed = labels, True
    if wanted.aggregation_rule is not None:
        if present.aggregation_rule != wanted.aggregation_rule:
            present.aggregation_rule, changed = wanted.aggregation_rule, True
        return changed
    missing = compact(uncovered(present.rules or [], wanted.rules or []))
    if missing:
        present.rules, changed = [*(present.rules or ()), *missing], True
    return changed


def _extend_binding(present: ClusterRoleBinding, wanted: ClusterRoleBinding) -> bool:
    missing = [one for one in wanted.subjects or () if one not in (present.subjects or ())]
    if missing:
        present.subjects = [*(present.subjects or ()), *missing]
    return bool(missing)
