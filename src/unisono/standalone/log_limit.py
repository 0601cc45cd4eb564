"""Rate limit of logs by cause: the first line at once, then one line an interval that counts the others."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, MutableMapping
from typing import Any

import structlog

_LIMITED = frozenset(("warning", "error", "critical", "exception"))
_CAUSES = ("kind", "resource", "controller", "plugin", "part")
"""Fields that tell causes of one event apart; names of objects do not, a user has any number of them."""


class LogLimit:
    """A structlog processor that lets warnings and errors of one cause pass once an interval.

    Args:
        interval: seconds.
        most: causes that are remembered; the one that was silent for longest is forgotten first.
        monotonic: the clock.

    """

    def __init__(
        self, interval: float = 10.0, most: int = 1000, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._interval, self._most, self._monotonic = interval, most, monotonic
        self._seen: OrderedDict[Hashable, list[float]] = OrderedDict()

    def __call__(self, logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        """The event, with ``suppressed`` where lines of its cause were dropped since the last one; or `DropEvent`."""
        if event.get("level", method) not in _LIMITED:
            return event
        cause = (str(event.get("event")), *(str(event.get(name, "")) for name in _CAUSES))
        now = self._monotonic()
        seen = self._seen.get(cause)
        if seen is not None and now - seen[0] < self._interval:
            seen[1] += 1
            raise structlog.DropEvent
        self._seen[cause] = [now, 0]
        self._seen.move_to_end(cause)
        while len(self._seen) > self._most:
            self._seen.popitem(last=False)
        if seen is not None and seen[1]:
            event["suppressed"] = int(seen[1])
        return event
