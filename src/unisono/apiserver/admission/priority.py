"""PriorityClass: names become numbers when a pod is created."""

from __future__ import annotations

from unisono.api import field_error, messages
from unisono.api.core import Pod, PriorityClass
from unisono.api.kinds import PRIORITY_CLASSES
from unisono.apiserver.admission.request import Request, View
from unisono.apiserver.failures import forbidden, invalid

SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
DEFAULT_PREEMPTION = "PreemptLowerPriority"


def resolve(request: Request, view: View) -> None:
    """Set ``spec.priority`` and ``spec.preemptionPolicy`` from the pod's class, the global default, or 0.

    Raises:
        ApiError: 403 when the class does not exist, or the pod's own numbers contradict it.

    """
    if request.operation != "CREATE":
        return
    pod: Pod = request.object
    found = _class_of(request, pod, view)
    value = (found.value or 0) if found else 0
    policy = (found.preemption_policy if found else None) or DEFAULT_PREEMPTION
    if pod.spec.priority is not None and pod.spec.priority != value:
        why = f"the integer value of priority ({pod.spec.priority}) must not be provided in pod spec; "
        why += f"priority admission controller computed {value} from the given PriorityClass name"
        raise forbidden(request.kind, request.name, why)
    pod.spec.priority = value
    if pod.spec.preemption_policy is None:
        pod.spec.preemption_policy = policy
    elif pod.spec.preemption_policy != policy:
        why = f"the string value of PreemptionPolicy ({pod.spec.preemption_policy}) must not be provided in pod spec; "
        why += f"priority admission controller computed {policy} from the given PriorityClass name"
        raise forbidden(request.kind, request.name, why)


def _class_of(request: Request, pod: Pod, view: View) -> PriorityClass | None:
    name = pod.spec.priority_class_name
    if name:
        found = view.find(PRIORITY_CLASSES, name)
        if found is None:
            raise forbidden(request.kind, request.name, messages.priority_class_not_found(name))
        return found
    defaults = [one for one in view.all(PRIORITY_CLASSES) if one.global_default]
    if not defaults:
        return None
    # Two defaults can only come from a race; like Kubernetes, the lower one counts.
    chosen = min(defaults, key=lambda one: (one.value or 0, one.metadata.name))
    pod.spec.priority_class_name = chosen.metadata.name
    return chosen


def protect(request: Request, view: View) -> None:
    """One global default only, and the system's classes stay.

    Raises:
        ApiError: 403 for a second global default or the deletion of a system class.

    """
    if request.operation == "DELETE":
        if request.name in SYSTEM:
            raise forbidden(request.kind, request.name, "this is a system priority class and cannot be deleted")
        return
    new: PriorityClass = request.object
    if new.global_default:
        others = (one.metadata.name for one in view.all(PRIORITY_CLASSES) if one.global_default)
        other = next((name for name in others if name != request.name), None)
        if other is not None:
            why = f"PriorityClass {other} is already marked as default. Only one default can exist"
            raise forbidden(request.kind, request.name, why)
    if request.name.startswith("system-") and request.operation == "CREATE" and request.name not in SYSTEM:
        detail = "priority class names with 'system-' prefix are reserved for system use only"
        raise invalid(request.kind, request.name, [field_error.forbidden("metadata.name", detail)])
