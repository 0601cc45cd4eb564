"""Clusters to simulate: nodes, queues, topology and prices, from short YAML, node lists or Kubernetes objects."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from unisono.api.base import Object, ObjectMeta, Quantity
from unisono.api.core import Node, NodeSpec, NodeStatus, Taint
from unisono.api.decode import decode
from unisono.api.groups.budgets import Budget, PriceList
from unisono.api.groups.calendar import Reservation, TemporaryQuota
from unisono.api.groups.quota import FloatingResource, FloatingResourceSpec
from unisono.api.groups.scheduling import Guarantee, Queue, QueueSpec, QueueStatus
from unisono.api.groups.topology import ExactMatch, HyperNode, HyperNodeSpec, MemberSelector, MemberSpec
from unisono.api.keys import GPU_COUNT, GPU_MILLI, GPU_PRODUCT, HOSTNAME, NVIDIA_GPU
from unisono.api.kind import Kind
from unisono.api.kinds import BUDGETS, NODES, PRICE_LISTS, QUEUES, RESERVATIONS, TEMPORARY_QUOTAS, find
from unisono.api.licenses import known_amounts
from unisono.api.quantity import QuantityError
from unisono.api.resources import resource_list
from unisono.api.times import rfc3339
from unisono.api.validation import validate
from unisono.api.yaml import load_all
from unisono.cluster.hypertree import NOWHERE, HyperNodeBook
from unisono.cluster.nodes import NodeFacts, NodeTable
from unisono.cluster.resources import ResourceRegistry
from unisono.simulator.abilities import NODE_NOTES, QUEUE_NOTES, unknown_note
from unisono.simulator.files import InputError

# A cluster to simulate: Kubernetes objects, and what Kubernetes does not know of them.

MOST_NODES = 100_000
_KINDS = frozenset(
    ("Node", "Queue", "HyperNode", "Reservation", "TemporaryQuota", "FloatingResource", "Budget", "PriceList")
)
T = TypeVar("T", bound=Object)


class ClusterError(InputError):
    """A description of a cluster breaks a rule; the message names file and field."""


@dataclass(frozen=True)
class Cluster:
    """What a workload runs on.

    Attributes:
        nodes: in the order in which ties between equal nodes are broken after their names.
        queues: those that are described; queues that only jobs name are made with weight 1.
        hyper_nodes: the topology as the scheduler sees it.
        floating: licences and other resources that lie on no node.
        paths: domains of a node by its name, from the leaf upwards; empty where there is no topology.
        prices: money per hour of a node, by its name.
        reservations, temporary_quotas: of nodes and queues; their times are those of the simulation's clock.
        budgets, price_lists: what may be used, and what resources cost, which is not by the price of a node.
    """

    nodes: tuple[Node, ...]
    queues: tuple[Queue, ...] = ()
    hyper_nodes: tuple[HyperNode, ...] = ()
    paths: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    prices: Mapping[str, float] = field(default_factory=dict)
    reservations: tuple[Reservation, ...] = ()
    temporary_quotas: tuple[TemporaryQuota, ...] = ()
    floating: tuple[FloatingResource, ...] = ()
    budgets: tuple[Budget, ...] = ()
    price_lists: tuple[PriceList, ...] = ()

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
    annotations: Mapping[str, str] | None = None,
    taints: Sequence[Taint] = (),
) -> Node:
    """A node; ``cpu`` and ``memory`` are Kubernetes quantities."""
    amounts: dict[str, str | int | float] = {"cpu": cpu, "memory": memory, "pods": pods, **(resources or {})}
    if gpus:
        amounts[NVIDIA_GPU] = gpus
    marks = {HOSTNAME: name, **({GPU_PRODUCT: model} if model else {}), **(labels or {})}
    return Node(
        metadata=ObjectMeta(name=name, uid=name, labels=marks, annotations=dict(annotations or {}) or None),
        spec=NodeSpec(taints=list(taints) or None),
        status=NodeStatus(allocatable=amounts, capacity=dict(amounts)),
    )


def make_queue(name: str, weight: int = 1, annotations: Mapping[str, str] | None = None, **spec: object) -> Queue:
    """An open queue."""
    return Queue(
        metadata=ObjectMeta(name=name, uid=f"queue-{name}", annotations=dict(annotations or {}) or None),
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
    meta = ObjectMeta(name=name, uid=name, labels=labels, annotations=node.metadata.annotations)
    return Node(metadata=meta, spec=node.spec, status=node.status)


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


# Clusters from a short YAML: groups of equal nodes, a topology tree, queues and prices.
#
# ::
#
#     nodes:
#     - {name: gpu, count: 16, cpu: 96, memory: 512Gi, gpus: 8, gpuModel: A100, price: 32.8}
#     topology:            # from the lowest tier upwards: how many of what is below one domain has
#     - {name: leaf, size: 4}
#     - {name: spine, size: 2}
#     queues:
#     - {name: research, weight: 3}


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
    annotations: dict[str, str] = {}
    taints: list[Any] = []
    resources: dict[str, str | int] = {}


class Tier(_Strict):
    """One tier of the topology; ``size`` is how many nodes, or domains of the tier below, one domain has."""

    name: str
    size: int


class QueueGroup(_Strict):
    """A queue, with its annotations and the fields of a Queue's spec by which a simulation goes."""

    name: str
    annotations: dict[str, str] = {}
    weight: int = 1
    parent: str | None = None
    priority: int | None = None
    reclaimable: bool | None = None
    capability: dict[str, Quantity] | None = None
    deserved: dict[str, Quantity] | None = None
    guarantee: dict[str, Quantity] | None = None
    affinity: dict[str, Any] | None = None
    dequeue_strategy: Literal["fifo", "traverse"] | None = None


