"""What the server will say of the queue of a suspended job once it goes on: that it is missing, closed or reserved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from unisono.api.keys import QUEUE_NAME
from unisono.api.kinds import QUEUES
from unisono.api.messages import pod_group_queue_not_found, queue_not_open
from unisono.api.queue_access import named_queues, refusal
from unisono.errors import ApiError
from unisono.sdk.refusal_causes import with_meant

if TYPE_CHECKING:
    from unisono.kube.http import HttpClient

_OPEN = ("", "Open", "Unknown")
_BY_LABEL = ("RayCluster", "RayJob", "RayService")
"""Kinds whose label names the queue."""


async def queue_hurdle(client: HttpClient, kind: str, job: Any) -> str:
    """The refusal in the server's words, with the queue that was meant; empty where none is to be expected.

    Args:
        client: the server.
        kind: of the job.
        job: as a struct.

    """
    wanted = list(dict.fromkeys(_queues(kind, job)))
    if not wanted:
        return ""
    try:
        known = {queue.metadata.name: queue for queue in (await client.list(QUEUES, None)).items}
    except ApiError:  # a user who may not list queues
        return ""
    namespace = job.metadata.namespace or "default"
    for name in wanted:
        queue = known.get(name)
        if queue is None:
            return await with_meant(client, pod_group_queue_not_found(name), namespace)
        if (queue.status.state or "") not in _OPEN:
            return await with_meant(client, queue_not_open(name, queue.status.state or "", what="PodGroup"), namespace)
        if told := refusal(name, known.get, namespace, "", (), lambda _: True):
            return told
    return ""


def _queues(kind: str, job: Any) -> Iterator[str]:
    for _, name in named_queues(job):
        yield name
    labels: Mapping[str, str] = job.metadata.labels or {}
    if kind in _BY_LABEL and labels.get(QUEUE_NAME):
        yield labels[QUEUE_NAME]
