"""Which members of a HyperNode exist (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from unisono.api.core import Node
from unisono.api.groups.topology import HyperNode, MemberSelector
from unisono.api.patterns import PatternError, compile_pattern
from unisono.api.selecting import is_empty, selects


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
    wanted = selector.label_match
    if wanted is None or is_empty(wanted):
        return []
    return [name for name, node in nodes.items() if selects(wanted, node.metadata.labels)]
