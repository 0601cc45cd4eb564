"""How many requests are under way, now and on average over a while. Pure."""

from __future__ import annotations

from collections import deque

LONGEST_WINDOW = 3600.0
"""What is remembered, in seconds."""


class Load:
    """The requests of one service.

    Args:
        now: monotonic time in seconds, as in all methods.

    """

    def __init__(self, now: float) -> None:
        self.count = 0
        self._born = self._last = self._busy = now
        # Of each second that is not over or was not idle: its number, request seconds, and requests that began.
        self._seconds: deque[list[float]] = deque()

    def begin(self, now: float) -> None:
        """A request came."""
        self._advance(now)
        self._second(int(now))[2] += 1
        self.count += 1

    def end(self, now: float) -> None:
        """One is answered."""
        self._advance(now)
        self.count -= 1

    def idle(self, now: float) -> float:
        """For how many seconds no request has been there."""
        return 0.0 if self.count else now - self._busy

    def concurrency(self, now: float, window: float) -> float:
        """Requests under way at a time, on average over the last seconds, or since there is a service."""
        return self._sum(now, window, 1)

    def rate(self, now: float, window: float) -> float:
        """Requests that came per second, on average over the last seconds, or since there is a service."""
        return self._sum(now, window, 2)

    def _sum(self, now: float, window: float, field: int) -> float:
        self._advance(now)
        start = now - window
        # Of the second in which the window begins, what is inside of it.
        total = sum(each[field] * min(1.0, max(0.0, each[0] + 1.0 - start)) for each in self._seconds)
        return total / max(1.0, min(window, now - self._born))

    def _advance(self, now: float) -> None:
        start = max(self._last, float(int(now - LONGEST_WINDOW)))
        while self.count and start < now:
            end = min(now, int(start) + 1.0)
            self._second(int(start))[1] += self.count * (end - start)
            start = end
        if self.count:
            self._busy = now
        self._last = now
        while self._seconds and self._seconds[0][0] + 1.0 < now - LONGEST_WINDOW:
            self._seconds.popleft()

    def _second(self, number: int) -> list[float]:
        if not self._seconds or self._seconds[-1][0] != number:
            self._seconds.append([number, 0.0, 0.0])
        return self._seconds[-1]
