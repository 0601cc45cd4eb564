"""Reservations of the cluster's nodes, as they are read."""

from __future__ import annotations

from unisono.api.groups.calendar import Reservation
from unisono.api.reservations import Booking, booking_of


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
