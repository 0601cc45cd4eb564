"""The node table."""

from __future__ import annotations

from typing import Any

from unisono.apiserver.tables.columns import AGE, NAME, Column, Layout, Row, wide
from unisono.apiserver.tables.values import NONE, UNKNOWN, age, get, items, join, mapping, text

_ROLE_PREFIX = "node-role.kubernetes.io/"
_ROLE_LABEL = "kubernetes.io/role"


def _status(node: Row) -> str:
    ready = next((c for c in items(node, "status", "conditions") if c.get("type") == "Ready"), None)
    word = "Unknown"
    if ready is not None:
        word = "Ready" if ready.get("status") == "True" else "NotReady"
    return f"{word},SchedulingDisabled" if get(node, "spec", "unschedulable") else word


def _roles(node: Row) -> str:
    roles = set()
    for label, value in mapping(node, "metadata", "labels").items():
        if label.startswith(_ROLE_PREFIX) and label != _ROLE_PREFIX:
            roles.add(label.removeprefix(_ROLE_PREFIX))
        elif label == _ROLE_LABEL and value:
            roles.add(value)
    return join(sorted(roles))


def _address(node: Row, kind: str) -> str:
    addresses = items(node, "status", "addresses")
    return next((text(a, "address") for a in addresses if a.get("type") == kind), NONE)


def _cells(node: Row, now: float) -> list[Any]:
    info = mapping(node, "status", "nodeInfo")
    return [
        text(node, "metadata", "name"),
        _status(node),
        _roles(node),
        age(get(node, "metadata", "creationTimestamp"), now),
        text(info, "kubeletVersion"),
        _address(node, "InternalIP"),
        _address(node, "ExternalIP"),
        text(info, "osImage", default=UNKNOWN),
        text(info, "kernelVersion", default=UNKNOWN),
        text(info, "containerRuntimeVersion", default=UNKNOWN),
    ]


NODES = Layout(
    (
        NAME,
        Column("Status", description="Whether the node takes pods."),
        Column("Roles", description="Roles, from the node's labels."),
        AGE,
        Column("Version", description="Version of the agent."),
        wide("Internal-IP", "Address inside the cluster."),
        wide("External-IP", "Address outside the cluster."),
        wide("OS-Image", "Operating system."),
        wide("Kernel-Version", "Kernel."),
        wide("Container-Runtime", "What runs the containers."),
    ),
    _cells,
)