class Description(_Strict):
    """The whole file."""

    nodes: list[NodeGroup]
    topology: list[Tier] = []
    queues: list[QueueGroup] = []
    reservations: list[dict[str, Any]] = []
    temporary_quotas: list[dict[str, Any]] = []
    budgets: list[dict[str, Any]] = []
    price_lists: list[dict[str, Any]] = []


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
    queues = tuple(_queue(group, f"{file}: queues[{at}]") for at, group in enumerate(description.queues))
    if len({queue.metadata.name for queue in queues}) < len(queues):
        raise ClusterError(f"{file}: queues: two have the same name")
    reservations = _calendar(RESERVATIONS, description.reservations, "reservations", file)
    quotas = _calendar(TEMPORARY_QUOTAS, description.temporary_quotas, "temporaryQuotas", file)
    return Cluster(
        tuple(nodes),
        queues,
        tree_of(paths),
        paths,
        prices,
        reservations,
        quotas,
        budgets=_calendar(BUDGETS, description.budgets, "budgets", file),
        price_lists=_calendar(PRICE_LISTS, description.price_lists, "priceLists", file),
    )


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
    if problem := unknown_note(group.annotations, NODE_NOTES):
        raise ClusterError(f"{where}.annotations: {problem}")
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
        annotations=group.annotations,
        taints=_spec_of(NODES, {"taints": group.taints}, where).taints or (),
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


def _spec_of(kind: Kind[Any], spec: dict[str, Any], where: str) -> Any:
    """A part of the spec of a Kubernetes object, whose words are all known."""
    decoded = decode(kind, {"metadata": {"name": "any"}, "spec": spec})
    if decoded.type_errors:
        raise ClusterError(f"{where}: {decoded.type_errors[0].message()}")
    if decoded.unknown_fields:
        raise ClusterError(f"{where}: there is no field {decoded.unknown_fields[0]}")
    return decoded.obj.spec


def _calendar(kind: Kind[T], listed: Sequence[dict[str, Any]], field: str, file: str) -> tuple[T, ...]:
    """Objects of the calendar, or budgets, the first one the oldest; each is a name beside the fields of its spec."""
    objects_by_name: dict[str, T] = {}
    for at, given in enumerate(listed):
        where, name = f"{file}: {field}[{at}]", given.get("name")
        if not isinstance(name, str) or not name or name in objects_by_name:
            raise ClusterError(f"{where}.name: give a name that no other one has")
        spec = {key: value for key, value in given.items() if key != "name"}
        meta = {"name": name, "uid": f"{field}-{name}", "creationTimestamp": rfc3339(at)}
        _spec_of(kind, spec, where)
        objects_by_name[name] = _in_order(kind, decode(kind, {"metadata": meta, "spec": spec}).obj, where)
    return tuple(objects_by_name.values())


def _in_order(kind: Kind[T], obj: T, where: str) -> T:
    """An object by which a simulation goes as it is."""
    wrong = next(iter(validate(kind, obj)), None)
    if wrong is not None:
        raise ClusterError(f"{where}: {wrong.message()}")
    return obj


