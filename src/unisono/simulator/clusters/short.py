"""Clusters from a short YAML: groups of equal nodes, a topology tree, queues and prices.

::

    nodes:
    - {name: gpu, count: 16, cpu: 96, memory: 512Gi, gpus: 8, gpuModel: A100, price: 32.8}
    topology:            # from the lowest tier upwards: how many of what is below one domain has
    - {name: leaf, size: 4}
    - {name: spine, size: 2}
    queues:
    - {name: research, weight: 3}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from unisono.api.fields import Quantity
from unisono.api.quantity import QuantityError
from unisono.api.resources import resource_list
from unisono.api.scheduling import Guarantee, Queue
from unisono.api.yaml import load_all
from unisono.simulator.clusters.model import MOST_NODES, Cluster, ClusterError, make_node, make_queue, tree_of


class _Strict(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Base of what the YAML may say."""


class NodeGroup(_Strict, kw_only=True):
    """Equal nodes; ``price`` is money per node and hour."""

    name: str
    count: int = 1
    cpu: str | int | float
    memory: str | int
    gpus: int = 0
    gpu_model: str = ""
    pods: int = 1001
    price: float = 0.0
    labels: dict[str, str] = {}
    resources: dict[str, str | int] = {}


class Tier(_Strict):
    """One tier of the topology; ``size`` is how many nodes, or domains of the tier below, one domain has."""

    name: str
    size: int


class QueueGroup(_Strict):
    """A queue, with the fields of a Queue's spec."""

    name: str
    weight: int = 1
    parent: str | None = None
    priority: int | None = None
    reclaimable: bool | None = None
    capability: dict[str, Quantity] | None = None
    deserved: dict[str, Quantity] | None = None
    guarantee: dict[str, Quantity] | None = None
    dequeue_strategy: Literal["fifo", "traverse"] | None = None


class Description(_Strict):
    """The whole file."""

    nodes: list[NodeGroup]
    topology: list[Tier] = []
    queues: list[QueueGroup] = []


def parse(text: str, file: str = "") -> Cluster:
    """Read the YAML.

    Raises:
        ClusterError: names the field that is wrong.
        ConfigError: the text is not YAML.

    """
    documents = load_all(text, file)
    if len(documents) != 1:
        raise ClusterError(f"{file}: give one YAML document with nodes, and where needed topology and queues")
    return build(documents[0].value, file)


def build(value: Any, file: str = "") -> Cluster:
    """As `parse`, of what the YAML holds."""
    try:
        description = msgspec.convert(value, Description)
    except msgspec.ValidationError as error:
        raise ClusterError(f"{file}: {error}") from None
    total = sum(max(group.count, 0) for group in description.nodes)
    if total > MOST_NODES:
        raise ClusterError(f"{file}: {total} nodes are too many, at most {MOST_NODES}")
    nodes, prices = [], {}
    for number, group in enumerate(description.nodes):
        where = f"{file}: nodes[{number}]"
        _check_group(group, where)
        for index in range(group.count):
            name = group.name if group.count == 1 else f"{group.name}-{index:0{len(str(group.count - 1))}}"
            if name in prices:
                raise ClusterError(f"{where}.name: two groups make a node named {name}")
            nodes.append(_node(name, group, where))
            prices[name] = group.price
    paths = _paths([node.metadata.name for node in nodes], description.topology, file)
    queues = tuple(_queue(group) for group in description.queues)
    if len({queue.metadata.name for queue in queues}) < len(queues):
        raise ClusterError(f"{file}: queues: two have the same name")
    return Cluster(tuple(nodes), queues, tree_of(paths), paths, prices)


def read(path: Path) -> Cluster:
    """As `parse`, of a file."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ClusterError(f"{path}: the file cannot be read: {error}") from None
    return parse(text, str(path))


def _check_group(group: NodeGroup, where: str) -> None:
    if not group.name or len(group.name) > 200:
        raise ClusterError(f"{where}.name: give 1 to 200 characters")
    if group.count < 1:
        raise ClusterError(f"{where}.count: {group.count} is not 1 or more")
    if not 0 <= group.gpus <= 1024:
        raise ClusterError(f"{where}.gpus: {group.gpus} is not between 0 and 1024")
    if not 0 <= group.price < 1e9:
        raise ClusterError(f"{where}.price: {group.price} is not an amount of money per hour")
    amounts: dict[str, Quantity] = {"cpu": group.cpu, "memory": group.memory, **group.resources}
    try:
        resource_list(amounts)
    except QuantityError as error:
        raise ClusterError(f"{where}: {error}") from None


def _node(name: str, group: NodeGroup, where: str) -> Any:
    return make_node(
        name,
        cpu=str(group.cpu),
        memory=str(group.memory),
        gpus=group.gpus,
        model=group.gpu_model,
        pods=group.pods,
        labels=group.labels,
        resources={key: str(value) for key, value in group.resources.items()},
    )


def _paths(names: Sequence[str], tiers: Sequence[Tier], file: str) -> Mapping[str, tuple[str, ...]]:
    if not tiers:
        return {}
    sizes, width = [], 1
    for number, tier in enumerate(tiers):
        if tier.size < 1:
            raise ClusterError(f"{file}: topology[{number}].size: {tier.size} is not 1 or more")
        width *= tier.size
        sizes.append((tier.name, width))
    return {name: tuple(f"{tier}-{at // size}" for tier, size in sizes) for at, name in enumerate(names)}


def _queue(group: QueueGroup) -> Queue:
    guarantee = None if group.guarantee is None else Guarantee(resource=group.guarantee)
    return make_queue(
        group.name,
        group.weight,
        parent=group.parent,
        priority=group.priority,
        reclaimable=group.reclaimable,
        capability=group.capability,
        deserved=group.deserved,
        guarantee=guarantee,
        dequeue_strategy=group.dequeue_strategy,
    )
