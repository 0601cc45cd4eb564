"""The shape whose verdicts cost most: gangs that wait, each for a label of its own that no node has."""

from __future__ import annotations

from benchmarks.clusters import Shape, objects
from benchmarks.measure import Case
from unisono.api.core import Node, Pod
from unisono.cluster.state import ClusterState


def wrong_selectors(gangs: int, nodes: int) -> Case:
    """``gangs`` gangs of four, each with another selector, on ``nodes`` labelled nodes."""
    state = ClusterState()
    number = 0
    for kind, obj in objects(Shape(nodes, gangs, 4)):
        if isinstance(obj, Node):
            obj.metadata.labels = {"kubernetes.io/hostname": obj.metadata.name, "zone": f"zone-{number % 10}"}
            number += 1
        if isinstance(obj, Pod):
            job = obj.metadata.name.rpartition("-worker-")[0]
            obj.spec.node_selector = {"zone": f"wrong-{job}"}
        state.apply("ADDED", kind, obj)
    return Case(f"{gangs:,} gangs with different wrong selectors, {nodes:,} nodes", state)
