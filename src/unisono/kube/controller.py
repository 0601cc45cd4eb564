"""Controllers and the manager that runs them on shared informers.

A controller names what it watches in ``setup`` and brings one object to its desired state in ``reconcile``.
The manager owns everything around that: one informer per kind for all controllers, one work queue per
controller, workers, back-off, and the rule that nothing is reconciled before every list has been handled.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Protocol, TypeVar

from unisono.api.base import Object
from unisono.api.kind import Kind
from unisono.errors import ApiError, Conflict, SetAside, Unavailable, UnisonoError
from unisono.kube.client import Client, EventType
from unisono.kube.clock import SYSTEM_CLOCK, Clock
from unisono.kube.informer import Informer
from unisono.kube.pace import Backoff
from unisono.kube.workqueue import QueueStatistics, WorkQueue
from unisono.lazy_logs import LazyLogger

T = TypeVar("T", bound=Object)

_log = LazyLogger(__name__)

# Seconds until a server that did not know an optional kind is asked for it again.
_ABSENT_SECONDS = 60.0

# Failures in a row of one key after which it is named in an error log: by then it is no passing trouble.
_STUCK_AFTER = 8

# Answers of a server that would answer otherwise if another object were different: a queue, a quota, an account.
_REFUSED = (403, 404, 422)

# An object that has to be changed before it can be worked on is looked at again without a change after so long.
_ASIDE_SECONDS = 60.0


class Keeper(Protocol):
    """Looks after objects that a controller cannot work on, so that their owners hear of it and all others go on."""

    def check(self, obj: Object) -> None:
        """Raise SetAside for an object that no controller may begin with."""
        ...

    async def set_aside(self, controller: str, kind: Kind[Any], obj: Object, error: Exception) -> None:
        """A controller could not work on the object; told at every try."""
        ...

    async def settled(self, controller: str, kind: Kind[Any], obj: Object) -> None:
        """The controller has worked on the object; told at every success."""
        ...


@dataclass(frozen=True, slots=True)
class Retry:
    """Changes after which the server may allow what it refused: what waits for that is tried again at once.

    Attributes:
        kind: of the objects; a change of one in a namespace concerns the keys of that namespace, others concern all.
        when: which changes; see `Context.watch`.
        most: how many keys of each controller are tried again at one change, those that wait longest first; 0: all.
    """

    kind: Kind[Any]
    when: Callable[[EventType, Any, Any], bool]
    most: int = 0


class Informers:
    """One informer per kind, for all who ask."""

    def __init__(self, client: Client, clock: Clock = SYSTEM_CLOCK) -> None:
        self.client, self.clock = client, clock
        self._informers: dict[tuple[str, str], Informer[Any]] = {}
        self._group: asyncio.TaskGroup | None = None

    def of(self, kind: Kind[T], *, optional: bool = False, fields: str = "") -> Informer[T]:
        """The shared informer of ``kind`` over all namespaces.

        The first to ask decides whether the kind is ``optional``: a server that does not know an optional kind counts
        as one without objects of it, and is asked again from time to time; and with ``fields`` only objects with these
        are read.
        """
        name = (kind.group, kind.plural)
        informer = self._informers.get(name)
        if informer is None:
            absent = _ABSENT_SECONDS if optional else None
            informer = Informer(self.client, kind, field_selector=fields, clock=self.clock, absent_seconds=absent)
            self._informers[name] = informer
            if self._group is not None:
                self._group.create_task(informer.run())
        return informer

    async def run(self) -> None:
        """Run every informer until cancelled, those that are asked for later too."""
        try:
            async with asyncio.TaskGroup() as group:
                for informer in self._informers.values():
                    group.create_task(informer.run())
                self._group = group
                await asyncio.get_running_loop().create_future()
        finally:
            self._group = None

    async def wait_synced(self) -> None:
        """Return when every first list has been handled."""
        for informer in list(self._informers.values()):
            await informer.synced.wait()

    def statistics(self) -> dict[str, Any]:
        """Stream statistics by resource name."""
        return {informer.kind.resource: informer.statistics() for informer in self._informers.values()}


class Context:
    """What the manager hands to one controller's ``setup``."""

    def __init__(
        self, informers: Informers, queue: WorkQueue, *, controller: str = "", keeper: Keeper | None = None
    ) -> None:
        self.client, self.clock = informers.client, informers.clock
        self.informers, self.queue = informers, queue
        self.first: Informer[Any] | None = None
        self.used: list[Informer[Any]] = []
        self._controller, self._keeper = controller, keeper

    async def tell(self, kind: Kind[Any], obj: Object, error: Exception | None) -> None:
        """Tell the owner of one object among many that are looked at under one key how the look at it ended.

        An error sets the object aside, None takes that back. For the object of a key the manager does this itself.
        What the server or the network refuse is no fault of the object and changes nothing.
        """
        if self._keeper is None or isinstance(error, (ApiError, OSError, TimeoutError)):
            return
        try:
            if error is None:
                await self._keeper.settled(self._controller, kind, obj)
            else:
                await self._keeper.set_aside(self._controller, kind, obj, error)
        except ApiError as failure:
            _log.debug("controller.keeper_failed", controller=self._controller, key=obj.key, error=str(failure))

    def informer(self, kind: Kind[T]) -> Informer[T]:
        """The shared informer of ``kind``; its cache is complete before the first reconcile."""
        informer = self.informers.of(kind)
        self.used.append(informer)
        return informer

    def watch(
        self,
        kind: Kind[T],
        keys: Callable[[T], Iterable[str]] | None = None,
        *,
        when: Callable[[EventType, T, T | None], bool] | None = None,
        optional: bool = False,
        fields: str = "",
    ) -> Informer[T]:
        """Queue keys when an object of ``kind`` changes.

        Args:
            kind: what to watch.
            keys: which keys a changed object concerns; its own key when absent. Asked for the new and the old
                state.
            when: changes for which it answers False are ignored.
            optional: wait quietly where the server does not serve the kind.
            fields: a field selector; nobody else may watch the kind otherwise.
        """
        informer = self.informers.of(kind, optional=optional, fields=fields)
        self.used.append(informer)
        if self.first is None:
            self.first = informer
        of = keys or _own_key

        def handle(event_type: EventType, new: T, old: T | None) -> None:
            if when is not None and not when(event_type, new, old):
                return
            for key in dict.fromkeys([*of(new), *(of(old) if old is not None else ())]):
                self.queue.add(key)

        informer.on_change(handle)
        return informer

    def enqueue(self, key: str, after: float = 0.0) -> None:
        """Queue a key, now or after some seconds."""
        self.queue.add_after(key, after)


