"""LimitRange: defaults for what containers leave out, and bounds on what containers, pods and claims ask for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from unisono.api.core import Container, LimitRange, LimitRangeItem, PersistentVolumeClaim, Pod
from unisono.api.fields import Quantity
from unisono.api.kinds import LIMIT_RANGES
from unisono.api.qos import qos_class
from unisono.api.quantity import canonical, parse_quantity
from unisono.api.resources import pod_limits, pod_requests, to_wire
from unisono.apiserver.admission.request import Request, View
from unisono.apiserver.failures import forbidden

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


def check(request: Request, view: View) -> None:
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
