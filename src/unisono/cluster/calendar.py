"""Reservations and checks of nodes, and temporary quotas of queues, as they are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from unisono.api.budgets import Prices
from unisono.api.node_checks import CheckRule, rule_of
from unisono.api.reservations import Booking, Numbers, booking_of, numbers_of

T = TypeVar("T", Booking, Numbers, CheckRule, Prices)


class ReadObjects(dict[str, T], Generic[T]):
    """Objects of one kind by name, as ``read`` has them; ``version`` moves with every change."""

    def __init__(self, read: Callable[[Any], T]) -> None:
        super().__init__()
        self.version = 0
        self._read: Callable[[Any], T] = read

    def put(self, obj: Any) -> bool:
        """Add or change one; False where nothing differs but its status. Raises ValueError: it breaks a rule."""
        entry = self._read(obj)
        if self.get(entry.name) == entry:
            return False
        self[entry.name] = entry
        self.version += 1
        return True

    def remove(self, name: str) -> bool:
        """Forget one; False when it was unknown."""
        removed = self.pop(name, None) is not None
        self.version += removed
        return removed

    def known(self) -> list[str]:
        """All names."""
        return list(self)


class Bookings(ReadObjects[Booking]):
    """Reservations of nodes."""

    def __init__(self) -> None:
        super().__init__(booking_of)


class TemporaryQuotas(ReadObjects[Numbers]):
    """Other numbers of queues, for a time."""

    def __init__(self) -> None:
        super().__init__(numbers_of)


class NodeChecks(ReadObjects[CheckRule]):
    """Checks that nodes pass between jobs."""

    def __init__(self) -> None:
        super().__init__(rule_of)


@dataclass(slots=True)
class CalendarWords:
    """Objects with annotations that few objects have, so that the others need not be searched for them.

    Attributes:
        choosing: kind and key of PodGroups and pods that name kinds of nodes of which they take one.
        reserving: kind and key of PodGroups and pods that name a reservation.
        idling: queues that say how long GPUs may be idle.
        limiting: queues that limit run times, or say how long they are.
    """

    choosing: set[tuple[str, str]] = field(default_factory=set)
    reserving: set[tuple[str, str]] = field(default_factory=set)
    idling: set[str] = field(default_factory=set)
    limiting: set[str] = field(default_factory=set)
