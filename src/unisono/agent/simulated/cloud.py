"""A simulated cloud: MachineDeployments whose machines become simulated nodes some time after they were asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import msgspec
import structlog

from unisono.agent.simulated.specs import NodeSpec
from unisono.api.annotations import BOOT_SECONDS, INTERRUPTED_AT, PRICE
from unisono.api.core import CustomResourceDefinition
from unisono.api.groups import autoscaling
from unisono.api.keys import CAPACITY_TYPE
from unisono.api.kind import Kind
from unisono.api.kinds import CUSTOM_RESOURCE_DEFINITIONS, NODES
from unisono.api.times import parse_time
from unisono.errors import AlreadyExists, ApiError, NotFound
from unisono.kube.client import Client
from unisono.kube.clock import Clock

NAMESPACE = "default"
_LOOK_SECONDS = 1.0
_OWN = ("cpu", "memory", "pods", "ephemeral-storage")
_COLUMNS = [
    {"name": "Desired", "type": "integer", "jsonPath": ".spec.replicas"},
    {"name": "Ready", "type": "integer", "jsonPath": ".status.readyReplicas"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]

_log = structlog.get_logger(__name__)


class Nodes(Protocol):
    """Who runs the nodes."""

    async def add(self, name: str, spec: NodeSpec) -> None:
        """A machine has booted."""
        ...

    async def remove(self, name: str) -> None:
        """A machine is gone."""
        ...


class SimulatedCloud:
    """Looks at its MachineDeployments once a second.

    Args:
        client: an API that may define kinds; what it already defines is used.
        groups: machines on demand, each with ``cloud``.
        clock: times.
        nodes: gets machines that have booted, and loses those that are gone.
    """

    def __init__(self, client: Client, groups: Sequence[NodeSpec], clock: Clock, nodes: Nodes) -> None:
        self._client, self._clock, self._nodes = client, clock, nodes
        self._groups = {group.name: with_capacity_type(group) for group in groups}
        self._serial = dict.fromkeys(self._groups, 0)

    async def run(self) -> None:
        """Keep machines as they are asked for until cancelled."""
        prepared = False
        while True:
            try:
                if not prepared:
                    await self._prepare()
                    prepared = True
                await self.look()
            except (ApiError, OSError) as error:
                _log.info("cloud.retry", error=str(error))
            await self._clock.sleep(_LOOK_SECONDS)

    async def _prepare(self) -> None:
        for kind in (autoscaling.MACHINES, autoscaling.MACHINE_DEPLOYMENTS):
            await self._create(CUSTOM_RESOURCE_DEFINITIONS, definition(kind))
        for group in self._groups.values():
            await self._create(autoscaling.MACHINE_DEPLOYMENTS, deployment(group))

    async def _create(self, kind: Kind[Any], obj: Any) -> None:
        try:
            await self._client.create(kind, obj)
        except AlreadyExists:
            return

    async def look(self) -> None:
        """Make, boot and remove machines, and say in each status how many there are."""
        now = self._clock.time()
        deployments = (await self._client.list(autoscaling.MACHINE_DEPLOYMENTS, NAMESPACE)).items
        machines = (await self._client.list(autoscaling.MACHINES, NAMESPACE)).items
        taken = await self._taken_back(now)
        for each in deployments:
            group = self._groups.get(each.metadata.name)
            if group is None:
                continue
            mine = [m for m in machines if (m.metadata.labels or {}).get(autoscaling.DEPLOYMENT_NAME) == group.name]
            for machine in [m for m in mine if m.metadata.name in taken]:
                await self._remove(machine)
                mine.remove(machine)
            await self._scale(group, each, mine)
            await self._boot(group, each, mine, now)

    async def _scale(
        self, group: NodeSpec, asked: autoscaling.MachineDeployment, mine: list[autoscaling.Machine]
    ) -> None:
        desired = max(0, asked.spec.replicas or 0)
        order = sorted(mine, key=lambda m: (not _is_chosen(m), m.status.node_ref is not None, m.metadata.name))
        for machine in order[: max(0, len(mine) - desired)]:
            await self._remove(machine)
            mine.remove(machine)
        names = {machine.metadata.name for machine in mine}
        for _ in range(desired - len(mine)):
            while (name := f"{group.name}-{self._serial[group.name]}") in names:
                self._serial[group.name] += 1
            self._serial[group.name] += 1
            labels = {autoscaling.DEPLOYMENT_NAME: group.name}
            machine = msgspec.convert(
                {"metadata": {"name": name, "namespace": NAMESPACE, "labels": labels}}, autoscaling.Machine
            )
            await self._create(autoscaling.MACHINES, machine)

    async def _boot(
        self, group: NodeSpec, asked: autoscaling.MachineDeployment, mine: list[autoscaling.Machine], now: float
    ) -> None:
        assert group.cloud is not None
        ready = 0
        for machine in mine:
            name, born = machine.metadata.name, machine.metadata.creation_timestamp
            if machine.status.node_ref is None:
                if born is None or now < parse_time(born) + group.cloud.boot_seconds:
                    continue
                await self._nodes.add(name, group)
                status = {"status": {"nodeRef": {"name": name}}}
                await self._client.patch(autoscaling.MACHINES, name, status, namespace=NAMESPACE, subresource="status")
            else:
                # Known to the process before this one.
                await self._nodes.add(name, group)
            ready += 1
        said = (asked.status.replicas, asked.status.ready_replicas)
        if said != (len(mine), ready):
            patch = {"status": {"replicas": len(mine), "readyReplicas": ready}}
            await self._client.patch(
                autoscaling.MACHINE_DEPLOYMENTS, group.name, patch, namespace=NAMESPACE, subresource="status"
            )

    async def _remove(self, machine: autoscaling.Machine) -> None:
        name = machine.metadata.name
        await self._nodes.remove(name)
        try:
            await self._client.delete(autoscaling.MACHINES, name, NAMESPACE)
        except NotFound:
            return

    async def _taken_back(self, now: float) -> set[str]:
        """Spot machines whose announced end has come."""
        if not any(group.cloud is not None and group.cloud.spot for group in self._groups.values()):
            return set()
        names = set()
        for node in (await self._client.list(NODES, label_selector=f"{CAPACITY_TYPE}=spot")).items:
            try:
                if parse_time((node.metadata.annotations or {}).get(INTERRUPTED_AT, "")) <= now:
                    names.add(node.metadata.name)
            except ValueError:
                continue
        return names


def with_capacity_type(group: NodeSpec) -> NodeSpec:
    """The group with the label by which Karpenter tells spot from on-demand capacity."""
    assert group.cloud is not None
    kind = "spot" if group.cloud.spot else "on-demand"
    return replace(group, labels={CAPACITY_TYPE: kind, **group.labels})


def _is_chosen(machine: autoscaling.Machine) -> bool:
    return autoscaling.DELETE_MACHINE in (machine.metadata.annotations or {})


def deployment(group: NodeSpec) -> autoscaling.MachineDeployment:
    """The MachineDeployment of a group, as its owner would write it for Cluster API."""
    assert group.cloud is not None
    wire, cloud = group.wire_capacity(), group.cloud
    notes = {
        autoscaling.MINIMUM: str(cloud.least),
        autoscaling.MAXIMUM: str(cloud.most),
        f"{autoscaling.CAPACITY}cpu": wire["cpu"],
        f"{autoscaling.CAPACITY}memory": wire["memory"],
        autoscaling.LABELS: ",".join(f"{key}={value}" for key, value in sorted(group.labels.items())),
        BOOT_SECONDS: f"{cloud.boot_seconds:g}",
    }
    if "ephemeral-storage" in wire:
        notes[f"{autoscaling.CAPACITY}ephemeral-disk"] = wire["ephemeral-storage"]
    for name, amount in wire.items():
        if name not in _OWN:
            notes |= {autoscaling.GPU_TYPE: name, autoscaling.GPU_COUNT: amount}
    if group.taints:
        notes[autoscaling.TAINTS] = ",".join(f"{each.key}={each.value or ''}:{each.effect}" for each in group.taints)
    if cloud.price is not None:
        notes[PRICE] = f"{cloud.price:g}"
    value = {
        "metadata": {"name": group.name, "namespace": NAMESPACE, "annotations": notes},
        "spec": {"replicas": cloud.least},
    }
    return msgspec.convert(value, autoscaling.MachineDeployment)


def definition(kind: Kind[Any]) -> CustomResourceDefinition:
    """Defines a kind of Cluster API as far as the simulated cloud needs it."""
    version = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        "subresources": {"status": {}},
        "additionalPrinterColumns": _COLUMNS if kind is autoscaling.MACHINE_DEPLOYMENTS else _COLUMNS[-1:],
    }
    value = {
        "metadata": {"name": kind.resource},
        "spec": {
            "group": kind.group,
            "names": {"kind": kind.kind, "listKind": f"{kind.kind}List", "plural": kind.plural},
            "scope": "Namespaced",
            "versions": [version],
        },
    }
    return msgspec.convert(value, CustomResourceDefinition)
