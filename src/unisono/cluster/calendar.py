"""Reservations of the cluster: their windows at a moment, and the nodes that they are about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from unisono.api.groups.calendar import Reservation
from unisono.api.reservations import Booking, Times, Window, booking_of
from unisono.cluster.resources import ResourceRegistry

if TYPE_CHECKING:
    from unisono.cluster.hypertree import HyperNodeTree
    from unisono.cluster.nodes import NodeTable

Index = npt.NDArray[np.intp]


class Bookings(dict[str, Booking]):
    """Reservations by name, as they are read; ``version`` moves with every change."""

    def __init__(self) -> None:
        super().__init__()
        self.version = 0

    def put(self, obj: Reservation) -> bool:
        """Add or change one; False where nothing differs but its status. Raises ValueError: it breaks a rule."""
        booking = booking_of(obj)
        if self.get(booking.name) == booking:
            return False
        self[booking.name] = booking
        self.version += 1
        return True

    def remove(self, name: str) -> bool:
        """Forget one; False when it was unknown."""
        known = self.pop(name, None) is not None
        self.version += known
        return known

    def known(self) -> list[str]:
        """All names."""
        return list(self)


@dataclass(frozen=True, slots=True)
class Slot:
    """A reservation at a moment.

    Attributes:
        booking: what it says.
        window: the present one, or the next.
        columns: of its nodes, ascending.

    """

    booking: Booking
    window: Window
    columns: Index


@lru_cache(maxsize=4096)
def _window(times: Times, moment: float) -> Window | None:
    return times.window(moment)


def slots_of(
    bookings: Mapping[str, Booking], table: NodeTable, tree: HyperNodeTree, registry: ResourceRegistry, now: float
) -> list[Slot]:
    """All that are not over, the oldest first.

    Where only some of the nodes are meant, those come first that can take pods and that no older reservation has within
    the same window, then by name: so the choice stays the same from the first moment to the last.
    """
    found: list[Slot] = []
    for booking in sorted(bookings.values(), key=lambda one: (one.created, one.name)):
        # One that is over goes on to have had its nodes: another one that has begun beside it keeps its own.
        window = booking.times.window(now) or booking.times.only
        if window is None:
            continue
        columns = np.flatnonzero(_matching(booking, table, tree))
        if booking.count is not None or booking.amounts:
            taken = np.zeros(len(table), dtype=np.bool_)
            for other in found:
                beside = _window(other.booking.times, window.start)
                if beside is not None and beside.overlaps(window):
                    taken[other.columns] = True
            usable = table.ready & (~table.unschedulable | booking.maintenance)
            order = np.lexsort((columns, ~usable[columns], taken[columns]))
            columns = _enough(booking, table, registry, columns[order])
        found.append(Slot(booking, window, np.sort(columns)))
    return [slot for slot in found if slot.window.end > now]


def _matching(booking: Booking, table: NodeTable, tree: HyperNodeTree) -> npt.NDArray[np.bool_]:
    mask = np.ones(len(table), dtype=np.bool_)
    if booking.nodes:
        mask &= np.array([name in booking.nodes for name in table.names], dtype=np.bool_)
    for key, value in booking.labels.items():
        code = table.label_code(key, value)
        mask &= (table.label_column(key) == code) & (code >= 0)
    if booking.hyper_node:
        inside = np.zeros(len(table), dtype=np.bool_)
        if booking.hyper_node in tree.names:
            inside[tree.columns[tree.names.index(booking.hyper_node)]] = True
        mask &= inside
    return mask


def _enough(booking: Booking, table: NodeTable, registry: ResourceRegistry, columns: Index) -> Index:
    """As many of the nodes, from the first on, as it asks for."""
    if booking.count is not None:
        return columns[: booking.count]
    least = 0
    for name, amount in booking.amounts.items():
        row = registry.find(name)
        have = np.cumsum(table.allocatable[row, columns]) if row is not None else np.zeros(len(columns), dtype=np.int64)
        least = max(least, int(np.searchsorted(have, amount)) + 1)
    return columns[:least]
