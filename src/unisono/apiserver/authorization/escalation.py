"""Users grant no more than they have: roles and bindings are checked against the rights of their author."""

from __future__ import annotations

from collections.abc import Iterable

from unisono.api.keys import MASTERS
from unisono.api.kind import Kind
from unisono.api.kinds import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from unisono.api.rbac import ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding
from unisono.apiserver.access.user import User
from unisono.apiserver.admission.request import Request, Rule, View
from unisono.apiserver.authorization.authorizer import Authorizer
from unisono.apiserver.authorization.rules import Action, compact, describe, quoted, uncovered
from unisono.apiserver.failures import forbidden, not_found

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
        kind: Kind[Role] | Kind[ClusterRole] = CLUSTER_ROLES if ref.kind == "ClusterRole" else ROLES
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
        ROLES.resource: (escalation.check_role,),
        CLUSTER_ROLES.resource: (escalation.check_role,),
        ROLE_BINDINGS.resource: (escalation.check_binding,),
        CLUSTER_ROLE_BINDINGS.resource: (escalation.check_binding,),
    }
