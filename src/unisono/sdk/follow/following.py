"""Follows jobs, pods and other objects on a server to their end, or only the log lines of their pods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from unisono.api.core import Pod
from unisono.api.kind import Kind
from unisono.api.kinds import POD_GROUPS, PODS
from unisono.api.selecting import pod_group_of
from unisono.errors import ApiError, UnisonoError
from unisono.jobkinds.registry import between
from unisono.kube.http import HttpClient
from unisono.kube.informer import Informer, is_newer
from unisono.sdk.follow.events import Event, EventQueue, LogFailed, LogText, Target
from unisono.sdk.follow.log_lines import LogCopies, LogSelection, Seen, lines
from unisono.sdk.follow.owner_state import DEFAULT_SCHEDULER
from unisono.sdk.jobs.control import job_kind_of
from unisono.sdk.overview.components import scheduler_health
from unisono.sdk.state.dependents import Dependents, collect, dependents, group_selector, owners_of, pod_selector
from unisono.sdk.state.observing import Observation, last_observation, observation, task_of

if TYPE_CHECKING:
    from unisono.api.base import Object
    from unisono.kube.client import Client, EventType
    from unisono.sdk.state.views import JobView

# Which followed object a pod belongs to, also after the objects between the two are deleted.

T = TypeVar("T")


class OwnerGraph(Generic[T]):
    """Remembers owner references.

    Args:
        roots: what to find, by the UID of its object.
    """

    def __init__(self, roots: Iterable[tuple[str, T]]) -> None:
        self._roots = dict(roots)
        self._owners: dict[str, tuple[str, ...]] = {}

    def add(self, obj: Object) -> None:
        """Remember the owners of an object that may stand between a root and its pods."""
        self._owners[obj.metadata.uid or ""] = _owner_uids(obj)

    def root_of(self, obj: Object) -> T | None:
        """The root that is the object or owns it, directly or through others; None without one."""
        uids = [obj.metadata.uid or "", *_owner_uids(obj)]
        for uid in uids:
            if uid in self._roots:
                return self._roots[uid]
            uids += [owner for owner in self._owners.get(uid, ()) if owner not in uids]
        return None


def _owner_uids(obj: Object) -> tuple[str, ...]:
    return tuple(owner.uid for owner in obj.metadata.owner_references or ())


# Informers of followed objects and of everything that belongs to them.

# A kind that is not served, or that the user may not read, counts as one without objects for so long.
_ABSENT_SECONDS = 30.0
# The server keeps the log of a deleted pod for about so long.
_RETENTION_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class _Source:
    """An informer with what it selects."""

    informer: Informer[Any]
    labels: str
    fields: str


class TargetInformers:
    """Keeps targets and their dependents current.

    Args:
        client: the server.
        objects: the targets, each with its object as last read.

    Attributes:
        changed: set after every change; the reader clears it.
    """

    def __init__(self, client: Client, objects: Mapping[Target, Object]) -> None:
        self.changed = asyncio.Event()
        self._client = client
        self._last = dict(objects)
        self._uids = {obj.metadata.uid or "": target for target, obj in objects.items()}
        self._owners = OwnerGraph(self._uids.items())
        self._deleted_pods: list[tuple[float, Pod]] = []
        self._deleted_uids: set[str] | None = None
        namespaces = {target.namespace for target in objects}
        self._namespace = next(iter(namespaces)) if len(namespaces) == 1 else None
        parts = {kind.resource: kind for target in objects for kind in between(target.kind.resource)}
        kinds = {target.kind.resource: target.kind for target in objects}
        # Of one target less than the whole namespace may be enough.
        single = next(iter(objects.items())) if len(objects) == 1 else None
        name = f"metadata.name={single[0].name}" if single else ""
        self._sources: dict[str, _Source] = {}
        self._made = {resource: self._add(kind, absent=resource not in kinds) for resource, kind in parts.items()}
        for informer in self._made.values():
            informer.on_change(lambda _, part, __: self._owners.add(part))
        for resource, kind in kinds.items():
            if resource not in self._sources and kind is not PODS:
                self._add(kind, fields=name)
        labels = pod_selector(single[0].kind.resource, single[1]) if single and not parts else ""
        self._pods = self._add(PODS, labels=labels, fields=name if PODS.resource in kinds else "")
        fields = group_selector(single[0].kind.resource, single[1]) if single else ""
        self._groups = self._add(POD_GROUPS, fields=fields, absent=POD_GROUPS.resource not in kinds)

    def _add(self, kind: Kind[Any], *, labels: str = "", fields: str = "", absent: bool = False) -> Informer[Any]:
        seconds = _ABSENT_SECONDS if absent else None
        informer = Informer(self._client, kind, self._namespace, labels, fields, absent_seconds=seconds)
        informer.add_index("owner", lambda obj: [owner.uid for owner in obj.metadata.owner_references or ()])
        informer.on_change(self._note_pod if kind is PODS else self._note)
        self._sources[kind.resource] = _Source(informer, labels, fields)
        return informer

    @property
    def targets(self) -> list[Target]:
        """The targets in the order in which they were given."""
        return list(self._last)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Watch; the body runs when everything was listed once.

        Raises:
            ApiError: the targets or their pods cannot be read.
        """
        for resource in dict.fromkeys([*(target.kind.resource for target in self._last), PODS.resource]):
            # An informer would try for ever.
            kind = self._sources[resource].informer.kind
            await self._client.list(kind, self._namespace, field_selector="metadata.name=-")
        tasks = [asyncio.create_task(source.informer.run()) for source in self._sources.values()]
        try:
            await asyncio.gather(*(source.informer.synced.wait() for source in self._sources.values()))
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def last(self, target: Target) -> tuple[Any, bool]:
        """The newest state of a target, and whether the target still exists."""
        there = self._sources[target.kind.resource].informer.get(target.key)
        last = self._last[target]
        if there is not None and there.metadata.uid == last.metadata.uid:
            return there, True
        return last, False

    def dependents(self, target: Target) -> Dependents:
        """What belongs to a target, or did when it was deleted."""
        last, exists = self.last(target)
        if target.kind.resource == PODS.resource:
            group = self._groups.get(pod_group_of(last))
            return Dependents(groups=[group] if group is not None else [], pods=[last] if exists else [])
        made = {resource: _OwnedBy(informer) for resource, informer in self._made.items()}
        owners = owners_of(target.kind.resource, last, made)
        namespace = target.namespace
        return collect(
            owners, _OwnedBy(self._groups), lambda name: self._groups.get(f"{namespace}/{name}"), _OwnedBy(self._pods)
        )

    def take_deleted_pods(self) -> list[tuple[Target, Pod]]:
        """Pods of the targets that were deleted since the last call."""
        now, kept, deleted = asyncio.get_running_loop().time(), [], []
        for until, pod in self._deleted_pods:
            target = self._owners.root_of(pod)
            if target is not None:
                deleted.append((target, pod))
            elif self._made and now < until:
                # Its owner may be heard of later: each kind has a watch of its own.
                kept.append((until, pod))
        self._deleted_pods = kept
        return deleted

    async def catch_up(self, seconds: float) -> None:
        """Return when the informers have everything that the server has now, or after ``seconds``.

        One watch may lag behind another. A kind that cannot be read is passed over.
        """
        self._deleted_uids = set()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                for source in self._sources.values():
                    await self._catch_up(source)
        self._deleted_uids = None

    async def _catch_up(self, source: _Source) -> None:
        kind = source.informer.kind
        try:
            listed = await self._client.list(
                kind, self._namespace, label_selector=source.labels, field_selector=source.fields
            )
        except (ApiError, OSError):
            return
        for obj in listed.items:
            while not self._has(source.informer, obj):
                self.changed.clear()
                await self.changed.wait()

    def _has(self, informer: Informer[Any], obj: Object) -> bool:
        if obj.metadata.uid in (self._deleted_uids or ()):
            return True
        cached = informer.get(obj.key)
        return cached is not None and not is_newer(obj, cached)

    def _note(self, event: EventType, obj: Object, _: Object | None) -> None:
        self.changed.set()
        uid = obj.metadata.uid or ""
        target = self._uids.get(uid)
        if target is not None:
            self._last[target] = obj
        if event == "DELETED" and self._deleted_uids is not None:
            self._deleted_uids.add(uid)

    def _note_pod(self, event: EventType, pod: Pod, _: Pod | None) -> None:
        self._note(event, pod, None)
        if event == "DELETED":
            self._deleted_pods.append((asyncio.get_running_loop().time() + _RETENTION_SECONDS, pod))


