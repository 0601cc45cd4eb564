"""What annotations of nodes, pods and jobs say to plug-ins: values, and on whose behalf a job runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from unisono.api import selecting
from unisono.api.annotations import SERVICE_ACCOUNTS
from unisono.api.node_usage import NodeUsage, usage_in

if TYPE_CHECKING:
    from unisono.engine.session.session import Session

# What annotations of nodes and pods say to plugins: values as JSON, and the measured load of a node.


# JSON that users write into annotations.


def decoded(text: str) -> Any:
    """The value of a JSON text; ValueError for every text that has none, too deep a nesting included."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None


# The measured load of a node, as plug-ins look at it.

FRESH_SECONDS = 300.0
"""Older values are not looked at."""


def measured(session: Session, column: int) -> NodeUsage | None:
    """The later of what a source of metrics and the node's annotations say; None when that is stale or missing."""
    facts = session.snapshot.nodes.facts[column]
    usages = [session.snapshot.node_usage.get(facts.name), usage_in(facts.annotations)]
    latest = max((usage for usage in usages if usage is not None), key=lambda usage: usage.time, default=None)
    return latest if latest is not None and session.now - latest.time <= FRESH_SECONDS else None


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
    """``team-a=2,team-b=1`` as numbers by name; what cannot be read is left out; its writer was told."""
    numbers: dict[str, float] = {}
    for part in annotations.get(key, "").split(","):
        name, _, value = part.strip().rpartition("=")
        try:
            number = float(value)
        except ValueError:
            continue
        if name and 0 < number < float("inf"):
            numbers[name.strip()] = number
    return numbers
