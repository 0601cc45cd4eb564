"""numa-aware: pods with whole CPUs go where the kubelet's topology manager would take them.

For Guaranteed pods on nodes whose CPU manager is ``static``. A pod (or its task in a job) may ask for a policy; without
one the node's counts. The CPUs are taken in the scheduler's books, and the NUMA nodes leave with the bind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from unisono.api import keys
from unisono.api.core import ResourceRequirements
from unisono.api.numa import NONE, STATIC, assign, numa_nodes
from unisono.api.resources import resource_list
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.cluster.status import TaskStatus
from unisono.engine.answers import FloatArray, Reason, Veto
from unisono.engine.config.arguments import Argument, argument_value
from unisono.engine.config.model import PluginConfig
from unisono.engine.contract.plugin import Plugin
from unisono.engine.plugins.numa_aware.book import NumaBook, NumaNode
from unisono.engine.session.job_state import JobState
from unisono.engine.session.node_view import NodeView
from unisono.engine.session.session import Session

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
        found = self._wanted.get(pod_class.id)
        if found is None:
            found = self._wanted[pod_class.id] = tuple(whole_cpus(each) for each in pod_class.containers)
        return found

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
