"""Log lines of all pods of a job, as they are, or as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from unisono.api.core import Pod
from unisono.api.kind import Kind
from unisono.kube.http import HttpClient
from unisono.sdk.followed import task_of
from unisono.sdk.logstream import lines
from unisono.sdk.observing import look, observe

DRAIN_SECONDS = 5.0
STARTED = frozenset({"Running", "Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line.

    Attributes:
        pod: name of the pod.
        task: its task.
        text: the line without its end.

    """

    pod: str
    task: str
    text: str

    def __str__(self) -> str:
        """``train-worker-0 | epoch 3``."""
        return f"{self.pod} | {self.text}"


async def read(
    client: HttpClient, kind: Kind[Any], namespace: str, job: str, *, task: str | None, tail: int | None
) -> AsyncGenerator[LogLine, None]:
    """What the pods have logged so far, pod after pod; pods that have not started are left out.

    Raises:
        NotFound: there is no such job.

    """
    for pod in (await look(client, kind, namespace, job)).pods:
        if _wanted(pod, task):
            async with aclosing(_copy(client, namespace, pod, _query(pod, tail))) as copy:
                async for line in copy:
                    yield line


async def follow(
    client: HttpClient, kind: Kind[Any], namespace: str, job: str, *, task: str | None, tail: int | None
) -> AsyncGenerator[LogLine, None]:
    """The same, and then every line as it comes, also of pods that start later, until the job has ended.

    Raises:
        NotFound: there is no such job.

    """
    queue: asyncio.Queue[LogLine | BaseException | None] = asyncio.Queue(maxsize=1000)
    conductor = asyncio.create_task(_conduct(client, kind, namespace, job, task, tail, queue))
    try:
        while (item := await queue.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        conductor.cancel()
        await asyncio.gather(conductor, return_exceptions=True)


async def _conduct(
    client: HttpClient,
    kind: Kind[Any],
    namespace: str,
    job: str,
    task: str | None,
    tail: int | None,
    queue: asyncio.Queue[LogLine | BaseException | None],
) -> None:
    """Copy the log of every pod into the queue; ends it with None, or with the error."""
    copies: dict[str, asyncio.Task[None]] = {}

    async def copy(pod: Pod) -> None:
        async with aclosing(_copy(client, namespace, pod, {**_query(pod, tail), "follow": "true"})) as source:
            async for line in source:
                await queue.put(line)

    try:
        async with aclosing(observe(client, kind, namespace, job)) as seen:
            async for observation in seen:
                for pod in observation.pods:
                    if (pod.metadata.uid or "") not in copies and _wanted(pod, task):
                        copies[pod.metadata.uid or ""] = asyncio.create_task(copy(pod))
        # A log that does not end with its container is left; one that is being read slowly is not.
        while pending := [each for each in copies.values() if not each.done()]:
            before = queue.qsize()
            await asyncio.wait(pending, timeout=DRAIN_SECONDS)
            if queue.qsize() == before == 0 and any(not each.done() for each in pending):
                break
        await queue.put(None)
    except Exception as error:  # the reader waits at the other end of the queue and must hear of it
        await queue.put(error)
    finally:
        for each in copies.values():
            each.cancel()
        await asyncio.gather(*copies.values(), return_exceptions=True)


async def _copy(client: HttpClient, namespace: str, pod: Pod, query: dict[str, str]) -> AsyncGenerator[LogLine, None]:
    task = task_of(pod)
    async with aclosing(lines(client, namespace, pod.metadata.name, query, patient=True)) as source:
        async for text in source:
            yield LogLine(pod.metadata.name, task, text)


def _wanted(pod: Pod, task: str | None) -> bool:
    of_task = task is None or task_of(pod).lower() == task.lower()
    return of_task and pod.status.phase in STARTED


def _query(pod: Pod, tail: int | None) -> dict[str, str]:
    containers = pod.spec.containers or []
    query = {"container": containers[0].name} if containers else {}
    return query if tail is None else {**query, "tailLines": str(tail)}
