"""PodGroups go into a queue that exists and is open."""

from __future__ import annotations

from unisono.api import field_error, messages
from unisono.api.base import OwnerReference
from unisono.api.keys import POD_QUEUE
from unisono.api.kinds import JOBS, NAMESPACES, QUEUES
from unisono.api.membership import DEFAULT_QUEUE
from unisono.api.scheduling import PodGroup
from unisono.apiserver.admission.request import Request, View
from unisono.apiserver.failures import invalid


def queue_of_namespace(request: Request, view: View) -> None:
    """A group in the default queue goes to the queue that its namespace names in an annotation."""
    if request.operation != "CREATE":
        return
    group: PodGroup = request.object
    if (group.spec.queue or DEFAULT_QUEUE) != DEFAULT_QUEUE or any(map(_of_job, group.metadata.owner_references or ())):
        return
    namespace = view.find(NAMESPACES, request.namespace or "")
    wanted = (namespace.metadata.annotations or {}).get(POD_QUEUE) if namespace else None
    group.spec.queue = wanted or DEFAULT_QUEUE


def _of_job(owner: OwnerReference) -> bool:
    """A Job's own queue was chosen when it was created, and an explicit ``default`` stays."""
    return owner.kind == JOBS.kind and owner.api_version.startswith(f"{JOBS.group}/")


def check_queue(request: Request, view: View) -> None:
    """Refuse a group whose queue cannot take it; the texts are Volcano's.

    Raises:
        Invalid: names ``spec.queue``.

    """
    if request.operation != "CREATE":
        return
    group: PodGroup = request.object
    name = group.spec.queue or DEFAULT_QUEUE
    queue = view.find(QUEUES, name)
    if queue is None:
        why = messages.pod_group_queue_not_found(name)
    elif (state := queue.status.state or "Open") != "Open":
        why = messages.queue_not_open(name, state, what="PodGroup")
    else:
        return
    raise invalid(request.kind, request.name, [field_error.invalid("spec.queue", name, why)])
