"""``cluster.x-k8s.io``: MachineDeployment and Machine, as far as scaling needs them; not kinds that Unisono serves."""

from __future__ import annotations

import msgspec

from unisono.api.base import Base, Object
from unisono.api.kind import Kind

MINIMUM = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
MAXIMUM = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"
# What one machine offers, where it cannot be seen on a node; the keys are those of the cluster autoscaler.
CAPACITY = "capacity.cluster-autoscaler.kubernetes.io/"
GPU_TYPE, GPU_COUNT = f"{CAPACITY}gpu-type", f"{CAPACITY}gpu-count"
LABELS, TAINTS = f"{CAPACITY}labels", f"{CAPACITY}taints"
# How patient scaling is with a MachineDeployment (annotations): Go durations.
UNNEEDED_TIME = "cluster.x-k8s.io/autoscaling-options-scaledownunneededtime"
PROVISION_TIME = "cluster.x-k8s.io/autoscaling-options-maxnodeprovisiontime"
DELETE_MACHINE = "cluster.x-k8s.io/delete-machine"
"""On a Machine (annotation): it goes first when its MachineDeployment has fewer replicas."""
DEPLOYMENT_NAME = "cluster.x-k8s.io/deployment-name"
"""On a Machine (label): its MachineDeployment."""


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


class NodeRef(Base):
    """The node that a machine became."""

    name: str = ""


class MachineStatus(Base):
    """Which node the machine is."""

    node_ref: NodeRef | None = None


class Machine(Object):
    """One machine of a cluster that Cluster API manages."""

    status: MachineStatus = msgspec.field(default_factory=MachineStatus)


MACHINES: Kind[Machine] = Kind("cluster.x-k8s.io", "v1beta2", "Machine", "machines", Machine, status_subresource=True)
MACHINE_DEPLOYMENTS: Kind[MachineDeployment] = Kind(
    "cluster.x-k8s.io",
    "v1beta2",
    "MachineDeployment",
    "machinedeployments",
    MachineDeployment,
    status_subresource=True,
)
