"""Impersonation: ``Impersonate-User``, ``-Group``, ``-Uid`` and ``-Extra-<key>`` (``kubectl --as``)."""

from __future__ import annotations

from urllib.parse import unquote

from multidict import CIMultiDictProxy

from unisono.api.users import split_service_account
from unisono.apiserver.access.user import ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User, service_account_groups
from unisono.apiserver.authorization.authorizer import Authorizer
from unisono.apiserver.authorization.rules import Action
from unisono.apiserver.http.status import bad_request

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
    found: dict[str, tuple[str, ...]] = {}
    for header, value in headers.items():
        if header.lower().startswith(_EXTRA):
            key = unquote(header[len(_EXTRA) :].lower())
            found[key] = (*found.get(key, ()), value)
    return found


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
