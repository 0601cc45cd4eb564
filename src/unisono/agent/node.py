"""The machine as a Node object: what it offers, kept alive by a Lease."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec
import structlog

from unisono import __version__
from unisono.agent.devices.inventory import counts
from unisono.agent.lifecycle import Reason
from unisono.agent.machine.facts import Machine
from unisono.api import core
from unisono.api.annotations import SHARED_NETWORK
from unisono.api.base import ObjectMeta
from unisono.api.conditions import is_true
from unisono.api.core.pod import PodSpec
from unisono.api.keys import ARCH, BATCH_CPU, BATCH_MEMORY, HOSTNAME, OS
from unisono.api.kinds import LEASES, NAMESPACES, NODES
from unisono.api.licenses import is_floating
from unisono.api.resources import is_bytes, pod_requests, to_wire
from unisono.api.times import rfc3339, rfc3339_micro
from unisono.errors import AlreadyExists, ApiError, NotFound
from unisono.kube.client import Client
from unisono.kube.clock import Clock

# Whether a pod that was bound to a node fits there: the node decides last, as a kubelet does. Pure.
#
# Two schedulers that do not know of each other's latest choices can fill a node twice. Pods are accepted in the
# order in which they come; what does not fit beside those that were accepted before is refused for good.

# These are looked at first, in this order; the first that is short gives the reason.
_FIRST = ("pods", "cpu", "memory", "ephemeral-storage", "containers")
# Containers at a time, on nodes that offer a number of them: each takes an open file of the agent.
CONTAINERS = "containers"
_PREFIXES = ("hugepages-", "attachable-volumes-")


class Requests:
    """What pods request; equal pods come in a row, so the answer for the last one is kept."""

    def __init__(self) -> None:
        self._key: Any = None
        self._answer: Mapping[str, int] = {}

    def of(self, spec: PodSpec) -> Mapping[str, int]:
        """Requests in engine units, with the pod's own place."""
        key = (
            [c.resources for c in spec.containers or ()],
            [(c.resources, c.restart_policy) for c in spec.init_containers or ()],
            spec.resources,
            spec.overhead,
        )
        if key != self._key:
            amounts = {name: amount for name, amount in pod_requests(spec).items() if amount > 0 and _counts(name)}
            self._key, self._answer = key, {"pods": 1} | amounts
        return self._answer


class Ledger:
    """What the accepted pods of one node hold.

    Args:
        allocatable: what the node offers, in engine units.
        requests: shared by the ledgers of one process.
    """

    __slots__ = ("_allocatable", "_held", "_requests", "_used")

    def __init__(self, allocatable: Mapping[str, int], requests: Requests | None = None) -> None:
        self._allocatable, self._requests = allocatable, requests or Requests()
        self._held: dict[str, Mapping[str, int]] = {}
        self._used: dict[str, int] = {}

    def admit(self, pod: core.Pod) -> Reason | None:
        """Accept a pod, or say why it does not fit; one that was accepted before stays so."""
        uid = pod.metadata.uid or ""
        if uid in self._held:
            return None
        amounts = self._wanted(pod)
        short = [name for name, amount in amounts.items() if self._lacks(name, amount)]
        if not short:
            self._hold(uid, amounts)
            return None
        name = next((name for name in _FIRST if name in short), None) or min(short)
        numbers = (amounts[name], self._used.get(name, 0), self._allocatable.get(name, 0))
        requested, used, capacity = (_as_kubelet(name, number) for number in numbers)
        return Reason(
            f"OutOf{name}",
            f"Node didn't have enough resource: {name}, requested: {requested}, used: {used}, capacity: {capacity}",
        )

    def take(self, pod: core.Pod) -> None:
        """Count a pod that runs already, whether or not it fits."""
        uid = pod.metadata.uid or ""
        if uid not in self._held:
            self._hold(uid, self._wanted(pod))

    def release(self, uid: str) -> None:
        """Nothing of the pod runs any more, nor will."""
        for name, amount in self._held.pop(uid, {}).items():
            self._used[name] -= amount

    def _wanted(self, pod: core.Pod) -> Mapping[str, int]:
        amounts = self._requests.of(pod.spec)
        if CONTAINERS in self._allocatable:
            amounts = {**amounts, CONTAINERS: _containers(pod.spec)}
        if (backed := pod.status.extended_resource_claim_status) is None:
            return amounts
        # What a pod has through a resource claim stands in other accounts.
        elsewhere = {each.resource_name for each in backed.request_mappings or ()}
        return {name: amount for name, amount in amounts.items() if name not in elsewhere}

    def _hold(self, uid: str, wanted: Mapping[str, int]) -> None:
        self._held[uid] = wanted
        for name, amount in wanted.items():
            self._used[name] = self._used.get(name, 0) + amount

    def _lacks(self, name: str, amount: int) -> bool:
        offered = self._allocatable.get(name)
        if offered is None and _is_extended(name):
            # Of a resource that the node does not know it cannot say how much there is: others look after it.
            return False
        return self._used.get(name, 0) + amount > (offered or 0)


