"""Clusters from Kubernetes objects, such as ``kubectl get nodes,queues,hypernodes -o json`` prints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from unisono.api.base import Object
from unisono.api.core import Node
from unisono.api.decode import decode
from unisono.api.kinds import find
from unisono.api.scheduling import Queue
from unisono.api.topology import HyperNode
from unisono.cluster.hypernodes import HyperNodeBook
from unisono.cluster.hypertree import NOWHERE
from unisono.cluster.nodes import NodeFacts, NodeTable
from unisono.cluster.resources import ResourceRegistry
from unisono.simulator.clusters.model import MOST_NODES, Cluster, ClusterError


def build(values: Iterable[tuple[Mapping[str, Any], str]]) -> Cluster:
    """Take nodes, queues and HyperNodes; objects of other kinds are left out.

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
    for value, where in values:
        kind = find(str(value.get("apiVersion", "")), str(value.get("kind", "")))
        if kind is None or kind.kind not in ("Node", "Queue", "HyperNode"):
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
    if not nodes or len(nodes) > MOST_NODES:
        raise ClusterError(f"the objects have {len(nodes)} nodes; a cluster has 1 to {MOST_NODES}")
    paths = paths_of(hyper_nodes, nodes)
    return Cluster(tuple(nodes.values()), tuple(queues), tuple(hyper_nodes), paths)


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
