"""Writes into every HyperNode how many of its members exist."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from unisono.api.core import Node
from unisono.api.groups.topology import HyperNode, HyperNodeStatus, MemberSelector
from unisono.api.kinds import HYPER_NODES, NODES
from unisono.api.patterns import PatternError, compile_pattern
from unisono.api.selecting import is_empty, selects
from unisono.controllers.objects import LastWritten, write_status
from unisono.errors import NotFound
from unisono.kube.client import EventType
from unisono.kube.controller import Context, Controller

# Which members of a HyperNode exist (pure).


def count_members(hyper_node: HyperNode, nodes: Mapping[str, Node], hyper_nodes: Iterable[str]) -> int:
    """How many nodes and HyperNodes the members name; each counts once, what does not exist not at all.

    Args:
        hyper_node: whose members are counted.
        nodes: all nodes by name.
        hyper_nodes: names of all HyperNodes.

    """
    known, children, found = set(hyper_nodes), set[str](), set[str]()
    for member in hyper_node.spec.members or ():
        selector = member.selector
        if selector is None:
            continue
        if member.type == "HyperNode":
            name = selector.exact_match.name if selector.exact_match is not None else None
            children |= {name} & known if name else set()
        else:
            found |= set(_nodes(selector, nodes))
    return len(found) + len(children)


def _nodes(selector: MemberSelector, nodes: Mapping[str, Node]) -> Iterable[str]:
    if selector.exact_match is not None:
        name = selector.exact_match.name or ""
        return [name] if name in nodes else []
    if selector.regex_match is not None:
        try:
            pattern = compile_pattern(selector.regex_match.pattern or "")
        except PatternError:
            return []
        return [name for name in nodes if pattern.found_in(name)]
    labels = selector.label_match
    if labels is None or is_empty(labels):
        return []
    return [name for name, node in nodes.items() if selects(labels, node.metadata.labels)]


# No HyperNode has this name: all of them are to be looked at.
ALL = "*"


class HyperNodeController(Controller):
    """Keeps ``status.nodeCount``."""

    name = "hyperNode-controller"
    workers = 4

    def __init__(self) -> None:
        self._written: LastWritten[HyperNode] = LastWritten()

    def setup(self, context: Context) -> None:
        """Watch HyperNodes, and names and labels of nodes."""
        self._client, self._context = context.client, context
        self._hyper_nodes = context.watch(HYPER_NODES, optional=True)
        self._hyper_nodes.on_change(self._hyper_node_changed)
        self._nodes = context.informer(NODES)
        self._nodes.on_change(self._node_changed)

    async def reconcile(self, key: str) -> float | None:
        """Count the members of one HyperNode, or have all of them counted."""
        if key == ALL:
            for each in self._hyper_nodes.items():
                self._context.enqueue(each.key)
            return None
        hyper_node = self._written.newest(key, self._hyper_nodes.get(key))
        if hyper_node is None or hyper_node.metadata.deletion_timestamp:
            return None
        nodes = {node.metadata.name: node for node in self._nodes.items()}
        number = count_members(hyper_node, nodes, self._hyper_nodes.keys())
        status = HyperNodeStatus(conditions=hyper_node.status.conditions, node_count=number)
        try:
            self._written.keep(await write_status(self._client, HYPER_NODES, hyper_node, status))
        except NotFound:
            return None
        return None

    def _node_changed(self, event_type: EventType, new: Node, old: Node | None) -> None:
        if event_type == "MODIFIED" and old is not None and old.metadata.labels == new.metadata.labels:
            return
        self._context.enqueue(ALL)

    def _hyper_node_changed(self, event_type: EventType, _new: HyperNode, _old: HyperNode | None) -> None:
        if event_type != "MODIFIED":
            self._context.enqueue(ALL)
