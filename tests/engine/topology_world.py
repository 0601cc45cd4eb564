"""Builders for clusters with HyperNodes and jobs with topology."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from support.build import cluster, config, flatten, group, node, pod
from unisono.api import kinds
from unisono.api.base import ObjectMeta
from unisono.api.groups.scheduling import PodGroup, SubGroupPolicySpec
from unisono.api.groups.topology import (
    ExactMatch,
    HyperNode,
    HyperNodeSpec,
    MemberSelector,
    MemberSpec,
    NetworkTopologySpec,
)
from unisono.cluster.state import ClusterState
from unisono.engine.decisions import Decisions

TOPOLOGY = config(("priority", "gang"), ("predicates", "network-topology-aware"))
INSTANCE = "volcano.sh/partition-id"


def hyper(name: str, tier: int, members: Iterable[str], *, of: str = "Node", tier_name: str = "") -> HyperNode:
    """A HyperNode with members by name."""
    selected = [MemberSpec(type=of, selector=MemberSelector(exact_match=ExactMatch(name=member))) for member in members]
    return HyperNode(
        metadata=ObjectMeta(name=name),
        spec=HyperNodeSpec(tier=tier, tier_name=tier_name or None, members=selected),
    )


def racks(sizes: Mapping[str, int], **resources: Any) -> list[Any]:
    """Nodes ``NAME-0``, ... and a HyperNode of tier 1 for each name."""
    made: list[Any] = []
    for name, size in sizes.items():
        names = [f"{name}-{index}" for index in range(size)]
        made += [node(each, **({"cpu": 4, "mem": "64Gi"} | resources)) for each in names]
        made.append(hyper(name, 1, names))
    return made


def spine(name: str, *below: str, tier: int = 2) -> HyperNode:
    """A HyperNode over others."""
    return hyper(name, tier, below, of="HyperNode")


def wish(tier: int | None = None, *, mode: str = "hard", name: str = "") -> NetworkTopologySpec:
    """A topology."""
    return NetworkTopologySpec(mode=mode, highest_tier_allowed=tier, highest_tier_name=name or None)


def job(
    name: str,
    size: int,
    topology: NetworkTopologySpec | None = None,
    *,
    minimum: int | None = None,
    policies: Iterable[SubGroupPolicySpec] = (),
    parts: int = 0,
    running: Mapping[int, str] | None = None,
    created: float = 0.0,
    **resources: Any,
) -> list[Any]:
    """A PodGroup and its pods; ``parts`` pods each share a partition id, ``running`` are on nodes already."""
    head: PodGroup = group(name, size if minimum is None else minimum, created=created)
    head.spec.network_topology = topology
    head.spec.sub_group_policy = list(policies) or None
    pods = [
        pod(
            f"{name}-w-{index}",
            name,
            created=created,
            node=(running or {}).get(index, ""),
            labels={INSTANCE: str(index // parts)} if parts else None,
            **({"cpu": 4} | resources),
        )
        for index in range(size)
    ]
    return [head, *pods]


def policy(size: int, tier: int | None = None, *, minimum: int = 0, name: str = "tp") -> SubGroupPolicySpec:
    """A sub-group per partition id."""
    return SubGroupPolicySpec(
        name=name,
        sub_group_size=size,
        min_sub_groups=minimum,
        match_label_keys=[INSTANCE],
        network_topology=None if tier is None else wish(tier),
    )


def world(*things: Any) -> ClusterState:
    """A state of nodes, HyperNodes, jobs and everything else."""
    objects = flatten(things)
    state = cluster([obj for obj in objects if not isinstance(obj, HyperNode)])
    for obj in objects:
        if isinstance(obj, HyperNode):
            state.apply("ADDED", kinds.HYPER_NODES, obj)
    return state


def used_racks(decisions: Decisions, name: str = "") -> dict[str, int]:
    """Pods bound per rack (the node's name before the last ``-``), of one job or all."""
    counts: dict[str, int] = {}
    for bind in decisions.binds:
        if not name or bind.job == f"ns/{name}":
            rack = bind.node.rpartition("-")[0]
            counts[rack] = counts.get(rack, 0) + 1
    return dict(sorted(counts.items()))
