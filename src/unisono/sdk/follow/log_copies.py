"""Follows the logs of many containers into one event queue."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from unisono.api.pod_states import ENDED_PHASES
from unisono.errors import ApiError
from unisono.sdk.follow.events import EventQueue, LogFailed, LogText, Target
from unisono.sdk.follow.log_lines import LogSelection, lines

if TYPE_CHECKING:
    from unisono.api.core import Pod
    from unisono.kube.http import HttpClient

DRAIN_SECONDS = 5.0
"""How long a log may stay silent after its job has ended: a process may outlive its job and never end its log."""
END_SECONDS = 30.0
"""The same for the log of a pod that has ended, for the first line of a log, and for the start of a pod on its node."""
TURN_SECONDS = 5.0
"""How long the log of a pod that has ended may stay silent while logs of pods that started later wait for its end."""


class Seen(NamedTuple):
    """A pod as last seen, and whether it has been deleted."""

    target: Target
    pod: Pod
    deleted: bool = False


@dataclass(slots=True, eq=False)
class _Copy:
    """One container's log.

    Attributes:
        uid: of the pod.
        heard: when the last line came, or when the log was asked for, by the loop's clock.
        silent: no line has come yet.
        holds: a line has come that waits for its turn, or for room.
        task: reads it; None before that begins.

    """

    uid: str
    heard: float
    silent: bool = True
    holds: bool = False
    task: asyncio.Task[None] | None = None

    @property
    def done(self) -> bool:
        return self.task is not None and self.task.done()


class LogCopies:
    """One task for each container whose log is followed.

    All logs are read at the same time. What has been written before the copy began comes in the order in which the pods
    started: the first line of each log waits until the logs of pods that started earlier and have ended are told.

    Args:
        client: the server.
        selection: which logs are followed.
        events: where lines and failures go.
        ended: is called when a log has come to its end.

    """

    def __init__(
        self, client: HttpClient, selection: LogSelection, events: EventQueue, ended: Callable[[], None]
    ) -> None:
        self._client, self._selection, self._events, self._tell_end = client, selection, events, ended
        self._copies: dict[tuple[str, str], _Copy] = {}
        self._ended: set[str] = set()

    def start(self, pods: Iterable[Seen]) -> None:
        """Follow the selected logs of pods that have started; those that are followed already go on."""
        ready = [seen for seen in pods if self._selection.is_ready(seen.pod)]
        self._ended |= {seen.pod.metadata.uid or "" for seen in ready if _has_ended(seen)}
        for seen in sorted(ready, key=_start):
            for container in self._selection.containers(seen.pod):
                key = seen.pod.metadata.uid or "", container
                if key not in self._copies:
                    self._begin(key, seen)

    def done_by(self, pods: Iterable[Pod], job_end: float) -> float:
        """When nothing more is expected, unless something comes before: now or earlier where all logs have ended.

        Args:
            pods: all pods; some of them may still start: soon where they have a node, in a moment where they do not.
            job_end: when the job ended. All times are of the loop's clock.

        """
        now = asyncio.get_running_loop().time()
        times = [self._silent_at(copy, job_end, now) for copy in self._copies.values() if not copy.done]
        starting = [pod for pod in pods if self._selection.may_start(pod)]
        times += [job_end + (END_SECONDS if pod.spec.node_name else DRAIN_SECONDS) for pod in starting]
        return max(times, default=job_end)

    async def close(self) -> None:
        """End what still runs."""
        tasks = [copy.task for copy in self._copies.values() if copy.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _silent_at(self, copy: _Copy, job_end: float, now: float) -> float:
        """A slow reader loses nothing: while a line waits for it, the log is not silent."""
        if copy.holds:
            return now + DRAIN_SECONDS
        if copy.uid in self._ended:
            return max(copy.heard, job_end) + END_SECONDS
        first = copy.heard + END_SECONDS if copy.silent else 0.0
        return max(copy.heard + DRAIN_SECONDS, job_end + DRAIN_SECONDS, first)

    def _begin(self, key: tuple[str, str], seen: Seen) -> None:
        earlier = [copy for copy in self._copies.values() if copy.uid in self._ended and not copy.done]
        copy = self._copies[key] = _Copy(key[0], asyncio.get_running_loop().time())
        copy.task = asyncio.create_task(self._read(copy, seen, key[1], earlier))
        copy.task.add_done_callback(lambda _: self._tell_end())

    async def _read(self, copy: _Copy, seen: Seen, container: str, earlier: list[_Copy]) -> None:
        target, pod, clock = seen.target, seen.pod, asyncio.get_running_loop().time
        query = {**self._selection.query(pod, container), "follow": "true"}
        source = lines(self._client, pod.metadata.namespace or "default", pod.metadata.name, query, patient=True)
        try:
            async with aclosing(source):
                async for text in source:
                    copy.silent, copy.holds = False, True
                    await _turn(earlier)
                    await self._events.put_line(LogText(target, pod, container, text))
                    copy.heard, copy.holds = clock(), False
        except ApiError as error:
            await _turn(earlier)
            self._events.put_failure(LogFailed(target, pod, container, error))


async def _turn(earlier: list[_Copy]) -> None:
    """Return when these logs are told, or silent for too long; the list is empty then."""
    clock = asyncio.get_running_loop().time
    while earlier:
        copy = earlier[0]
        left = TURN_SECONDS if copy.holds else copy.heard + TURN_SECONDS - clock()
        if copy.done or left <= 0 or copy.task is None:
            del earlier[0]
        else:
            await asyncio.wait([copy.task], timeout=left)


def _has_ended(seen: Seen) -> bool:
    return seen.deleted or seen.pod.status.phase in ENDED_PHASES


def _start(seen: Seen) -> tuple[str, bool, int, str]:
    """When a pod started; of those that did in the same second, the one that changed last is the later one."""
    meta = seen.pod.metadata
    version = meta.resource_version or ""
    begun = seen.pod.status.start_time or meta.creation_timestamp or ""
    return begun, not _has_ended(seen), int(version) if version.isdecimal() else 0, meta.name
