"""Authorisation of requests: masters may do everything, all users read health, roles decide the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from unisono.api.keys import MASTERS
from unisono.api.rbac import PolicyRule
from unisono.apiserver.access.user import User
from unisono.apiserver.admission.request import View
from unisono.apiserver.authorization.resolver import RBAC_KINDS, Resolver
from unisono.apiserver.authorization.rules import Action, allows
from unisono.apiserver.storage.store import Store
from unisono.errors import ApiError

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