class Controller:
    """Base of every controller; subclasses set ``name`` and write ``setup`` and ``reconcile``.

    What ``setup`` watches first is the controller's own kind: a key of ``reconcile`` is the key of such an object.
    """

    name: str = "controller"
    workers: int = 16
    _client: Client
    _clock: Clock
    _context: Context

    def attach(self, context: Context) -> None:
        """Take the manager's client and clock, and set up."""
        self._client, self._clock, self._context = context.client, context.clock, context
        self.setup(context)

    def setup(self, context: Context) -> None:
        """Ask for informers, add indexes, say which changes queue which keys. Called once, before anything
        runs.
        """
        raise TypeError(f"{type(self).__name__} must define setup")

    async def start(self) -> None:
        """Called once when all caches are complete, before the first reconcile; retried with back-off on
        failure.
        """

    async def reconcile(self, key: str) -> float | None:
        """Bring the object of ``key`` to its desired state.

        Returns:
            seconds after which to look again even if nothing changes, or None.
        """
        raise TypeError(f"{type(self).__name__} must define reconcile")


@dataclass(slots=True)
class ControllerStatistics:
    """What one controller did.

    Attributes:
        reconciles: calls of ``reconcile`` that returned.
        conflicts: calls that lost a race and were retried.
        failures: calls that raised anything else.
        last_error: sentence of the last failure.
        queue: its work queue.
    """

    reconciles: int
    conflicts: int
    failures: int
    last_error: str
    queue: QueueStatistics


