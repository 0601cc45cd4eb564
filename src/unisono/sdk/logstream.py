"""Log lines of pods, followed until the container ends, with the task's name in front."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from unisono.errors import ApiError, NotFound

if TYPE_CHECKING:
    from unisono.kube.http import HttpClient

JOB_LABEL = "volcano.sh/job-name"
RETRY_SECONDS = 0.2


def short_name(pod: str, job: str | None) -> str:
    """``hello-worker-0`` of job ``hello`` is ``worker-0``; other pods keep their name."""
    prefix = f"{job}-"
    return pod[len(prefix) :] if job and pod.startswith(prefix) and len(pod) > len(prefix) else pod


def containers(pod: dict[str, Any]) -> list[str]:
    """Names of the pod's init containers and containers, in the order in which they run."""
    spec = pod.get("spec") or {}
    return [item["name"] for key in ("initContainers", "containers") for item in spec.get(key) or []]


async def lines(
    client: HttpClient, namespace: str, pod: str, params: dict[str, str], *, patient: bool = False
) -> AsyncGenerator[str, None]:
    """Lines of one container's log.

    Args:
        client: the server.
        namespace: of the pod.
        pod: its name.
        params: query of the log subresource (container, follow, tailLines, ...).
        patient: a container that has not started yet is waited for; a pod that is gone ends the stream.

    Raises:
        ApiError: the server refuses, or the pod does not exist (unless ``patient``).

    """
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/log"
    while True:
        buffer = b""
        try:
            async for chunk in client.stream(path, params):
                *complete, buffer = (buffer + chunk).split(b"\n")
                for line in complete:
                    yield line.decode(errors="replace")
            if buffer:
                yield buffer.decode(errors="replace")
        except NotFound:
            if not patient:
                raise
        except ApiError as error:
            if not patient or "waiting to start" not in error.message:
                raise
            await asyncio.sleep(RETRY_SECONDS)
            continue
        return
