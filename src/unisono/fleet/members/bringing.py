"""Objects of the hub, brought to a member for the first time."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import Any

from unisono.api.base import Object, ObjectMeta
from unisono.api.core import Namespace
from unisono.api.kind import Kind
from unisono.api.kinds import NAMESPACES
from unisono.errors import AlreadyExists, ApiError, Invalid, NotFound
from unisono.kube.client import Client


async def bring(client: Client, kind: Kind[Any], copied: Object) -> None:
    """Make an object in a member, and its namespace where there is none.

    Raises:
        AlreadyExists: something has its name.
        Invalid: the member's API has no such kind.

    """
    namespace = copied.metadata.namespace or ""
    try:
        await client.create(kind, copied)
        return
    except NotFound:
        with suppress(AlreadyExists):
            await client.create(NAMESPACES, Namespace(metadata=ObjectMeta(name=namespace)))
    try:
        await client.create(kind, copied)
    except NotFound:
        raise Invalid(f"its API has no {kind.resource}") from None


async def namesake(client: Client, kind: Kind[Any], copied: Object, marks: Collection[str]) -> bool:
    """Whether another's object has the name of a copy: not our copy that the watch does not show yet.

    Args:
        client: of the member.
        kind: of the copy.
        copied: what was to be made.
        marks: labels by which a copy is recognised.

    """
    meta = copied.metadata
    found = await client.get(kind, meta.name, meta.namespace)
    labels, own = found.metadata.labels or {}, meta.labels or {}
    return any(labels.get(key) != own[key] for key in marks if key in own)


def name_taken(member: str, kind: Kind[Any]) -> str:
    """What is told of a `namesake`."""
    return f"member {member} has another {kind.kind} of this name; delete it there or rename this one"


def is_refusal(error: ApiError) -> bool:
    """Whether the same request will be refused again."""
    return error.code < 500 and error.code != 429
