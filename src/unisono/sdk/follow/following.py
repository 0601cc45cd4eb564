"""Follows jobs, pods and other objects on a server to their end, or only the log lines of their pods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from unisono.api.core import Pod
from unisono.api.kind import Kind
from unisono.api.kinds import PODS
from unisono.errors import ApiError, UnisonoError
from unisono.kube.http import HttpClient
from unisono.sdk.follow.events import Event, EventQueue, LogFailed, LogText, Target
from unisono.sdk.follow.informers import TargetInformers
from unisono.sdk.follow.log_copies import LogCopies, Seen
from unisono.sdk.follow.log_lines import LogSelection, lines
from unisono.sdk.follow.owner_state import DEFAULT_SCHEDULER
from unisono.sdk.jobs.kinds import job_kind_of
from unisono.sdk.overview.components import scheduler_health
from unisono.sdk.state.dependents import dependents
from unisono.sdk.state.observing import Observation, last_observation, observation, task_of

if TYPE_CHECKING:
    from unisono.api.base import Object
    from unisono.sdk.state.dependents import Dependents
    from unisono.sdk.state.views import JobView


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
