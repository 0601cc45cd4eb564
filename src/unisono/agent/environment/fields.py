"""Values of the pod's own fields and resources, for variables and downward API files. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from unisono.api.core import Container, Pod, ResourceFieldSelector
from unisono.api.quantity import parse_quantity
from unisono.api.resources import is_bytes, resource_list
from unisono.errors import AgentError

_KEYED = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")
_MILLI = 1000


def field_value(pod: Pod, path: str, *, pod_ip: str, host_ip: str) -> str:
    """The value of a field that ``fieldRef`` may name.

    Raises:
        AgentError: this field cannot be referred to.
    """
    meta, spec = pod.metadata, pod.spec
    values = {
        "metadata.name": meta.name,
        "metadata.namespace": meta.namespace or "",
        "metadata.uid": meta.uid or "",
        "spec.nodeName": spec.node_name or "",
        "spec.serviceAccountName": spec.service_account_name or "default",
        "status.podIP": pod_ip,
        "status.podIPs": pod_ip,
        "status.hostIP": host_ip,
        "status.hostIPs": host_ip,
    }
    if path in values:
        return values[path]
    if match := _KEYED.fullmatch(path):
        held = meta.labels if match[1] == "labels" else meta.annotations
        return (held or {}).get(match[2], "")
    if path in ("metadata.labels", "metadata.annotations"):
        held = meta.labels if path.endswith("labels") else meta.annotations
        return "\n".join(f'{key}="{_escape(value)}"' for key, value in sorted((held or {}).items()))
    raise AgentError(f"The field {path} cannot be referred to.")


def resource_value(
    pod: Pod, selector: ResourceFieldSelector, own_container: str, allocatable: Mapping[str, int]
) -> str:
    """``limits.cpu`` and the like, divided and rounded up.

    Args:
        pod: the pod.
        selector: what is asked for.
        own_container: the container that is meant when the selector names none.
        allocatable: the node's resources in engine units; stands for a limit that is not set.

    Raises:
        AgentError: there is no such container, or the resource is not of the form ``limits.NAME`` or ``requests.NAME``.
    """
    name = selector.container_name or own_container
    container = _container(pod, name)
    kind, _, resource = selector.resource.partition(".")
    if kind not in ("limits", "requests") or not resource:
        raise AgentError(f"The resource {selector.resource} cannot be referred to: write limits.NAME or requests.NAME.")
    limits = resource_list(container.resources.limits or {})
    amount = limits.get(resource)
    if kind == "requests":
        amount = resource_list(container.resources.requests or {}).get(resource, amount or 0)
    elif amount is None:
        amount = allocatable.get(resource, 0)
    divisor = parse_quantity(selector.divisor or "1") or parse_quantity("1")
    # Whole units of the resource are what the divisor divides; CPU is kept in thousandths.
    unit = 1 if is_bytes(resource) or resource == "pods" else _MILLI
    scaled = parse_quantity(str(amount)) / (divisor * unit)
    return str(-int(-scaled // 1))


def _container(pod: Pod, name: str) -> Container:
    containers: list[Container] = [*(pod.spec.containers or ()), *(pod.spec.init_containers or ())]
    for container in containers:
        if container.name == name:
            return container
    raise AgentError(f"The pod has no container {name} whose resources could be referred to.")


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
