"""numa-aware: which CPUs of a node a pod would get, by the rules of the kubelet's topology manager."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from unisono.api import keys
from unisono.api.base import Quantity
from unisono.api.core import ResourceRequirements
from unisono.api.groups.topology import Numatopology
from unisono.api.numa import NONE, STATIC, CpuTopology, assign, numa_nodes, parse_cpus, reserve, take
from unisono.api.quantity import QuantityError, parse_quantity
from unisono.api.resources import resource_list
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.cluster.status import ON_NODE_STATES, TaskStatus
from unisono.engine.answers import FloatArray, Reason, Veto
from unisono.engine.config.arguments import Argument, argument_value
from unisono.engine.config.model import PluginConfig
from unisono.engine.contract.plugin import Plugin
from unisono.engine.plugins.common.annotations import decoded
from unisono.engine.session.job_state import JobState
from unisono.engine.session.node_view import NodeView
from unisono.engine.session.session import Session

# numa-aware: pods with whole CPUs go where the kubelet's topology manager would take them.
#
# For Guaranteed pods on nodes whose CPU manager is ``static``. A pod (or its task in a job) may ask for a policy;
# without one the node's counts. The CPUs are taken in the scheduler's books, and the NUMA nodes leave with the bind.

# Free CPUs of every node in a session: as exporters report them, less what pods on their way have been promised.


@dataclass(slots=True)
class NumaNode:
    """What is known of one node.

    Attributes:
        cpu_policy, policy: the kubelet's CPU manager's and topology manager's.
        topology: None when the object describes no CPUs.
        reported: mask of free CPUs as exported, without those reserved for the system.
        told: whether the exporter says which pods it has counted.
        counted: uids and ``namespace/name`` of those pods.
    """

    cpu_policy: str
    policy: str
    topology: CpuTopology | None
    reported: int
    told: bool
    counted: frozenset[str]


def read(obj: Numatopology) -> NumaNode:
    """A node's topology; CPUs that cannot be read count as not there."""
    spec = obj.spec
    policies = spec.policies or {}
    detail = {
        int(cpu): (info.numa or 0, info.socket or 0, info.core or 0)
        for cpu, info in (spec.cpu_detail or {}).items()
        if cpu.isascii() and cpu.isdigit()
    }
    topology = CpuTopology.of(detail) if detail else None
    listed = (spec.numares or {}).get("cpu")
    try:
        free = parse_cpus(listed.allocatable or "") if listed is not None else 0
    except ValueError:
        free = 0
    if topology is not None:
        free &= topology.all
        kept = _reserved(spec.res_reserved)
        free &= ~(take(topology, topology.all, min(kept, topology.all.bit_count())) or 0)
    counted: set[str] = set()
    for pod in spec.pod_allocations or ():
        counted |= {pod.uid or "", f"{pod.namespace or ''}/{pod.name or ''}"}
    return NumaNode(
        cpu_policy=policies.get("CPUManagerPolicy", ""),
        policy=policies.get("TopologyManagerPolicy", "") or NONE,
        topology=topology,
        reported=free,
        told=spec.pod_allocations is not None,
        counted=frozenset(counted - {"", "/"}),
    )


