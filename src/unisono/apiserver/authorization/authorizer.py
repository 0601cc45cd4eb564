"""Who may do what: the rules of a user by all bindings, and answers to questions about rights and identities."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, TypeVar

import msgspec

from unisono.api import field_error
from unisono.api.annotations import SERVICE_ACCOUNT_PREFIX
from unisono.api.base import Object, ObjectMeta
from unisono.api.field_error import FieldError
from unisono.api.groups import access
from unisono.api.keys import MASTERS
from unisono.api.kind import Kind
from unisono.api.kinds import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from unisono.api.selecting import selects
from unisono.apiserver import encoding
from unisono.apiserver.access.user import User
from unisono.apiserver.admission.request import View
from unisono.apiserver.failures import bad_request, invalid
from unisono.apiserver.storage.store import Store
from unisono.errors import ApiError

# What a policy rule allows, and whether rules cover others (pure; the algebra of Kubernetes' RBAC).

ALL = "*"


@dataclass(frozen=True, slots=True)
class Action:
    """What a request wants to do; ``resource`` is empty for a path that names none."""

    verb: str
    path: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str | None = None
    name: str = ""

    @property
    def combined(self) -> str:
        """``pods`` or ``pods/log``."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def allows(rule: access.PolicyRule, action: Action) -> bool:
    """Whether a rule, in a place where it counts, allows an action."""
    if not _has(rule.verbs, action.verb):
        return False
    if not action.resource:
        return any(_url_covers(url, action.path) for url in rule.non_resource_urls or ())
    if not _has(rule.api_groups, action.group) or not _resource_allowed(rule, action):
        return False
    return not rule.resource_names or action.name in rule.resource_names


def uncovered(owned: Sequence[access.PolicyRule], wanted: Iterable[access.PolicyRule]) -> list[access.PolicyRule]:
    """Those single rights among ``wanted`` that no single rule of ``owned`` gives."""
    return [
        right for rule in wanted for right in single_rights(rule) if not any(covers(owner, right) for owner in owned)
    ]


def single_rights(rule: access.PolicyRule) -> Iterator[access.PolicyRule]:
    """A rule as rules of one verb on one resource (and one name), or on one path."""
    verbs = rule.verbs or ()
    for group, resource, verb in product(rule.api_groups or (), rule.resources or (), verbs):
        for name in rule.resource_names or (None,):
            names = None if name is None else [name]
            yield access.PolicyRule(verbs=[verb], api_groups=[group], resources=[resource], resource_names=names)
    for url, verb in product(rule.non_resource_urls or (), verbs):
        yield access.PolicyRule(verbs=[verb], non_resource_urls=[url])


def covers(owner: access.PolicyRule, right: access.PolicyRule) -> bool:
    """Whether a rule gives everything that another gives."""
    if not all(_has(owner.verbs, verb) for verb in right.verbs or ()):
        return False
    if not all(_has(owner.api_groups, group) for group in right.api_groups or ()):
        return False
    if not all(_resource_covers(owner, resource) for resource in right.resources or ()):
        return False
    owned = owner.non_resource_urls or ()
    if not all(any(_url_covers(one, url) for one in owned) for url in right.non_resource_urls or ()):
        return False
    if not owner.resource_names:
        return True
    return bool(right.resource_names) and set(right.resource_names or ()) <= set(owner.resource_names)


def compact(rules: Iterable[access.PolicyRule]) -> list[access.PolicyRule]:
    """Rules of one verb each, joined where they differ in the verb only."""
    joined: dict[tuple[tuple[str, ...], ...], access.PolicyRule] = {}
    for rule in rules:
        parts = (rule.api_groups, rule.resources, rule.resource_names, rule.non_resource_urls)
        key = tuple(tuple(part or ()) for part in parts)
        existing = joined.get(key)
        if existing is None:
            joined[key] = access.PolicyRule(
                verbs=list(rule.verbs or ()),
                api_groups=rule.api_groups,
                resources=rule.resources,
                resource_names=rule.resource_names,
                non_resource_urls=rule.non_resource_urls,
            )
        else:
            existing.verbs = list(dict.fromkeys([*(existing.verbs or ()), *(rule.verbs or ())]))
    return list(joined.values())


