"""Who is asking: users, the groups that the system knows, and the names of service accounts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from unisono.api.keys import MASTERS
from unisono.api.users import SERVICE_ACCOUNT_PREFIX, SERVICE_ACCOUNTS

AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"


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
