"""Copies of the hub's objects, deleted in members."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import structlog

from unisono.errors import ApiError, Conflict, NotFound
from unisono.fleet.jobs.copies import Copy
from unisono.fleet.members.bringing import is_refusal
from unisono.fleet.members.member import Busy, Member

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
