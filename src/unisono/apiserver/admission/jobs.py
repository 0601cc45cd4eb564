"""Jobs and PodGroups: they go into open queues, are no larger than allowed, and stay where a hub put them."""

from __future__ import annotations

from typing import Final

from unisono.api import field_error, messages
from unisono.api.annotations import CLUSTER, DISPATCH, GANG, SPLIT
from unisono.api.base import Object, OwnerReference
from unisono.api.defaulting.job import settle_replicas
from unisono.api.groups.batch import Job
from unisono.api.groups.scheduling import PodGroup
from unisono.api.keys import MASTERS, POD_QUEUE
from unisono.api.kinds import JOBS, NAMESPACES, QUEUES
from unisono.api.membership import DEFAULT_QUEUE
from unisono.apiserver.admission.request import Request, Settings, View
from unisono.apiserver.custom.kinds import as_job, as_json
from unisono.apiserver.failures import forbidden, invalid
from unisono.jobkinds import registry
from unisono.jobkinds.registry import too_many

# Jobs go into a queue that exists, is open, and has no queues below it; their two numbers of replicas agree.

ROOT = "root"


def settle_scale(request: Request, _: View) -> None:
    """Bring what ``scale`` writes and the replicas of the last task to one number."""
    if request.operation in ("CREATE", "UPDATE") and request.subresource != "status":
        settle_replicas(request.object.spec, request.old.spec if request.old is not None else None)


def check_job_queue(request: Request, view: View) -> None:
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


# PodGroups go into a queue that exists and is open.


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


def check_group_queue(request: Request, view: View) -> None:
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


# No object asks for more pods than the server is to take from one object.


def check_size(settings: Settings, request: Request, _: View) -> None:
    """Refuse an object that is too large, unless it was already and does not grow.

    Raises:
        ApiError: 403 with both figures.

    """
    if request.operation == "DELETE" or not isinstance(request.object, Object):
        return
    kind = as_job(request.kind)
    if kind is None:
        return
    pods = kind.pods_of(as_json(request.object))
    why = too_many(pods, settings.most_pods)
    if why and (request.old is None or pods > kind.pods_of(as_json(request.old))):
        raise forbidden(request.kind, request.name, why)


# Where jobs of a hub are: only the hub says so; a user may take a job of his own back, and no more.

DISPATCHED: Final = frozenset(kind.resource for kind in registry.DISPATCHED)
"""Resources whose objects carry their place."""
_KEYS: Final = (CLUSTER, DISPATCH, GANG, SPLIT)


def keep(request: Request, _: View) -> None:
    """A new object has no place yet, whatever its author writes; nor do later writes of a user move it.

    A place that was written by hand would pass by the limits of queues and the drain of members.

    Raises:
        ApiError: 403 when a user sends a job to a member.

    """
    if request.operation not in ("CREATE", "UPDATE"):
        return
    meta = request.object.metadata
    given = meta.annotations or {}
    before: dict[str, str] = {}
    if request.operation == "UPDATE":
        if not request.user or MASTERS in request.groups:
            return
        before = request.old.metadata.annotations or {}
    if all(given.get(key) == before.get(key) for key in _KEYS) or _takes_back(before, given):
        return
    if request.operation == "UPDATE" and given.get(CLUSTER) not in (None, before.get(CLUSTER)):
        why = f"metadata.annotations[{CLUSTER}]: the hub chooses the member; remove it to have the job wait again"
        raise forbidden(request.kind, request.name, why)
    kept = {key: before[key] for key in _KEYS if key in before}
    meta.annotations = {**{key: each for key, each in given.items() if key not in _KEYS}, **kept} or None


def _takes_back(before: dict[str, str], given: dict[str, str]) -> bool:
    """The job was with a member, waits again, and its number is the next one."""
    number = before.get(DISPATCH, "")
    return (
        CLUSTER in before
        and CLUSTER not in given
        and number.isdecimal()
        and given.get(DISPATCH) == str(int(number) + 1)
        and all(given.get(key) == before.get(key) for key in (GANG, SPLIT))
    )
