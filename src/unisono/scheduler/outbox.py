"""Writes of the latest wish per object: newer wishes replace older ones, unimportant ones wait a little.

A cycle says what the status of objects should be; many cycles may say it before one write is done. Only the latest
counts. A conflict means that the object changed: the wish is compared again with what came meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import structlog

from unisono.errors import ApiError, Conflict, NotFound, Unavailable, UnisonoError
from unisono.kube.clock import Clock
from unisono.kube.pace import LONGEST_SECONDS, Backoff, WritePace
from unisono.kube.workqueue import WorkQueue
from unisono.scheduler.metrics import Metrics

W = TypeVar("W")

_log = structlog.get_logger(__name__)

_CONFLICTS = 5
# Times of last writes are kept for that many objects before the outdated ones are dropped.
_REMEMBERED = 4096


class Outbox(Generic[W]):
    """Wishes by key, written by ``write`` with bounded concurrency.

    ``write`` compares a wish with what is known of the object and answers False when there is nothing to do.
    """

    def __init__(
        self,
        name: str,
        write: Callable[[str, W], Awaitable[bool]],
        clock: Clock,
        metrics: Metrics,
        *,
        interval: float,
        pace: WritePace,
        workers: int = 8,
        insists: bool = False,
    ) -> None:
        """With ``insists``, a wish that the server refuses is tried again as one that it did not answer.

        ``interval`` is the time in seconds that unimportant changes of one object keep between them.

        ``pace`` stretches it while the API server is slow, and the times given to ``put`` too. Wishes that are not
        urgent wait while pods are being bound.
        """
        self.name = name
        self._write, self._clock, self._metrics = write, clock, metrics
        self._interval, self._worker_count, self._insists = interval, workers, insists
        self._queue = WorkQueue(clock, Backoff(base=0.2, cap=30.0))
        self._wishes: dict[str, W] = {}
        self._written_at: dict[str, float] = {}
        self._urgent: set[str] = set()
        # From when on a wish that is not urgent may be written, and how long it was given to pass by itself.
        self._from: dict[str, float] = {}
        self._settles: dict[str, float] = {}
        # Until when a wish may give way, and those that do so however fast the server is.
        self._until: dict[str, float] = {}
        self._patient: set[str] = set()
        self._pace = pace

    def put(
        self,
        key: str,
        wish: W,
        *,
        urgent: bool = True,
        settle: float = 0.0,
        longest: float = LONGEST_SECONDS,
        patient: bool = False,
    ) -> None:
        """Replace the wish for ``key``; not ``urgent`` ones wait until ``interval`` after the last write.

        ``settle`` is the time in seconds that even the first write of a wish that is not urgent waits: what passes by
        itself in that time is never written. ``longest`` is how many seconds the wish may give way in a rush; at the
        end of one it gets ``settle`` once more, as far as ``longest`` allows. ``patient`` wishes wait until no pod
        was bound for ``settle`` seconds, on a fast server, too.
        """
        now = self._clock.monotonic()
        self._wishes[key] = wish
        self._until[key] = min(self._until.get(key, float("inf")), now + longest)
        if urgent:
            self._urgent.add(key)
        elif key in self._urgent:
            # What was urgent is void or written: the wish that takes its place has the time that is its own.
            self._urgent.discard(key)
            self._from.pop(key, None)
        (self._patient.add if patient else self._patient.discard)(key)
        stretch = self._pace.stretch
        since = self._written_at.get(key, float("-inf")) + self._interval * stretch - now
        delay = 0.0 if urgent else max(settle * stretch, since)
        self._from[key] = min(self._from.get(key, float("inf")), now + delay)
        self._settles[key] = settle
        self._queue.add_after(key, delay)

    def discard(self, key: str) -> None:
        """Forget the wish for ``key``; a write under way is not stopped."""
        self._wishes.pop(key, None)
        self._until.pop(key, None)
        self._from.pop(key, None)
        self._settles.pop(key, None)
        self._urgent.discard(key)
        self._patient.discard(key)

    def keys(self) -> list[str]:
        """Keys of the wishes that wait."""
        return list(self._wishes)

    def __len__(self) -> int:
        """Wishes that wait."""
        return len(self._wishes)

    async def run(self) -> None:
        """Write until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._worker_count):
                    group.create_task(self._queue.work(self._take))
        finally:
            self._queue.close()

    async def _take(self, key: str) -> None:
        if key in self._wishes and not self._is_early(key) and not self._gives_way(key):
            wish, urgent = self._wishes[key], key in self._urgent
            self.discard(key)
            await self._once(key, wish, urgent=urgent)

    def _is_early(self, key: str) -> bool:
        """Whether the key was queued for a wish that is written or void by now: the one that came after it has time."""
        left = self._from.get(key, 0.0) - self._clock.monotonic()
        if key in self._urgent or left <= 0:
            return False
        self._queue.add_after(key, left)
        return True

    def _gives_way(self, key: str) -> bool:
        """Whether the wish waits for the end of a rush."""
        now, until = self._clock.monotonic(), self._until[key]
        if key in self._urgent or until <= now:
            return False
        # Moments are compared, not how far apart they are: a rest too small to move the clock would come back for ever.
        if key in self._patient and (settled := self._pace.urgent_until + self._settles[key]) > now:
            self._queue.add_after(key, min(settled, until) - now)
            return True
        if not self._pace.rush:
            return False
        self._pace.park(key, self._resume)
        self._queue.add_after(key, until - now)
        return True

    def _resume(self, key: str) -> None:
        now = self._clock.monotonic()
        begins = min(now + self._settles.get(key, 0.0) * self._pace.stretch, self._until.get(key, now))
        if key in self._wishes:
            # Whatever queued the key before the end of the rush comes too early.
            self._from[key] = max(begins, self._from.get(key, 0.0))
        self._queue.add_after(key, max(0.0, begins - now))

    async def _once(self, key: str, wish: W, *, urgent: bool) -> None:
        try:
            if await self._write(key, wish):
                self._metrics.writes_done.inc()
                self._remember(key)
        except Conflict:
            self._metrics.writes_conflict.inc()
            self._again(key, wish, self._queue.failures(key) < _CONFLICTS, urgent=urgent)
            return
        except NotFound:
            self._written_at.pop(key, None)
        except (Unavailable, OSError, TimeoutError) as error:
            self._metrics.writes_failed.inc()
            if not self._queue.failures(key):
                _log.warning("status.write_failed", writer=self.name, key=key, error=str(error))
            self._again(key, wish, True, urgent=urgent)
            return
        except (ApiError, UnisonoError) as error:
            self._metrics.writes_failed.inc()
            if not self._queue.failures(key):
                _log.warning("status.write_refused", writer=self.name, key=key, error=str(error))
            if self._insists:
                self._again(key, wish, True, urgent=urgent)
                return
        except Exception:
            self._metrics.writes_failed.inc()
            _log.exception("status.write_broken", writer=self.name, key=key)
        self._queue.forget(key)

    def _remember(self, key: str) -> None:
        now = self._clock.monotonic()
        self._written_at[key] = now
        if len(self._written_at) > _REMEMBERED:
            recent = now - self._interval * self._pace.stretch
            self._written_at = {name: when for name, when in self._written_at.items() if when > recent}

    def _again(self, key: str, wish: W, allowed: bool, *, urgent: bool) -> None:
        if not allowed:
            self._queue.forget(key)
            return
        if key not in self._wishes:  # a newer one goes by itself
            self._wishes[key], self._until[key] = wish, self._clock.monotonic() + LONGEST_SECONDS
            if urgent:
                self._urgent.add(key)
        self._queue.add_rate_limited(key)
