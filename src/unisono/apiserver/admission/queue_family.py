"""Whether a queue's limits agree with those of its ancestors, siblings and descendants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from unisono.api import field_error
from unisono.api.field_error import FieldError
from unisono.api.resources import resource_list, to_wire
from unisono.api.scheduling import Queue

ROOT = "root"
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
    name, errors = queue.metadata.name, []
    open_resources = resource_list(queue.spec.capability)
    at, seen = queue.spec.parent or ROOT, {name}
    while open_resources and at != ROOT and at in queues and at not in seen:
        seen.add(at)
        limits = resource_list(queues[at].spec.capability)
        for resource in [one for one in open_resources if one in limits]:
            amount = open_resources.pop(resource)
            if amount > limits[resource]:
                have, limit = _show(resource, amount), _show(resource, limits[resource])
                why = f"queue {name} capability[{resource}]={have} exceeds its ancestor's capability={limit}"
                errors.append(field_error.invalid(f"spec.capability[{resource}]", have, why))
        at = queues[at].spec.parent or ROOT
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
        limit, total = _amounts(parent, what), _total(_amounts(child, what) for child in children)
        exceeded = {one: amount for one, amount in total.items() if amount > limit.get(one, 0)}
        if exceeded:
            have, most = _list(total), _list(limit)
            why = f"{prefix}: sum of children's {what} ({have}) exceeds parent's {what} limit ({most})"
            errors.append(field_error.invalid(f"spec.{what}", have, why))
    return errors


def _children(parent: Queue, queues: Iterable[Queue]) -> list[Queue]:
    name = parent.metadata.name
    return [one for one in queues if one.spec.parent == name and one.metadata.name != name]


def _amounts(queue: Queue, what: str) -> Amounts:
    if what == "deserved":
        return resource_list(queue.spec.deserved)
    return resource_list(queue.spec.guarantee.resource if queue.spec.guarantee else None)


def _total(each: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for amounts in each:
        for resource, amount in amounts.items():
            total[resource] = total.get(resource, 0) + amount
    return total


def _show(resource: str, amount: int) -> str:
    return to_wire({resource: amount})[resource]


def _list(amounts: Amounts) -> str:
    return ", ".join(f"{resource}: {shown}" for resource, shown in sorted(to_wire(amounts).items()))
