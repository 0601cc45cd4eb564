"""``nodeinfo.volcano.sh``: Numatopology, what a node's CPUs look like and which are free."""

from __future__ import annotations

import msgspec

from unisono.api.base import Base, Object
from unisono.api.fields import Quantity


class ResourceInfo(Base):
    """One resource of a node.

    Attributes:
        allocatable: what is free: for ``cpu`` numbers and ranges such as ``0-3,8``.
        capacity: how many there are.

    """

    allocatable: str | None = None
    capacity: int | None = None


class CPUInfo(Base):
    """Where one CPU sits.

    Attributes:
        numa, socket, core: ids of its NUMA node, socket and core.

    """

    numa: int | None = None
    socket: int | None = None
    core: int | None = None


class ContainerAllocation(Base):
    """What the node gave to one container, by resource: for ``cpu`` numbers and ranges."""

    name: str | None = None
    allocations: dict[str, str] | None = None


class PodAllocation(Base):
    """What the node gave to one pod."""

    uid: str | None = None
    name: str | None = None
    namespace: str | None = None
    container_allocations: list[ContainerAllocation] | None = None


class NumatopologySpec(Base):
    """Topology of one node, as its exporter sees it.

    Attributes:
        policies: the kubelet's, ``CPUManagerPolicy`` and ``TopologyManagerPolicy``.
        res_reserved: amounts that the kubelet keeps for the system.
        numares: what is free, by resource.
        cpu_detail: by CPU number.
        pod_allocations: pods that ``numares`` takes into account already.

    """

    policies: dict[str, str] | None = None
    res_reserved: dict[str, Quantity] | None = None
    numares: dict[str, ResourceInfo] | None = None
    cpu_detail: dict[str, CPUInfo] | None = None
    pod_allocations: list[PodAllocation] | None = None


class Numatopology(Object):
    """NUMA nodes and CPUs of the node of the same name."""

    spec: NumatopologySpec = msgspec.field(default_factory=NumatopologySpec)
