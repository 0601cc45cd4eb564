"""What a member's watches tell, as objects of the hub's state (pure): nodes, networks, pods.

Pods of dispatched jobs take the place of the pods that stood for them on the hub: the same name, namespace and gang.
All others keep their member's name in their namespace, and only occupy their node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from unisono.api.annotations import CLUSTER, HUB, ORIGIN_GROUP, ORIGIN_UID, PRICES
from unisono.api.base import LabelSelector
from unisono.api.core import Node, Pod
from unisono.api.groups.topology import ExactMatch, HyperNode, HyperNodeSpec, MemberSelector, MemberSpec
from unisono.api.keys import GROUP_NAME, REGION_BETA, TOPOLOGY_REGION
from unisono.cluster.hypertree import CLUSTER_TIER

# Names in the state of a hub: a member's nodes and namespaces carry its name in front (pure).
#
# ``:`` is in no Kubernetes name, so that no two members' names, and no name of the hub, are ever the same.

SEPARATOR = ":"
REGION_TIER = 2 * CLUSTER_TIER
CLUSTER_TIER_NAME, REGION_TIER_NAME = "cluster", "region"


def within(cluster: str, name: str) -> str:
    """A member's node or namespace as the hub's state calls it."""
    return f"{cluster}{SEPARATOR}{name}"


def cluster_of(name: str) -> str:
    """The member that a name belongs to; empty for a name of the hub."""
    cluster, separator, _ = name.partition(SEPARATOR)
    return cluster if separator else ""


def own_name(name: str) -> str:
    """The name within its member."""
    return name.partition(SEPARATOR)[2] or name


_MAY_COME = "+"
"""Before the names of nodes of the hub's state that stand for machines which may come; no Kubernetes name has it."""


def may_come(name: str) -> str:
    """What a member's node is called that is not there yet."""
    return f"{_MAY_COME}{name}"


def is_to_come(name: str) -> bool:
    """Whether a node of the hub's state stands for a machine that may come."""
    return own_name(name).startswith(_MAY_COME)


OTHER_SCHEDULER = "member"
"""``schedulerName`` in the hub's state of pods that the hub does not schedule."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Which hub this is, and what it knows of one member.

    Attributes:
        hub: the hub's identity.
        cluster: name of the member.
        labels: labels of its AttachedCluster, which its nodes get unless they have their own.
        open: whether it takes new work; else its nodes are cordoned.
        prices: of its resources, for nodes that have none of their own.
    """

    hub: str
    cluster: str
    labels: Mapping[str, str] = field(default_factory=dict)
    open: bool = True
    prices: str = ""


def node(origin: Origin, obj: Node) -> Node:
    """The node as the hub's state holds it: named, labelled, and cordoned where its cluster takes no work."""
    meta = msgspec.structs.replace(
        obj.metadata,
        name=within(origin.cluster, obj.metadata.name),
        labels={**origin.labels, **(obj.metadata.labels or {}), CLUSTER: origin.cluster},
        annotations={PRICES: origin.prices, **(obj.metadata.annotations or {})}
        if origin.prices
        else obj.metadata.annotations,
        managed_fields=None,
    )
    spec = obj.spec if origin.open else msgspec.structs.replace(obj.spec, unschedulable=True)
    return msgspec.structs.replace(obj, metadata=meta, spec=spec)


def pod(origin: Origin, obj: Pod, place: str = "") -> Pod:
    """The pod as the hub's state holds it.

    Args:
        origin: the member.
        obj: the member's pod.
        place: node in the hub's state that was chosen for the pod of a dispatched job; it counts until the member's
            scheduler has chosen one.
    """
    meta, spec = obj.metadata, obj.spec
    bound = within(origin.cluster, spec.node_name) if spec.node_name else ""
    group = dispatched_group(origin, obj)
    if group is not None:
        namespace = meta.namespace
        annotations = {**(meta.annotations or {}), GROUP_NAME: group}
        spec = msgspec.structs.replace(spec, node_name=bound or place or None, volumes=None, resource_claims=None)
    else:
        namespace, annotations = within(origin.cluster, meta.namespace or ""), dict(meta.annotations or {})
        annotations.pop(GROUP_NAME, None)
        spec = msgspec.structs.replace(
            spec, node_name=bound or None, scheduler_name=OTHER_SCHEDULER, volumes=None, resource_claims=None
        )
    labels = {**(meta.labels or {}), CLUSTER: origin.cluster}
    meta = msgspec.structs.replace(
        meta, namespace=namespace, annotations=annotations, labels=labels, managed_fields=None
    )
    return msgspec.structs.replace(obj, metadata=meta, spec=spec)