def describe(rule: access.PolicyRule) -> str:
    """``{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}``."""
    parts = (
        ("APIGroups", rule.api_groups),
        ("Resources", rule.resources),
        ("NonResourceURLs", rule.non_resource_urls),
        ("ResourceNames", rule.resource_names),
        ("Verbs", rule.verbs),
    )
    return "{" + ", ".join(f"{name}:{quoted(values)}" for name, values in parts if values) + "}"


def quoted(values: Iterable[str]) -> str:
    """``["a" "b"]``."""
    return "[" + " ".join(f'"{value}"' for value in values) + "]"


def _has(given: Sequence[str] | None, wanted: str) -> bool:
    return given is not None and (ALL in given or wanted in given)


def _resource_allowed(rule: access.PolicyRule, action: Action) -> bool:
    wildcard = f"*/{action.subresource}" if action.subresource else ALL
    return any(given in (ALL, action.combined, wildcard) for given in rule.resources or ())


def _resource_covers(owner: access.PolicyRule, resource: str) -> bool:
    if _has(owner.resources, resource):
        return True
    _, slash, subresource = resource.partition("/")
    return bool(slash) and f"*/{subresource}" in (owner.resources or ())


def _url_covers(owned: str, url: str) -> bool:
    return owned in (ALL, url) or (owned.endswith(ALL) and url.startswith(owned[:-1]))


# Which rules an aggregated ClusterRole has (pure).


def aggregated_rules(role: access.ClusterRole, roles: Iterable[access.ClusterRole]) -> list[access.PolicyRule]:
    """Rules of all other roles that one of the role's selectors selects, each once, by name of their role."""
    selectors = (role.aggregation_rule.cluster_role_selectors if role.aggregation_rule else None) or ()
    unique_rules: dict[bytes, access.PolicyRule] = {}
    for other in sorted(roles, key=lambda one: one.metadata.name):
        if other.metadata.name == role.metadata.name:
            continue
        if any(selects(selector, other.metadata.labels) for selector in selectors):
            unique_rules.update((msgspec.json.encode(rule), rule) for rule in other.rules or ())
    return list(unique_rules.values())


# The rules of a user: all bindings by subject, kept until a role or binding changes.

RBAC_KINDS: tuple[Kind[Any], ...] = (ROLES, ROLE_BINDINGS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS)
_SubjectKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Grant:
    """One binding as seen by one of its subjects.

    Attributes:
        namespace: where it holds; None: everywhere.
        rules: of the role.
        missing: the role, when it does not exist.
        why: the binding, the role and the subject, as Kubernetes names them.
    """

    namespace: str | None
    rules: tuple[access.PolicyRule, ...]
    missing: str
    why: str

    def holds_in(self, namespace: str | None) -> bool:
        """Whether it counts for a request about a namespace (None or empty: about the whole cluster)."""
        return self.namespace is None or (bool(namespace) and self.namespace == namespace)


@dataclass(slots=True)
class _Index:
    version: object = None
    grants: dict[_SubjectKey, list[Grant]] = field(default_factory=dict)


class Resolver:
    """Finds grants.

    Args:
        view: roles and bindings.
        version: changes whenever one of them does; asked before every answer.
    """

    def __init__(self, view: View, version: Callable[[], object]) -> None:
        self._view, self._version = view, version
        self._index = _Index(version=object())

    def grants(self, user: User, namespace: str | None) -> Iterator[Grant]:
        """Grants of the user that count for a request about ``namespace``, cluster-wide ones first."""
        index = self._current()
        matching = [grant for key in _keys(user) for grant in index.get(key, ()) if grant.holds_in(namespace)]
        yield from (grant for grant in matching if grant.namespace is None)
        yield from (grant for grant in matching if grant.namespace is not None)

    def rules(self, user: User, namespace: str | None) -> list[access.PolicyRule]:
        """All rules of the user in ``namespace``."""
        return [rule for grant in self.grants(user, namespace) for rule in grant.rules]

    def role_rules(self, ref: access.RoleRef, namespace: str | None) -> tuple[access.PolicyRule, ...] | None:
        """The rules of the role that a binding in ``namespace`` names; None when it does not exist."""
        if ref.kind == "ClusterRole":
            role = self._view.find(CLUSTER_ROLES, ref.name)
            return None if role is None else tuple(role.rules or ())
        local = self._view.find(ROLES, ref.name, namespace)
        return None if local is None else tuple(local.rules or ())

    def _current(self) -> dict[_SubjectKey, list[Grant]]:
        version = self._version()
        if self._index.version != version:
            self._index = _Index(version, self._build())
        return self._index.grants

    def _build(self) -> dict[_SubjectKey, list[Grant]]:
        grants: dict[_SubjectKey, list[Grant]] = {}
        bindings: list[access.ClusterRoleBinding | access.RoleBinding] = [
            *sorted(self._view.all(CLUSTER_ROLE_BINDINGS), key=lambda one: one.metadata.name),
            *sorted(self._view.all(ROLE_BINDINGS), key=lambda one: (one.metadata.namespace or "", one.metadata.name)),
        ]
        for binding in bindings:
            namespace = binding.metadata.namespace if isinstance(binding, access.RoleBinding) else None
            rules = self.role_rules(binding.role_ref, namespace)
            for subject in binding.subjects or ():
                grant = Grant(namespace, rules or (), _missing(binding, rules), _why(binding, subject))
                grants.setdefault(_key(subject, namespace), []).append(grant)
        return grants


