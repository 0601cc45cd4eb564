"""What the server will say of the queue of a suspended job once it goes on: that it is missing, closed or reserved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unisono.api.kinds import QUEUES
from unisono.api.messages import pod_group_queue_not_found, queue_not_open
from unisono.api.queues import refusal, rules_of
from unisono.errors import ApiError
from unisono.jobkinds.registry import queues_of
from unisono.sdk.refusal_causes import with_meant

if TYPE_CHECKING:
    from unisono.kube.http import HttpClient

_OPEN = ("", "Open", "Unknown")


async def queue_hurdle(client: HttpClient, job: Any) -> str:
    """The refusal in the server's words, with the queue that was meant; empty where none is to be expected.

    Args:
        client: the server.
        job: as a struct.

    """
    wanted = queues_of(job)
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
        if told := refusal(name, lambda one: rules_of(known.get(one)), namespace, "", (), lambda _: True):
            return told
    return ""
