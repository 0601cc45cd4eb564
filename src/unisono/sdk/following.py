"""Follows jobs, pods and other objects on a server to their end: informers in, events out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from unisono.api.kinds import PODS
from unisono.sdk import log_copies
from unisono.sdk.events import Event, EventQueue, Target
from unisono.sdk.job_kinds import job_kind_of
from unisono.sdk.log_selection import LogSelection
from unisono.sdk.observing import Observation, last_observation, observation
from unisono.sdk.target_informers import TargetInformers

if TYPE_CHECKING:
    from unisono.api.base import Object
    from unisono.kube.http import HttpClient
    from unisono.sdk.views import JobView

CATCH_UP_SECONDS = 10.0
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
    copies = log_copies.LogCopies(client, logs or LogSelection(), events)
    try:
        objects = dict(zip(targets, await asyncio.gather(*(_object(client, each) for each in targets)), strict=True))
        informers = TargetInformers(client, objects)
        async with informers.running():
            follower = _Follower(informers, until, events, copies if logs else None)
            await follower.run(pause)
            if logs:
                await follower.wait_for_late_starts(logs)
                await copies.drain()
        events.close()
    except Exception as error:  # the reader waits at the other end of the queue
        events.close(error)
    finally:
        await copies.close()


async def _object(client: HttpClient, target: Target) -> Object:
    return target.created or await client.get(target.kind, target.name, target.namespace)


class _Follower:
    """Looks at the targets after every change until all have ended."""

    def __init__(
        self, informers: TargetInformers, until: Until, events: EventQueue, copies: log_copies.LogCopies | None
    ) -> None:
        self._informers, self._until, self._events, self._copies = informers, until, events, copies
        self._told: dict[Target, tuple[JobView, bool]] = {}

    async def run(self, pause: float) -> None:
        """Tell what changes; returns when all targets have ended and their last views are told."""
        while True:
            self._informers.changed.clear()
            found = self._look()
            if all(self._has_ended(target, each) for target, each in found.items()):
                break
            self._tell(found)
            await self._informers.changed.wait()
            await asyncio.sleep(pause)
        # The end of a job may be heard of before the last of its pods.
        await self._informers.catch_up(CATCH_UP_SECONDS)
        self._tell(self._look())

    async def wait_for_late_starts(self, logs: LogSelection) -> None:
        """Read the logs of pods that start after their job has ended: a master may be done before its last worker runs.

        Waits a while for pods that have a node, and a moment for those without one.
        """
        clock = asyncio.get_running_loop().time
        started = clock()
        while True:
            self._informers.changed.clear()
            self._look()
            pods = [pod for each in self._informers.targets for pod in self._informers.dependents(each).pods]
            limits = [
                log_copies.END_SECONDS if pod.spec.node_name else log_copies.DRAIN_SECONDS
                for pod in pods
                if logs.may_start(pod)
            ]
            seconds = started + max(limits, default=0.0) - clock()
            if seconds <= 0:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._informers.changed.wait()

    def _look(self) -> dict[Target, Observation | None]:
        """All targets now; None for kinds without a view. Starts to read the logs of their pods."""
        if self._copies:
            for target, pod in self._informers.take_deleted_pods():
                self._copies.start(target, pod, deleted=True)
        return {target: self._look_at(target) for target in self._informers.targets}

    def _look_at(self, target: Target) -> Observation | None:
        found = self._informers.dependents(target)
        if self._copies:
            for pod in found.pods:
                self._copies.start(target, pod)
        if job_kind_of(target.kind) is None and target.kind.resource != PODS.resource:
            return None
        told = self._told.get(target)
        last, exists = self._informers.last(target)
        return (observation if exists else last_observation)(target.kind, last, found, told[0] if told else None)

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