def _keys(user: User) -> list[_SubjectKey]:
    return [("User", user.name), *(("Group", group) for group in user.groups)]


def _key(subject: access.Subject, namespace: str | None) -> _SubjectKey:
    if subject.kind == "ServiceAccount":
        return "User", f"{SERVICE_ACCOUNT_PREFIX}{subject.namespace or namespace or ''}:{subject.name}"
    return subject.kind, subject.name


def _missing(
    binding: access.ClusterRoleBinding | access.RoleBinding, rules: tuple[access.PolicyRule, ...] | None
) -> str:
    if rules is not None:
        return ""
    ref = binding.role_ref
    return f'{ref.kind.lower()}.rbac.authorization.k8s.io "{ref.name}" not found'


def _why(binding: access.ClusterRoleBinding | access.RoleBinding, subject: access.Subject) -> str:
    local = isinstance(binding, access.RoleBinding)
    name = f"{binding.metadata.name}/{binding.metadata.namespace}" if local else binding.metadata.name
    who = f"{subject.name}/{subject.namespace}" if subject.kind == "ServiceAccount" else subject.name
    kind = "RoleBinding" if local else "ClusterRoleBinding"
    return f'{kind} "{name}" of {binding.role_ref.kind} "{binding.role_ref.name}" to {subject.kind} "{who}"'


# Authorisation of requests: masters may do everything, all users read health, roles decide the rest.

