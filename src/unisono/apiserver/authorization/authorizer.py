"""Who may do what: the rules of a user by all bindings, and the answer to one request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from unisono.api.base import Object
from unisono.api.groups.access import ClusterRoleBinding, PolicyRule, RoleBinding, RoleRef, Subject
from unisono.api.keys import MASTERS
from unisono.api.kind import Kind
from unisono.api.kinds import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from unisono.api.users import SERVICE_ACCOUNT_PREFIX
from unisono.apiserver.access.user import User
from unisono.apiserver.admission.request import View
from unisono.apiserver.authorization.rules import Action, allows
from unisono.apiserver.encoding import codec
from unisono.apiserver.storage.store import Store
from unisono.errors import ApiError

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
    rules: tuple[PolicyRule, ...]
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
        found = [grant for key in _keys(user) for grant in index.get(key, ()) if grant.holds_in(namespace)]
        yield from (grant for grant in found if grant.namespace is None)
        yield from (grant for grant in found if grant.namespace is not None)

    def rules(self, user: User, namespace: str | None) -> list[PolicyRule]:
        """All rules of the user in ``namespace``."""
        return [rule for grant in self.grants(user, namespace) for rule in grant.rules]

    def role_rules(self, ref: RoleRef, namespace: str | None) -> tuple[PolicyRule, ...] | None:
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
        bindings: list[ClusterRoleBinding | RoleBinding] = [
            *sorted(self._view.all(CLUSTER_ROLE_BINDINGS), key=lambda one: one.metadata.name),
            *sorted(self._view.all(ROLE_BINDINGS), key=lambda one: (one.metadata.namespace or "", one.metadata.name)),
        ]
        for binding in bindings:
            namespace = binding.metadata.namespace if isinstance(binding, RoleBinding) else None
            rules = self.role_rules(binding.role_ref, namespace)
            for subject in binding.subjects or ():
                grant = Grant(namespace, rules or (), _missing(binding, rules), _why(binding, subject))
                grants.setdefault(_key(subject, namespace), []).append(grant)
        return grants


def _keys(user: User) -> list[_SubjectKey]:
    return [("User", user.name), *(("Group", group) for group in user.groups)]


def _key(subject: Subject, namespace: str | None) -> _SubjectKey:
    if subject.kind == "ServiceAccount":
        return "User", f"{SERVICE_ACCOUNT_PREFIX}{subject.namespace or namespace or ''}:{subject.name}"
    return subject.kind, subject.name


def _missing(binding: ClusterRoleBinding | RoleBinding, rules: tuple[PolicyRule, ...] | None) -> str:
    if rules is not None:
        return ""
    ref = binding.role_ref
    return f'{ref.kind.lower()}.rbac.authorization.k8s.io "{ref.name}" not found'


def _why(binding: ClusterRoleBinding | RoleBinding, subject: Subject) -> str:
    local = isinstance(binding, RoleBinding)
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
        if not action.resource and action.verb in {"get", "head"} and _plain(action.path) in PUBLIC_PATHS:
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

    def rules(self, user: User, namespace: str | None) -> list[PolicyRule]:
        """Everything that the user may do in a namespace."""
        if MASTERS in user.groups:
            everything = PolicyRule(verbs=["*"], api_groups=["*"], resources=["*"])
            return [everything, PolicyRule(verbs=["*"], non_resource_urls=["*"])]
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


def _plain(path: str) -> str:
    return path.rstrip("/") or "/"


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
        return codec.read(kind, entry.data) if entry else None

    def all(self, kind: Kind[T], namespace: str | None = None) -> Iterator[T]:
        """All objects, of one namespace or of all."""
        return (codec.read(kind, entry.data) for entry in self._store.scan(kind.resource, namespace))