class _OwnedBy:
    """The objects of an informer by their owner."""

    def __init__(self, informer: Informer[Any]) -> None:
        self._informer = informer

    def of(self, owner: Object) -> Sequence[Any]:
        return self._informer.by_index("owner", owner.metadata.uid or "")


# Follows jobs, pods and other objects on a server to their end: informers in, events out.

CATCH_UP_SECONDS = 10.0
_FIRST_LOOK_SECONDS, _LOOK_SECONDS = 3.0, 10.0
_WAITING = frozenset({"Pending", "Restarting"})
Until = Callable[["JobView"], bool]


async def follow(
    client: HttpClient,
    targets: Sequence[Target],
    *,
    until: Until,
    logs: LogSelection | None = None,
    pause: float = 0.0,
) -> AsyncGenerator[Event, None]:
    """What happens to the targets, until all of them have ended.

    A job or a plain pod ends when its view says so, and any object when it is deleted. The last view of the last target
    is complete: it comes when everything is known that the server knew at its end. Logs end a little later, with what
    pods still write that outlive their job or start after its end.

    Args:
        client: the server.
        targets: what to follow; kinds that are no jobs and no pods, such as Deployments, have logs but no view.
        until: whether a job with this view counts as ended.
        logs: also follow these logs.
        pause: shortest time between two looks at the targets, in seconds.

    Raises:
        NotFound: a target does not exist.
        ApiError: the server does not let the targets or their pods be read.
    """
    events = EventQueue()
    task = asyncio.create_task(_run(client, targets, until, logs, pause, events))
    try:
        while (event := await events.get()) is not None:
            yield event
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _run(
    client: HttpClient,
    targets: Sequence[Target],
    until: Until,
    logs: LogSelection | None,
    pause: float,
    events: EventQueue,
) -> None:
    try:
        objects = dict(zip(targets, await asyncio.gather(*(_object(client, each) for each in targets)), strict=True))
        informers = TargetInformers(client, objects)
        copies = LogCopies(client, logs, events, informers.changed.set) if logs else None
        try:
            async with informers.running():
                follower = _Follower(informers, until, events, copies)
                looks = asyncio.create_task(follower.watch_scheduler(client))
                try:
                    await follower.run(pause)
                finally:
                    looks.cancel()
                    await asyncio.gather(looks, return_exceptions=True)
        finally:
            if copies:
                await copies.close()
        events.close()
    except Exception as error:  # the reader waits at the other end of the queue
        events.close(error)


