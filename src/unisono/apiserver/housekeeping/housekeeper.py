"""Workers that keep the store in order: each takes keys from a queue and puts failed ones back with a back-off."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from unisono.apiserver.storage.objects import Key
from unisono.errors import ApiError
from unisono.kube.clock import SYSTEM_CLOCK, Clock
from unisono.kube.pace import Backoff
from unisono.kube.workqueue import WorkQueue

_log = structlog.get_logger(__name__)


class Housekeeper:
    """Runs ``handle(key)`` for queued keys, several at a time, one key never twice at once.

    Args:
        name: for the log.
        handle: does the work; an exception brings the key back later.
        workers: how many keys are in work at once; their writes share a commit.
    """

    def __init__(
        self,
        name: str,
        handle: Callable[[Key], Awaitable[None]],
        *,
        workers: int = 32,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._name, self._handle, self._workers = name, handle, workers
        self._queue = WorkQueue(clock, Backoff(base=0.05, cap=30.0))
        self._tasks: list[asyncio.Task[None]] = []

    def add(self, key: Key) -> None:
        """Queue a key."""
        self._queue.add("/".join(key))

    @property
    def idle(self) -> bool:
        """Nothing queued, delayed or in work."""
        state = self._queue.statistics()
        return not (state.ready or state.processing or state.delayed)

    def start(self) -> None:
        """Start the workers."""
        self._tasks = [asyncio.create_task(self._queue.work(self._one), name=self._name) for _ in range(self._workers)]

    async def stop(self) -> None:
        """End the workers; what is queued is found again at the next start."""
        self._queue.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    async def _one(self, key: str) -> None:
        resource, namespace, name = key.split("/", 2)
        try:
            await self._handle((resource, namespace, name))
        except ApiError as error:
            self._queue.add_rate_limited(key)
            _log.warning("housekeeping failed, will retry", task=self._name, key=key, error=error.message)
        except Exception:
            # One object that cannot be handled must not end the collection of all others.
            self._queue.add_rate_limited(key)
            _log.exception("housekeeping failed, will retry", task=self._name, key=key)
        else:
            self._queue.forget(key)
