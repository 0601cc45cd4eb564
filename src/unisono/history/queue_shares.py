"""What queues use and may have, and what the cluster has, noted whenever it changes (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from unisono.api.core import Node
from unisono.api.quantity import QuantityError
from unisono.api.resources import add, resource_list
from unisono.api.scheduling import Queue
from unisono.history.records import CLUSTER, Share

Amounts = dict[str, int]


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
        found = self._now(used, now)
        changed = []
        for key in {*found, *self._noted}:
            nothing = Share(now, *key)
            share, last = found.get(key, nothing), self._noted.get(key, nothing)
            if _amounts(share) == _amounts(last):
                continue
            changed.append(share)
            if share == nothing:
                del self._noted[key]
            else:
                self._noted[key] = share
        return changed

    def _now(self, used: Mapping[str, Mapping[str, int]], now: int) -> dict[tuple[str, str], Share]:
        found: dict[tuple[str, str], Share] = {}
        for queue in {*self._queues, *used}:
            deserved, capability = self._queues.get(queue, ({}, {}))
            held = used.get(queue, {})
            for name in {*deserved, *capability, *held}:
                amounts = held.get(name, 0), deserved.get(name, 0), capability.get(name, 0)
                found[queue, name] = Share(now, queue, name, *amounts)
        total: Amounts = {}
        for allocatable in self._nodes.values():
            add(total, allocatable)
        return found | {(CLUSTER, name): Share(now, CLUSTER, name, capacity=amount) for name, amount in total.items()}


def _amounts(share: Share) -> tuple[int, int, int, int]:
    return share.used, share.deserved, share.capability, share.capacity
