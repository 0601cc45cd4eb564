"""The Numatopology object of a node: how it is made of what is known, and how it is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from unisono.agent.cpus.sysfs import Place
from unisono.api.base import ObjectMeta, OwnerReference
from unisono.api.core import Node
from unisono.api.kinds import NUMATOPOLOGIES
from unisono.api.nodeinfo import CPUInfo, Numatopology, NumatopologySpec, PodAllocation, ResourceInfo
from unisono.api.numa.cpus import write_cpus
from unisono.kube.client import Client


@dataclass(frozen=True, slots=True)
class NodeCpus:
    """The CPUs of a node.

    Attributes:
        cpu_policy, topology_policy: in the words of the kubelet's configuration.
        reserved: amount of CPU that schedulers take off what is free; None for nothing.
        free: mask of the CPUs that no container has for itself.
        detail: the place of each CPU.
        allocations: who has the others.

    """

    cpu_policy: str
    topology_policy: str
    reserved: str | None
    free: int
    detail: Mapping[int, Place]
    allocations: Sequence[PodAllocation] = ()


def spec_of(cpus: NodeCpus) -> NumatopologySpec:
    """What schedulers are told."""
    return NumatopologySpec(
        policies={"CPUManagerPolicy": cpus.cpu_policy, "TopologyManagerPolicy": cpus.topology_policy},
        res_reserved={"cpu": cpus.reserved} if cpus.reserved is not None else {},
        numares={"cpu": ResourceInfo(allocatable=write_cpus(cpus.free), capacity=len(cpus.detail))},
        cpu_detail={str(cpu): CPUInfo(*place) for cpu, place in sorted(cpus.detail.items())},
        pod_allocations=list(cpus.allocations),
    )


def numatopology(node: Node, spec: NumatopologySpec, labels: Mapping[str, str] | None = None) -> Numatopology:
    """The object of the node's name; it goes with the node."""
    meta = node.metadata
    owner = OwnerReference(api_version="v1", kind="Node", name=meta.name, uid=meta.uid or "", controller=True)
    made = ObjectMeta(name=meta.name, owner_references=[owner], labels=dict(labels) if labels else None)
    return Numatopology(metadata=made, spec=spec)


async def bring_up_to_date(client: Client, found: Numatopology, wanted: NumatopologySpec) -> None:
    """Patch what differs; CPUs and resources that are no more are taken out."""
    old, new = msgspec.to_builtins(found.spec), msgspec.to_builtins(wanted)
    if old == new:
        return
    gone = {
        field: dict.fromkeys(set(old.get(field) or ()) - set(new[field]))
        for field in ("cpuDetail", "resReserved", "numares")
    }
    body = {name: {**value, **gone[name]} if name in gone else value for name, value in new.items()}
    await client.patch(NUMATOPOLOGIES, found.metadata.name, {"spec": body})
