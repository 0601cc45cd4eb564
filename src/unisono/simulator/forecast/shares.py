"""How much more each queue may start, and which queue comes first, while jobs of a forecast come, start and end."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from unisono.api.selecting import lineage
from unisono.cluster.resources import PODS, Vector, fitted
from unisono.engine.config.arguments import argument_value
from unisono.engine.config.model import DESERVED, SchedulerConfig
from unisono.engine.plugins.capacity.tree import ROOT, Branches
from unisono.engine.plugins.proportion.division import divide
from unisono.engine.plugins.proportion.plugin import FIRST_GANG
from unisono.engine.session.floating import floating_limits
from unisono.engine.session.limit import UNLIMITED, Amounts, by_row, dominant_share
from unisono.engine.session.session import Session

_PARTS = 25
"""The cluster is divided anew about so often in a future: the division costs more than all else at an event."""


class Bounds:
    """What queues may hold and deserve, as the configuration divides the cluster; the same for all futures.

    ``capability`` of a queue and of those above it always holds. With ``proportion`` a queue holds what it deserves at
    most; with ``capacity`` what its ancestors leave to it, and what it deserves is its place in the order.

    Args:
        session: of the cluster as it is.
        config: of the scheduler.
        more: queues of jobs that may come.

    Attributes:
        queues: names, by number.
        limits: ``[L, R]`` most that a family of queues holds together.
        member: ``[L, Q]`` whether a queue is of that family.
        held: ``[Q, R]`` what queues hold now.
    """

    def __init__(self, session: Session, config: SchedulerConfig, more: Iterable[str]) -> None:
        self._session, self.rows = session, session.rows
        self.queues = sorted({name for name, queue in session.queues.items() if queue.job_count or name in {*more}})
        self.number = {name: at for at, name in enumerate(self.queues)}
        plugins = {one.name: one for one in config.plugins}
        self.proportional = "proportion" in plugins
        arguments = plugins["proportion"].arguments if self.proportional else {}
        self._first = self.proportional and bool(argument_value(FIRST_GANG, arguments))
        self._stated = self.proportional and bool(argument_value(DESERVED, arguments))
        self.exceeds = self.proportional
        self.ordered = self.proportional or "capacity" in plugins
        records = {name: queue.record for name, queue in session.queues.items()}
        parents = {name: record.parent for name, record in records.items()}
        above = {name: lineage(name, parents) for name in self.queues}
        stated = {name: by_row(one.capability, session.registry, UNLIMITED) for name, one in records.items()}
        self.deserved: dict[str, Amounts] = {}
        if "capacity" in plugins and not self.proportional:
            tree = bool(plugins["capacity"].flags.hierarchy)
            branches = Branches(session, hierarchical=tree)
            self.deserved = {name: branches[name].deserved for name in self.queues}
            stated = {name: branches[name].ceiling for name in branches if not branches[name].fault}
            above = {name: [each.name for each in branches[name].chain()] for name in self.queues}
            above = {name: [*chain, ROOT] if tree and ROOT not in chain else chain for name, chain in above.items()}
        kept = [name for name, amounts in stated.items() if min(amounts) < UNLIMITED]
        self.limits = np.array([stated[name] for name in kept], dtype=np.int64).reshape(len(kept), self.rows)
        self.member = np.array([[name in above[queue] for queue in self.queues] for name in kept], dtype=np.bool_)
        self.member = self.member.reshape(len(kept), len(self.queues))
        self.shut = np.array([not session.queues[name].open for name in self.queues], dtype=np.bool_)
        self.strict = [records[name].fifo for name in self.queues]
        self.priority = [records[name].priority for name in self.queues]
        self.created = [records[name].created for name in self.queues]
        vectors = [fitted(session.queues[name].record.allocated, self.rows) for name in self.queues]
        self.held = np.array(vectors, dtype=np.int64).reshape(len(self.queues), self.rows)
        if session.registry.floating:
            self._limit_floating(session)

    def _limit_floating(self, session: Session) -> None:
        """What there is of floating resources, less what is held outside of these queues, is for all queues."""
        most, held = np.full((1, self.rows), UNLIMITED, dtype=np.int64), self.held.sum(axis=0)
        for limit in floating_limits(session.snapshot, session.now, session.queues):
            others = int(limit.held[limit.row]) - int(held[limit.row])
            most[0, limit.row] = max(limit.most[limit.row] - max(others, 0), 0)
        self.limits = np.vstack((self.limits, most))
        self.member = np.vstack((self.member, np.ones((1, len(self.queues)), dtype=np.bool_)))

    def divided(self, asked: Vector) -> tuple[Vector, Vector, Vector]:
        """``[Q, R]`` each: what queues deserve, hold with a gang that goes beyond it, and with their first gang.

        Args:
            asked: ``[Q, R]`` what they hold and ask for.
        """
        amounts = {name: asked[at].tolist() for at, name in enumerate(self.queues)}
        shares = divide(self._session, deserved=self._stated, asked=amounts)
        first = shares.real_capability if self._first else shares.undivided
        vectors = [
            np.array([side[name] for name in self.queues], dtype=np.int64).reshape(len(self.queues), self.rows)
            for side in (shares.deserved, shares.undivided, first)
        ]
        for each in vectors:
            each[:, PODS] = UNLIMITED
        return vectors[0], vectors[1], vectors[2]


class Shares:
    """What queues hold in one future, and so what they may still start.

    Args:
        bounds: see there.
        asked: ``[Q, R]`` what jobs ask for that wait.
        jobs: how many there are in all.
    """

    def __init__(self, bounds: Bounds, asked: Vector, jobs: int) -> None:
        self._bounds = bounds
        self.held = bounds.held.copy()
        self._asked = asked.copy()
        self._every, self._moves = -(-jobs // _PARTS), jobs
        self._most: tuple[Vector, Vector, Vector] | None = None
        self._room: dict[bool, Vector] = {}
        self._family = bounds.member.astype(np.int64) @ self.held

    def come(self, queue: int, amounts: Vector) -> None:
        """A job of the queue waits."""
        self._asked[queue] += amounts
        self._moves += 1

    def start(self, queue: int, asked: Vector, amounts: Vector) -> None:
        """A job that asked for something holds this now."""
        self._asked[queue] -= asked
        self._hold(queue, amounts)

    def end(self, queue: int, amounts: Vector) -> None:
        """It has ended."""
        self._hold(queue, -amounts)
        self._moves += 1

    def _hold(self, queue: int, amounts: Vector) -> None:
        self.held[queue] += amounts
        self._room.clear()
        if len(self._family):
            self._family[self._bounds.member[:, queue]] += amounts

    def look(self, *, last: bool) -> None:
        """Divide the cluster anew where enough has come or ended since, or for the ``last`` time."""
        if self._bounds.proportional and (self._moves >= self._every or last):
            self._most = self._bounds.divided(self.held + self._asked)
            self._moves = 0
            self._room.clear()

    def room(self, *, beyond: bool = False) -> Vector:
        """``[Q, R]`` what each queue may still start; with ``beyond``, by a gang that may go over the queue's share."""
        bounds, cached = self._bounds, self._room.get(beyond)
        if cached is not None:
            return cached
        room = np.full(self.held.shape, UNLIMITED, dtype=np.int64)
        if self._most is not None:
            most = self._most[0]
            if beyond:
                busy = np.delete(self.held, PODS, axis=1) != 0
                idle = np.logical_not(busy.any(axis=1, keepdims=True))
                most = np.where(idle, self._most[2], self._most[1])
            room = most - self.held
        if len(bounds.limits):
            left = np.where(bounds.member[:, :, None], (bounds.limits - self._family)[:, None, :], UNLIMITED)
            room = np.minimum(room, left.min(axis=0))
        room[bounds.shut] = -1
        self._room[beyond] = room
        return room

    def key(self, queue: int) -> tuple[int, float, float, str]:
        """Place of a queue in the order, lowest first."""
        bounds, name = self._bounds, self._bounds.queues[queue]
        if not bounds.ordered:
            return 0, 0.0, bounds.created[queue], name
        if self._most is not None:
            deserved: Amounts = self._most[0][queue].tolist()
            deserved[PODS] = 0
        else:
            deserved = bounds.deserved.get(name, [])
        share = dominant_share(self.held[queue].tolist(), deserved) if any(deserved) else 1.0
        return -bounds.priority[queue], share, bounds.created[queue], name
