"""The Numatopology object of a node: of this machine, and of one on which a kubelet runs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog

from unisono.agent.cpus.book import SYSTEM, CpuBook, Place, online_cpus, read_cpus
from unisono.agent.limits.memory_watch import WatchLoop
from unisono.api.base import ObjectMeta, OwnerReference
from unisono.api.core import Node, Pod
from unisono.api.groups.topology import (
    ContainerAllocation,
    CPUInfo,
    Numatopology,
    NumatopologySpec,
    PodAllocation,
    ResourceInfo,
)
from unisono.api.keys import APP_PART_OF
from unisono.api.kinds import NODES, NUMATOPOLOGIES
from unisono.api.numa import NONE, POLICIES, STATIC, parse_cpus, write_cpus
from unisono.api.quantity import QuantityError, format_milli, to_milli
from unisono.api.yaml import load_all
from unisono.errors import AgentError, AlreadyExists, ApiError, ConfigError, NotFound
from unisono.kube.client import Client
from unisono.kube.clock import SYSTEM_CLOCK, Clock
from unisono.kube.reflector import ReflectorStatistics

# The Numatopology object of a node: how it is made of what is known, and how it is written.


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


# The Numatopology object of this machine, kept as the machine is, also when a user deletes it.

LOOK_SECONDS_HERE = 1.0
_REFRESH_SECONDS = 60.0


def cpus_of(book: CpuBook, pods: Callable[[str], Pod | None]) -> NodeCpus:
    """What the machine's CPUs look like, which are free, and which containers have the others.

    Args:
        book: its CPUs.
        pods: the pod of a uid.
    """
    allocations = []
    for uid in sorted(book.given):
        pod = pods(uid)
        containers = [ContainerAllocation(name, {"cpu": cpus}) for name, cpus in sorted(book.recorded(uid).items())]
        allocations.append(
            PodAllocation(
                uid=uid,
                name=pod.metadata.name if pod else None,
                namespace=pod.metadata.namespace if pod else None,
                container_allocations=containers,
            )
        )
    return NodeCpus(
        cpu_policy=book.policies.cpu,
        topology_policy=book.policies.topology,
        reserved=str(book.policies.reserved) if book.pins else None,
        free=book.shared,
        detail=book.detail,
        allocations=allocations,
    )


class NumaPublisher:
    """Writes the object when something has changed, and looks after it once a minute.

    Args:
        client: the API.
        clock: paces the looks.
        name: of the node.
        book: its CPUs.
        pods: the pod of a uid.
    """

    def __init__(
        self, client: Client, clock: Clock, name: str, book: CpuBook, pods: Callable[[str], Pod | None]
    ) -> None:
        self._client, self._clock, self._name, self._book, self._pods = client, clock, name, book, pods
        self._written: dict[str, dict[str, int]] | None = None
        self._at = 0.0
        self._loop: WatchLoop[str, None] = WatchLoop("numatopology", clock, LOOK_SECONDS_HERE, self._look)
        if book.topology is not None:
            self._loop.add(name, None)

    async def run(self) -> None:
        """Look until cancelled."""
        await self._loop.run()

    async def _look(self, _: object) -> None:
        now, given = self._clock.monotonic(), dict(self._book.given)
        if given == self._written and now - self._at < _REFRESH_SECONDS:
            return
        try:
            node = await self._client.get(NODES, self._name)
        except NotFound:
            return
        desired = spec_of(cpus_of(self._book, self._pods))
        try:
            existing = await self._client.get(NUMATOPOLOGIES, self._name)
        except NotFound:
            await self._client.create(NUMATOPOLOGIES, numatopology(node, desired))
        else:
            await bring_up_to_date(self._client, existing, desired)
        self._written, self._at = given, now


# What a kubelet does with CPUs, read from its own files: its configuration and the state of its CPU manager.

STATE_FILE = "cpu_manager_state"
CONFIG_FILE = "config.yaml"
_MOST_BYTES = 4 << 20
_MOST_PODS = 10_000


class _State(msgspec.Struct, rename="camel"):
    """The checkpoint of the CPU manager; ``entries`` are CPUs by pod uid and container."""

    policy_name: str = NONE
    default_cpu_set: str = ""
    entries: dict[str, dict[str, str]] = {}


@dataclass(frozen=True, slots=True)
class KubeletConfig:
    """The part of a KubeletConfiguration that is about CPUs.

    Attributes:
        topology_policy: of the topology manager.
        reserved: milli-cores for the system, of which the kubelet chooses the CPUs.
        reserved_cpus: mask of the CPUs that ``reservedSystemCPUs`` names; 0 without it.
    """

    topology_policy: str = NONE
    reserved: int = 0
    reserved_cpus: int = 0


def read_config(path: Path) -> KubeletConfig:
    """A KubeletConfiguration, in YAML or JSON.

    Raises:
        AgentError: it cannot be read, or a value is none that a kubelet takes.
    """
    try:
        documents = load_all(_text(path), str(path))
    except ConfigError as error:
        raise AgentError(str(error)) from error
    value = documents[0].value if documents else {}
    if not isinstance(value, dict):
        raise AgentError(f"{path}: it is not a KubeletConfiguration")
    policy = value.get("topologyManagerPolicy") or NONE
    if policy not in POLICIES:
        raise AgentError(f"{path}: topologyManagerPolicy: {policy!r} is not one of {', '.join(POLICIES)}")
    named = value.get("reservedSystemCPUs")
    reserved = sum(_milli(path, value, field) for field in ("kubeReserved", "systemReserved"))
    return KubeletConfig(str(policy), reserved, _mask(path, "reservedSystemCPUs", str(named)) if named else 0)


def read_state(path: Path, config: KubeletConfig, detail: Mapping[int, Place]) -> NodeCpus:
    """What the CPU manager has done so far.

    CPUs that ``reservedSystemCPUs`` names are not free; of an amount that is reserved, schedulers choose the CPUs as
    the kubelet does.

    Args:
        path: its checkpoint.
        config: of the same kubelet.
        detail: the machine's CPUs.

    Raises:
        AgentError: the checkpoint cannot be read.
    """
    try:
        state = msgspec.json.decode(_text(path), type=_State)
    except msgspec.DecodeError as error:
        raise AgentError(f"{path}: it is not the state of a CPU manager: {error}") from error
    every = sum(1 << cpu for cpu in detail)
    if state.policy_name != STATIC:
        return NodeCpus(state.policy_name, config.topology_policy, None, every, detail)
    if len(state.entries) > _MOST_PODS:
        raise AgentError(f"{path}: it names more than {_MOST_PODS} pods")
    allocations, taken = [], 0
    for uid, containers in sorted(state.entries.items()):
        given = {name: _mask(path, f"entries.{uid}.{name}", cpus) for name, cpus in sorted(containers.items())}
        for mask in given.values():
            taken |= mask
        allocations.append(
            PodAllocation(
                uid=uid,
                container_allocations=[
                    ContainerAllocation(name, {"cpu": write_cpus(mask)}) for name, mask in given.items() if mask
                ],
            )
        )
    free = _mask(path, "defaultCpuSet", state.default_cpu_set) & every & ~taken & ~config.reserved_cpus
    by_amount = config.reserved and not config.reserved_cpus
    amount = format_milli(config.reserved) if by_amount else None
    return NodeCpus(STATIC, config.topology_policy, amount, free, detail, allocations)


def _milli(path: Path, value: Mapping[str, Any], field: str) -> int:
    amounts = value.get(field) or {}
    try:
        return to_milli(amounts.get("cpu", 0))
    except (QuantityError, AttributeError) as error:
        raise AgentError(f"{path}: {field}.cpu is not an amount of CPU") from error


def _mask(path: Path, field: str, text: str) -> int:
    try:
        return parse_cpus(text)
    except ValueError as error:
        raise AgentError(f"{path}: {field}: {error}") from error


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise AgentError(f"{path}: it is larger than {_MOST_BYTES >> 20} MiB")
        return content.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise AgentError(f"{path}: {error}") from error


# The Numatopology object of a node on which a kubelet runs, for schedulers that must know its CPUs.

_log = structlog.get_logger(__name__)

LOOK_SECONDS_KUBELET: Final = 2.0
REFRESH_SECONDS: Final = 300.0
"""From one look at the object to the next, for what others did to it, such as deleting it."""
OURS: Final = {APP_PART_OF: "unisono"}
# Volcano's resource-exporter writes the time into it with each change.
_ANOTHER_WRITES: Final = "timestamp"


@dataclass(frozen=True, slots=True)
class KubeletPlace:
    """Where a kubelet keeps its files.

    Attributes:
        directory: of its state, ``/var/lib/kubelet``.
        config: its configuration; None for ``config.yaml`` there.
        system: the kernel's folder of CPUs and NUMA nodes.
    """

    directory: Path
    config: Path | None = None
    system: Path = SYSTEM

    def read(self) -> NumatopologySpec:
        """What the node's object is to say now.

        Raises:
            AgentError: a file cannot be read.
        """
        detail = read_cpus(self.system, online_cpus(self.system))
        if not detail:
            raise AgentError(f"{self.system}: the kernel does not tell of any CPU")
        config = self.config or self.directory / CONFIG_FILE
        # A kubelet that has no such file runs with what its command line and its defaults say.
        kubelet_config = read_config(config) if self.config or os.path.lexists(config) else KubeletConfig()
        return spec_of(read_state(self.directory / STATE_FILE, kubelet_config, detail))


class NumaExporter:
    """Writes the object when something has changed; stands aside where another exporter writes it.

    Args:
        client: the API.
        name: of the node.
        place: where its kubelet keeps its files.
        clock: paces the looks.
    """

    def __init__(self, client: Client, name: str, place: KubeletPlace, clock: Clock = SYSTEM_CLOCK) -> None:
        self._client, self._name, self._place, self._clock = client, name, place, clock
        self.ready = asyncio.Event()
        self._problem = ""
        self._aside = False
        self._written: NumatopologySpec | None = None
        # The exporters of many nodes start at once, and need not come back at once.
        self._due = clock.monotonic() + REFRESH_SECONDS * (zlib.crc32(name.encode()) % 1000) / 1000

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            problem = ""
            try:
                await self._look()
            except (AgentError, ApiError) as error:
                problem = str(error)
            if problem and problem != self._problem:
                _log.warning("numatopology.not_written", node=self._name, problem=problem)
            self._problem = problem
            self.ready.set()
            await self._clock.sleep(LOOK_SECONDS_KUBELET)

    def streams(self) -> Mapping[str, ReflectorStatistics]:
        """It watches nothing."""
        return {}

    def unready(self) -> list[str]:
        """Why the object is not as it should be."""
        return [self._problem] if self._problem else []

    async def _look(self) -> None:
        desired, now = self._place.read(), self._clock.monotonic()
        if now < self._due:
            if self._aside or desired == self._written:
                return
        else:
            self._due = now + REFRESH_SECONDS
        try:
            existing = await self._client.get(NUMATOPOLOGIES, self._name)
        except NotFound:
            await self._create(desired)
        else:
            if self._stands_aside(existing):
                return
            await bring_up_to_date(self._client, existing, desired)
        self._written, self._aside = desired, False

    async def _create(self, wanted: NumatopologySpec) -> None:
        node = await self._client.get(NODES, self._name)
        # One that came in between is looked at the next time.
        with contextlib.suppress(AlreadyExists):
            await self._client.create(NUMATOPOLOGIES, numatopology(node, wanted, OURS))

    def _stands_aside(self, found: Numatopology) -> bool:
        aside, before = not _ours(found), self._aside
        self._aside = aside
        if aside and not before:
            way_out = f"where it is gone: kubectl delete numatopology {self._name}"
            _log.warning("numatopology.of_another_exporter", node=self._name, way_out=way_out)
        return aside


def _ours(found: Numatopology) -> bool:
    meta = found.metadata
    return OURS.items() <= (meta.labels or {}).items() and _ANOTHER_WRITES not in (meta.annotations or {})
