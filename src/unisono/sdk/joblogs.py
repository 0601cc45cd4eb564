"""Log lines of all pods of a job, or of any object that has pods, as they are or as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from unisono.api.core import Pod
from unisono.api.kind import Kind
from unisono.api.kinds import PODS
from unisono.errors import ApiError, NotFound
from unisono.kube.http import HttpClient
from unisono.sdk.dependents import belongings
from unisono.sdk.followed import task_of
from unisono.sdk.job_kinds import family_of
from unisono.sdk.logstream import RETRY_SECONDS, lines
from unisono.sdk.observing import changes, observe

DRAIN_SECONDS = 5.0
END_SECONDS = 30.0
OVER = frozenset({"Succeeded", "Failed"})
STARTED = OVER | {"Running"}


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


@dataclass(frozen=True, slots=True)
class LogWish:
    """Whose lines are wanted, and which.

    Attributes:
        task: only pods of this task.
        container: of the pods that have one of this name; the first one of each pod where it is empty.
        params: of the log subresource: ``tailLines``, ``sinceSeconds``, ``timestamps``, ``previous``.
        refused: hears the name of a pod whose log cannot be had, and why.

    """

    task: str | None = None
    container: str = ""
    params: Mapping[str, str] = field(default_factory=dict)
    refused: Callable[[str, str], None] = lambda pod, reason: None

    def concerns(self, pod: Pod) -> bool:
        """The pod has started, and is one of those that are wanted."""
        return pod.status.phase in STARTED and self._wants(pod)

    def expects(self, pod: Pod) -> bool:
        """The pod is one of those that are wanted, and may still start."""
        return pod.status.phase not in STARTED and not pod.metadata.deletion_timestamp and self._wants(pod)

    def _wants(self, pod: Pod) -> bool:
        of_task = self.task is None or task_of(pod).lower() == self.task.lower()
        return of_task and (not self.container or self.container in container_names([pod]))

    def query(self, pod: Pod) -> dict[str, str]:
        """Parameters for a pod's log."""
        containers = pod.spec.containers or []
        chosen = self.container or (containers[0].name if containers else "")
        return {**({"container": chosen} if chosen else {}), **self.params}


def wish(task: str | None, tail: int | None) -> LogWish:
    """The lines of a task, or of all, from so many lines before the end on."""
    return LogWish(task, params={} if tail is None else {"tailLines": str(tail)})


def container_names(pods: Sequence[Pod]) -> list[str]:
    """Names of the pods' init containers and containers."""
    found = (each.name for pod in pods for each in (*(pod.spec.init_containers or ()), *(pod.spec.containers or ())))
    return list(dict.fromkeys(found))


async def read(
    client: HttpClient, kind: Kind[Any], namespace: str, name: str, wanted: LogWish
) -> AsyncGenerator[LogLine, None]:
    """What the pods have logged so far, pod after pod; pods that have not started are left out.

    Raises:
        NotFound: there is no such object.

    """
    owner = await client.get(kind, name, namespace)
    async with aclosing(read_pods(client, (await belongings(client, kind.resource, owner)).pods, wanted)) as source:
        async for line in source:
            yield line


async def read_pods(client: HttpClient, pods: Sequence[Pod], wanted: LogWish) -> AsyncGenerator[LogLine, None]:
    """What these pods have logged so far, pod after pod; those without a log are left out."""
    for pod in pods:
        if not wanted.concerns(pod):
            continue
        source = _copy(client, pod, wanted.query(pod), patient=False)
        async with aclosing(source):
            try:
                async for line in source:
                    yield line
            except ApiError as error:
                _pass_over(error, pod, wanted)


