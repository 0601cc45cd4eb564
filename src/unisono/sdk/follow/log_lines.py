"""Log lines of pods: whose are wanted and from where on, followed until the container ends."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from unisono.api.core import Pod
from unisono.api.pod_states import ENDED_PHASES
from unisono.errors import ApiError, NotFound
from unisono.sdk.state.observing import task_of

if TYPE_CHECKING:
    from unisono.kube.http import HttpClient


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
