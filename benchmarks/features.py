"""Speed where placements depend on each other: affinity, spread, network topology, evictions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from benchmarks.clusters import Shape, named, objects
from benchmarks.measure import Case, Row, decide, placed
from unisono.api import kinds
from unisono.api.base import LabelSelector, Object, ObjectMeta
from unisono.api.core import Affinity, Node, Pod, PodAffinityTerm, PodAntiAffinity, PriorityClass
from unisono.api.core import TopologySpreadConstraint as Spread
from unisono.api.groups.scheduling import PodGroup, PodGroupStatus, Queue
from unisono.api.groups.topology import (
    ExactMatch,
    HyperNode,
    HyperNodeSpec,
    MemberSelector,
    MemberSpec,
    NetworkTopologySpec,
)
from unisono.api.kind import Kind
from unisono.cluster.state import ClusterState
from unisono.engine.config_file.reader import load_config

HOST, ZONE, LEAF = "kubernetes.io/hostname", "topology.kubernetes.io/zone", "leaf"
_PLUGINS = """
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
"""


def feature_rows(scale: float) -> Iterator[Row]:
    """One row per feature, on clusters of full size times ``scale``."""
    for build in PLACING:
        yield placed(build(scale))
    for build in EVICTING:
        yield _evicted(build(scale))


def _put(state: ClusterState, kind: Kind[object], obj: Object) -> None:
    state.apply("ADDED", kind, obj)


def _labelled(state: ClusterState, shape: Shape) -> Iterator[tuple[str, Pod]]:
    """Put a shape in with labelled nodes and pods; pods are yielded with their job, to be changed and put in."""
    number = 0
    for kind, obj in objects(shape):
        if isinstance(obj, Node):
            obj.metadata.labels = {HOST: obj.metadata.name, ZONE: f"zone-{number % 10}"}
            number += 1
        if isinstance(obj, Pod):
            job = obj.metadata.name.rpartition("-worker-")[0]
            obj.metadata.labels = {"app": job}
            yield job, obj
        _put(state, kind, obj)


def apart(scale: float) -> Case:
    """No two pods of an app on one node."""
    state, shape = ClusterState(), Shape(max(int(1_000 * scale), 50), int(500 * scale), 20)
    for job, pod in _labelled(state, shape):
        term = PodAffinityTerm(label_selector=LabelSelector(match_labels={"app": job}), topology_key=HOST)
        pod.spec.affinity = Affinity(
            pod_anti_affinity=PodAntiAffinity(required_during_scheduling_ignored_during_execution=[term])
        )
    return Case(f"{shape.title}, inter-pod anti-affinity by node", state)


def spread(scale: float) -> Case:
    """Pods of an app evenly over ten zones."""
    state, shape = ClusterState(), Shape(max(int(1_000 * scale), 50), int(500 * scale), 20)
    for job, pod in _labelled(state, shape):
        pod.spec.topology_spread_constraints = [
            Spread(
                max_skew=1,
                topology_key=ZONE,
                when_unsatisfiable="DoNotSchedule",
                label_selector=LabelSelector(match_labels={"app": job}),
            )
        ]
    return Case(f"{shape.title}, topology spread over 10 zones", state)


# ---- network topology


_TREE = load_config('actions: "enqueue, allocate, backfill"' + _PLUGINS + "  - name: network-topology-aware\n")


def topology(scale: float) -> Case:
    """Gangs of 512 one-GPU pods, each below one switch of the middle of three tiers."""
    nodes, gang = int(5_000 * scale), 512 if scale >= 1 else 64
    shape = Shape(nodes, nodes * 8 * 3 // 4 // gang, gang, pod="gpu")
    wish = NetworkTopologySpec(mode="hard", highest_tier_allowed=2)
    return Case(f"{shape.title}, hard topology, 3 tiers", _switched(shape, scale, wish), _TREE)


def beside(scale: float) -> Case:
    """Pods without topology among HyperNodes: they are kept where they disturb jobs with topology least."""
    shape = Shape(int(5_000 * scale), max(int(100 * scale), 5), 20)
    return Case(f"{shape.title}, no topology, 3 tiers", _switched(shape, scale, None), _TREE)


def _switched(shape: Shape, scale: float, wish: NetworkTopologySpec | None) -> ClusterState:
    """A shape on nodes below three tiers of switches."""
    state = ClusterState()
    nodes, per_leaf = shape.nodes, 16
    per_middle = per_leaf * (20 if scale >= 1 else 4)
    number = 0
    for kind, obj in objects(shape):
        if isinstance(obj, Node):
            obj.metadata.labels = {HOST: obj.metadata.name, LEAF: f"leaf-{number // per_leaf}"}
            number += 1
        if isinstance(obj, PodGroup):
            obj.spec.network_topology = wish
        _put(state, kind, obj)
    leaves = [f"leaf-{index}" for index in range(-(-nodes // per_leaf))]
    middles: dict[str, list[str]] = {}
    for index, leaf in enumerate(leaves):
        selector = MemberSelector(label_match=LabelSelector(match_labels={LEAF: leaf}))
        _put(state, kinds.HYPER_NODES, _hyper(leaf, 1, [MemberSpec(type="Node", selector=selector)]))
        middles.setdefault(f"middle-{index * per_leaf // per_middle}", []).append(leaf)
    for name, members in middles.items():
        _put(state, kinds.HYPER_NODES, _hyper(name, 2, _exactly(members)))
    _put(state, kinds.HYPER_NODES, _hyper("core", 3, _exactly(list(middles))))
    return state


def _exactly(names: list[str]) -> list[MemberSpec]:
    chosen = (MemberSelector(exact_match=ExactMatch(name=name)) for name in names)
    return [MemberSpec(type="HyperNode", selector=selector) for selector in chosen]


def _hyper(name: str, tier: int, members: list[MemberSpec]) -> HyperNode:
    return HyperNode(metadata=ObjectMeta(name=name, uid=name), spec=HyperNodeSpec(tier=tier, members=members))


# ---- evictions


def _evicted(case: Case) -> Row:
    seconds, decisions = decide(case.state, 3, case.config)
    number = len(decisions.evictions)
    note = f"{number:,} evicted for {len(decisions.pipelined):,} in {seconds:.2f} s"
    return Row(case.name, number / seconds, "evictions/s", None, "more", note)


def preempting(scale: float) -> Case:
    """Gangs of eight take a full cluster from single pods of lower priority in the same queue."""
    nodes = int(500 * scale)
    state = ClusterState()
    for kind, obj in objects(Shape(nodes, nodes * 8, 1, pod="gpu"), running=True):
        if isinstance(obj, PodGroup):
            obj.spec.min_member = 0
        _put(state, kind, obj)
    for name, value in (("high", 100), ("low", 1)):
        _put(state, kinds.PRIORITY_CLASSES, PriorityClass(metadata=ObjectMeta(name=name), value=value))
    for kind, obj in named(objects(Shape(0, nodes, 8, pod="gpu")), "high-"):
        if isinstance(obj, PodGroup):
            obj.spec.priority_class_name, obj.spec.min_resources = "high", None
            obj.status = PodGroupStatus(phase="Inqueue")
        if isinstance(obj, Pod):
            obj.spec.priority_class_name, obj.spec.priority = "high", 100
        _put(state, kind, obj)
    plugins = _PLUGINS.replace("- name: gang", "- name: gang\n    enablePreemptable: false")
    plugins = plugins.replace("- name: drf", "- name: drf\n    enablePreemptable: false")
    config = load_config('actions: "enqueue, allocate, preempt, backfill"' + plugins)
    return Case(f"preempt: {nodes:,} gangs of 8 against {nodes * 8:,} one-GPU pods", state, config)


def reclaiming(scale: float) -> Case:
    """A queue takes its half of the cluster back from another one that has borrowed all of it."""
    nodes = int(1_000 * scale)
    state = ClusterState()
    first = Shape(nodes, nodes * 8, 1, pod="gpu")
    for kind, obj in objects(first, running=True):
        if isinstance(obj, PodGroup):
            obj.spec.min_member = 0
        _put(state, kind, obj)
        if isinstance(obj, Queue):
            other = objects(replace(first, nodes=0, jobs=0, queues=2))
            _put(state, kinds.QUEUES, list(other)[1][1])
    for kind, obj in named(objects(Shape(0, nodes // 2, 8, pod="gpu")), "mine-"):
        if isinstance(obj, PodGroup):
            obj.spec.queue, obj.spec.min_resources = "queue-0001", None
            obj.status = PodGroupStatus(phase="Inqueue")
        _put(state, kind, obj)
    plugins = _PLUGINS.replace("- name: gang", "- name: gang\n    enableReclaimable: false")
    config = load_config('actions: "enqueue, allocate, reclaim, backfill"' + plugins)
    return Case(f"reclaim: {nodes // 2:,} gangs of 8 take {nodes * 4:,} of {nodes * 8:,} GPUs back", state, config)


PLACING = (apart, spread, topology, beside)
EVICTING = (preempting, reclaiming)