class Manager:
    """Runs controllers on shared informers until cancelled."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock = SYSTEM_CLOCK,
        backoff: Callable[[], Backoff] = Backoff,
        keeper: Keeper | None = None,
        retries: Sequence[Retry] = (),
    ) -> None:
        """``backoff`` makes the retry delays of one controller's queue; ``keeper`` looks after objects that cannot be
        worked on; ``retries`` say when keys that the server refused are tried again before their delay is over.
        """
        self._keeper, self._retries = keeper, retries
        self._clock = clock
        self.informers = Informers(client, clock)
        self._backoff = backoff
        self._runs: list[_Run] = []
        self._group: asyncio.TaskGroup | None = None
        self.ready = asyncio.Event()

    async def run(self, controllers: Sequence[Controller]) -> None:
        """Set up the controllers, wait for complete caches, reconcile until cancelled."""
        self._runs = [self._set_up(controller) for controller in controllers]
        for retry in self._retries:
            self.informers.of(retry.kind).on_change(partial(self._changed, retry))
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                group.create_task(self.informers.run())
                await self.informers.wait_synced()
                for run in self._runs:
                    group.create_task(run.loop(group, self._clock, self._backoff()))
                self.ready.set()
        finally:
            self._group = None
            for run in self._runs:
                run.queue.close()

    def add(self, controller: Controller) -> None:
        """Run one more controller from now on; only while the others run.

        It waits for what it watches, and not for what others do: a kind that cannot be read stops no other.
        """
        if self._group is not None:
            run = self._set_up(controller)
            self._runs.append(run)
            self._group.create_task(self._begin(run, self._group))

    async def _begin(self, run: _Run, group: asyncio.TaskGroup) -> None:
        for informer in run.context.used if run.context is not None else ():
            await informer.synced.wait()
        await run.loop(group, self._clock, self._backoff())

    def _set_up(self, controller: Controller) -> _Run:
        run = _Run(controller, WorkQueue(self._clock, self._backoff()), self._keeper)
        context = Context(self.informers, run.queue, controller=controller.name, keeper=self._keeper)
        controller.attach(context)
        run.context, run.own = context, context.first
        return run

    def _changed(self, retry: Retry, event_type: EventType, new: Object, old: Object | None) -> None:
        if any(run.refused for run in self._runs) and retry.when(event_type, new, old):
            for run in self._runs:
                run.try_again(new.metadata.namespace or "", retry.most)

    def statistics(self) -> dict[str, ControllerStatistics]:
        """Counts by controller name."""
        return {run.controller.name: run.statistics() for run in self._runs}


class _Run:
    """One controller, its queue and its counts."""

    def __init__(self, controller: Controller, queue: WorkQueue, keeper: Keeper | None) -> None:
        self.controller, self.queue, self._keeper = controller, queue, keeper
        self.own: Informer[Any] | None = None
        self.context: Context | None = None
        # Keys of which the server refused something at the last try, the one that was tried last at the end.
        self.refused: dict[str, None] = {}
        self.reconciles = self.conflicts = self.failures = 0
        self.last_error = ""

    def statistics(self) -> ControllerStatistics:
        return ControllerStatistics(
            self.reconciles, self.conflicts, self.failures, self.last_error, self.queue.statistics()
        )

    def try_again(self, namespace: str, most: int) -> None:
        """Queue keys that the server refused, of a namespace or of all."""
        keys = (key for key in self.refused if not namespace or key.startswith(f"{namespace}/"))
        for key in list(islice(keys, most or None)):
            self.queue.add(key)

    async def loop(self, group: asyncio.TaskGroup, clock: Clock, backoff: Backoff) -> None:
        await self._start(clock, backoff)
        for _ in range(self.controller.workers):
            group.create_task(self.queue.work(self._once))

    async def _start(self, clock: Clock, backoff: Backoff) -> None:
        failures = 0
        while True:
            try:
                await self.controller.start()
            except Exception as error:
                failures += 1
                self._failed("start", failures, error)
                await clock.sleep(backoff.delay(failures))
            else:
                return

    async def _once(self, key: str) -> None:
        obj = self.own.get(key) if self.own is not None else None
        try:
            if self._keeper is not None and obj is not None:
                self._keeper.check(obj)
            again = await self.controller.reconcile(key)
        except Conflict as error:
            # The cache was behind; the next event or the retry sees the newer state.
            self.conflicts += 1
            self.last_error = str(error)
            self.queue.add_rate_limited(key)
            free_frames(error)
        except Exception as error:
            self.refused.pop(key, None)
            if isinstance(error, ApiError) and error.code in _REFUSED:
                self.refused[key] = None
            self.queue.add_rate_limited(key, at_least=_least_wait(error))
            self._failed(key, self.queue.failures(key), error)
            await self._tell(obj, error)
            free_frames(error)
        else:
            self.reconciles += 1
            self.refused.pop(key, None)
            self.queue.forget(key)
            if again is not None:
                self.queue.add_after(key, again)
            await self._tell(obj, None)

    async def _tell(self, obj: Object | None, error: Exception | None) -> None:
        """Have the keeper tell the object's owner; that it fails is nothing that the controller could change."""
        if self.context is None or self.own is None or obj is None:
            return
        if error is None:
            await self.context.tell(self.own.kind, self.own.get(obj.key) or obj, None)
        elif _is_the_objects(error):
            await self.context.tell(self.own.kind, obj, error)

    def _failed(self, key: str, failures: int, error: Exception) -> None:
        self.failures += 1
        self.last_error = str(error) or type(error).__name__
        fields = {"controller": self.controller.name, "key": key, "failures": failures, "error": self.last_error}
        if failures == _STUCK_AFTER:
            _log.error("controller.stuck", **fields)
        elif failures == 1:
            # An error raised on purpose is a sentence that says it all; where any other came from is worth a traceback.
            deliberate = isinstance(error, UnisonoError)
            _log.warning("controller.failed", **fields, exc_info=None if deliberate else error)


def _least_wait(error: Exception) -> float:
    """Seconds that a failed key waits at least."""
    if isinstance(error, SetAside):
        return _ASIDE_SECONDS
    return error.retry_after or 0.0 if isinstance(error, Unavailable) else 0.0


def _is_the_objects(error: Exception) -> bool:
    """Whether the object is the cause: what the server or the network refuses is told by the caller, or passes."""
    return isinstance(error, SetAside) or not isinstance(error, (UnisonoError, OSError, TimeoutError))


def _own_key(obj: Object) -> list[str]:
    return [obj.key]


def sooner(*seconds: float | None) -> float | None:
    """The smallest of these times until the next look; None where all of them are None."""
    return min((each for each in seconds if each is not None), default=None)


def free_frames(error: BaseException) -> None:
    """Free what the frames of a handled error hold; call it where an error ends whose way was long.

    Where one of the frames lists the errors of many requests, it holds itself, and objects of megabytes with it, until
    the garbage collector looks through everything, which the few objects of such a circle do not make it do.
    """
    traceback.clear_frames(error.__traceback__)
