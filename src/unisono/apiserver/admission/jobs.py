"""Admission of jobs and queues: what they ask for, whom a queue lets in, and how queues stand to each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from unisono.api import field_error, messages
from unisono.api.annotations import CLUSTER, CYCLES_LEASE, DISPATCH, FORGOTTEN, PLACES
from unisono.api.base import Object, OwnerReference
from unisono.api.defaulting.kubeflow import settle_replicas
from unisono.api.field_error import FieldError
from unisono.api.groups.batch import Job
from unisono.api.groups.scheduling import PodGroup, Queue
from unisono.api.keys import MASTERS
from unisono.api.kind import Kind
from unisono.api.kinds import JOBS, LEASES, QUEUES
from unisono.api.queues import Family, exceeded, oversubscribed, summed, warnings_of
from unisono.api.resources import resource_list, to_wire
from unisono.api.selecting import DEFAULT_QUEUE, ROOT
from unisono.apiserver.admission.cluster import named_by_namespace
from unisono.apiserver.admission.request import Request, Settings, View
from unisono.apiserver.custom.kinds import CustomKind, as_job, as_json
from unisono.apiserver.failures import forbidden, invalid
from unisono.jobkinds import registry
from unisono.jobkinds.registry import too_many

# Jobs and PodGroups: they go into open queues, are no larger than allowed, and stay where a hub put them.

# Jobs go into a queue that exists, is open, and has no queues below it; their two numbers of replicas agree.


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
    group.spec.queue = named_by_namespace(request, view) or DEFAULT_QUEUE


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

DISPATCHED: Final = frozenset(kind.resource for kind in (*registry.DISPATCHED, *registry.DIVIDED))
"""Resources whose objects carry their place, or those of their replicas, of those that this program knows."""


def is_dispatched(kind: Kind[Any]) -> bool:
    """Whether objects of a kind carry their place, or may once a table describes their kind."""
    return kind.resource in DISPATCHED or isinstance(kind, CustomKind)


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
    if all(given.get(key) == before.get(key) for key in PLACES) or _takes_back(before, given):
        return
    if request.operation == "UPDATE" and given.get(CLUSTER) not in (None, before.get(CLUSTER)):
        why = f"metadata.annotations[{CLUSTER}]: the hub chooses the member; remove it to have the job wait again"
        raise forbidden(request.kind, request.name, why)
    kept = {key: before[key] for key in PLACES if key in before}
    meta.annotations = {**{key: each for key, each in given.items() if key not in PLACES}, **kept} or None


def _takes_back(before: dict[str, str], given: dict[str, str]) -> bool:
    """The job was with a member, waits again, and its number is the next one; or its replicas are divided again."""
    fixed = (key for key in PLACES if key not in (CLUSTER, DISPATCH) and not (key in FORGOTTEN and key not in given))
    if not all(given.get(key) == before.get(key) for key in fixed):
        return False
    if all(given.get(key) == before.get(key) for key in (CLUSTER, DISPATCH)):
        return True
    number = before.get(DISPATCH, "")
    return (
        CLUSTER in before
        and CLUSTER not in given
        and number.isdecimal()
        and given.get(DISPATCH) == str(int(number) + 1)
    )


# Queues form a tree below ``root``: protected members, parents, and limits that hold down the tree.

# Whether a queue's limits agree with those of its ancestors, siblings and descendants.

Amounts = dict[str, int]
_SUMMED = ("guarantee", "deserved")


def family_errors(queue: Queue, queues: Mapping[str, Queue]) -> list[FieldError]:
    """What disagrees; ``queues`` holds all queues by name, ``queue`` as it will be.

    A child's capability is at most that of the nearest ancestor (below root) that limits the resource; the guarantees
    and the deserved amounts of all children add up to at most the parent's, where a resource that the parent does not
    name counts as zero. Children of root are not compared with root.
    """
    errors = _above(queue, queues)
    parent = queues.get(queue.spec.parent or ROOT)
    if parent is not None and parent.metadata.name != ROOT:
        errors += _sums(parent, queues.values(), f"parent queue {parent.metadata.name} validation failed")
    children = _children(queue, queues.values())
    if children:
        errors += _below(queue, queues)
        errors += _sums(queue, queues.values(), f"queue {queue.metadata.name} validation failed")
    return errors


def _above(queue: Queue, queues: Mapping[str, Queue]) -> list[FieldError]:
    def family(name: str) -> Family | None:
        at = queues.get(name)
        return None if at is None else Family(at.spec.parent or ROOT, resource_list(at.spec.capability))

    name, errors, own = queue.metadata.name, [], resource_list(queue.spec.capability)
    for resource, _, most in exceeded(name, own, family):
        have, limit = _show(resource, own[resource]), _show(resource, most)
        why = f"queue {name} capability[{resource}]={have} exceeds its ancestor's capability={limit}"
        errors.append(field_error.invalid(f"spec.capability[{resource}]", have, why))
    return errors


def _below(queue: Queue, queues: Mapping[str, Queue]) -> list[FieldError]:
    name, errors = queue.metadata.name, []
    largest: Amounts = {}
    todo, seen = _children(queue, queues.values()), {name}
    while todo:
        child = todo.pop()
        if child.metadata.name in seen:
            continue
        seen.add(child.metadata.name)
        for resource, amount in resource_list(child.spec.capability).items():
            largest[resource] = max(amount, largest.get(resource, 0))
        todo += _children(child, queues.values())
    for resource, limit in resource_list(queue.spec.capability).items():
        most = largest.get(resource, 0)
        if most > limit:
            have, shown = _show(resource, limit), _show(resource, most)
            why = f"queue {name} capability[{resource}]={have} is smaller than its descendants' max capability={shown}"
            errors.append(field_error.invalid(f"spec.capability[{resource}]", have, why))
    return errors


def _sums(parent: Queue, queues: Iterable[Queue], prefix: str) -> list[FieldError]:
    errors = []
    children = _children(parent, queues)
    for what in _SUMMED:
        limit, each = _stated(parent, what), [_stated(child, what) for child in children]
        if oversubscribed(limit, each):
            have, most = _list(summed(each)), _list(limit)
            why = f"{prefix}: sum of children's {what} ({have}) exceeds parent's {what} limit ({most})"
            errors.append(field_error.invalid(f"spec.{what}", have, why))
    return errors


def _children(parent: Queue, queues: Iterable[Queue]) -> list[Queue]:
    name = parent.metadata.name
    return [one for one in queues if one.spec.parent == name and one.metadata.name != name]


def _stated(queue: Queue, what: str) -> Amounts:
    if what == "deserved":
        return resource_list(queue.spec.deserved)
    return resource_list(queue.spec.guarantee.resource if queue.spec.guarantee else None)


def _show(resource: str, amount: int) -> str:
    return to_wire({resource: amount})[resource]


def _list(amounts: Amounts) -> str:
    return ", ".join(f"{resource}: {shown}" for resource, shown in sorted(to_wire(amounts).items()))


def protect(settings: Settings, request: Request, view: View) -> None:
    """``default`` and ``root`` stay, and so does a queue with children; root stays open.

    Raises:
        ApiError: 403 for a deletion, 422 for a change of root.
    """
    queue: Queue = request.object
    if request.operation == "DELETE":
        why = _keep(settings, queue, view)
        if why:
            raise forbidden(request.kind, request.name, why)
        return
    if request.name == ROOT and queue.status.state in ("Closed", "Closing"):
        error = field_error.invalid("status.state", queue.status.state, "root queue can not be closed")
        raise invalid(request.kind, request.name, [error])


def warnings(request: Request, view: View) -> list[str]:
    """Fields that the configuration of the scheduler does not enforce, as it tells by its Lease."""
    if request.operation == "DELETE" or request.subresource:
        return []
    lease = view.find(LEASES, CYCLES_LEASE, "kube-system")
    return [] if lease is None else warnings_of(request.object.spec, lease.metadata.annotations)


def _keep(settings: Settings, queue: Queue, view: View) -> str:
    name = queue.metadata.name
    if name in (DEFAULT_QUEUE, ROOT):
        return messages.protected_queue(name)
    children = sorted(one.metadata.name for one in view.all(QUEUES) if one.spec.parent == name)
    if children:
        return messages.queue_has_child_queues(name, children)
    pods = _allocated_pods(queue)
    if settings.enable_queue_allocated_pods_check and pods:
        return messages.queue_has_pods(name, pods)
    return ""


def check_parent(settings: Settings, request: Request, view: View) -> None:
    """A parent exists, is not the queue itself or below it, is not too deep, and has no pods of its own.

    Raises:
        Invalid: names ``spec.parent``.
    """
    if request.operation == "DELETE" or request.subresource:
        return
    queue: Queue = request.object
    parent = queue.spec.parent
    if parent in (None, "", ROOT) or request.name == ROOT:
        return
    if request.old is not None and request.old.spec.parent == parent:
        return
    why = _refuse_parent(settings, request.name, parent or "", view)
    if why:
        raise invalid(request.kind, request.name, [field_error.invalid("spec.parent", parent, why)])


def _refuse_parent(settings: Settings, name: str, parent: str, view: View) -> str:
    if parent == name:
        return f"queue {name} cannot use itself as parent"
    queues = {one.metadata.name: one for one in view.all(QUEUES)}
    if parent not in queues:
        return f'failed to get parent queue of {name}: queue.scheduling.volcano.sh "{parent}" not found'
    depth, at = 1, parent
    while at not in (ROOT, "") and at in queues:
        depth += 1
        if at == name:
            return f"queue {name} cannot have {parent} as parent because {parent} is below {name}"
        if depth > settings.max_queue_depth:
            return f"queue {name} exceeds the maximum allowed depth of {settings.max_queue_depth}"
        at = queues[at].spec.parent or ""
    is_leaf = not any(one.spec.parent == parent and one.metadata.name != name for one in queues.values())
    pods = _allocated_pods(queues[parent])
    if is_leaf and pods:
        return f"queue {parent} cannot be the parent queue of queue {name} because it has allocated Pods: {pods}"
    return ""


def check_family(settings: Settings, request: Request, view: View) -> None:
    """Capability, deserved and guarantee agree with those of ancestors, siblings and descendants.

    Raises:
        Invalid: names the field.
    """
    if request.operation == "DELETE" or request.subresource or request.name == ROOT:
        return
    queue: Queue = request.object
    old: Queue | None = request.old
    if old is not None and old.spec.parent == queue.spec.parent and _amounts(old) == _amounts(queue):
        return
    queues = {one.metadata.name: one for one in view.all(QUEUES)}
    queues[request.name] = queue
    errors = family_errors(queue, queues)
    if errors:
        raise invalid(request.kind, request.name, errors)


def _amounts(queue: Queue) -> tuple[Any, ...]:
    guarantee = queue.spec.guarantee.resource if queue.spec.guarantee else None
    return tuple(resource_list(one) for one in (queue.spec.capability, queue.spec.deserved, guarantee))


def _allocated_pods(queue: Queue) -> int:
    return resource_list(queue.status.allocated).get("pods", 0)
