"""How jobs of traces that count processors and GPUs are cut into pods."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from unisono.api.keys import GPU_COUNT, NVIDIA_GPU
from unisono.api.resources import resource_list
from unisono.simulator.clusters.model import Cluster
from unisono.simulator.workload.job import Role


@dataclass(frozen=True, slots=True)
class NodeShape:
    """The largest node of a cluster: pods are no larger. A cluster of one node makes one pod of each job.

    Attributes:
        gpus: GPUs.
        cpus: whole CPUs.

    """

    gpus: int = 8
    cpus: int = 96


def largest(cluster: Cluster) -> NodeShape:
    """The shape by which jobs are cut for a cluster."""
    amounts = [resource_list(node.status.allocatable) for node in cluster.nodes]
    gpus = max((max(each.get(NVIDIA_GPU, 0), each.get(GPU_COUNT, 0)) for each in amounts), default=0) // 1000
    cpus = max((each.get("cpu", 0) for each in amounts), default=0) // 1000
    return NodeShape(max(gpus, 1), max(cpus, 1))


def gpu_roles(gpus: int, shape: NodeShape) -> tuple[Role, ...]:
    """Pods of a job of ``gpus`` GPUs: one where a node has so many, else whole nodes, and one pod with the rest.

    A job without GPUs gets one CPU, so that it is placed at all.
    """
    if not gpus:
        return (Role(cpu_milli=1000),)
    whole, rest = divmod(gpus, shape.gpus)
    return _roles(
        Role(count=max(whole, 1), gpus=shape.gpus) if whole else None, Role(name="rest", gpus=rest) if rest else None
    )


def cpu_roles(cpus: int, shape: NodeShape, memory_mib: int = 0) -> tuple[Role, ...]:
    """The same for processors; ``memory_mib`` is per processor."""
    whole, rest = divmod(cpus, shape.cpus)
    full = Role(count=max(whole, 1), cpu_milli=1000 * shape.cpus, memory_mib=memory_mib * shape.cpus)
    part = Role(name="rest", cpu_milli=1000 * rest, memory_mib=memory_mib * rest)
    return _roles(full if whole else None, part if rest else None)


def _roles(*roles: Role | None) -> tuple[Role, ...]:
    found = tuple(role for role in roles if role is not None)
    return found if len(found) > 1 else (replace(found[0], name="worker"),)
