"""Clusters of the shapes that are measured, built as objects on the wire."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from unisono.api import kinds
from unisono.api.base import Object, ObjectMeta
from unisono.api.core import Container, Node, NodeStatus, Pod, PodSpec, PodStatus, ResourceRequirements
from unisono.api.groups.scheduling import PodGroup, PodGroupSpec, PodGroupStatus, Queue, QueueSpec, QueueStatus
from unisono.api.kind import Kind
from unisono.api.times import rfc3339
from unisono.cluster.state import ClusterState

_GROUP = "scheduling.k8s.io/group-name"
START = 1_700_000_000.0
SMALL = {"cpu": "1", "memory": "4Gi"}
GPU = {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "1"}
CPU_NODE = {"cpu": "96", "memory": "768Gi", "pods": "110"}
GPU_NODE = {"cpu": "96", "memory": "768Gi", "nvidia.com/gpu": "8", "pods": "110"}


@dataclass(frozen=True, slots=True)
class Shape:
    """``jobs`` PodGroups of ``gang`` pods each on ``nodes`` nodes; ``wanted`` is the goal in pods per second."""

    nodes: int
    jobs: int
    gang: int
    pod: str = "cpu"
    queues: int = 1
    wanted: int = 0
    volcano: float = 0.0

    @property
    def title(self) -> str:
        """Such as ``1,000 nodes, 500 x 20``."""
        kind = "" if self.pod == "cpu" else f" {self.pod}"
        return f"{self.nodes:,} nodes, {self.jobs:,} x {self.gang:,}{kind}"


def objects(shape: Shape, *, running: bool = False) -> Iterator[tuple[Kind[object], Object]]:
    """Everything of a shape; with ``running`` the pods are bound round-robin."""
    node, requests = (CPU_NODE, SMALL) if shape.pod == "cpu" else (GPU_NODE, GPU)
    for index in range(shape.nodes):
        name = f"node-{index:05}"
        yield kinds.NODES, Node(metadata=ObjectMeta(name=name, uid=name), status=NodeStatus(allocatable=dict(node)))
    for index in range(shape.queues):
        name = f"queue-{index:04}"
        yield (
            kinds.QUEUES,
            Queue(metadata=ObjectMeta(name=name, uid=name), spec=QueueSpec(weight=1), status=QueueStatus(state="Open")),
        )
    number = 0
    for index in range(shape.jobs):
        yield kinds.POD_GROUPS, _group(shape, index, requests, running=running)
        for member in range(shape.gang):
            where = f"node-{number % shape.nodes:05}" if running else None
            yield kinds.PODS, _pod(f"job-{index:05}", member, requests, where)
            number += 1


def _group(shape: Shape, index: int, requests: dict[str, str], *, running: bool) -> PodGroup:
    name = f"job-{index:05}"
    units = {"cpu": int(requests["cpu"]) * shape.gang, "memory": f"{int(requests['memory'][:-2]) * shape.gang}Gi"}
    if "nvidia.com/gpu" in requests:
        units["nvidia.com/gpu"] = shape.gang
    return PodGroup(
        metadata=ObjectMeta(name=name, namespace="bench", uid=name, creation_timestamp=rfc3339(START + index)),
        spec=PodGroupSpec(
            min_member=shape.gang,
            queue=f"queue-{index % shape.queues:04}",
            min_resources={key: str(value) for key, value in units.items()},
        ),
        status=PodGroupStatus(phase="Running", running=shape.gang) if running else PodGroupStatus(phase="Pending"),
    )


def _pod(job: str, member: int, requests: dict[str, str], node: str | None) -> Pod:
    name = f"{job}-worker-{member}"
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace="bench",
            uid=name,
            creation_timestamp="2024-01-01T00:00:00Z",
            annotations={_GROUP: job, "volcano.sh/task-spec": "worker"},
        ),
        spec=PodSpec(
            scheduler_name="volcano",
            node_name=node,
            containers=[Container(name="main", resources=ResourceRequirements(requests=dict(requests)))],
        ),
        status=PodStatus(phase="Running" if node else "Pending"),
    )


def named(stored: Iterable[tuple[Kind[object], Object]], prefix: str) -> Iterator[tuple[Kind[object], Object]]:
    """The jobs and pods of a shape under other names, to come on top of another shape."""
    for kind, obj in stored:
        if kind is kinds.QUEUES or kind is kinds.NODES:
            continue
        obj.metadata.name = obj.metadata.uid = obj.metadata.name.replace("job-", prefix)
        notes = obj.metadata.annotations or {}
        if _GROUP in notes:
            notes[_GROUP] = notes[_GROUP].replace("job-", prefix)
        yield kind, obj


def state_of(shape: Shape, *, running: bool = False) -> ClusterState:
    """The cluster state after all events of a shape."""
    state = ClusterState()
    for kind, obj in objects(shape, running=running):
        state.apply("ADDED", kind, obj)
    return state