def _containers(spec: PodSpec) -> int:
    """How many containers of a pod run at a time: init containers do so before the others, sidecars beside them."""
    inits = spec.init_containers or ()
    return len(spec.containers or ()) + sum(each.restart_policy == "Always" for each in inits)


def _counts(name: str) -> bool:
    # What the node lends changes with its use: too much of it is taken back by eviction.
    if is_floating(name):  # which lies on no node: as kubelets do, what nodes do not know of is left out
        return False
    return name not in (BATCH_CPU, BATCH_MEMORY) and (name in _FIRST or "/" in name or name.startswith(_PREFIXES))


def _is_extended(name: str) -> bool:
    return "/" in name and "kubernetes.io/" not in name


def _as_kubelet(name: str, amount: int) -> int:
    """Milli-CPU, bytes, and whole numbers of everything else, as a kubelet writes them."""
    return amount if name in _FIRST or is_bytes(name) else -(-amount // 1000)


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
) -> core.Node:
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
    return core.Node(
        metadata=ObjectMeta(name=name, labels={**own_labels, **(labels or {}), **forced}),
        status=core.NodeStatus(
            capacity=dict(to_wire(capacity)),
            allocatable=dict(to_wire(allocatable)),
            conditions=[ready_condition(now, ready=True), disk_condition(now, pressure=False)],
            addresses=[
                core.NodeAddress(type="InternalIP", address=machine.address),
                core.NodeAddress(type="Hostname", address=machine.hostname),
            ],
            node_info=_system_info(machine),
        ),
    )


def _amounts(machine: Machine, cpus: float | None, memory: int | None) -> tuple[dict[str, int], dict[str, int]]:
    """Capacity and what of it pods may have, in engine units."""
    capacity = {"cpu": machine.cpu, "memory": machine.memory, "ephemeral-storage": machine.disk, "pods": MAX_PODS}
    capacity |= counts(machine.inventories)
    allocatable = {**capacity, **counts(machine.inventories, healthy=True)}
    if cpus is not None:
        allocatable["cpu"] = min(round(cpus * 1000), machine.cpu)
    if memory is not None:
        allocatable["memory"] = min(memory, machine.memory)
    return capacity, allocatable


def _system_info(machine: Machine) -> core.NodeSystemInfo:
    return core.NodeSystemInfo(
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


def ready_condition(now: float, *, ready: bool) -> core.NodeCondition:
    """The Ready condition as a kubelet words it."""
    stamp = rfc3339(now)
    return core.NodeCondition(
        type="Ready",
        status="True" if ready else "False",
        reason="AgentReady" if ready else "AgentStopped",
        message="the node agent is posting ready status" if ready else "the node agent was stopped",
        last_heartbeat_time=stamp,
        last_transition_time=stamp,
    )


def disk_condition(now: float, *, pressure: bool) -> core.NodeCondition:
    """The DiskPressure condition as a kubelet words it."""
    stamp = rfc3339(now)
    return core.NodeCondition(
        type="DiskPressure",
        status="True" if pressure else "False",
        reason="AgentHasDiskPressure" if pressure else "AgentHasNoDiskPressure",
        message=f"the node agent has {'' if pressure else 'no '}disk pressure",
        last_heartbeat_time=stamp,
        last_transition_time=stamp,
    )


def is_ready(node: core.Node) -> bool:
    """Whether the API shows the node as Ready."""
    return is_true(node.status.conditions, "Ready")


async def report_ready(client: Client, node: core.Node, now: float) -> None:
    """Write the status of a node that works, with a fresh Ready condition.

    Args:
        client: the API.
        node: the node as its agent knows it.
        now: seconds since 1970.
    """
    others = [each for each in node.status.conditions or () if each.type != "Ready"]
    conditions = [*others, ready_condition(now, ready=True)]
    await _patch_status(client, node.metadata.name, msgspec.structs.replace(node.status, conditions=conditions))


async def _patch_status(client: Client, name: str, status: core.NodeStatus) -> None:
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

    def __init__(self, client: Client, node: core.Node, clock: Clock) -> None:
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
        await _patch_status(self._client, self._name, core.NodeStatus(conditions=[condition]))

    async def leave(self) -> None:
        """Say that no pod can start here until the agent runs again."""
        self._leaving = True
        condition = ready_condition(self._clock.time(), ready=False)
        try:
            await _patch_status(self._client, self._name, core.NodeStatus(conditions=[condition]))
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
    lease = core.Lease(
        metadata=ObjectMeta(name=node, namespace=LEASE_NAMESPACE),
        spec=core.LeaseSpec(holder_identity=node, lease_duration_seconds=seconds, renew_time=stamp),
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
        await client.create(NAMESPACES, core.Namespace(metadata=ObjectMeta(name=LEASE_NAMESPACE)))
    except AlreadyExists:
        return
