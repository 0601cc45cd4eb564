"""What the Node says of co-location: the resources that it lends, and the taint while offline pods are evicted."""

from __future__ import annotations

import msgspec

from unisono.api.core import Node, Taint
from unisono.api.keys import BATCH_CPU, BATCH_MEMORY, OFFLINE_EVICTING
from unisono.api.kinds import NODES
from unisono.kube.client import Client


def lent(node: Node) -> tuple[int, int] | None:
    """CPU in milli-cores and memory in bytes that the Node says it lends; None where it says nothing of that."""
    found = node.status.allocatable or {}
    if BATCH_CPU not in found and BATCH_MEMORY not in found:
        return None
    try:
        return int(str(found.get(BATCH_CPU, 0))), int(str(found.get(BATCH_MEMORY, 0)))
    except ValueError:
        return -1, -1


def tainted(node: Node) -> bool:
    """Whether the Node says that offline pods are being evicted."""
    return any(each.key == OFFLINE_EVICTING for each in node.spec.taints or ())


async def report_lent(client: Client, name: str, amounts: tuple[int, int] | None) -> None:
    """Write what the node lends; None removes the resources.

    Raises:
        ApiError: the API did not take it.
    """
    values = (None, None) if amounts is None else tuple(map(str, amounts))
    resources = dict(zip((BATCH_CPU, BATCH_MEMORY), values, strict=True))
    body = {"status": {"capacity": resources, "allocatable": resources}}
    await client.patch(NODES, name, body, subresource="status")


async def report_taint(client: Client, node: Node, *, wanted: bool) -> None:
    """Add or remove the taint; others stay.

    It only discourages: with ``NoSchedule`` it would keep out the very pods for which room is made.

    Raises:
        Conflict: the Node has changed in the meantime.
        ApiError: the API did not take it.
    """
    if tainted(node) == wanted:
        return
    taints = [each for each in node.spec.taints or () if each.key != OFFLINE_EVICTING]
    if wanted:
        taints.append(Taint(key=OFFLINE_EVICTING, effect="PreferNoSchedule"))
    body = {
        "metadata": {"resourceVersion": node.metadata.resource_version},
        "spec": {"taints": msgspec.to_builtins(taints) or None},
    }
    await client.patch(NODES, node.metadata.name, body)
