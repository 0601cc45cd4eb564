"""Kubernetes Events: what happened to an object, for ``kubectl describe`` and for people.

Recording never waits and never fails: events go into a bounded buffer, equal ones become one Event with a count, and an
object that has too much to say is cut short. What is dropped is counted.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Literal

from unisono.api import kinds
from unisono.api.base import Object, ObjectMeta
from unisono.api.core import Event, EventSource, ObjectReference
from unisono.api.times import rfc3339
from unisono.errors import ApiError, NotFound, Unavailable
from unisono.kube.client import Client
from unisono.kube.clock import SYSTEM_CLOCK, Clock
from unisono.kube.pace import Backoff
from unisono.kube.workqueue import WorkQueue
from unisono.lazy_logs import LazyLogger

EventKind = Literal["Normal", "Warning"]

_log = LazyLogger(__name__)

_WORKERS = 4
_ATTEMPTS = 4
_NAME_LIMIT = 230
_MESSAGE_LIMIT = 1024
# As client-go: an object may record 25 events at once and one more every five minutes.
_BURST = 25
_REFILL_SECONDS = 300.0
_REMEMBERED = 4096
_KINDS = {kind.struct: kind for kind in kinds.ALL_KINDS}


@dataclass(frozen=True, slots=True)
class EventStatistics:
    """What a recorder did.

    Attributes:
        recorded: calls of ``event``.
        written: requests that succeeded.
        dropped: events that never reached the server: buffer full, object too noisy, or refused.
        waiting: events in the buffer.
    """

    recorded: int
    written: int
    dropped: int
    waiting: int


@dataclass(slots=True)
class _Waiting:
    reference: ObjectReference
    type: str
    reason: str
    message: str
    first: float
    last: float
    count: int = 1


@dataclass(slots=True)
class _Written:
    name: str
    count: int


class EventRecorder:
    """Records events in the name of ``component``; needs a running event loop, which writes them in the background."""

    def __init__(
        self,
        client: Client,
        component: str,
        *,
        clock: Clock = SYSTEM_CLOCK,
        host: str = "",
        buffer: int = 4096,
        normal_burst: int = 100,
        normal_per_second: float = 10.0,
    ) -> None:
        """Make a recorder.

        Args:
            client: of the API server.
            component: source of the events.
            clock: time.
            host: machine of the source.
            buffer: largest number of different events that wait to be written.
            normal_burst: events of type Normal that are written as they come.
            normal_per_second: how many more may follow each second; both are fewer while the API server is slow.
                In a rush that all goes well is told by the objects themselves; half of all writes would be events.
                Warnings are always written.
        """
        self._client, self._component, self._clock, self._host = client, component, clock, host
        self._buffer = buffer
        self._normal_burst, self._normal_rate = float(normal_burst), normal_per_second
        self._normal = (self._normal_burst, clock.monotonic())
        self._waiting: dict[str, _Waiting] = {}
        self._written: OrderedDict[str, _Written] = OrderedDict()
        self._budgets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._queue = WorkQueue(clock, Backoff(base=0.5, cap=10.0))
        self._workers: list[asyncio.Task[None]] = []
        self._serial = 0
        self._recorded = self._writes = self._dropped = 0
        self._closed = False

    def event(self, obj: Object | ObjectReference, type: EventKind, reason: str, message: str) -> None:
        """Record that ``reason`` happened to ``obj``; returns at once and never raises.

        Args:
            obj: an object of a known kind, or a complete reference.
            type: Normal or Warning.
            reason: CamelCase word.
            message: a sentence; cut at 1,024 characters.
        """
        self._recorded += 1
        reference = obj if isinstance(obj, ObjectReference) else reference_to(obj)
        message = message[:_MESSAGE_LIMIT]
        key = "\x00".join(
            (reference.kind or "", reference.namespace or "", reference.name or "", reference.uid or "", type, reason,
             message)
        )  # fmt: skip
        now = self._clock.time()
        waiting = self._waiting.get(key)
        if waiting is not None:
            waiting.count += 1
            waiting.last = now
            return
        if self._closed or len(self._waiting) >= self._buffer or not self._allowed(reference, type):
            self._dropped += 1
            return
        self._waiting[key] = _Waiting(reference, type, reason, message, now, now)
        self._queue.add(key)
        self._start()

    def statistics(self) -> EventStatistics:
        """Totals since the start and the buffer now."""
        return EventStatistics(self._recorded, self._writes, self._dropped, len(self._waiting))

    async def close(self, timeout: float = 2.0) -> None:
        """Write what waits for at most ``timeout`` seconds of the clock, then stop."""
        self._closed = True
        deadline = self._clock.monotonic() + timeout
        while self._waiting and self._clock.monotonic() < deadline:
            await self._clock.sleep(0.02)
        self._dropped += len(self._waiting)
        self._queue.close()
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)

    def _start(self) -> None:
        if not self._workers:
            self._workers = [
                asyncio.get_running_loop().create_task(self._queue.work(self._write)) for _ in range(_WORKERS)
            ]

    async def _write(self, key: str) -> None:
        waiting = self._waiting.get(key)
        if waiting is None:
            return
        count = waiting.count
        try:
            await self._send(key, waiting)
        except Unavailable:
            if self._queue.failures(key) + 1 < _ATTEMPTS:
                self._queue.add_rate_limited(key)
                return
            self._drop(key, waiting, "the API server is not available")
        except ApiError as error:
            self._drop(key, waiting, str(error))
        except Exception as error:
            self._drop(key, waiting, repr(error))
        else:
            self._writes += 1
        self._queue.forget(key)
        waiting.count -= count
        if waiting.count > 0:
            # More of the same came while this one was on its way.
            self._queue.add(key)
        else:
            self._waiting.pop(key, None)

    def _drop(self, key: str, waiting: _Waiting, why: str) -> None:
        self._dropped += waiting.count
        _log.debug("event.dropped", reason=waiting.reason, object=waiting.reference.name, error=why)

    async def _send(self, key: str, waiting: _Waiting) -> None:
        namespace = waiting.reference.namespace or "default"
        written = self._written.get(key)
        if written is not None:
            count = written.count + waiting.count
            patch = {"count": count, "lastTimestamp": rfc3339(waiting.last)}
            try:
                await self._client.patch(kinds.EVENTS, written.name, patch, namespace=namespace)
            except NotFound:
                # Events expire; the next one starts a new count.
                del self._written[key]
            else:
                written.count = count
                self._written.move_to_end(key)
                return
        event = self._event(waiting, namespace)
        await self._client.create(kinds.EVENTS, event)
        self._written[key] = _Written(event.metadata.name, waiting.count)
        while len(self._written) > _REMEMBERED:
            self._written.popitem(last=False)

    def _event(self, waiting: _Waiting, namespace: str) -> Event:
        self._serial += 1
        stamp = int(self._clock.time() * 1e9) + self._serial
        name = f"{(waiting.reference.name or 'unknown')[:_NAME_LIMIT]}.{stamp:x}"
        return Event(
            metadata=ObjectMeta(name=name, namespace=namespace),
            involved_object=waiting.reference,
            type=waiting.type,
            reason=waiting.reason,
            message=waiting.message,
            source=EventSource(component=self._component, host=self._host or None),
            first_timestamp=rfc3339(waiting.first),
            last_timestamp=rfc3339(waiting.last),
            count=waiting.count,
            reporting_component=self._component,
            reporting_instance=self._host or None,
        )

    def _allowed(self, reference: ObjectReference, type: EventKind) -> bool:
        now = self._clock.monotonic()
        if type == "Normal":
            left, then = self._normal
            price = min(self._client.pace.stretch, self._normal_burst)
            left = min(self._normal_burst, left + (now - then) * self._normal_rate)
            self._normal = (left - price if left >= price else left, now)
            if left < price:
                return False
        name = reference.uid or f"{reference.kind}/{reference.namespace}/{reference.name}"
        tokens, since = self._budgets.get(name, (float(_BURST), now))
        tokens = min(float(_BURST), tokens + (now - since) / _REFILL_SECONDS)
        allowed = tokens >= 1.0
        self._budgets[name] = (tokens - 1.0 if allowed else tokens, now)
        self._budgets.move_to_end(name)
        while len(self._budgets) > _REMEMBERED:
            self._budgets.popitem(last=False)
        return allowed


def reference_to(obj: Object) -> ObjectReference:
    """Reference to an object of a known kind; lists leave apiVersion and kind out, so the struct says them."""
    kind = _KINDS.get(type(obj))
    meta: Any = obj.metadata
    return ObjectReference(
        api_version=kind.api_version if kind else obj.api_version,
        kind=kind.kind if kind else obj.kind,
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        resource_version=meta.resource_version,
    )
