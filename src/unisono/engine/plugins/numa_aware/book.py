"""Free CPUs of every node in a session: as exporters report them, less what pods on their way have been promised."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from unisono.api import keys
from unisono.api.base import Quantity
from unisono.api.groups.topology import Numatopology
from unisono.api.numa import NONE, CpuTopology, parse_cpus, reserve, take
from unisono.api.quantity import QuantityError, parse_quantity
from unisono.cluster.records import Task
from unisono.cluster.status import ON_NODE_STATES, TaskStatus
from unisono.engine.plugins.common.json_text import decoded
from unisono.engine.session.session import Session


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
        found = self._free.get(column)
        if found is None:
            found = self._free[column] = self._without_promised(column)
        return found

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
        found = self.given.pop(task.key, None)
        if found is not None:
            column, cpus = found
            for mask in cpus:
                self._free[column] |= mask

    def decision(self, task: Task) -> str | None:
        """The annotation that tells a pod its NUMA nodes, None when it has got no CPUs."""
        found = self.given.get(task.key)
        if found is None:
            return None
        column, cpus = found
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
