"""Roles: those that every cluster has, and the rule against privilege escalation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from unisono.api import kinds
from unisono.api.annotations import SERVICE_ACCOUNTS
from unisono.api.base import LabelSelector, Object, ObjectMeta, OwnerReference
from unisono.api.commands import target_of
from unisono.api.groups.access import (
    GROUP,
    AggregationRule,
    ClusterRole,
    ClusterRoleBinding,
    PolicyRule,
    Role,
    RoleBinding,
    RoleRef,
    Subject,
)
from unisono.api.groups.batch import Command
from unisono.api.keys import MASTERS
from unisono.api.kind import Kind
from unisono.api.policies.rule import VERBS
from unisono.api.queues import USE
from unisono.apiserver.access.user import AUTHENTICATED, UNAUTHENTICATED, User
from unisono.apiserver.admission.request import Request, Rule, View
from unisono.apiserver.authorization.authorizer import Action, Authorizer, compact, describe, quoted, uncovered
from unisono.apiserver.failures import forbidden, not_found

# The roles and bindings that every cluster has: Kubernetes' default roles, with the kinds of this server.
#
# They carry ``rbac.authorization.kubernetes.io/autoupdate: "true"``: each start adds rules and subjects that are
# missing.
# Who wants to keep a change of a default role sets the annotation to ``"false"``.

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
_CLUSTER_WIDE = [
    PolicyRule(verbs=[*_READ], api_groups=[kinds.QUEUES.group], resources=[kinds.QUEUES.plural]),
    PolicyRule(
        verbs=[*_READ],
        api_groups=[kinds.RESERVATIONS.group],
        resources=[kinds.RESERVATIONS.plural, kinds.TEMPORARY_QUOTAS.plural],
    ),
    PolicyRule(
        verbs=[*_READ], api_groups=[kinds.BUDGETS.group], resources=[kinds.BUDGETS.plural, kinds.PRICE_LISTS.plural]
    ),
    PolicyRule(verbs=[*_READ], api_groups=[kinds.NODE_CHECKS.group], resources=[kinds.NODE_CHECKS.plural]),
]


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
        _role("unisono:queue-viewer", _CLUSTER_WIDE),
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
        present = view.find(kinds.CLUSTER_ROLES, role.metadata.name)
        if present is None:
            yield kinds.CLUSTER_ROLES, role
        elif _kept_up(present) and _extend_role(present, role):
            yield kinds.CLUSTER_ROLES, present
    for binding in default_bindings():
        bound = view.find(kinds.CLUSTER_ROLE_BINDINGS, binding.metadata.name)
        if bound is None:
            yield kinds.CLUSTER_ROLE_BINDINGS, binding
        elif _kept_up(bound) and _extend_binding(bound, binding):
            yield kinds.CLUSTER_ROLE_BINDINGS, bound


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


# Privilege escalation: users can only grant, or have a controller use, rights that they hold themselves.

# Users grant no more than they have: roles and bindings are checked against the rights of their author.

_EVERYTHING = (
    PolicyRule(verbs=["*"], api_groups=["*"], resources=["*"]),
    PolicyRule(verbs=["*"], non_resource_urls=["*"]),
)


class Escalation:
    """Admission rules; requests without a user come from the server itself and pass."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def check_role(self, request: Request, _: View) -> None:
        """A role holds rights that its writer has in the same place, unless he may ``escalate``.

        Raises:
            ApiError: 403 naming the rights that are missing.
        """
        user = judged(request)
        if user is None or request.operation == "DELETE":
            return
        role, old = request.object, request.old
        if old is not None and not _changed(role, old):
            return
        if self._may(user, "escalate", request.kind, request.namespace, request.name):
            return
        self._confirm(request, user, role.rules or ())
        aggregates = isinstance(role, ClusterRole) and role.aggregation_rule is not None
        if aggregates and uncovered(self._authorizer.rules(user, None), _EVERYTHING):
            why = "must have cluster-admin privileges to use the aggregationRule"
            raise forbidden(request.kind, request.name, why)

    def check_binding(self, request: Request, _: View) -> None:
        """A binding grants rights that its writer has in the same place, unless he may ``bind`` the role.

        Raises:
            NotFound: there is no such role.
            ApiError: 403 naming the rights that are missing.
        """
        user = judged(request)
        if user is None or request.operation == "DELETE":
            return
        binding: RoleBinding | ClusterRoleBinding = request.object
        old: RoleBinding | ClusterRoleBinding | None = request.old
        if old is not None and old.subjects == binding.subjects and old.role_ref == binding.role_ref:
            return
        ref = binding.role_ref
        kind: Kind[Role] | Kind[ClusterRole] = kinds.CLUSTER_ROLES if ref.kind == "ClusterRole" else kinds.ROLES
        if self._may(user, "bind", kind, request.namespace, ref.name):
            return
        rules = self._authorizer.resolver.role_rules(ref, request.namespace)
        if rules is None:
            raise not_found(kind, ref.name)
        self._confirm(request, user, rules)

    def _may(self, user: User, verb: str, kind: Kind[Role] | Kind[ClusterRole], where: str | None, name: str) -> bool:
        action = Action(verb, group=kind.group, resource=kind.plural, namespace=where, name=name)
        return self._authorizer.decide(user, action).allowed

    def _confirm(self, request: Request, user: User, rules: Iterable[PolicyRule]) -> None:
        missing = uncovered(self._authorizer.rules(user, request.namespace), rules)
        if not missing:
            return
        listed = "\n".join(sorted(describe(rule) for rule in compact(missing)))
        why = f'user "{user.name}" (groups={quoted(user.groups)}) is attempting to grant RBAC permissions '
        raise forbidden(request.kind, request.name, f"{why}not currently held:\n{listed}")


