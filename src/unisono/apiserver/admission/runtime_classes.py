"""RuntimeClass: a pod that names one gets its overhead, its node selector and its tolerations."""

from __future__ import annotations

from collections.abc import Iterator

from unisono.api.core import Pod, RuntimeClass, Toleration
from unisono.api.fields import ResourceList
from unisono.api.kinds import RUNTIME_CLASSES
from unisono.api.resources import resource_list
from unisono.apiserver.admission.request import Request, View
from unisono.apiserver.failures import forbidden

_OTHER_OVERHEAD = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
_OWN_OVERHEAD = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"


def complete(request: Request, view: View) -> None:
    """Merge what the pod's class says into a new pod.

    Raises:
        ApiError: 403 when the class does not exist, or the pod says otherwise.

    """
    if request.operation != "CREATE" or request.subresource:
        return
    pod: Pod = request.object
    found = _class_of(request, view)
    overhead = _overhead(found)
    if overhead is not None:
        if pod.spec.overhead and not _same(pod.spec.overhead, overhead):
            raise forbidden(request.kind, request.name, _OTHER_OVERHEAD)
        pod.spec.overhead = dict(overhead)
    if found is not None and found.scheduling is not None:
        _select_nodes(request, pod, found.scheduling.node_selector or {})
        merged = merge_tolerations((*(pod.spec.tolerations or ()), *(found.scheduling.tolerations or ())))
        pod.spec.tolerations = merged or None


def check(request: Request, view: View) -> None:
    """Overhead is the class's alone, whatever webhooks made of the pod.

    Raises:
        ApiError: 403 when a new pod has another one.

    """
    if request.operation != "CREATE" or request.subresource:
        return
    own: ResourceList | None = request.object.spec.overhead
    overhead = _overhead(_class_of(request, view))
    if overhead is None and own:
        raise forbidden(request.kind, request.name, _OWN_OVERHEAD)
    if overhead is not None and not _same(own, overhead):
        raise forbidden(request.kind, request.name, _OTHER_OVERHEAD)


def _class_of(request: Request, view: View) -> RuntimeClass | None:
    name: str | None = request.object.spec.runtime_class_name
    if name is None:
        return None
    found = view.find(RUNTIME_CLASSES, name)
    if found is None:
        raise forbidden(request.kind, request.name, f'pod rejected: RuntimeClass "{name}" not found')
    return found


def _overhead(found: RuntimeClass | None) -> ResourceList | None:
    if found is None or found.overhead is None:
        return None
    return found.overhead.pod_fixed or {}


def _same(one: ResourceList | None, other: ResourceList) -> bool:
    return resource_list(one) == resource_list(other)


def _select_nodes(request: Request, pod: Pod, wanted: dict[str, str]) -> None:
    own = pod.spec.node_selector or {}
    for key, value in wanted.items():
        if own.get(key, value) != value:
            why = f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
            why += f"pod.spec.nodeSelector[{key}] = {own[key]}"
            raise forbidden(request.kind, request.name, why)
    if wanted:
        pod.spec.node_selector = {**own, **wanted}


def merge_tolerations(given: tuple[Toleration, ...]) -> list[Toleration]:
    """Those that no other one covers; of equal ones the first."""
    return list(_needed(given))


def _needed(given: tuple[Toleration, ...]) -> Iterator[Toleration]:
    for at, one in enumerate(given):
        before = any(_covers(other, one) for other in given[:at])
        if not before and not any(other != one and _covers(other, one) for other in given[at + 1 :]):
            yield one


def _covers(wide: Toleration, narrow: Toleration) -> bool:
    """Whether ``wide`` endures every taint that ``narrow`` endures, for as long."""
    if wide == narrow:
        return True
    exists = wide.operator == "Exists"
    if (wide.key or "") != (narrow.key or "") and not (exists and not wide.key):
        return False
    if wide.effect and wide.effect != narrow.effect:
        return False
    if wide.toleration_seconds is not None and (
        narrow.toleration_seconds is None or narrow.toleration_seconds > wide.toleration_seconds
    ):
        return False
    return exists or (
        (narrow.operator or "Equal") == (wide.operator or "Equal") == "Equal"
        and (narrow.value or "") == (wide.value or "")
    )
