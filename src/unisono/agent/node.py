"""The machine as a Node object: what it offers, kept alive by a Lease."""

from __future__ import annotations

from contextlib import suppress

import msgspec
import structlog

from unisono import __version__
from unisono.agent.devices.inventory import counts
from unisono.agent.machine.facts import Machine
from unisono.api.annotations import SHARED_NETWORK
from unisono.api.base import ObjectMeta
from unisono.api.conditions import is_true
from unisono.api.core import Lease, LeaseSpec, Namespace, Node, NodeAddress, NodeCondition, NodeStatus, NodeSystemInfo
from unisono.api.keys import ARCH, HOSTNAME, OS
from unisono.api.kinds import LEASES, NAMESPACES, NODES
from unisono.api.resources import to_wire
from unisono.api.times import rfc3339, rfc3339_micro
from unisono.errors import AlreadyExists, ApiError, NotFound
from unisono.kube.client import Client
from unisono.kube.clock import Clock

LEASE_NAMESPACE = "kube-node-lease"
LEASE_SECONDS = 40
HEARTBEAT_SECONDS = 10.0
MAX_PODS = 110
RUNTIME = "unisono-process"

_log = structlog.get_logger(__name__)


def build_node(
    name: str,
    machine: Machine,
    *,
    now: float,
    cpus: float | None = None,
    memory: int | None = None,
    shared_network: bool = False,
    labels: dict[str, str] | None = None,
) -> Node:
    """The Node of a machine.

    Args:
        name: the node's name.
        machine: what there is.
        now: seconds since 1970, for the conditions.
        cpus: offer only that many processors.
        memory: offer only that many bytes.
        shared_network: pods cannot have ports of their own here.
        labels: further labels.
    """
    capacity, allocatable = _amounts(machine, cpus, memory)
    own_labels = {
        HOSTNAME: name,
        ARCH: machine.architecture,
        OS: "linux",
        **{name: value for found in machine.inventories for name, value in found.labels.items()},
    }
    forced = {SHARED_NETWORK: "true"} if shared_network else {}
    return Node(
        metadata=ObjectMeta(name=name, labels={**own_labels, **(labels or {}), **forced}),
        status=NodeStatus(
            capacity=dict(to_wire(capacity)),
            allocatable=dict(to_wire(allocatable)),
            conditions=[ready_condition(now, ready=True), disk_condition(now, pressure=False)],
            addresses=[
                NodeAddress(type="InternalIP", address=machine.address),
                NodeAddress(type="Hostname", address=machine.hostname),
            ],
            node_info=_system_info(machine),
        ),
    )


def _amounts(machine: Machine, cpus: float | None, memory: int | None) -> tuple[dict[str, int], dict[str, int]]:
    """Capacity and what of it pods may have, in engine units."""
    capacity = {
        "cpu": machine.cpu,
        "memory": machine.memory,
        "ephemeral-storage": machine.disk,
        "pods": MAX_PODS,
    }
    capacity |= counts(machine.inventories)
    allocatable = {**capacity, **counts(machine.inventories, healthy=True)}
    if cpus is not None:
        allocatable["cpu"] = min(round(cpus * 1000), machine.cpu)
    if memory is not None:
        allocatable["memory"] = min(memory, machine.memory)
    return capacity, allocatable


def _system_info(machine: Machine) -> NodeSystemInfo:
    return NodeSystemInfo(
        machine_id=machine.machine_id,
        system_uuid=machine.machine_id,
        boot_id=machine.boot_id,
        kernel_version=machine.kernel,
        os_image=machine.os_image,
        container_runtime_version=f"{RUNTIME}://{__version__}",
        kubelet_version=f"unisono-{__version__}",
        operating_system="linux",
        architecture=machine.architecture,
    )


def ready_condition(now: float, *, ready: bool) -> NodeCondition:
    """The Ready condition as a kubelet words it."""
    stamp = rfc3339(now)
    return NodeCondition(
        type="Ready",
        status="True" if ready else "False",
        reason="AgentReady" if ready else "AgentStopped",
        message="the node agent is posting ready status" if ready else "the node agent was stopped",
        last_heartbeat_time=stamp,
        last_transition_time=stamp,
    )


def disk_condition(now: float, *, pressure: bool) -> NodeCondition:
    """The DiskPressure condition as a kubelet words it."""
    stamp = rfc3339(now)
    return NodeCondition(
        type="DiskPressure",
        status="True" if pressure else "False",
        reason="AgentHasDiskPressure" if pressure else "AgentHasNoDiskPressure",
        message=f"the node agent has {'' if pressure else 'no '}disk pressure",
        last_heartbeat_time=stamp,
        last_transition_time=stamp,
    )


def is_ready(node: Node) -> bool:
    """Whether the API shows the node as Ready."""
    return is_true(node.status.conditions, "Ready")