def _queue(group: QueueGroup, where: str) -> Queue:
    if problem := unknown_note(group.annotations, QUEUE_NOTES):
        raise ClusterError(f"{where}.annotations: {problem}")
    guarantee = None if group.guarantee is None else Guarantee(resource=group.guarantee)
    return make_queue(
        group.name,
        group.weight,
        group.annotations,
        affinity=_spec_of(QUEUES, {"affinity": group.affinity}, where).affinity,
        parent=group.parent,
        priority=group.priority,
        reclaimable=group.reclaimable,
        capability=group.capability,
        deserved=group.deserved,
        guarantee=guarantee,
        dequeue_strategy=group.dequeue_strategy,
    )


# Clusters from Kubernetes objects, such as ``kubectl get nodes,queues,hypernodes,budgets -o json`` prints.


def build_from_objects(values: Iterable[tuple[Mapping[str, Any], str]]) -> Cluster:
    """Take nodes, queues, HyperNodes, FloatingResources, budgets, prices and the calendar; other kinds are left out.

    Nodes keep what scheduling reads of them: labels, taints, whether they are cordoned or not ready. Queues without a
    state count as open.

    Args:
        values: objects as decoded JSON or YAML, each with the place where it stands (for messages).

    Raises:
        ClusterError: there is no node, or a field has a wrong type.
    """
    nodes: dict[str, Node] = {}
    queues: list[Queue] = []
    hyper_nodes: list[HyperNode] = []
    reservations: list[Reservation] = []
    quotas: list[TemporaryQuota] = []
    floating: list[FloatingResource] = []
    budgets: list[Budget] = []
    price_lists: list[PriceList] = []
    for value, where in values:
        kind = find(str(value.get("apiVersion", "")), str(value.get("kind", "")))
        if kind is None or kind.kind not in _KINDS:
            continue
        decoded = decode(kind, dict(value))
        if decoded.type_errors:
            raise ClusterError(f"{where}: {decoded.type_errors[0].message()}")
        obj: Object = decoded.obj
        if isinstance(obj, Node):
            nodes[obj.metadata.name] = obj
        elif isinstance(obj, Queue):
            obj.status.state = obj.status.state or "Open"
            queues.append(obj)
        elif isinstance(obj, HyperNode):
            hyper_nodes.append(obj)
        elif isinstance(obj, Reservation):
            reservations.append(_in_order(RESERVATIONS, obj, where))
        elif isinstance(obj, TemporaryQuota):
            quotas.append(_in_order(TEMPORARY_QUOTAS, obj, where))
        elif isinstance(obj, FloatingResource):
            floating.append(as_stated(obj))
        elif isinstance(obj, Budget):
            budgets.append(_in_order(BUDGETS, obj, where))
        elif isinstance(obj, PriceList):
            price_lists.append(_in_order(PRICE_LISTS, obj, where))
    if not nodes or len(nodes) > MOST_NODES:
        raise ClusterError(f"the objects have {len(nodes)} nodes; a cluster has 1 to {MOST_NODES}")
    paths = paths_of(hyper_nodes, nodes)
    return Cluster(
        tuple(nodes.values()),
        tuple(queues),
        tuple(hyper_nodes),
        paths,
        reservations=tuple(reservations),
        temporary_quotas=tuple(quotas),
        floating=tuple(floating),
        budgets=tuple(budgets),
        price_lists=tuple(price_lists),
    )


def as_stated(floating: FloatingResource) -> FloatingResource:
    """The same as it was last known: nobody asks its source in a simulation."""
    if floating.spec.source is None:
        return floating
    amount, elsewhere, _ = known_amounts(floating)
    return FloatingResource(metadata=floating.metadata, spec=FloatingResourceSpec(amount, elsewhere))


def paths_of(hyper_nodes: Iterable[HyperNode], nodes: Mapping[str, Node]) -> dict[str, tuple[str, ...]]:
    """Domains of each node from the leaf upwards, as the scheduler's own tree of HyperNodes has them."""
    book, table = HyperNodeBook(), NodeTable(ResourceRegistry())
    for node in nodes.values():
        table.put(NodeFacts(node))
    table.settle(lambda _: None)
    for hyper_node in hyper_nodes:
        book.put(hyper_node)
    tree = book.tree(table)
    paths = {}
    for column, name in enumerate(table.names):
        at, path = int(tree.leaf[column]), []
        while at not in (tree.root, NOWHERE):
            path.append(tree.names[at])
            at = tree.parents[at]
        if path:
            paths[name] = tuple(path)
    return paths