def _reserved(amounts: Mapping[str, Quantity] | None) -> int:
    """CPUs that the kubelet keeps, rounded up."""
    try:
        amount = parse_quantity((amounts or {}).get("cpu", 0))
    except QuantityError:
        return 0
    return max(-int(-amount // 1), 0)


class _NodesRead(dict[str, tuple[Numatopology, NumaNode]]):
    """What Numatopology objects say, by node name, with the object that it was read from."""


class NumaBook:
    """Free CPUs per node, and the CPUs that this session has given to pods.

    Attributes:
        nodes: by column, nodes of which something is known.
        given: by pod key, the column and a mask per container.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.given: dict[str, tuple[int, tuple[int, ...]]] = {}
        self._free: dict[int, int] = {}
        self.nodes: dict[int, NumaNode] = {}
        memo = session.snapshot.memo.of(_NodesRead, _NodesRead)
        topologies = session.snapshot.catalogue.numa_topologies
        if len(memo) > 2 * len(topologies):
            memo.clear()  # most of it is of nodes that are gone
        index = session.snapshot.nodes.index
        for name, obj in topologies.items():
            column = index.get(name)
            if column is None:
                continue
            kept = memo.get(name)
            if kept is None or kept[0] is not obj:
                kept = memo[name] = (obj, read(obj))
            self.nodes[column] = kept[1]

    def free(self, column: int) -> int:
        """Mask of free CPUs of a node with a topology."""
        mask = self._free.get(column)
        if mask is None:
            mask = self._free[column] = self._without_promised(column)
        return mask

    def _without_promised(self, column: int) -> int:
        """What is reported, less what pods hold that the exporter has not seen yet."""
        node = self.nodes[column]
        assert node.topology is not None
        free = node.reported
        tasks = self.session.snapshot.tasks_on.get(self.session.snapshot.nodes.names[column], {})
        for _, task in sorted(tasks.items()):
            if _unseen(task, node):
                free = reserve(node.topology, free, decision_of(task.annotations))
        return free

    def give(self, task: Task, column: int, cpus: tuple[int, ...]) -> None:
        """A pod gets CPUs; they were free."""
        free = self.free(column)
        for mask in cpus:
            free &= ~mask
        self._free[column] = free
        self.given[task.key] = (column, cpus)

    def take_back(self, task: Task) -> None:
        """A placement is undone."""
        placement = self.given.pop(task.key, None)
        if placement is not None:
            column, cpus = placement
            for mask in cpus:
                self._free[column] |= mask

    def decision(self, task: Task) -> str | None:
        """The annotation that tells a pod its NUMA nodes, None when it has got no CPUs."""
        placement = self.given.get(task.key)
        if placement is None:
            return None
        column, cpus = placement
        topology = self.nodes[column].topology
        assert topology is not None
        every = 0
        for mask in cpus:
            every |= mask
        spread = topology.spread(every)
        if not spread:
            return None
        numa = {str(node): {"cpu": str(count)} for node, count in sorted(spread.items())}
        return json.dumps({"numa": numa}, separators=(",", ":"))


def _unseen(task: Task, node: NumaNode) -> bool:
    """Whether a pod on the node holds CPUs that the report does not contain."""
    if task.status not in ON_NODE_STATES or keys.NUMA_TOPOLOGY_DECISION not in task.annotations:
        return False
    if not node.told:
        return task.status in (TaskStatus.BINDING, TaskStatus.BOUND)
    return task.uid not in node.counted and task.key not in node.counted


def decision_of(annotations: Mapping[str, str]) -> dict[int, int]:
    """CPUs by NUMA node as annotation ``topology-decision`` has them; empty when it cannot be read."""
    try:
        value: Any = decoded(annotations.get(keys.NUMA_TOPOLOGY_DECISION, ""))
        numa = value["numa"]
        return {int(node): int(parse_quantity(amounts["cpu"])) for node, amounts in numa.items()}
    except (ValueError, KeyError, TypeError, AttributeError, QuantityError):
        return {}


_WEIGHT = Argument("weight", "int", 1, "multiplies the score of pods that ask for a policy")

NO_INFO = Reason("numa info is empty", unresolvable=True)
NOT_STATIC = Reason("cpu manager policy isn't static", unresolvable=True)
NO_TOPOLOGY = Reason("no topo information", unresolvable=True)
NO_CPUS = Reason("cpu allocatable map is empty", unresolvable=True)
REFUSED = Reason("containers cannot be assigned by numa", unresolvable=True)


@lru_cache
def _differs(task: str, node: str) -> Reason:
    return Reason(f"task topology policy[{task}] is different with node[{node}]", unresolvable=True)


class NumaAwarePlugin(Plugin):
    """Filters and scores nodes by NUMA nodes."""

    name = "numa-aware"
    pure = False
    known_arguments = (_WEIGHT,)

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        self.weight = int(argument_value(_WEIGHT, self.arguments))

    def open(self, session: Session) -> None:
        """Read what is known of the nodes."""
        self.book = NumaBook(session)
        self._wanted: dict[int, tuple[int, ...]] = {}

    def wanted(self, pod_class: PodClass) -> tuple[int, ...]:
        """Whole CPUs per container; 0 where it asks for none, or for a fraction."""
        cpus = self._wanted.get(pod_class.id)
        if cpus is None:
            cpus = self._wanted[pod_class.id] = tuple(whole_cpus(each) for each in pod_class.containers)
        return cpus

    def concerns(self, pod_class: PodClass) -> bool:
        """Guaranteed pods that ask for a policy, or might meet a node that has one."""
        return pod_class.guaranteed and (_policy(pod_class) != NONE or bool(self.book.nodes))

    def is_pure(self, pod_class: PodClass) -> bool:
        """Other pods are nothing to this plug-in."""
        return not self.concerns(pod_class)

    # ---- nodes

    def filter(self, pod_class: PodClass, nodes: NodeView) -> Sequence[Veto]:
        """Nodes that lack what the pod's policy needs, and those whose policy would not admit it."""
        refused: dict[Reason, list[int]] = {}
        for at, column in enumerate(nodes.columns.tolist()):
            reason = self._refusal(pod_class, column)
            if reason is not None:
                refused.setdefault(reason, []).append(at)
        vetoes = []
        for reason, where in sorted(refused.items(), key=lambda pair: pair[0].text):
            mask = np.zeros(nodes.size, dtype=np.bool_)
            mask[where] = True
            vetoes.append(Veto(mask, reason))
        return vetoes

    def _refusal(self, pod_class: PodClass, column: int) -> Reason | None:
        node, policy = self.book.nodes.get(column), _policy(pod_class)
        if policy != NONE:
            lacking = _lacking(node, policy)
            if lacking is not None:
                return lacking
        return REFUSED if self._counts(pod_class, node) and self._assigned(pod_class, column) is None else None

    def _counts(self, pod_class: PodClass, node: NumaNode | None) -> bool:
        """Whether the node would align the pod: because the pod asks for it, or because it does so to all pods."""
        if node is None or node.topology is None or node.cpu_policy != STATIC:
            return False
        return _policy(pod_class) != NONE or node.policy != NONE

    def _assigned(self, pod_class: PodClass, column: int) -> tuple[int, ...] | None:
        node = self.book.nodes[column]
        assert node.topology is not None
        return assign(node.topology, self.book.free(column), self.wanted(pod_class), node.policy)

    def score(self, pod_class: PodClass, nodes: NodeView) -> FloatArray | None:
        """100 where the pod fits into one NUMA node, 0 where it needs all of them; only if it asks for a policy."""
        if _policy(pod_class) == NONE or not self.weight:
            return None
        points = np.zeros(nodes.size, dtype=np.float64)
        for at, column in enumerate(nodes.columns.tolist()):
            node = self.book.nodes.get(column)
            if node is None or node.topology is None or not self._counts(pod_class, node):
                continue
            given = self._assigned(pod_class, column)
            used = numa_nodes(node.topology, given) if given else 0
            if used:
                points[at] = 100 - 100 * (used - 1) // max(len(node.topology.numa) - 1, 1)
        return self.weight * points

    # ---- events

    def moved(
        self, job: JobState, tasks: Sequence[Task], nodes: Sequence[int], before: TaskStatus, after: TaskStatus
    ) -> None:
        """Give CPUs to pods that start now, and take them back when that is undone."""
        if not tasks[0].pod_class.guaranteed:
            return
        for task, column in zip(tasks, nodes, strict=True):
            if after is TaskStatus.PENDING:
                self.book.take_back(task)
            elif after is TaskStatus.ALLOCATED and self._counts(task.pod_class, self.book.nodes.get(column)):
                self.book.give(task, column, self._assigned(task.pod_class, column) or ())

    def annotations(self, task: Task, node: int) -> Mapping[str, str] | None:
        """The NUMA nodes of the pod's CPUs."""
        decision = self.book.decision(task)
        return {keys.NUMA_TOPOLOGY_DECISION: decision} if decision else None


def _policy(pod_class: PodClass) -> str:
    return pod_class.notes.get(keys.NUMA_TOPOLOGY_POLICY) or NONE


def _lacking(node: NumaNode | None, policy: str) -> Reason | None:
    """Why a node cannot honour the policy that a pod asks for."""
    if node is None:
        return NO_INFO
    if node.cpu_policy != STATIC:
        return NOT_STATIC
    if node.policy != policy:
        return _differs(policy, node.policy)
    if node.topology is None:
        return NO_TOPOLOGY
    return None if node.reported else NO_CPUS


def whole_cpus(resources: ResourceRequirements | None) -> int:
    """CPUs that a container of a Guaranteed pod gets for itself: 0 where it asks for none, or for a fraction."""
    if resources is None:
        return 0
    milli = {**resource_list(resources.limits), **resource_list(resources.requests)}.get("cpu", 0)
    return milli // 1000 if milli % 1000 == 0 else 0