def judged(request: Request) -> User | None:
    """Whose rights a request is checked for; None for the server itself and for masters, who may do everything."""
    if not request.user or MASTERS in request.groups:
        return None
    return User(request.user, request.groups)


def _changed(role: Role | ClusterRole, old: Role | ClusterRole) -> bool:
    aggregation = getattr(role, "aggregation_rule", None) != getattr(old, "aggregation_rule", None)
    return aggregation or (role.rules or []) != (old.rules or [])


def rules_of(escalation: Escalation) -> dict[str, tuple[Rule, ...]]:
    """The rules by resource, for ``Admission``."""
    return {
        kinds.ROLES.resource: (escalation.check_role,),
        kinds.CLUSTER_ROLES.resource: (escalation.check_role,),
        kinds.ROLE_BINDINGS.resource: (escalation.check_binding,),
        kinds.CLUSTER_ROLE_BINDINGS.resource: (escalation.check_binding,),
    }


# No confused deputies: what a controller does for the author of an object, the author must be allowed to do.
#
# ``docs/access.md`` has the table of all controllers that act for a user, and where each is checked.


class Deputies:
    """Admission rules; requests without a user come from the server itself and pass."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def check_command(self, request: Request, _: View) -> None:
        """A command is carried out with the controllers' rights: its author must be allowed to change the target.

        Raises:
            ApiError: 403 naming the target.
        """
        user = judged(request)
        if user is None or request.operation == "DELETE":
            return
        command: Command = request.object
        resolved, old = target_of(command), request.old
        if resolved is None or (old is not None and (old.target, old.action) == (command.target, command.action)):
            return
        kind, key = resolved
        if self._may(user, VERBS, kind, request.namespace, key.rpartition("/")[2]):
            return
        why = f"{_cannot(user, 'update', kind, key)}, and a Command acts with the rights of its author"
        raise forbidden(request.kind, request.name, why)

    def check_application(self, request: Request, _: View) -> None:
        """An Application is brought with the kubeconfigs of its namespace: its author must be allowed to read them.

        Raises:
            ApiError: 403 that says so.
        """
        user = judged(request)
        if user is None or request.operation == "DELETE":
            return
        old = request.old
        if old is not None and old.spec == request.object.spec:
            return
        if not self._may(user, ("get",), kinds.SECRETS, request.namespace, ""):
            cannot = f'User "{user.name}" cannot get {kinds.SECRETS.resource} in the namespace "{request.namespace}"'
            why = f"{cannot}, and an Application acts with the kubeconfigs of its namespace"
            raise forbidden(request.kind, request.name, why)

    def may_use(self, request: Request, queue: str) -> bool:
        """Whether roles give the user of a request the verb ``use`` on a queue."""
        user = judged(request)
        return user is None or self._may(user, (USE,), kinds.QUEUES, None, queue)

    def check_owners(self, request: Request, _: View) -> None:
        """Blocking the deletion of a cluster-scoped owner takes a right on that owner.

        A dependent with ``blockOwnerDeletion`` and a finalizer keeps its owner for as long as its author likes. Owners
        with a namespace are in the dependent's own; those without belong to all users.

        Raises:
            ApiError: 403 naming the owner.
        """
        user = judged(request)
        if user is None or request.operation == "DELETE" or not isinstance(request.object, Object):
            return
        before = {one.uid for one in _blocking(request.old)}
        # An object may name thousands of owners: each is decided about once, and none where its whole kind is allowed.
        allowed: dict[tuple[str, str], bool] = {}
        for reference in _blocking(request.object):
            kind = kinds.find(reference.api_version, reference.kind)
            if kind is None or kind.namespaced or reference.uid in before:
                continue
            for name in ("", reference.name):
                owner_key = (kind.resource, name)
                if owner_key not in allowed:
                    allowed[owner_key] = self._may_block(user, kind, name)
                if allowed[owner_key]:
                    break
            else:
                cannot = _cannot(user, "delete", kind, reference.name)
                why = f"cannot set blockOwnerDeletion in this ownerReference: {cannot}"
                raise forbidden(request.kind, request.name, why)

    def _may_block(self, user: User, kind: Kind[Any], name: str) -> bool:
        """Whether the user may hold back the deletion of an object, or of all objects where ``name`` is empty."""
        return self._may(user, ("update",), kind, None, name, subresource="finalizers") or self._may(
            user, ("delete",), kind, None, name
        )

    def _may(
        self,
        user: User,
        verbs: tuple[str, ...],
        kind: Kind[Any],
        namespace: str | None,
        name: str,
        *,
        subresource: str = "",
    ) -> bool:
        where = namespace if kind.namespaced else None
        actions = (
            Action(verb, group=kind.group, resource=kind.plural, subresource=subresource, namespace=where, name=name)
            for verb in verbs
        )
        return any(self._authorizer.decide(user, action).allowed for action in actions)


def _blocking(obj: Any) -> list[OwnerReference]:
    references = obj.metadata.owner_references if isinstance(obj, Object) else None
    return [one for one in references or () if one.block_owner_deletion]


def _cannot(user: User, verb: str, kind: Kind[Any], key: str) -> str:
    return f'User "{user.name}" cannot {verb} {kind.resource} "{key}"'
