"""Pods that stand for a job of a hub, kept to some of its members, and with points for them (pure)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

import msgspec

from unisono.api.annotations import CLUSTER, CLUSTER_POINTS
from unisono.api.core import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodSpec,
)


def keeping_to(spec: PodSpec, clusters: Collection[str], operator: Literal["In", "NotIn"] = "In") -> PodSpec:
    """The spec with one more required expression in every term of its node affinity."""
    wanted = NodeSelectorRequirement(key=CLUSTER, operator=operator, values=sorted(set(clusters)))
    affinity = spec.affinity or Affinity()
    nodes = affinity.node_affinity or NodeAffinity()
    required = nodes.required_during_scheduling_ignored_during_execution
    given = (required.node_selector_terms if required is not None else None) or [NodeSelectorTerm(match_expressions=[])]
    terms = [
        msgspec.structs.replace(term, match_expressions=[*(term.match_expressions or ()), wanted])
        for term in given
        if required is None or term.match_expressions or term.match_fields
    ]
    bound = msgspec.structs.replace(
        nodes, required_during_scheduling_ignored_during_execution=NodeSelector(node_selector_terms=terms)
    )
    return msgspec.structs.replace(spec, affinity=msgspec.structs.replace(affinity, node_affinity=bound))


def guided(
    pods: Sequence[Pod],
    clusters: Collection[str] | None,
    outside: Collection[str],
    points: Mapping[str, Mapping[str, float]],
) -> tuple[Pod, ...]:
    """The pods kept to some clusters, with points for them.

    Args:
        pods: of one job.
        clusters: those that may have them; None for all.
        outside: those that may not.
        points: by reason and cluster.

    """
    text = msgspec.json.encode(points, order="deterministic").decode() if points else ""
    return tuple(_guided(pod, clusters, outside, text) for pod in pods)


def _guided(pod: Pod, clusters: Collection[str] | None, outside: Collection[str], text: str) -> Pod:
    meta, spec = pod.metadata, pod.spec
    given = meta.annotations or {}
    if text or CLUSTER_POINTS in given:
        # What a user writes there says nothing.
        marks = {key: value for key, value in given.items() if key != CLUSTER_POINTS}
        meta = msgspec.structs.replace(meta, annotations={**marks, CLUSTER_POINTS: text} if text else marks)
    if clusters is not None:
        spec = keeping_to(spec, clusters)
    elif outside:
        spec = keeping_to(spec, outside, "NotIn")
    return pod if meta is pod.metadata and spec is pod.spec else msgspec.structs.replace(pod, metadata=meta, spec=spec)
