"""Jobs go into a queue that exists, is open, and has no queues below it; their two numbers of replicas agree."""

from __future__ import annotations

from unisono.api import field_error, messages
from unisono.api.batch import Job
from unisono.api.defaulting.job import settle_replicas
from unisono.api.kinds import QUEUES
from unisono.api.membership import DEFAULT_QUEUE
from unisono.apiserver.admission.request import Request, View
from unisono.apiserver.failures import invalid

ROOT = "root"


def settle_scale(request: Request, _: View) -> None:
    """Bring what ``scale`` writes and the replicas of the last task to one number."""
    if request.operation in ("CREATE", "UPDATE") and request.subresource != "status":
        settle_replicas(request.object.spec, request.old.spec if request.old is not None else None)


def check_queue(request: Request, view: View) -> None:
    """Refuse a job whose queue cannot take it; the texts are Volcano's.

    Raises:
        Invalid: names ``spec.queue``.

    """
    if request.operation != "CREATE":
        return
    job: Job = request.object
    name = job.spec.queue or DEFAULT_QUEUE
    why = _refusal(name, view)
    if why:
        raise invalid(request.kind, request.name, [field_error.invalid("spec.queue", name, why)])


def _refusal(name: str, view: View) -> str:
    if name == ROOT:
        return messages.queue_is_root()
    queue = view.find(QUEUES, name)
    if queue is None:
        return messages.queue_not_found(name)
    # A queue whose state has not been written yet is open: Volcano refuses jobs in that moment for no reason.
    state = queue.status.state or "Open"
    if state != "Open":
        return messages.queue_not_open(name, state)
    children = sum(1 for other in view.all(QUEUES) if other.spec.parent == name)
    if children:
        return messages.queue_has_children(name, children)
    return ""
