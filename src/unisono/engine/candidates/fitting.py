"""Nodes that have free what a pod asks for, whatever plug-ins say of them."""

from __future__ import annotations

from typing import Final

import numpy as np

from unisono.cluster.podclass import PodClass
from unisono.engine.answers import BoolArray
from unisono.engine.session.node_view import NodeView, as_slice
from unisono.engine.session.session import Session

Rows = slice | list[int]
_ALL: Final = slice(None)


def fitting(
    view: NodeView, pod_class: PodClass, rows: Rows, *, future: bool, promises: bool, columns: slice = _ALL
) -> BoolArray:
    """``[M]`` nodes on which the request is idle (or will be, for ``future``).

    A task that starts now must also leave what is promised to pipelined tasks, so both are checked.

    Args:
        view: the nodes.
        pod_class: what is asked for.
        rows: its rows, as `as_slice` has them.
        future: count resources that are being released.
        promises: something is promised in this session.
        columns: which of the nodes.

    """
    idle = view.allocatable[rows, columns] - view.used[rows, columns] - pod_class.amounts[:, None]
    if future or promises:
        later = idle + view.releasing[rows, columns] - view.pipelined[rows, columns]
        found = (later >= 0).all(axis=0)
        return np.asarray(found if future else found & (idle >= 0).all(axis=0))
    return np.asarray((idle >= 0).all(axis=0))


class Roomless:
    """Which demands no node has room for, in one session.

    Of one that has room, a node is remembered on which it has, the one with most of it; the others are only looked at
    again when that one is full.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._found: dict[tuple[int, bool], tuple[int, int]] = {}

    def covers(self, pod_class: PodClass, *, future: bool) -> bool:
        """Whether no node has room for a pod of the class; ``future``: once what is being released is free."""
        key, now = (pod_class.id, future), len(self._session.touched)
        stamp, column = self._found.get(key, (-1, -1))
        if stamp != now:
            if column < 0 or not self._fits(pod_class, slice(column, column + 1), future=future).any():
                column = self._roomiest(pod_class, future=future)
            self._found[key] = now, column
        return column < 0

    def _fits(self, pod_class: PodClass, columns: slice, *, future: bool) -> BoolArray:
        session, rows = self._session, as_slice(pod_class.rows.tolist())
        return fitting(session.nodes, pod_class, rows, future=future, promises=session.pipelining, columns=columns)

    def _roomiest(self, pod_class: PodClass, *, future: bool) -> int:
        """A node with room, by what the class asks for last, which is mostly the scarcest; -1 where there is none."""
        where = np.flatnonzero(self._fits(pod_class, _ALL, future=future))
        if not len(where):
            return -1
        free = self._session.nodes.future_idle_of(int(pod_class.rows[-1]))[where]
        return int(where[free.argmax()])
