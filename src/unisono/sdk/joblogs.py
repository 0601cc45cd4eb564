"""Log lines of all pods of a job, or of any object that has pods, as they are or as they come."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from unisono.api.core import Pod
from unisono.api.kind import Kind
from unisono.errors import ApiError
from unisono.kube.http import HttpClient
from unisono.sdk.dependents import dependents
from unisono.sdk.events import LogFailed, LogText, Target
from unisono.sdk.followed import task_of
from unisono.sdk.following import follow
from unisono.sdk.log_selection import LogSelection
from unisono.sdk.logstream import lines

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