async def _object(client: HttpClient, target: Target) -> Object:
    return target.created or await client.get(target.kind, target.name, target.namespace)


class _Follower:
    """Looks at the targets after every change until all have ended."""

    def __init__(self, informers: TargetInformers, until: Until, events: EventQueue, copies: LogCopies | None) -> None:
        self._informers, self._until, self._events, self._copies = informers, until, events, copies
        self._told: dict[Target, tuple[JobView, bool]] = {}
        self._silent: dict[str, str] = {}

    async def watch_scheduler(self, client: HttpClient) -> None:
        """While a target waits, look from time to time whether anyone schedules it: else that is what it waits for."""
        pause = _FIRST_LOOK_SECONDS
        while True:
            await asyncio.sleep(pause)
            pause = _LOOK_SECONDS
            waiting = [target for target, (view, _) in self._told.items() if view.phase in _WAITING]
            for name in {self._scheduler_of(target) for target in waiting}:
                silent = ""
                with suppress(UnisonoError):
                    silent = (await scheduler_health(client, name)).silent
                # The first sentence stands: its seconds are those until it was noticed.
                if bool(silent) != bool(self._silent.get(name)):
                    self._silent[name] = silent
                    self._informers.changed.set()

    def _scheduler_of(self, target: Target) -> str:
        last, _ = self._informers.last(target)
        name: str | None = getattr(getattr(last, "spec", None), "scheduler_name", None)
        return name or DEFAULT_SCHEDULER

    async def run(self, pause: float) -> None:
        """Tell what changes; returns when all targets have ended, and their last views and logs are told."""
        while True:
            self._informers.changed.clear()
            changes = self._look()
            if all(self._has_ended(target, each) for target, each in changes.items()):
                break
            self._tell(changes)
            await self._informers.changed.wait()
            await asyncio.sleep(pause)
        # The end of a job may be heard of before the last of its pods.
        await self._informers.catch_up(CATCH_UP_SECONDS)
        self._tell(self._look())
        if self._copies:
            await self._finish_logs(self._copies)

    async def _finish_logs(self, copies: LogCopies) -> None:
        """Read the logs to their end, also of pods that start after their job has ended.

        A master may be done before its last worker runs. What has no end is left when it has been silent for a while.
        """
        clock = asyncio.get_running_loop().time
        ended = clock()
        while True:
            self._informers.changed.clear()
            self._look()
            pods = [pod for each in self._informers.targets for pod in self._informers.dependents(each).pods]
            seconds = copies.done_by(pods, ended) - clock()
            if seconds <= 0:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._informers.changed.wait()

    def _look(self) -> dict[Target, Observation | None]:
        """All targets now; None for kinds without a view. Starts to read the logs of their pods."""
        followed = {target: self._informers.dependents(target) for target in self._informers.targets}
        if self._copies:
            deleted = [Seen(target, pod, deleted=True) for target, pod in self._informers.take_deleted_pods()]
            self._copies.start(
                [*deleted, *(Seen(target, pod) for target, each in followed.items() for pod in each.pods)]
            )
        return {target: self._look_at(target, each) for target, each in followed.items()}

    def _look_at(self, target: Target, found: Dependents) -> Observation | None:
        if job_kind_of(target.kind) is None and target.kind.resource != PODS.resource:
            return None
        before = self._told.get(target)
        last, exists = self._informers.last(target)
        seen = (observation if exists else last_observation)(target.kind, last, found, before[0] if before else None)
        silent = self._silent.get(self._scheduler_of(target), "")
        if silent and seen.view.phase in _WAITING:
            seen = replace(seen, view=replace(seen.view, waiting=silent))
        return seen

    def _has_ended(self, target: Target, found: Observation | None) -> bool:
        return self._until(found.view) if found else not self._informers.last(target)[1]

    def _tell(self, found: dict[Target, Observation | None]) -> None:
        for target, each in found.items():
            if each is None:
                continue
            state = each.view, bool(each.groups or each.pods)
            if state != self._told.get(target):
                self._told[target] = state
                self._events.put_observation(target, each)


