"""Rate limit of logs by cause: the first line at once, then one line an interval that counts the others."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, MutableMapping
from dataclasses import dataclass
from typing import Any

import structlog

CAUSE = "_cause"
"""Field that names the cause of a line where its text cannot; it is not written."""

_LIMITED = frozenset(("warning", "error", "critical", "exception"))
_CAUSES = ("kind", "resource", "controller", "plugin", "part", "logger")
"""Fields that tell causes of one event apart; names of objects do not, a user has any number of them."""

Fields = MutableMapping[str, Any]
After = Callable[[float, Callable[[], None]], object]
"""Calls a function once, so many seconds from now."""


@dataclass(slots=True)
class _Seen:
    """When a line of a cause passed, how many did not since then, and what a line of it says in any case."""

    at: float
    outline: dict[str, Any]
    suppressed: int = 0


class LogLimit:
    """A structlog processor that lets warnings and errors of one cause pass once an interval.

    Args:
        interval: seconds.
        most: causes that are remembered; the one that was silent for longest is forgotten first.
        monotonic: the clock.
        tell: logs a line (its event and fields) that counts what was dropped of a cause that has been silent since;
            None where it is not written before the next line of that cause.
        after: the timer.

    """

    def __init__(
        self,
        interval: float = 10.0,
        most: int = 1000,
        monotonic: Callable[[], float] = time.monotonic,
        tell: Callable[[dict[str, Any]], None] | None = None,
        after: After | None = None,
    ) -> None:
        self._interval, self._most, self._monotonic = interval, most, monotonic
        self._tell, self._after = tell, after or _in_a_thread
        self._seen: OrderedDict[Hashable, _Seen] = OrderedDict()
        self._lock = threading.Lock()
        self._waiting = False

    def __call__(self, logger: Any, method: str, event: Fields) -> Fields:
        """The event, with ``suppressed`` where lines of its cause were dropped since the last one; or `DropEvent`."""
        named = event.pop(CAUSE, None)
        level = event.get("level", method)
        if level not in _LIMITED:
            return event
        parts = {name: event[name] for name in _CAUSES if name in event}
        cause = (named or str(event.get("event")), *(str(parts.get(name, "")) for name in _CAUSES))
        with self._lock:
            now = self._monotonic()
            seen = self._seen.get(cause)
            if seen is not None and now - seen.at < self._interval:
                seen.suppressed += 1
                start = self._tell is not None and not self._waiting
                self._waiting |= start
                dropped = seen.suppressed
            else:
                dropped, start = 0, False
                outline = {"event": event.get("event"), "level": level, **parts}
                self._seen[cause] = _Seen(now, outline | ({CAUSE: named} if named else {}))
                self._seen.move_to_end(cause)
                while len(self._seen) > self._most:
                    self._seen.popitem(last=False)
        if start:
            self._after(self._interval, self._tell_overdue)
        if dropped:
            raise structlog.DropEvent
        if seen is not None and seen.suppressed:
            event["suppressed"] = seen.suppressed
        return event

    def _tell_overdue(self) -> None:
        """Tell of causes that have been silent for an interval since lines of them were dropped."""
        with self._lock:
            now = self._monotonic()
            counting = [seen for seen in self._seen.values() if seen.suppressed]
            overdue = [seen.outline for seen in counting if now - seen.at >= self._interval]
            self._waiting = len(counting) > len(overdue)
            left = min((seen.at for seen in counting if now - seen.at < self._interval), default=now)
            again = self._waiting
        if self._tell is not None:
            for outline in overdue:  # each is a line of its cause, and takes the number along
                self._tell(dict(outline))
        if again:
            self._after(left + self._interval - now, self._tell_overdue)


def _in_a_thread(seconds: float, function: Callable[[], None]) -> None:
    timer = threading.Timer(seconds, function)
    timer.daemon = True
    timer.start()
