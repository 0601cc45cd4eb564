"""Who is asking: users, the groups that the system knows, and the names of service accounts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from unisono.api.annotations import SERVICE_ACCOUNT_PREFIX, SERVICE_ACCOUNTS
from unisono.api.groups import access as identity
from unisono.api.groups import access as rights
from unisono.api.keys import MASTERS
from unisono.api.kind import Kind, served

# Kinds that are answered at once and never stored: reviews of rights and identities, and requests for tokens.

_AUTHORIZATION, _AUTHENTICATION = "authorization.k8s.io", "authentication.k8s.io"

TOKEN_REQUESTS = served(_AUTHENTICATION, "v1", identity.TokenRequest)
TOKEN_REVIEWS = served(_AUTHENTICATION, "v1", identity.TokenReview, namespaced=False)
SELF_SUBJECT_REVIEWS = served(_AUTHENTICATION, "v1", identity.SelfSubjectReview, namespaced=False)
LOCAL_SUBJECT_ACCESS_REVIEWS = served(_AUTHORIZATION, "v1", rights.LocalSubjectAccessReview)
SELF_SUBJECT_ACCESS_REVIEWS = served(_AUTHORIZATION, "v1", rights.SelfSubjectAccessReview, namespaced=False)
SELF_SUBJECT_RULES_REVIEWS = served(_AUTHORIZATION, "v1", rights.SelfSubjectRulesReview, namespaced=False)
SUBJECT_ACCESS_REVIEWS = served(_AUTHORIZATION, "v1", rights.SubjectAccessReview, namespaced=False)
REVIEW_KINDS: tuple[Kind[Any], ...] = (
    TOKEN_REVIEWS,
    SELF_SUBJECT_REVIEWS,
    LOCAL_SUBJECT_ACCESS_REVIEWS,
    SELF_SUBJECT_ACCESS_REVIEWS,
    SELF_SUBJECT_RULES_REVIEWS,
    SUBJECT_ACCESS_REVIEWS,
)

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