async def follow(
    client: HttpClient, kind: Kind[Any], namespace: str, name: str, wanted: LogWish
) -> AsyncGenerator[LogLine, None]:
    """The same, and then every line as it comes, also of pods that start later.

    It ends when the job has ended; of objects that do not end, such as a Deployment, when they are deleted.

    Raises:
        NotFound: there is no such object.

    """
    queue: asyncio.Queue[LogLine | BaseException | None] = asyncio.Queue(maxsize=100)
    conductor = asyncio.create_task(_conduct(client, _pods(client, kind, namespace, name, wanted), wanted, queue))
    try:
        while (item := await queue.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        conductor.cancel()
        await asyncio.gather(conductor, return_exceptions=True)


async def _pods(
    client: HttpClient, kind: Kind[Any], namespace: str, name: str, wanted: LogWish
) -> AsyncGenerator[Sequence[Pod], None]:
    """The pods after every change, until the object has ended or is gone."""
    if family_of(kind) is not None:
        pods: Sequence[Pod] = ()
        async with aclosing(observe(client, kind, namespace, name)) as seen:
            async for observation in seen:
                pods = observation.pods
                yield pods
        async with aclosing(_late_starts(client, pods, wanted)) as late:
            async for pod in late:
                yield [pod]
        return
    async with aclosing(changes(client, kind, namespace, name)) as source:
        async for _, found in source:
            yield found.pods


async def _late_starts(client: HttpClient, pods: Sequence[Pod], wanted: LogWish) -> AsyncGenerator[Pod, None]:
    """Pods that start after their job has ended: a master may be through before its last worker runs.

    Waits a while for those that have a node, and a moment for those that are on their way to one.
    """
    clock = asyncio.get_running_loop().time
    end = clock() + END_SECONDS
    short_end = clock() + DRAIN_SECONDS
    waiting = [pod for pod in pods if wanted.expects(pod)]
    while waiting:
        still: list[Pod] = []
        for seen in waiting:
            pod = await _pod_now(client, seen)
            if pod is not None and wanted.concerns(pod):
                yield pod
            elif pod is not None and wanted.expects(pod) and clock() < (end if pod.spec.node_name else short_end):
                still.append(pod)
        waiting = still
        if waiting:
            await asyncio.sleep(RETRY_SECONDS)


async def _pod_now(client: HttpClient, seen: Pod) -> Pod | None:
    """The pod as the server knows it; None when it is gone or another one took its name."""
    try:
        pod = await client.get(PODS, seen.metadata.name, seen.metadata.namespace)
    except NotFound:
        return None
    return pod if pod.metadata.uid == seen.metadata.uid else None


async def _conduct(
    client: HttpClient,
    states: AsyncGenerator[Sequence[Pod], None],
    wanted: LogWish,
    queue: asyncio.Queue[LogLine | BaseException | None],
) -> None:
    """Copy the log of every pod into the queue; ends it with None, or with the error."""
    copies: dict[str, asyncio.Task[None]] = {}
    over: set[str] = set()

    async def copy(pod: Pod) -> None:
        async with aclosing(_copy(client, pod, {**wanted.query(pod), "follow": "true"}, patient=True)) as source:
            try:
                async for line in source:
                    await queue.put(line)
            except ApiError as error:
                try:
                    _pass_over(error, pod, wanted)
                except ApiError:
                    await queue.put(error)

    try:
        async with aclosing(states):
            async for pods in states:
                over |= {pod.metadata.uid or "" for pod in pods if pod.status.phase in OVER}
                for pod in pods:
                    if (pod.metadata.uid or "") not in copies and wanted.concerns(pod):
                        copies[pod.metadata.uid or ""] = asyncio.create_task(copy(pod))
        # A log that does not end with its container is left; one that is being read slowly is not.
        await _wait(list(copies.values()), queue, DRAIN_SECONDS)
        # That of a pod that has ended will end, however slowly it comes.
        await _wait([each for uid, each in copies.items() if uid in over], queue, END_SECONDS)
        await queue.put(None)
    except Exception as error:  # the reader waits at the other end of the queue and must hear of it
        await queue.put(error)
    finally:
        for each in copies.values():
            each.cancel()
        await asyncio.gather(*copies.values(), return_exceptions=True)


async def _wait(copies: Sequence[asyncio.Task[None]], queue: asyncio.Queue[Any], seconds: float) -> None:
    """Return when all are done, or none has become so in ``seconds`` while the reader waited."""
    while pending := [each for each in copies if not each.done()]:
        before = queue.qsize()
        await asyncio.wait(pending, timeout=seconds)
        if queue.qsize() == before == 0 and any(not each.done() for each in pending):
            break


def _pass_over(error: ApiError, pod: Pod, wanted: LogWish) -> None:
    """A pod that is gone, or that ended before its container could start, does not keep the others from being read.

    Raises:
        ApiError: the error is of another kind.

    """
    if error.code not in (400, 404):
        raise error
    wanted.refused(pod.metadata.name, error.message)


async def _copy(client: HttpClient, pod: Pod, query: dict[str, str], *, patient: bool) -> AsyncGenerator[LogLine, None]:
    task, namespace = task_of(pod), pod.metadata.namespace or "default"
    # Whoever has seen a pod may still read its log when it is gone.
    query = {**query, "uid": pod.metadata.uid or ""}
    async with aclosing(lines(client, namespace, pod.metadata.name, query, patient=patient)) as source:
        async for text in source:
            yield LogLine(pod.metadata.name, task, text)
