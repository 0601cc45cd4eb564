"""HyperNodes made from labels of nodes: a pure function from nodes to the wanted HyperNodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from unisono.api.base import ObjectMeta
from unisono.api.core import Node
from unisono.api.groups.topology import ExactMatch, HyperNode, HyperNodeSpec, MemberSelector, MemberSpec
from unisono.controllers.workloads.templates import short_hash

SOURCE = "volcano.sh/network-topology-source"


@dataclass(slots=True)
class Domain:
    """A domain of the network: all nodes, or lower domains, with one value of one label.

    Attributes:
        type: topology type that it belongs to.
        tier: 1 for the narrowest.
        label: the label.
        value: its value.
        nodes: names of the nodes, of the narrowest tier only.
        children: values of the next narrower label.

    """

    type: str
    tier: int
    label: str
    value: str
    nodes: set[str] = field(default_factory=set)
    children: set[str] = field(default_factory=set)


Key = tuple[str, int, str]


def find_domains(types: Mapping[str, tuple[str, ...]], nodes: Iterable[Node]) -> dict[Key, Domain]:
    """The domains that the nodes' labels describe, by type, tier and value.

    A node is in the domains of its labels from the narrowest on, up to the first label that it does not have.
    """
    found: dict[Key, Domain] = {}
    for node in nodes:
        labels = node.metadata.labels or {}
        for type_name, levels in types.items():
            below = ""
            for tier, label in enumerate(levels, start=1):
                value = labels.get(label)
                if not value:
                    break
                domain = found.setdefault((type_name, tier, value), Domain(type_name, tier, label, value))
                if tier == 1:
                    domain.nodes.add(node.metadata.name)
                else:
                    domain.children.add(below)
                below = value
    return found


def wanted_hyper_nodes(
    domains: Mapping[Key, Domain], present: Iterable[HyperNode], source: str
) -> dict[str, HyperNode]:
    """The HyperNodes of the domains by name; a domain keeps the name that its HyperNode has.

    Args:
        domains: as ``find_domains`` answers them.
        present: HyperNodes that were made from this source before.
        source: name of the source.

    """
    known = {_identity(each): each.metadata.name for each in sorted(present, key=lambda each: each.metadata.name)}
    names = {
        key: known.get((domain.type, domain.tier, domain.label, domain.value)) or _name(domain)
        for key, domain in domains.items()
    }
    return {
        names[key]: HyperNode(
            metadata=ObjectMeta(name=names[key], labels={SOURCE: source, domain.label: domain.value}),
            spec=HyperNodeSpec(tier=domain.tier, tier_name=domain.label, members=_members(domain, names)),
        )
        for key, domain in domains.items()
    }


def _members(domain: Domain, names: Mapping[Key, str]) -> list[MemberSpec]:
    if domain.tier == 1:
        return [member("Node", name) for name in sorted(domain.nodes)]
    below = sorted(names[domain.type, domain.tier - 1, value] for value in domain.children)
    return [member("HyperNode", name) for name in below]


def member(kind: str, name: str) -> MemberSpec:
    """A member by its name; ``kind`` is Node or HyperNode."""
    return MemberSpec(type=kind, selector=MemberSelector(exact_match=ExactMatch(name=name)))


def _name(domain: Domain) -> str:
    # The same after every restart, so that an interrupted look makes no domain twice.
    mark = short_hash([domain.label, domain.value])[:5]
    return f"hypernode-{domain.type.lower()}-tier{domain.tier}-{mark}"


def _identity(hyper_node: HyperNode) -> tuple[str, int, str, str]:
    label, tier = hyper_node.spec.tier_name or "", hyper_node.spec.tier or 0
    head = hyper_node.metadata.name.rpartition(f"-tier{tier}-")[0].removeprefix("hypernode-")
    return head, tier, label, (hyper_node.metadata.labels or {}).get(label, "")
