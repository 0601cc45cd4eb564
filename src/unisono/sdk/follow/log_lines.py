"""Lines of logs: read from pods, in order, told of one pod or many, and copied to files."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from unisono.api.core import Pod
from unisono.api.pod_states import ENDED_PHASES
from unisono.errors import ApiError, NotFound
from unisono.sdk.follow.events import EventQueue, LogFailed, LogText, Target
from unisono.sdk.state.observing import task_of

if TYPE_CHECKING:
    from unisono.kube.http import HttpClient

# Log lines of pods: whose are wanted and from where on, followed until the container ends.

# Which pods' and containers' logs are wanted, and which part of them (pure).

STARTED_PHASES = ENDED_PHASES | {"Running"}


@dataclass(frozen=True, slots=True)
class LogSelection:
    """Which logs are read, and which part of them.

    Attributes:
        task: only pods of this task.
        container: of the pods that have one of this name; the first one of each pod where it is empty.
        all_containers: all containers of each pod, init containers included.
        params: of the log subresource: ``tailLines``, ``sinceSeconds``, ``timestamps``, ``previous``.
    """

    task: str | None = None
    container: str = ""
    all_containers: bool = False
    params: Mapping[str, str] = field(default_factory=dict)

    def is_ready(self, pod: Pod) -> bool:
        """Whether the pod is selected and has started, or the init container that is wanted has."""
        return self._selects(pod) and (pod.status.phase in STARTED_PHASES or self._has_begun(pod))

    def may_start(self, pod: Pod) -> bool:
        """Whether the pod is selected and may still start."""
        return pod.status.phase not in STARTED_PHASES and not pod.metadata.deletion_timestamp and self._selects(pod)

    def containers(self, pod: Pod) -> list[str]:
        """The containers of a selected pod whose logs are read; an empty name is the server's default."""
        if self.all_containers:
            return container_names([pod])
        containers = pod.spec.containers or []
        return [self.container or (containers[0].name if containers else "")]

    def query(self, pod: Pod, container: str) -> dict[str, str]:
        """Parameters of the log subresource; the UID keeps the log of a deleted pod readable for a while."""
        named = {"container": container} if container else {}
        return {**named, **self.params, "uid": pod.metadata.uid or ""}

    def _has_begun(self, pod: Pod) -> bool:
        """Init containers run, and may fail again and again, while their pod is still pending."""
        states = (
            state
            for each in pod.status.init_container_statuses or ()
            if each.name == self.container
            for state in (each.state, each.last_state)
        )
        return any(state is not None and (state.running or state.terminated) for state in states)

    def _selects(self, pod: Pod) -> bool:
        of_task = self.task is None or task_of(pod).lower() == self.task.lower()
        return of_task and (not self.container or self.container in container_names([pod]))


def container_names(pods: Sequence[Pod]) -> list[str]:
    """Names of the pods' init containers and containers, in the order in which they run."""
    names = (each.name for pod in pods for each in (*(pod.spec.init_containers or ()), *(pod.spec.containers or ())))
    return list(dict.fromkeys(names))


# Log lines of pods, followed until the container ends, with the task's name in front.

RETRY_SECONDS = 0.2
LONGEST = 256 * 1024
"""Characters of a line that are kept until its end comes."""


def short_name(pod: str, job: str | None) -> str:
    """``hello-worker-0`` of job ``hello`` is ``worker-0``; other pods keep their name."""
    prefix = f"{job}-"
    return pod[len(prefix) :] if job and pod.startswith(prefix) and len(pod) > len(prefix) else pod


async def lines(
    client: HttpClient, namespace: str, pod: str, params: dict[str, str], *, patient: bool = False
) -> AsyncGenerator[str, None]:
    """Lines of one container's log without their ends; one longer than ``LONGEST`` characters comes as several.

    Args:
        client: the server.
        namespace: of the pod.
        pod: its name.
        params: query of the log subresource (container, follow, tailLines, ...).
        patient: a container that has not started yet is waited for; a pod that was deleted ends the stream.

    Raises:
        ApiError: the server refuses, or the pod does not exist (unless ``patient``).
    """
    splitter = LineSplitter()
    async with aclosing(texts(client, namespace, pod, params, patient=patient)) as source:
        async for text in source:
            for line in splitter.feed(text):
                yield line
    if rest := splitter.rest():
        yield rest


async def texts(
    client: HttpClient, namespace: str, pod: str, params: dict[str, str], *, patient: bool = False
) -> AsyncGenerator[str, None]:
    """The same log as text in pieces as they come, without regard to lines."""
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/log"
    while True:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        try:
            async for chunk in client.stream(path, params):
                yield decoder.decode(chunk)
            yield decoder.decode(b"", final=True)
        except NotFound:
            if not patient:
                raise
        except ApiError as error:
            if not patient or "waiting to start" not in error.message:
                raise
            await asyncio.sleep(RETRY_SECONDS)
            continue
        return


class LineSplitter:
    """Makes lines of text that comes in pieces, in time that grows with the text and memory that doesn't."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._size = 0

    def feed(self, text: str) -> Iterator[str]:
        """Lines that are complete, and what is too long to wait for its end."""
        *ended, begun = text.split("\n")
        for line in ended:
            self._keep(line)
            yield self.rest()
        self._keep(begun)
        if self._size >= LONGEST:
            yield self.rest()

    def rest(self) -> str:
        """What has no end yet; it is forgotten here."""
        line = "".join(self._pieces)
        self._pieces, self._size = [], 0
        return line

    def _keep(self, text: str) -> None:
        if text:
            self._pieces.append(text)
            self._size += len(text)


# Follows the logs of many containers into one event queue.

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