async def report_ready(client: Client, node: Node, now: float) -> None:
    """Write the status of a node that works, with a fresh Ready condition.

    Args:
        client: the API.
        node: the node as its agent knows it.
        now: seconds since 1970.
    """
    others = [each for each in node.status.conditions or () if each.type != "Ready"]
    conditions = [*others, ready_condition(now, ready=True)]
    await _patch_status(client, node.metadata.name, msgspec.structs.replace(node.status, conditions=conditions))


async def _patch_status(client: Client, name: str, status: NodeStatus) -> None:
    """Write what ``status`` has; conditions of other types stay as they are."""
    body = {"status": msgspec.to_builtins(status)}
    await client.patch(NODES, name, body, patch_type="strategic", subresource="status")


class NodeRegistration:
    """Creates the Node, keeps its Lease fresh, and creates it again when it is deleted.

    Args:
        client: the API.
        node: the Node as ``build_node`` made it.
        clock: paces the heartbeats.
    """

    def __init__(self, client: Client, node: Node, clock: Clock) -> None:
        self._client, self._node, self._clock = client, node, clock
        self._name = node.metadata.name
        self._leaving = False

    async def register(self) -> None:
        """Create the Node or bring it up to date: labels are added, taints and cordons of others stay."""
        try:
            await self._client.create(NODES, self._node)
        except AlreadyExists:
            await self._client.patch(NODES, self._name, {"metadata": {"labels": self._node.metadata.labels}})
        await self._report()
        await self._renew()
        _log.info("node.registered", node=self._name, allocatable=self._node.status.allocatable)

    async def run(self) -> None:
        """Renew the Lease until cancelled."""
        while True:
            await self._clock.sleep(HEARTBEAT_SECONDS)
            try:
                await self._renew()
                if not is_ready(await self._client.get(NODES, self._name)) and not self._leaving:
                    # Heartbeats failed to arrive for a while, so that the node was marked as lost.
                    await self._report()
            except NotFound:
                await self._again()
            except (ApiError, OSError) as error:
                _log.warning("node.heartbeat_failed", node=self._name, error=str(error))

    async def report_disk(self, pressure: bool) -> None:
        """Say whether the node's disk is full.

        Raises:
            ApiError: the API did not take it.
        """
        condition = disk_condition(self._clock.time(), pressure=pressure)
        others = [each for each in self._node.status.conditions or () if each.type != condition.type]
        self._node.status.conditions = [*others, condition]
        await _patch_status(self._client, self._name, NodeStatus(conditions=[condition]))

    async def leave(self) -> None:
        """Say that no pod can start here until the agent runs again."""
        self._leaving = True
        condition = ready_condition(self._clock.time(), ready=False)
        try:
            await _patch_status(self._client, self._name, NodeStatus(conditions=[condition]))
        except (ApiError, OSError) as error:
            _log.warning("node.leave_failed", node=self._name, error=str(error))

    async def _again(self) -> None:
        try:
            await self.register()
        except (ApiError, OSError) as error:
            _log.warning("node.register_failed", node=self._name, error=str(error))

    async def _report(self) -> None:
        await report_ready(self._client, self._node, self._clock.time())

    async def _renew(self) -> None:
        await renew_lease(self._client, self._name, self._clock.time())


async def renew_lease(
    client: Client, node: str, now: float, seconds: int = LEASE_SECONDS, *, new: bool = False
) -> None:
    """Write the node's Lease, making it and its namespace when they are missing.

    Args:
        client: the API.
        node: name of the node.
        now: seconds since 1970.
        seconds: how long the lease holds.
        new: the node has just been made, so that it is likely to have no Lease yet: saves a request then.
    """
    stamp = rfc3339_micro(now)
    if not new:
        with suppress(NotFound):
            await _touch_lease(client, node, stamp)
            return
    lease = Lease(
        metadata=ObjectMeta(name=node, namespace=LEASE_NAMESPACE),
        spec=LeaseSpec(holder_identity=node, lease_duration_seconds=seconds, renew_time=stamp),
    )
    try:
        await client.create(LEASES, lease)
    except AlreadyExists:
        if new:
            await _touch_lease(client, node, stamp)
    except NotFound:
        # The namespace is missing, which clusters have from their first moment.
        await _ensure_lease_namespace(client)
        await client.create(LEASES, lease)


async def _touch_lease(client: Client, node: str, stamp: str) -> None:
    await client.patch(LEASES, node, {"spec": {"renewTime": stamp}}, namespace=LEASE_NAMESPACE)


async def _ensure_lease_namespace(client: Client) -> None:
    try:
        await client.create(NAMESPACES, Namespace(metadata=ObjectMeta(name=LEASE_NAMESPACE)))
    except AlreadyExists:
        return
