"""What evictions would free, by queue, while a gate is asked whether they would let a job in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from unisono.engine.session.amounts import Amounts


class Evictable:
    """Amounts by queue, engine units by resource row; empty unless a gate is asked a second time."""

    __slots__ = ("by_queue",)

    def __init__(self, by_queue: Mapping[str, Amounts] | None = None) -> None:
        self.by_queue = by_queue or {}

    def __bool__(self) -> bool:
        """Whether anything could be freed."""
        return any(any(amounts) for amounts in self.by_queue.values())

    def or_more(self, other: Evictable) -> Evictable:
        """The larger amounts of both: several actions evict the same pods."""
        if not other.by_queue:
            return self
        found = dict(self.by_queue)
        for queue, amounts in other.by_queue.items():
            mine = found.get(queue)
            found[queue] = amounts if mine is None else [max(pair) for pair in zip(mine, amounts, strict=True)]
        return Evictable(found)

    def without(self, taken: Amounts, queues: Iterable[str] | None = None) -> Amounts:
        """``taken`` less what would be freed in ``queues``, or in all; the same list where that is nothing."""
        if not self.by_queue:
            return taken
        names = self.by_queue if queues is None else [name for name in queues if name in self.by_queue]
        left = list(taken)
        for name in names:
            for row, amount in enumerate(self.by_queue[name]):
                left[row] -= amount
        return left
