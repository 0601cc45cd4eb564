"""Shares of queues while this process looks, for clusters whose API server keeps no history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from unisono.api.quantity import QuantityError
from unisono.api.resources import add, resource_list
from unisono.history.queue_shares import Series, series, steps
from unisono.history.records import CLUSTER, Share
from unisono.history.report import Window

if TYPE_CHECKING:
    from unisono.api.core import Node
    from unisono.api.scheduling import Queue

_KEPT_MS = 24 * 3_600_000
# Shares of one queue and resource, and pairs of them: what users can make many of is bounded.
_MOST_SHARES, _MOST_LINES = 5_000, 500


class SharesQuery(msgspec.Struct, rename={"start": "from", "end": "to"}, forbid_unknown_fields=True):
    """What a chart asks for, as the API server's history is asked; times in seconds since 1970, an end of 0 is now."""

    start: float = 0.0
    end: float = 0.0
    queue: str = ""
    resource: str = ""
    points: int = 120


class Samples:
    """Shares as the history has them; each holds until the next of the same queue and resource."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, str], list[Share]] = {}

    def take(self, queues: Iterable[Queue], nodes: Iterable[Node], now: int) -> None:
        """Note what has changed.

        Args:
            queues: of the cluster.
            nodes: of the cluster.
            now: milliseconds since 1970.

        """
        total: dict[str, int] = {}
        for node in nodes:
            add(total, resource_list(node.status.allocatable))
        found = {(CLUSTER, name): Share(now, CLUSTER, name, capacity=amount) for name, amount in total.items()}
        # A parent's use is that of the queues below it.
        queues = list(queues)
        parents = {queue.spec.parent for queue in queues}
        for queue in queues:
            name = queue.metadata.name
            try:
                used = {} if name in parents else resource_list(queue.status.allocated)
                deserved, capability = resource_list(queue.spec.deserved), resource_list(queue.spec.capability)
            except QuantityError:
                continue
            for each in {*used, *deserved, *capability}:
                amounts = used.get(each, 0), deserved.get(each, 0), capability.get(each, 0)
                found[name, each] = Share(now, name, each, *amounts)
        for key in self._lines.keys() - found.keys():
            found[key] = Share(now, *key)
        for key, share in found.items():
            self._note(key, share)

    def _note(self, key: tuple[str, str], share: Share) -> None:
        line = self._lines.get(key)
        if line is None:
            if len(self._lines) < _MOST_LINES:
                self._lines[key] = [share]
            return
        last = line[-1]
        if (last.used, last.deserved, last.capability, last.capacity) != (
            share.used,
            share.deserved,
            share.capability,
            share.capacity,
        ):
            line.append(share)
        while len(line) > _MOST_SHARES or (len(line) > 1 and line[1].at < share.at - _KEPT_MS):
            line.pop(0)

    def series(self, window: Window, queue: str, resource: str, points: int) -> Series:
        """What a chart shows; empty texts stand for all."""
        chosen = (
            line
            for key, line in sorted(self._lines.items())
            if key[0] in (CLUSTER, queue or key[0]) and resource in ("", key[1])
        )
        return series(chosen, steps(window, points))


def shares(samples: Samples, query: Mapping[str, str], now: int) -> Series:
    """What queues used while this process looked, for a chart; ``now`` in milliseconds since 1970.

    Raises:
        ValidationError: the query is none.

    """
    asked = msgspec.convert(dict(query), SharesQuery, strict=False)
    end = round(1000 * asked.end) or now
    start = min(round(1000 * asked.start), end - 1000) if asked.start else end - _KEPT_MS
    return samples.series(Window(start, end, now), asked.queue, asked.resource, max(1, asked.points))