# Log lines of all pods of a job, or of any object that has pods, as they are or as they come.

Refused = Callable[[str, str], None]
"""Is told the name of a pod whose log cannot be read, and why."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line.

    Attributes:
        pod: name of the pod.
        task: its task.
        text: the line without its end; a line of more than 256 Ki characters comes as several.
    """

    pod: str
    task: str
    text: str

    def __str__(self) -> str:
        """``train-worker-0 | epoch 3``."""
        return f"{self.pod} | {self.text}"


def _ignore(pod: str, reason: str) -> None:
    return


async def read_logs(
    client: HttpClient, kind: Kind[Any], namespace: str, name: str, wanted: LogSelection
) -> AsyncGenerator[LogLine, None]:
    """What the pods have logged so far, pod after pod; pods that have not started are left out.

    Raises:
        NotFound: there is no such object.
    """
    owner = await client.get(kind, name, namespace)
    pods = (await dependents(client, kind.resource, owner)).pods
    async with aclosing(read_pods(client, pods, wanted)) as source:
        async for line in source:
            yield line


async def read_pods(
    client: HttpClient, pods: Sequence[Pod], wanted: LogSelection, refused: Refused = _ignore
) -> AsyncGenerator[LogLine, None]:
    """What these pods have logged so far, pod after pod; those without a log are left out."""
    for pod in filter(wanted.is_ready, pods):
        for container in wanted.containers(pod):
            query, namespace = wanted.query(pod, container), pod.metadata.namespace or "default"
            async with aclosing(lines(client, namespace, pod.metadata.name, query)) as source:
                try:
                    async for text in source:
                        yield LogLine(pod.metadata.name, task_of(pod), text)
                except ApiError as error:
                    _pass_over(error, pod, refused)


async def follow_logs(
    client: HttpClient,
    kind: Kind[Any],
    namespace: str,
    name: str,
    wanted: LogSelection,
    refused: Refused = _ignore,
) -> AsyncGenerator[LogLine, None]:
    """The same, and then every line as it comes, also of pods that start later.

    It ends when the job has ended or is suspended; of objects that do not end, such as a Deployment, when they are
    deleted.

    Raises:
        NotFound: there is no such object.
    """
    target = Target(kind, namespace, name)
    async with aclosing(follow(client, [target], until=lambda view: view.stopped, logs=wanted)) as events:
        async for event in events:
            if isinstance(event, LogText):
                yield LogLine(event.pod.metadata.name, task_of(event.pod), event.text)
            elif isinstance(event, LogFailed):
                _pass_over(event.error, event.pod, refused)


def _pass_over(error: ApiError, pod: Pod, refused: Refused) -> None:
    """A pod that was deleted, or that ended before its container started, does not keep others from being read.

    Raises:
        ApiError: the error is of another kind.
    """
    if error.code not in (400, 404):
        raise error
    refused(pod.metadata.name, error.message)
