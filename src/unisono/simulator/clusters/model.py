"""A cluster to simulate: Kubernetes objects, and what Kubernetes does not know of them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from unisono.api.base import ObjectMeta
from unisono.api.core import Node, NodeStatus
from unisono.api.keys import GPU_COUNT, GPU_MILLI, GPU_PRODUCT, HOSTNAME, NVIDIA_GPU
from unisono.api.resources import resource_list
from unisono.api.scheduling import Queue, QueueSpec, QueueStatus
from unisono.api.topology import ExactMatch, HyperNode, HyperNodeSpec, MemberSelector, MemberSpec
from unisono.simulator.files import InputError

MOST_NODES = 100_000


class ClusterError(InputError):
    """A description of a cluster breaks a rule; the message names file and field."""


@dataclass(frozen=True)
class Cluster:
    """What a workload runs on.

    Attributes:
        nodes: in the order in which ties between equal nodes are broken after their names.
        queues: those that are described; queues that only jobs name are made with weight 1.
        hyper_nodes: the topology as the scheduler sees it.
        paths: domains of a node by its name, from the leaf upwards; empty where there is no topology.
        prices: money per hour of a node, by its name.
    """

    nodes: tuple[Node, ...]
    queues: tuple[Queue, ...] = ()
    hyper_nodes: tuple[HyperNode, ...] = ()
    paths: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    prices: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def gpus(self) -> dict[str, int]:
        """GPUs by node name."""
        return {node.metadata.name: gpus_of(node) for node in self.nodes}

    @cached_property
    def gpu_total(self) -> int:
        """GPUs of all nodes."""
        return sum(self.gpus.values())

    @cached_property
    def cpu_total(self) -> int:
        """Thousandths of cores of all nodes."""
        return sum(resource_list(node.status.allocatable).get("cpu", 0) for node in self.nodes)


def gpus_of(node: Node) -> int:
    """Whole GPUs of a node, whichever way it offers them."""
    amounts = resource_list(node.status.allocatable)
    return max(amounts.get(NVIDIA_GPU, 0), amounts.get(GPU_COUNT, 0)) // 1000


def make_node(
    name: str,
    *,
    cpu: str | int,
    memory: str | int,
    gpus: int = 0,
    model: str = "",
    pods: int = 1001,
    labels: Mapping[str, str] | None = None,
    resources: Mapping[str, str] | None = None,
) -> Node:
    """A node; ``cpu`` and ``memory`` are Kubernetes quantities."""
    amounts: dict[str, str | int | float] = {"cpu": cpu, "memory": memory, "pods": pods, **(resources or {})}
    if gpus:
        amounts[NVIDIA_GPU] = gpus
    marks = {HOSTNAME: name, **({GPU_PRODUCT: model} if model else {}), **(labels or {})}
    return Node(
        metadata=ObjectMeta(name=name, uid=name, labels=marks),
        status=NodeStatus(allocatable=amounts, capacity=dict(amounts)),
    )


def make_queue(name: str, weight: int = 1, **spec: object) -> Queue:
    """An open queue."""
    return Queue(
        metadata=ObjectMeta(name=name, uid=f"queue-{name}"),
        spec=QueueSpec(weight=weight, **spec),  # type: ignore[arg-type]
        status=QueueStatus(state="Open"),
    )


def with_shared_gpus(cluster: Cluster) -> Cluster:
    """The same cluster with GPUs that are offered by thousandths, so that pods may share them."""
    return replace(cluster, nodes=tuple(_shared(node) for node in cluster.nodes))


def _shared(node: Node) -> Node:
    gpus = gpus_of(node)
    amounts = {name: value for name, value in (node.status.allocatable or {}).items() if name != NVIDIA_GPU}
    if gpus:
        amounts |= {GPU_MILLI: 1000 * gpus, GPU_COUNT: gpus}
    return Node(metadata=node.metadata, spec=node.spec, status=NodeStatus(allocatable=amounts, capacity=dict(amounts)))


def with_node_order(cluster: Cluster, seed: int) -> Cluster:
    """The same cluster with nodes renamed in a random order: the engine gives ties to the first name.

    Topology and prices move with the nodes.
    """
    positions = list(range(len(cluster.nodes)))
    random.Random(seed).shuffle(positions)  # nosec B311 # draws of a simulation, no secret
    names = {node.metadata.name: f"node-{at:06}" for at, node in zip(positions, cluster.nodes, strict=True)}
    return replace(
        cluster,
        nodes=tuple(_renamed(node, names[node.metadata.name]) for node in cluster.nodes),
        hyper_nodes=tree_of({names[name]: path for name, path in cluster.paths.items()}),
        paths={names[name]: path for name, path in cluster.paths.items()},
        prices={names[name]: price for name, price in cluster.prices.items()},
    )


def _renamed(node: Node, name: str) -> Node:
    labels = {**(node.metadata.labels or {}), HOSTNAME: name}
    return Node(metadata=ObjectMeta(name=name, uid=name, labels=labels), spec=node.spec, status=node.status)


def tree_of(paths: Mapping[str, Sequence[str]]) -> tuple[HyperNode, ...]:
    """HyperNodes of the domains that nodes lie in; domains of the lowest tier have tier 1."""
    members: dict[tuple[int, str], dict[tuple[str, str], None]] = {}
    for node, path in paths.items():
        below = ("Node", node)
        for tier, domain in enumerate(path, start=1):
            members.setdefault((tier, domain), {})[below] = None
            below = ("HyperNode", domain)
    return tuple(_hyper_node(tier, name, found) for (tier, name), found in sorted(members.items()))


def _hyper_node(tier: int, name: str, members: Iterable[tuple[str, str]]) -> HyperNode:
    listed = [
        MemberSpec(type=kind, selector=MemberSelector(exact_match=ExactMatch(name=member))) for kind, member in members
    ]
    return HyperNode(metadata=ObjectMeta(name=name, uid=name), spec=HyperNodeSpec(tier=tier, members=listed))
