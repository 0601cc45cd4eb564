"""What queues use and may have, and what the cluster has: noted whenever it changes, and as points of charts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import msgspec

from unisono.api.core import Node
from unisono.api.groups.scheduling import Queue
from unisono.api.quantity import QuantityError
from unisono.api.resources import add, resource_list
from unisono.history.records import CLUSTER, Share
from unisono.history.report import Window

Amounts = dict[str, int]
MOST_POINTS = 500
_LEAST_STEP = 1000


class QueueShares:
    """The queues and nodes that are there, and the last share that was noted of each queue and resource.

    Args:
        shares: the last ones, as they were stored.
    """

    def __init__(self, shares: Iterable[Share]) -> None:
        self._noted = {(share.queue, share.resource): share for share in shares}
        self._queues: dict[str, tuple[Amounts, Amounts]] = {}
        self._nodes: dict[str, Amounts] = {}

    def clear_queues(self) -> None:
        """A complete list of queues follows."""
        self._queues.clear()

    def clear_nodes(self) -> None:
        """A complete list of nodes follows."""
        self._nodes.clear()

    def put_queue(self, queue: Queue, *, deleted: bool) -> None:
        """Note what a queue deserves and may have at most; amounts that cannot be read count as none."""
        if deleted:
            self._queues.pop(queue.metadata.name, None)
            return
        try:
            amounts = resource_list(queue.spec.deserved), resource_list(queue.spec.capability)
        except QuantityError:
            amounts = {}, {}
        self._queues[queue.metadata.name] = amounts

    def put_node(self, node: Node, *, deleted: bool) -> None:
        """Note what a node has for pods; amounts that cannot be read count as none."""
        if deleted:
            self._nodes.pop(node.metadata.name, None)
            return
        try:
            self._nodes[node.metadata.name] = resource_list(node.status.allocatable)
        except QuantityError:
            self._nodes[node.metadata.name] = {}

    def changed(self, used: Mapping[str, Mapping[str, int]], now: int) -> list[Share]:
        """The shares that differ from those noted last, which these replace.

        Args:
            used: amounts by queue and resource, in engine units.
            now: the time, in milliseconds.
        """
        current = self._now(used, now)
        changed = []
        for key in {*current, *self._noted}:
            nothing = Share(now, *key)
            share, last = current.get(key, nothing), self._noted.get(key, nothing)
            if share.amounts == last.amounts:
                continue
            changed.append(share)
            if share == nothing:
                del self._noted[key]
            else:
                self._noted[key] = share
        return changed

    def _now(self, used: Mapping[str, Mapping[str, int]], now: int) -> dict[tuple[str, str], Share]:
        shares: dict[tuple[str, str], Share] = {}
        for queue in {*self._queues, *used}:
            deserved, capability = self._queues.get(queue, ({}, {}))
            held = used.get(queue, {})
            for name in {*deserved, *capability, *held}:
                amounts = held.get(name, 0), deserved.get(name, 0), capability.get(name, 0)
                shares[queue, name] = Share(now, queue, name, *amounts)
        total: Amounts = {}
        for allocatable in self._nodes.values():
            add(total, allocatable)
        return shares | {(CLUSTER, name): Share(now, CLUSTER, name, capacity=amount) for name, amount in total.items()}


class Line(msgspec.Struct, omit_defaults=True):
    """One resource of one queue, or of the cluster; amounts in engine units, one for each point.

    Attributes:
        queue: name; empty for the cluster.
        resource: name.
        used: mean of what pods of the queue itself held.
        deserved, capability: what its specification said, at the end of each step.
        capacity: of all nodes; of the cluster alone.
    """

    queue: str
    resource: str
    used: list[int] = []
    deserved: list[int] = []
    capability: list[int] = []
    capacity: list[int] = []


class Series(msgspec.Struct, omit_defaults=True):
    """Shares over time.

    Attributes:
        times: where each step ends, in seconds since 1970.
        lines: of each queue and resource.
        since: when the history begins, in seconds since 1970; 0 where it goes back to the first step. The amounts of
            earlier steps are zero and mean nothing.
    """

    times: list[float]
    lines: list[Line]
    since: float = 0.0


def steps(window: Window, points: int) -> list[tuple[int, int]]:
    """The window, up to now, in that many equal steps; fewer where they would be below a second."""
    end = min(window.end, window.now)
    length = end - window.start
    number = max(1, min(points, MOST_POINTS, length // _LEAST_STEP))
    edges = [window.start + length * each // number for each in range(number + 1)]
    return [(low, high) for low, high in pairwise(edges) if high > low]


def line(shares: Sequence[Share], times: Sequence[tuple[int, int]]) -> Line:
    """The line of one queue's shares of one resource.

    Args:
        shares: in the order of time; each holds until the next.
        times: steps, in milliseconds since 1970.
    """
    result = Line(shares[0].queue, shares[0].resource)
    at = -1
    for low, high in times:
        while at + 1 < len(shares) and shares[at + 1].at <= low:
            at += 1
        sums, last = 0, at
        begin = low
        for following in range(at + 1, len(shares) + 1):
            until = min(high, shares[following].at) if following < len(shares) else high
            if last >= 0:
                sums += shares[last].used * (until - begin)
            if until >= high:
                break
            begin, last = until, following
        ends = shares[last] if last >= 0 else Share(0, "", "")
        result.used.append(round(sums / (high - low)))
        result.deserved.append(ends.deserved)
        result.capability.append(ends.capability)
        result.capacity.append(ends.capacity)
    return without_zeros(result)


def without_zeros(found: Line) -> Line:
    """The line without amounts that are zero all the time; its use stays."""
    for name in ("deserved", "capability", "capacity"):
        if not any(getattr(found, name)):
            setattr(found, name, [])
    return found


def series(groups: Iterable[Sequence[Share]], times: Sequence[tuple[int, int]]) -> Series:
    """All lines that are not zero all the time."""
    nonempty = [shares for shares in groups if shares]
    lines = [line(shares, times) for shares in nonempty]
    shown = [each for each in lines if any(each.used) or each.deserved or each.capability or each.queue == CLUSTER]
    first = min((shares[0].at for shares in nonempty), default=0)
    return Series([high / 1000 for _, high in times], shown, first / 1000 if times and first > times[0][1] else 0.0)
