"""Nobody grants or has a controller do more than he may do himself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from unisono.api.base import Object, OwnerReference
from unisono.api.commands import target_of
from unisono.api.groups.access import ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding
from unisono.api.groups.batch import Command
from unisono.api.keys import MASTERS
from unisono.api.kind import Kind
from unisono.api.kinds import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, QUEUES, ROLE_BINDINGS, ROLES, SECRETS, find
from unisono.api.policies.rule import VERBS
from unisono.api.queues import USE
from unisono.apiserver.access.user import User
from unisono.apiserver.admission.request import Request, Rule, View
from unisono.apiserver.authorization.authorizer import Action, Authorizer, compact, describe, quoted, uncovered
from unisono.apiserver.failures import forbidden, not_found

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
        found, old = target_of(command), request.old
        if found is None or (old is not None and (old.target, old.action) == (command.target, command.action)):
            return
        kind, key = found
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
        if not self._may(user, ("get",), SECRETS, request.namespace, ""):
            cannot = f'User "{user.name}" cannot get {SECRETS.resource} in the namespace "{request.namespace}"'
            why = f"{cannot}, and an Application acts with the kubeconfigs of its namespace"
            raise forbidden(request.kind, request.name, why)

    def may_use(self, request: Request, queue: str) -> bool:
        """Whether roles give the user of a request the verb ``use`` on a queue."""
        user = judged(request)
        return user is None or self._may(user, (USE,), QUEUES, None, queue)

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
            kind = find(reference.api_version, reference.kind)
            if kind is None or kind.namespaced or reference.uid in before:
                continue
            for name in ("", reference.name):
                known = (kind.resource, name)
                if known not in allowed:
                    allowed[known] = self._may_block(user, kind, name)
                if allowed[known]:
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
