"""Who is asking: users, the groups that the system knows, and the names of service accounts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from unisono.api.keys import MASTERS

AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
SERVICE_ACCOUNTS = "system:serviceaccounts"
SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class User:
    """An authenticated, or the anonymous, user.

    Attributes:
        name: what bindings name.
        groups: what bindings name, too.
        uid: of a service account.
        extra: further facts from the credentials.

    """

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)


ANONYMOUS = User("system:anonymous", (UNAUTHENTICATED,))
ADMIN = User("unisono-admin", (MASTERS, AUTHENTICATED))


def service_account_groups(namespace: str) -> tuple[str, ...]:
    """Groups of every service account of a namespace."""
    return SERVICE_ACCOUNTS, f"{SERVICE_ACCOUNTS}:{namespace}"


def service_account_name(namespace: str, name: str) -> str:
    """The user name of a service account."""
    return f"{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}"


def tenant(user: str) -> str:
    """Whose share of the server a user takes: of a service account its namespace's, of others their own.

    Who may write in a namespace makes as many accounts there as they like, and acts as each of them.
    """
    account = split_service_account(user)
    return user if account is None else f"{SERVICE_ACCOUNTS}:{account[0]}"


def split_service_account(user: str) -> tuple[str, str] | None:
    """Namespace and name of a service account's user name; None for other users."""
    if not user.startswith(SERVICE_ACCOUNT_PREFIX):
        return None
    namespace, colon, name = user.removeprefix(SERVICE_ACCOUNT_PREFIX).partition(":")
    return (namespace, name) if colon and namespace and name else None
