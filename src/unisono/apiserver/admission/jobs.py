"""Jobs go into a queue that exists, is open, and has no queues below it."""

from __future__ import annotations

from unisono.api import field_error
from unisono.api.batch import Job
from unisono.api.kinds import QUEUES
from unisono.apiserver.admission.request import Request, View
from unisono.apiserver.failures import invalid

ROOT = "root"
DEFAULT = "default"


def check_queue(request: Request, view: View) -> None:
    """Refuse a job whose queue cannot take it; the texts are Volcano's.

    Raises:
        Invalid: names ``spec.queue``.

    """
    if request.operation != "CREATE":
        return
    job: Job = request.object
    name = job.spec.queue or DEFAULT
    why = _refusal(name, view)
    if why:
        raise invalid(request.kind, request.name, [field_error.invalid("spec.queue", name, why)])


def _refusal(name: str, view: View) -> str:
    if name == ROOT:
        return "can not submit job to root queue"
    queue = view.find(QUEUES, name)
    if queue is None:
        return f'unable to find job queue: queue.scheduling.volcano.sh "{name}" not found'
    # A queue whose state nobody has written yet is open: Volcano refuses jobs in that moment for no reason.
    state = queue.status.state or "Open"
    if state != "Open":
        return f"can only submit job to queue with state `Open`, queue `{name}` status is `{state}`"
    children = sum(1 for other in view.all(QUEUES) if other.spec.parent == name)
    if children:
        return f"can only submit job to leaf queue, queue `{name}` has {children} child queues"
    return ""
