"""What queues deserve in a session, told by the plug-in that divides the cluster to those that should know."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from unisono.cluster.resources import Vector
from unisono.engine.plugins.amounts import Amounts

if TYPE_CHECKING:
    from unisono.engine.session import QueueState, Session

Room = Callable[["QueueState"], Vector | None]
# Names in the session's shared books: what is published refers to the session, and must end with it.
_ROOM, _SHARES = "room of queues", "shares of queues"


def publish(session: Session, room: Room) -> None:
    """Say how to find what a queue may still place in this session: ``[R]``, or None where it is not limited."""
    session.shared[_ROOM] = room


def room_of(session: Session, queue: QueueState) -> Vector | None:
    """``[R]`` what the queue may still place, None when nobody divides the cluster."""
    room: Room | None = session.shared.get(_ROOM)
    return None if room is None else room(queue)


def publish_shares(session: Session, shares: Mapping[str, Amounts]) -> None:
    """Say what each queue deserves by weight."""
    session.shared[_SHARES] = shares


def shares_of(session: Session) -> Mapping[str, Amounts]:
    """What queues deserve by weight, by name; empty where nobody has divided the cluster so."""
    shares: Mapping[str, Amounts] = session.shared.get(_SHARES, {})
    return shares
