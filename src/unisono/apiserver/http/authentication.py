"""Who is asking: by certificate, by token, or impersonated by somebody who may."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from multidict import CIMultiDictProxy

from unisono.api.annotations import split_service_account
from unisono.apiserver.access.service_accounts import API_AUDIENCES, ServiceAccountTokens, TokenError
from unisono.apiserver.access.user import ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User, service_account_groups
from unisono.apiserver.authorization.authorizer import Action, Authorizer
from unisono.apiserver.failures import bad_request
from unisono.apiserver.http.status import unauthorized

# Who is asking: authentication by certificate, by a fixed token, or by a service account's token.


class Authenticator:
    """Finds the user of a request.

    Args:
        tokens: bearer token to user. Only digests are kept, so that no lookup time depends on a token's text.
        accounts: reads the tokens of service accounts; None where there are none.
    """

    def __init__(self, tokens: Mapping[str, User], accounts: ServiceAccountTokens | None = None) -> None:
        self._users = {_digest(token): user for token, user in tokens.items()}
        self._accounts = accounts

    def authenticate(self, authorization: str | None, certificate: Mapping[str, Any] | None) -> User:
        """The user behind an ``Authorization`` header or a verified peer certificate; certificates win.

        Raises:
            ApiError: 401 when credentials are given that are not known.
        """
        user = _certificate_user(certificate) if certificate else None
        if user is not None:
            return user
        if not authorization:
            return ANONYMOUS
        scheme, _, token = authorization.partition(" ")
        result = self.token_user(token.strip()) if scheme.lower() == "bearer" else ""
        if isinstance(result, str):
            raise unauthorized()
        return result[0]

    def token_user(self, token: str, audiences: Sequence[str] = ()) -> tuple[User, tuple[str, ...]] | str:
        """Whose a bearer token is and for which audiences, or what is wrong with it.

        Args:
            token: as the client sent it.
            audiences: for one of which it must be; none: for this server.
        """
        requested = tuple(audiences) or API_AUDIENCES
        fixed_user = self._users.get(_digest(token))
        if fixed_user is not None:
            # Fixed tokens are for this server alone.
            served = tuple(one for one in requested if one in API_AUDIENCES)
            return (fixed_user, served) if served else "the token is not for any of the audiences"
        if self._accounts is None or not self._accounts.signer.issued(token):
            return "the token is unknown"
        try:
            return self._accounts.user(token, requested)
        except TokenError as error:
            return str(error)


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


# Impersonation: ``Impersonate-User``, ``-Group``, ``-Uid`` and ``-Extra-<key>`` (``kubectl --as``).

_USER, _GROUP, _UID, _EXTRA = "Impersonate-User", "Impersonate-Group", "Impersonate-Uid", "impersonate-extra-"
_GROUP_OF_FACTS = "authentication.k8s.io"


def effective_user(user: User, headers: CIMultiDictProxy[str], authorizer: Authorizer) -> User:
    """The user that a request acts as: its own, or the one that its headers name.

    Raises:
        ApiError: 403 when the user may not act as that one, 400 when the headers name groups but no user.
    """
    name, groups = headers.get(_USER, ""), tuple(headers.getall(_GROUP, ()))
    uid, extra = headers.get(_UID, ""), _extra(headers)
    if not name:
        if groups or uid or extra:
            raise bad_request(f"requested {list(groups)} without impersonating a user: send {_USER}, too")
        return user
    account = split_service_account(name)
    if account is not None:
        _require(authorizer, user, "serviceaccounts", account[1], namespace=account[0])
    else:
        _require(authorizer, user, "users", name)
    for group in groups:
        _require(authorizer, user, "groups", group)
    if uid:
        _require(authorizer, user, "uids", uid, group=_GROUP_OF_FACTS)
    for key, values in extra.items():
        for value in values:
            _require(authorizer, user, "userextras", value, group=_GROUP_OF_FACTS, subresource=key)
    if account is not None and not groups:
        groups = service_account_groups(account[0])
    if name != ANONYMOUS.name and not {AUTHENTICATED, UNAUTHENTICATED} & set(groups):
        groups = (*groups, AUTHENTICATED)
    elif name == ANONYMOUS.name and UNAUTHENTICATED not in groups:
        groups = (*groups, UNAUTHENTICATED)
    return User(name, groups, uid, extra)


def _extra(headers: CIMultiDictProxy[str]) -> dict[str, tuple[str, ...]]:
    extra: dict[str, tuple[str, ...]] = {}
    for header, value in headers.items():
        if header.lower().startswith(_EXTRA):
            key = unquote(header[len(_EXTRA) :].lower())
            extra[key] = (*extra.get(key, ()), value)
    return extra


def _require(
    authorizer: Authorizer,
    user: User,
    resource: str,
    name: str,
    *,
    group: str = "",
    subresource: str = "",
    namespace: str | None = None,
) -> None:
    action = Action(
        "impersonate", group=group, resource=resource, subresource=subresource, namespace=namespace, name=name
    )
    authorizer.require(user, action)
