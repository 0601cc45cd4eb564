"""Objects of the hub in members: brought for the first time, and taken away."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from typing import Any, Final

import structlog

from unisono.api.base import Object, ObjectMeta
from unisono.api.core import Namespace
from unisono.api.kind import Kind
from unisono.api.kinds import NAMESPACES
from unisono.errors import AlreadyExists, ApiError, Conflict, Invalid, NotFound
from unisono.fleet.jobs.copies import Copy
from unisono.fleet.members.member import Busy, Member
from unisono.kube.client import Client

# Objects of the hub, brought to a member for the first time.


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


# Copies of the hub's objects, deleted in members.

_BUSY_SECONDS: Final = 1.0
_KEPT_SECONDS: Final = 30.0
"""A copy that its member refuses to delete is tried again after so long."""

_log = structlog.get_logger(__name__)


async def remove_copies(
    copies: Iterable[Copy], members: Callable[[str], Member | None], again: Callable[[str, float], None]
) -> None:
    """Delete copies; one that its member keeps does not stand in the way of the others.

    Args:
        copies: those to delete; copies of members without a connection are left.
        members: the connection to a member.
        again: looks at a key (``namespace/name``) once more after some seconds.

    Raises:
        ApiError: a member did not answer, or not as it should.

    """
    for copy in copies:
        member = members(copy.cluster)
        if member is None:
            continue
        key = f"{copy.namespace}/{copy.name}"
        try:
            async with member.writing() as client:
                await client.delete(copy.kind, copy.name, copy.namespace, uid=copy.uid, propagation="Background")
        except (NotFound, Conflict):
            continue  # it is gone, or another has its name
        except Busy:
            again(key, _BUSY_SECONDS)
        except ApiError as error:
            if not is_refusal(error):
                raise
            _log.warning("copy.kept", member=copy.cluster, copy=key, error=str(error))
            again(key, _KEPT_SECONDS)