# Probes and clients that negotiate must get through before any role exists.
PUBLIC_PATHS = frozenset({"/healthz", "/livez", "/readyz", "/version"})


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether, and why (or why not, where there is something to say)."""

    allowed: bool
    reason: str = ""


class Authorizer:
    """Decides by roles and bindings.

    Args:
        view: where they are.
        version: changes whenever one of them does.
    """

    def __init__(self, view: View, version: Callable[[], object]) -> None:
        self.resolver = Resolver(view, version)

    def decide(self, user: User, action: Action) -> Decision:
        """Whether the user may do it."""
        if MASTERS in user.groups:
            return Decision(True)
        if not action.resource and action.verb in {"get", "head"} and (action.path.rstrip("/") or "/") in PUBLIC_PATHS:
            return Decision(True)
        missing: dict[str, None] = {}
        for grant in self.resolver.grants(user, action.namespace):
            if grant.missing:
                missing[grant.missing] = None
            if any(allows(rule, action) for rule in grant.rules):
                return Decision(True, f"RBAC: allowed by {grant.why}")
        if not missing:
            return Decision(False)
        errors = list(missing)
        listed = ", ".join(errors)
        return Decision(False, f"RBAC: {listed}" if len(errors) == 1 else f"RBAC: [{listed}]")

    def require(self, user: User, action: Action) -> None:
        """Let the request pass.

        Raises:
            ApiError: 403, worded as Kubernetes words it.
        """
        decision = self.decide(user, action)
        if not decision.allowed:
            raise refusal(user, action, decision.reason)

    def rules(self, user: User, namespace: str | None) -> list[access.PolicyRule]:
        """Everything that the user may do in a namespace."""
        if MASTERS in user.groups:
            everything = access.PolicyRule(verbs=["*"], api_groups=["*"], resources=["*"])
            return [everything, access.PolicyRule(verbs=["*"], non_resource_urls=["*"])]
        return self.resolver.rules(user, namespace)


def version_of(store: Store) -> Callable[[], object]:
    """A value that changes with every committed change of a role or binding."""
    histories = [store.history(kind.resource) for kind in RBAC_KINDS]
    return lambda: tuple(history.end for history in histories)


def refusal(user: User, action: Action, reason: str = "") -> ApiError:
    """403 for an action, worded as Kubernetes words it."""
    why = f": {reason}" if reason else ""
    if not action.resource:
        return _forbidden(f'forbidden: User "{user.name}" cannot {action.verb} path "{action.path}"{why}', {})
    scope = f'in the namespace "{action.namespace}"' if action.namespace else "at the cluster scope"
    subject = f"{action.resource}{f'.{action.group}' if action.group else ''}"
    if action.name:
        subject += f' "{action.name}"'
    return _forbidden(
        f'{subject} is forbidden: User "{user.name}" cannot {action.verb} resource "{action.combined}" '
        f'in API group "{action.group}" {scope}{why}',
        {"name": action.name, "group": action.group, "kind": action.resource},
    )


def _forbidden(message: str, details: dict[str, str]) -> ApiError:
    kept = {key: value for key, value in details.items() if value}
    return ApiError(message, code=403, reason="Forbidden", details=kept)


# Objects as readers see them: rights must not rest on a change that the disk may still refuse.

T = TypeVar("T", bound=Object)


class Committed:
    """A ``View`` of committed objects."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def find(self, kind: Kind[T], name: str, namespace: str | None = None) -> T | None:
        """One object, or None."""
        entry = self._store.get((kind.resource, (namespace or "") if kind.namespaced else "", name))
        return encoding.read(kind, entry.data) if entry else None

    def all(self, kind: Kind[T], namespace: str | None = None) -> Iterator[T]:
        """All objects, of one namespace or of all."""
        return (encoding.read(kind, entry.data) for entry in self._store.scan(kind.resource, namespace))


TokenUser = Callable[[str, list[str]], tuple[User, tuple[str, ...]] | str]


class Reviews:
    """Answers a review with itself, its status filled in.

    Args:
        authorizer: knows the rights.
        token_user: user and audiences of a bearer token that is for one of the given audiences (none: for this
            server), or what is wrong with it.
    """

    def __init__(self, authorizer: Authorizer, token_user: TokenUser) -> None:
        self._authorizer, self._token_user = authorizer, token_user
        self._answers: dict[type[Object], Callable[[Any, User], None]] = {
            access.SelfSubjectAccessReview: self._self_access,
            access.SubjectAccessReview: self._access,
            access.LocalSubjectAccessReview: self._access,
            access.SelfSubjectRulesReview: self._rules,
            access.SelfSubjectReview: self._identity,
            access.TokenReview: self._token,
        }

    def answer(self, kind: Kind[Any], review: Any, user: User, namespace: str | None, now: str) -> Any:
        """Fill in the status.

        Args:
            kind: of the review.
            review: what was sent.
            user: who asks.
            namespace: of the URL.
            now: RFC 3339.

        Raises:
            Invalid: the question is incomplete or contradicts itself.
            ApiError: 400 for one that cannot be answered.
        """
        if isinstance(review, access.LocalSubjectAccessReview):
            review.metadata.namespace = review.metadata.namespace or namespace
            if review.metadata.namespace != namespace:
                raise bad_request(f"spec.resourceAttributes.namespace must match namespace: {namespace}")
        problems = _problems(review)
        if problems:
            raise invalid(kind, "", problems)
        self._answers[type(review)](review, user)
        if isinstance(review, access.SelfSubjectReview):
            # A real server answers with a review of its own here, and with what was sent elsewhere.
            review.metadata = ObjectMeta(creation_timestamp=now)
        return review

    def _self_access(self, review: access.SelfSubjectAccessReview, user: User) -> None:
        review.status = self._decided(review, user)

    def _access(self, review: access.SubjectAccessReview | access.LocalSubjectAccessReview, _: User) -> None:
        spec = review.spec
        review.status = self._decided(review, User(spec.user or "", tuple(spec.groups or ())))

    def _decided(self, review: Any, user: User) -> access.SubjectAccessReviewStatus:
        decision = self._authorizer.decide(user, _action(review.spec))
        return access.SubjectAccessReviewStatus(allowed=decision.allowed, reason=decision.reason or None)

    def _rules(self, review: access.SelfSubjectRulesReview, user: User) -> None:
        if not review.spec.namespace:
            raise bad_request("no namespace on request")
        rules = self._authorizer.rules(user, review.spec.namespace)
        review.status = access.SubjectRulesReviewStatus(
            resource_rules=[
                access.ResourceRule(
                    verbs=rule.verbs,
                    api_groups=rule.api_groups,
                    resources=rule.resources,
                    resource_names=rule.resource_names,
                )
                for rule in rules
                if rule.resources
            ],
            non_resource_rules=[
                access.NonResourceRule(verbs=rule.verbs, non_resource_urls=rule.non_resource_urls)
                for rule in rules
                if rule.non_resource_urls
            ],
            incomplete=False,
        )
        # A real server answers without the question.
        review.metadata, review.spec = ObjectMeta(), access.SelfSubjectRulesReviewSpec()

    def _identity(self, review: access.SelfSubjectReview, user: User) -> None:
        review.status = access.SelfSubjectReviewStatus(user_info=user_info(user))

    def _token(self, review: access.TokenReview, _: User) -> None:
        token = review.spec.token
        if not token:
            raise bad_request("token is required for TokenReview in authentication")
        outcome = self._token_user(token, review.spec.audiences or [])
        if isinstance(outcome, str):
            review.status.error = outcome
            return
        user, audiences = outcome
        review.status.authenticated, review.status.user = True, user_info(user)
        review.status.audiences = list(audiences)