def dispatched_group(origin: Origin, obj: Pod) -> str | None:
    """Name of the hub's PodGroup that the pod of a copy belongs to; None for a pod that the hub did not bring."""
    labels = obj.metadata.labels or {}
    if labels.get(HUB) != origin.hub or not labels.get(ORIGIN_UID):
        return None
    return (obj.metadata.annotations or {}).get(ORIGIN_GROUP)


def hyper_node(origin: Origin, obj: HyperNode) -> HyperNode | None:
    """A domain of the member's network; None for one whose tier is as high as a cluster's."""
    if (obj.spec.tier or 0) >= CLUSTER_TIER:
        return None
    members = [each for each in (_member(origin, member) for member in obj.spec.members or ()) if each is not None]
    meta = msgspec.structs.replace(obj.metadata, name=within(origin.cluster, obj.metadata.name), managed_fields=None)
    return msgspec.structs.replace(
        obj, metadata=meta, spec=msgspec.structs.replace(obj.spec, members=members, tier_name=obj.spec.tier_name)
    )


def _member(origin: Origin, member: MemberSpec) -> MemberSpec | None:
    selector = member.selector
    if selector is None:
        return None
    if selector.exact_match is not None:
        name = within(origin.cluster, selector.exact_match.name or "")
        return MemberSpec(type=member.type, selector=MemberSelector(exact_match=ExactMatch(name=name)))
    if selector.regex_match is not None:
        # ``^`` of the pattern means the beginning of the node's own name.
        pattern = selector.regex_match.pattern or ""
        anchored = f"^{origin.cluster}:{pattern[1:]}" if pattern.startswith("^") else f"^{origin.cluster}:.*{pattern}"
        prefixed = msgspec.structs.replace(selector.regex_match, pattern=anchored)
        return MemberSpec(type=member.type, selector=MemberSelector(regex_match=prefixed))
    given = selector.label_match or LabelSelector()
    own = LabelSelector(
        match_labels={**(given.match_labels or {}), CLUSTER: origin.cluster}, match_expressions=given.match_expressions
    )
    return MemberSpec(type=member.type, selector=MemberSelector(label_match=own))


def cluster_tier(origin: Origin, tops: list[str]) -> HyperNode:
    """The member as a domain of the network: all its nodes, and the highest domains of its own network."""
    everything = LabelSelector(match_labels={CLUSTER: origin.cluster})
    members = [
        MemberSpec(type="Node", selector=MemberSelector(label_match=everything)),
        *(MemberSpec(type="HyperNode", selector=MemberSelector(exact_match=ExactMatch(name=top))) for top in tops),
    ]
    return _domain(origin.cluster, CLUSTER_TIER, CLUSTER_TIER_NAME, members)


def region_tiers(regions: Mapping[str, str]) -> list[HyperNode]:
    """Regions as domains; ``regions`` maps clusters to theirs, and those without one stand alone."""
    by_region: dict[str, list[str]] = {}
    for cluster, region in sorted(regions.items()):
        if region:
            by_region.setdefault(region, []).append(cluster)
    return [
        _domain(
            f"region:{region}",
            REGION_TIER,
            REGION_TIER_NAME,
            [
                MemberSpec(type="HyperNode", selector=MemberSelector(exact_match=ExactMatch(name=cluster)))
                for cluster in clusters
            ],
        )
        for region, clusters in by_region.items()
    ]


def region_of(labels: Mapping[str, str]) -> str:
    """The region that labels of a cluster or node name."""
    return labels.get(TOPOLOGY_REGION) or labels.get(REGION_BETA) or ""


def _domain(name: str, tier: int, tier_name: str, members: list[MemberSpec]) -> HyperNode:
    domain = HyperNode(spec=HyperNodeSpec(tier=tier, tier_name=tier_name, members=members))
    domain.metadata.name = name
    return domain
