"""What a namespace may take: quotas, limit ranges, claims, and bytes in the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from unisono.api.base import Object, Quantity, ResourceList
from unisono.api.core import Container, LimitRange, LimitRangeItem, PersistentVolumeClaim, Pod, ResourceQuota
from unisono.api.keys import MASTERS, NODES_GROUP
from unisono.api.kinds import EVENTS, LEASES, LIMIT_RANGES, RESOURCE_QUOTAS, STORAGE_CLASSES
from unisono.api.pod_states import qos_class
from unisono.api.quantity import canonical, parse_quantity
from unisono.api.quota import Usage, counts, unspecified, usage_of
from unisono.api.resources import pod_limits, pod_requests, resource_list, to_wire
from unisono.api.volumes import class_of_claim, default_class, has_class, stored_bytes
from unisono.apiserver.admission.request import Request, View
from unisono.apiserver.encoding import codec
from unisono.apiserver.failures import forbidden

# ResourceQuota: nothing is created, or grows, beyond what a namespace may use.


def check_quotas(request: Request, view: View) -> None:
    """Compare what the object adds with what every quota of its namespace has left.

    Raises:
        ApiError: 403 naming the quota, what was asked for, what is used and what the limit is.

    """
    if request.operation == "DELETE" or not request.kind.namespaced or request.subresource:
        return
    quotas = [quota for quota in view.all(RESOURCE_QUOTAS, request.namespace) if quota.status.hard]
    if not quotas or (request.kind is RESOURCE_QUOTAS and request.operation == "UPDATE"):
        return
    used = usage_of(request.kind, request.object)
    before = usage_of(request.kind, request.old) if request.old is not None else {}
    for quota in sorted(quotas, key=lambda one: one.metadata.name):
        if not counts(quota, request.object):
            continue
        if request.operation == "CREATE" and isinstance(request.object, Pod):
            missing = unspecified(request.object, quota.status.hard or ())
            if missing:
                raise forbidden(request.kind, request.name, f"failed quota: {quota.metadata.name}: {missing}")
        known = before if request.old is not None and counts(quota, request.old) else {}
        _compare(request, quota, {name: amount - known.get(name, 0) for name, amount in used.items()})


def _compare(request: Request, quota: ResourceQuota, wanted: Usage) -> None:
    hard, used = resource_list(quota.status.hard), resource_list(quota.status.used)
    exceeded = [
        name
        for name in sorted(wanted)
        if name in hard and wanted[name] > 0 and used.get(name, 0) + wanted[name] > hard[name]
    ]
    if not exceeded:
        return
    asked = _listed(exceeded, to_wire({name: wanted[name] for name in exceeded}))
    taken = _listed(exceeded, quota.status.used or {})
    limit = _listed(exceeded, quota.status.hard or {})
    why = f"exceeded quota: {quota.metadata.name}, requested: {asked}, used: {taken}, limited: {limit}"
    raise forbidden(request.kind, request.name, why)


def _listed(names: Iterable[str], amounts: ResourceList | Mapping[str, str]) -> str:
    return ",".join(f"{name}={amounts.get(name, 0)}" for name in names)


# LimitRange: defaults for what containers leave out, and bounds on what containers, pods and claims ask for.

ANNOTATION = "kubernetes.io/limit-ranger"
Amounts = Mapping[str, Quantity]


def fill_in(request: Request, view: View) -> None:
    """Give containers the default requests and limits of their namespace, and say so in an annotation."""
    if request.operation != "CREATE":
        return
    pod: Pod = request.object
    notes: list[str] = []
    for limits in _of(request, view):
        for item in limits.spec.limits:
            if item.type == "Container":
                notes += _complete(pod, item)
    if notes:
        note = f"LimitRanger plugin set: {'; '.join(notes)}"
        pod.metadata.annotations = {**(pod.metadata.annotations or {}), ANNOTATION: note}
        pod.status.qos_class = qos_class(pod.spec)


def check_limit_ranges(request: Request, view: View) -> None:
    """Compare with the bounds of the namespace.

    Raises:
        ApiError: 403 naming every bound that is broken.

    """
    if request.subresource or request.operation == "DELETE":
        return
    obj = request.object
    if isinstance(obj, Pod) and request.operation != "CREATE":
        return  # what a pod asks for does not change
    for limits in _of(request, view):
        problems = [problem for item in limits.spec.limits for problem in _problems(item, obj)]
        if problems:
            why = problems[0] if len(problems) == 1 else f"[{', '.join(dict.fromkeys(problems))}]"
            raise forbidden(request.kind, request.name, why)


def _of(request: Request, view: View) -> list[LimitRange]:
    return sorted(view.all(LIMIT_RANGES, request.namespace), key=lambda one: one.metadata.name)


def _complete(pod: Pod, item: LimitRangeItem) -> Iterator[str]:
    for word, containers in (("container", pod.spec.containers), ("init container", pod.spec.init_containers)):
        for container in containers or ():
            yield from _complete_container(container, item, word)


def _complete_container(container: Container, item: LimitRangeItem, word: str) -> Iterator[str]:
    resources = container.resources
    for side, defaults in (("requests", item.default_request), ("limits", item.default)):
        given = getattr(resources, side) or {}
        added = {name: amount for name, amount in (defaults or {}).items() if name not in given}
        if added:
            setattr(resources, side, {**given, **added})
            yield f"{', '.join(sorted(added))} {side[:-1]} for {word} {container.name}"


def _problems(item: LimitRangeItem, obj: object) -> Iterator[str]:
    if isinstance(obj, Pod) and item.type == "Container":
        for container in (*(obj.spec.containers or ()), *(obj.spec.init_containers or ())):
            yield from _broken(item, container.resources.requests or {}, container.resources.limits or {})
    elif isinstance(obj, Pod) and item.type == "Pod":
        yield from _broken(item, to_wire(pod_requests(obj.spec)), to_wire(pod_limits(obj.spec)))
    elif isinstance(obj, PersistentVolumeClaim) and item.type == "PersistentVolumeClaim":
        requests = obj.spec.resources.requests or {}
        for name, bound in sorted((item.min or {}).items()):
            yield from _too_little(item.type, name, bound, requests, {})
        for name, bound in sorted((item.max or {}).items()):
            # Claims have no limits: what they request is what they get.
            yield from _too_much(item.type, name, bound, requests, requests)


def _broken(item: LimitRangeItem, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, bound in sorted((item.min or {}).items()):
        yield from _too_little(item.type, name, bound, requests, limits)
    for name, bound in sorted((item.max or {}).items()):
        yield from _too_much(item.type, name, bound, requests, limits)
    for name, bound in sorted((item.max_limit_request_ratio or {}).items()):
        yield from _out_of_proportion(item.type, name, bound, requests, limits)


def _too_little(kind: str, name: str, bound: Quantity, requests: Amounts, limits: Amounts) -> Iterator[str]:
    start = f"minimum {name} usage per {kind} is {canonical(bound)}"
    if name not in requests:
        yield f"{start}.  No request is specified"
    elif parse_quantity(requests[name]) < parse_quantity(bound):
        yield f"{start}, but request is {canonical(requests[name])}"
    elif name in limits and parse_quantity(limits[name]) < parse_quantity(bound):
        yield f"{start}, but limit is {canonical(limits[name])}"


def _too_much(kind: str, name: str, bound: Quantity, requests: Amounts, limits: Amounts) -> Iterator[str]:
    start = f"maximum {name} usage per {kind} is {canonical(bound)}"
    word = "request" if limits is requests else "limit"
    if name not in limits:
        yield f"{start}.  No {word} is specified"
    elif parse_quantity(limits[name]) > parse_quantity(bound):
        yield f"{start}, but {word} is {canonical(limits[name])}"
    elif name in requests and parse_quantity(requests[name]) > parse_quantity(bound):
        yield f"{start}, but request is {canonical(requests[name])}"


def _out_of_proportion(kind: str, name: str, bound: Quantity, requests: Amounts, limits: Amounts) -> Iterator[str]:
    start = f"{name} max limit to request ratio per {kind} is {canonical(bound)}"
    request, limit = (parse_quantity(side.get(name, 0)) for side in (requests, limits))
    if not request:
        yield f"{start}, but no request is specified or request is 0"
    elif not limit:
        yield f"{start}, but no limit is specified or limit is 0"
    elif limit / request > parse_quantity(bound):
        yield f"{start}, but provided ratio is {float(limit / request):f}"


# No namespace stores more bytes than its share of the server's memory.

_MIB = 1024 * 1024
# The control plane's own notes say what is wrong there, and keep what runs alive.
_NOTES = frozenset((EVENTS.resource, LEASES.resource))


def check_storage_room(stored: Callable[[str], int], most: int, request: Request, _: View) -> None:
    """Refuse what makes a full namespace larger; what runs there goes on, and what shrinks or deletes is taken.

    Args:
        stored: bytes that the objects of a namespace take.
        most: bytes that they may take; the last object may exceed it by its own size.
        request: a write to any namespace.

    Raises:
        ApiError: 403 with both figures.

    """
    if request.operation not in ("CREATE", "UPDATE") or not request.namespace or stored(request.namespace) < most:
        return
    if not isinstance(request.object, Object):
        return
    own = not request.user or MASTERS in request.groups or NODES_GROUP in request.groups
    if own and (request.operation == "UPDATE" or request.kind.resource in _NOTES):
        return
    if request.old is not None and len(codec.render(request.object)) <= len(codec.render(request.old)):
        return
    why = (
        f'the objects of namespace "{request.namespace}" take {stored(request.namespace) / _MIB:.3g} MiB, '
        f"and may take {most / _MIB:.3g} MiB; delete some, "
        "or have an administrator raise the API limit namespace_bytes"
    )
    raise forbidden(request.kind, request.name, why)


# PersistentVolumeClaims: the default storage class, and which of them may grow.


def choose_class(request: Request, view: View) -> None:
    """Give a claim that names no class the default one; an empty name means none."""
    claim: PersistentVolumeClaim = request.object
    if request.operation != "CREATE" or has_class(claim):
        return
    found = default_class(view.all(STORAGE_CLASSES))
    if found is not None:
        claim.spec.storage_class_name = found.metadata.name


def check_growth(request: Request, view: View) -> None:
    """A claim grows only where its class allows that.

    Raises:
        ApiError: 403 when it does not.

    """
    if request.operation != "UPDATE" or request.subresource:
        return
    claim: PersistentVolumeClaim = request.object
    old: PersistentVolumeClaim = request.old
    if stored_bytes(claim.spec.resources.requests) <= stored_bytes(old.spec.resources.requests):
        return
    name = class_of_claim(old)
    found = view.find(STORAGE_CLASSES, name) if name else None
    if found is None or not found.allow_volume_expansion:
        why = (
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must "
            "support resize"
        )
        raise forbidden(request.kind, request.name, why)
