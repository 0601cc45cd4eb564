"""Accounts: on whose behalf a job runs, and what annotations of a Queue say of accounts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from unisono.api import selecting
from unisono.api.annotations import SERVICE_ACCOUNTS

USERS: Final = "user"
NAMESPACES: Final = "namespace"
KINDS: Final = (USERS, NAMESPACES)


def account_of(job: Any, by: str = USERS) -> str:
    """The user who submitted a job (a record or a state), or its namespace if that is meant or no user is known.

    The service accounts of a namespace are one account, ``system:serviceaccounts:NAMESPACE``, as for the API server. A
    user's name is not a namespace's: names of namespaces that stand for users end in a slash.
    """
    record = getattr(job, "record", job)
    namespace: str = record.namespace
    if by == NAMESPACES:
        return namespace
    return selecting.account_of(namespace, record.annotations)


def who(account: str) -> str:
    """The account in words."""
    if account.endswith("/"):
        return f"namespace {account[:-1]}"
    group, _, namespace = account.rpartition(":")
    return f"the service accounts of namespace {namespace}" if group == SERVICE_ACCOUNTS else f"user {account}"


def numbers_of(annotations: Mapping[str, str], key: str) -> dict[str, float]:
    """``team-a=2,team-b=1`` as numbers by name; what cannot be read is left out, for admission has refused it."""
    found: dict[str, float] = {}
    for part in annotations.get(key, "").split(","):
        name, _, value = part.strip().rpartition("=")
        try:
            number = float(value)
        except ValueError:
            continue
        if name and 0 < number < float("inf"):
            found[name.strip()] = number
    return found
