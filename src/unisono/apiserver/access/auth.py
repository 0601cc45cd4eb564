"""Who is asking, and may they: authentication by certificate or token, authorisation in Kubernetes' words."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from unisono.apiserver.http.status import unauthorized
from unisono.errors import ApiError

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
PUBLIC_PATHS = frozenset({"/healthz", "/livez", "/readyz", "/version"})
_DISCOVERY_ROOTS = frozenset({"api", "apis", "openapi"})


@dataclass(frozen=True, slots=True)
class User:
    """An authenticated, or the anonymous, user."""

    name: str
    groups: tuple[str, ...] = ()


ANONYMOUS = User("system:anonymous", (UNAUTHENTICATED,))
ADMIN = User("unisono-admin", (MASTERS, AUTHENTICATED))


class Authenticator:
    """Finds the user of a request.

    Args:
        tokens: bearer token to user. Only digests are kept, so that no lookup time depends on a token's text.

    """

    def __init__(self, tokens: Mapping[str, User]) -> None:
        self._users = {_digest(token): user for token, user in tokens.items()}

    def authenticate(self, authorization: str | None, certificate: Mapping[str, Any] | None) -> User:
        """The user behind an ``Authorization`` header or a verified peer certificate; certificates win.

        Raises:
            ApiError: 401 when credentials are given that nobody knows.

        """
        user = _certificate_user(certificate) if certificate else None
        if user is not None:
            return user
        if not authorization:
            return ANONYMOUS
        scheme, _, token = authorization.partition(" ")
        known = self._users.get(_digest(token.strip())) if scheme.lower() == "bearer" else None
        if known is None:
            raise unauthorized()
        return known


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _certificate_user(certificate: Mapping[str, Any]) -> User | None:
    name, groups = "", []
    for part in certificate.get("subject", ()):
        for key, value in part:
            if key == "commonName":
                name = value
            elif key == "organizationName":
                groups.append(value)
    return User(name, (*groups, AUTHENTICATED)) if name else None


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


def authorize(user: User, action: Action) -> None:
    """Let masters do everything, the others read health, version and, when authenticated, discovery.

    Raises:
        ApiError: 403, worded as Kubernetes words it.

    """
    if MASTERS in user.groups:
        return
    if not action.resource:
        _authorize_path(user, action)
        return
    resource = f"{action.resource}/{action.subresource}" if action.subresource else action.resource
    scope = f'in the namespace "{action.namespace}"' if action.namespace else "at the cluster scope"
    subject = f"{action.resource}{f'.{action.group}' if action.group else ''}"
    if action.name:
        subject += f' "{action.name}"'
    raise _forbidden(
        f'{subject} is forbidden: User "{user.name}" cannot {action.verb} resource "{resource}" '
        f'in API group "{action.group}" {scope}',
        {"name": action.name, "group": action.group, "kind": action.resource},
    )


def _authorize_path(user: User, action: Action) -> None:
    path = action.path.rstrip("/") or "/"
    if action.verb in {"get", "head"}:
        if path in PUBLIC_PATHS:
            return
        if AUTHENTICATED in user.groups and path.split("/")[1] in _DISCOVERY_ROOTS:
            return
    raise _forbidden(f'forbidden: User "{user.name}" cannot {action.verb} path "{action.path}"', {})


def _forbidden(message: str, details: dict[str, str]) -> ApiError:
    kept = {key: value for key, value in details.items() if value}
    return ApiError(message, code=403, reason="Forbidden", details=kept)
