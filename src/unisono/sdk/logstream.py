"""Log lines of pods, followed until the container ends, with the task's name in front."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING

from unisono.errors import ApiError, NotFound

if TYPE_CHECKING:
    from unisono.kube.http import HttpClient

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
