"""``cluster.x-k8s.io``: MachineDeployment, as far as scaling needs it; not a kind that Unisono serves."""

from __future__ import annotations

import msgspec

from unisono.api.base import Base, Object
from unisono.api.kind import Kind

MAXIMUM = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"
# What one machine offers, where it cannot be seen on a node; the keys are those of the cluster autoscaler.
CAPACITY = "capacity.cluster-autoscaler.kubernetes.io/"
GPU_TYPE, GPU_COUNT = f"{CAPACITY}gpu-type", f"{CAPACITY}gpu-count"
LABELS, TAINTS = f"{CAPACITY}labels", f"{CAPACITY}taints"


class MachineDeploymentSpec(Base):
    """How many machines there should be."""

    replicas: int | None = None


class MachineDeploymentStatus(Base):
    """How many there are, and how many of them are nodes that take pods."""

    replicas: int | None = None
    ready_replicas: int | None = None


class MachineDeployment(Object):
    """Machines of one kind in a cluster that Cluster API manages."""

    spec: MachineDeploymentSpec = msgspec.field(default_factory=MachineDeploymentSpec)
    status: MachineDeploymentStatus = msgspec.field(default_factory=MachineDeploymentStatus)


MACHINE_DEPLOYMENTS: Kind[MachineDeployment] = Kind(
    "cluster.x-k8s.io",
    "v1beta2",
    "MachineDeployment",
    "machinedeployments",
    MachineDeployment,
    status_subresource=True,
)
