"""Nodes that were tried in vain, so that the next equal task does not try them again."""

from __future__ import annotations

from typing import Any

import numpy as np

from unisono.engine.answers import BoolArray


class FailedNodes:
    """Nodes on which evictions make no room for the tasks of an actor, or of actors of one shape.

    They are kept by how many places the actor had been promised.

    The more an actor holds, and the more has been taken from others, the less it may take: a node that failed with
    fewer promises fails with more, until something changes on it. What failed amid evictions that are taken back later
    must be forgotten (`clear`).
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._key: tuple[Any, ...] = ()
        self._masks: dict[int, BoolArray] = {}
        self._seen = 0

    def clear(self) -> None:
        """Forget everything."""
        self._masks.clear()

    def of(self, key: tuple[Any, ...], promised: int, touched: list[int]) -> BoolArray:
        """``[N]`` nodes not to try; ``touched`` is the session's log of changed columns."""
        if key != self._key:
            self._key = key
            self._masks.clear()
        fresh = touched[self._seen :]
        self._seen = len(touched)
        dead = np.zeros(self._size, dtype=np.bool_)
        for number, mask in self._masks.items():
            mask[fresh] = False
            if number <= promised:
                dead |= mask
        return dead

    def add(self, promised: int, column: int) -> None:
        """A node failed, under the key asked for last."""
        mask = self._masks.get(promised)
        if mask is None:
            mask = self._masks[promised] = np.zeros(self._size, dtype=np.bool_)
        mask[column] = True