def user_info(user: User) -> access.UserInfo:
    """A user as reviews show it."""
    extra = {key: list(values) for key, values in user.extra.items()}
    return access.UserInfo(username=user.name, uid=user.uid or None, groups=list(user.groups), extra=extra or None)


def _problems(review: Any) -> list[FieldError]:
    if not isinstance(
        review, access.SelfSubjectAccessReview | access.SubjectAccessReview | access.LocalSubjectAccessReview
    ):
        return []
    spec, errors = review.spec, []
    if spec.resource_attributes is not None and spec.non_resource_attributes is not None:
        detail = "cannot be specified in combination with resourceAttributes"
        errors.append(field_error.invalid("spec.nonResourceAttributes", spec.non_resource_attributes, detail))
    if spec.resource_attributes is None and spec.non_resource_attributes is None:
        detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        errors.append(field_error.invalid("spec.resourceAttributes", None, detail))
    named = isinstance(review, access.SelfSubjectAccessReview) or review.spec.user or review.spec.groups
    if not named:
        detail = "at least one of user or group must be specified"
        errors.append(field_error.invalid("spec.user", "", detail))
    if isinstance(review, access.LocalSubjectAccessReview):
        errors += _local_problems(review)
    return errors


def _local_problems(review: access.LocalSubjectAccessReview) -> list[FieldError]:
    spec, errors = review.spec, []
    if spec.resource_attributes is not None and spec.resource_attributes.namespace != review.metadata.namespace:
        where = spec.resource_attributes.namespace or ""
        path, detail = "spec.resourceAttributes.namespace", "must match metadata.namespace"
        errors.append(field_error.invalid(path, where, detail))
    if spec.non_resource_attributes is not None:
        detail = "disallowed on this kind of request"
        errors.append(field_error.invalid("spec.nonResourceAttributes", spec.non_resource_attributes, detail))
    return errors


def _action(spec: Any) -> Action:
    resource: access.ResourceAttributes | None = spec.resource_attributes
    if resource is not None:
        return Action(
            resource.verb or "",
            group=resource.group or "",
            resource=resource.resource or "",
            subresource=resource.subresource or "",
            namespace=resource.namespace or None,
            name=resource.name or "",
        )
    path: access.NonResourceAttributes = spec.non_resource_attributes or access.NonResourceAttributes()
    return Action(path.verb or "", path=path.path or "")
