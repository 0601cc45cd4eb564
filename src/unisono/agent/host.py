"""What all pods of the node share: the client, the machine, the address book, the names, the cards, the ports."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import structlog

from unisono.agent.cpus.book import CpuBook, move
from unisono.agent.devices.inventory import CardSharing, choose, counts
from unisono.agent.environment import MissingSource, ObjectSource
from unisono.agent.layout import Layout, rewrite_in_place
from unisono.agent.limits.disk import DiskPressure, StorageWatch
from unisono.agent.limits.memory_watch import MemoryWatch
from unisono.agent.machine.facts import Isolation, Machine
from unisono.agent.network.names import AddressBook, Peer, hosts_file, peer_of, shared_lines, table
from unisono.agent.network.ports import PortBook
from unisono.agent.node import CONTAINERS, Ledger
from unisono.agent.processes.users import PodUsers
from unisono.agent.spawner.client import Spawner
from unisono.api.core import Pod, Service
from unisono.api.keys import NVIDIA_GPU
from unisono.api.resources import resource_list
from unisono.errors import AgentError
from unisono.kube.client import Client
from unisono.kube.clock import Clock
from unisono.kube.events import EventRecorder
from unisono.kube.informer import Informer
from unisono.kube.listening import open_files

_MACHINE_HOSTS = Path("/etc/hosts")
# Times as long as hosts files took to write nothing is written again.
_PAUSES = 20

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Host:
    """Shared by the pod workers of one agent.

    Attributes:
        allocatable: what the node offers, in engine units.
        working_dir: where containers start that name no directory.
        python_folder: where containers find ``python``.
        spawner: starts processes.
        users: as whom containers run.
        memory: ends containers above their memory limit where the kernel does not.
        storage: evicts pods above their limits of local storage.
        disk: evicts pods when the node's disk runs full.
        cpus: which containers have which CPUs for themselves.
        ledger: what the pods that the node accepted hold.
    """

    client: Client
    clock: Clock
    layout: Layout
    machine: Machine
    isolation: Isolation
    addresses: AddressBook
    names: NameRegistry
    sources: ObjectSource
    recorder: EventRecorder
    allocatable: Mapping[str, int]
    working_dir: Path
    python_folder: Path
    devices: Devices
    ports: PortBook
    spawner: Spawner
    users: PodUsers
    memory: MemoryWatch
    storage: StorageWatch
    disk: DiskPressure
    cpus: CpuBook
    ledger: Ledger = field(init=False)

    def __post_init__(self) -> None:
        """Nothing is accepted yet."""
        self.ledger = Ledger({**self.allocatable, CONTAINERS: most_containers()})

    def give_cpus(self, pod: Pod) -> None:
        """Give containers of the pod CPUs for themselves, where they are to have some; all others make room.

        Raises:
            AgentError: not enough are free, or not side by side.
        """
        if self.cpus.allocate(pod):
            self._move_others()

    def free_cpus(self, uid: str) -> None:
        """The pod has ended: its CPUs are for all."""
        if self.cpus.release(uid):
            self._move_others()

    def _move_others(self) -> None:
        for directory in self.layout.pods():
            move(self.isolation.limits, directory.uid, partial(self.cpus.cpus_of, directory.uid))


def most_containers() -> int:
    """How many containers this process can watch: half of its open files, the rest is for clients and logs."""
    return open_files() // 2


class NameRegistry:
    """Keeps the hosts file of every pod of the node current.

    Args:
        layout: where the files are.
        services: all Services.
    """

    def __init__(self, layout: Layout, services: Informer[Service]) -> None:
        self._layout, self._services = layout, services
        self._pods: dict[str, tuple[Pod, Peer]] = {}
        self._pending: asyncio.Handle | None = None
        self._not_before = 0.0
        services.on_change(lambda *_: self._soon())

    def add(self, pod: Pod, address: str) -> None:
        """A pod has an address from now on: all others can name it."""
        uid, peer = pod.metadata.uid or "", peer_of(pod, address)
        if uid not in self._pods or self._pods[uid][1] != peer:
            self._pods[uid] = (pod, peer)
            self._soon()

    def remove(self, uid: str) -> None:
        """The pod has ended."""
        if self._pods.pop(uid, None) is not None:
            self._soon()

    def write(self, uid: str) -> Path:
        """Write one pod's file now, before its containers start."""
        pod, own = self._pods[uid]
        shared = shared_lines(own.namespace, self._peers(), self._services.items())
        return self._write_one(uid, pod, own, shared, self._machine_text())

    def addresses(self, namespace: str) -> dict[str, str]:
        """Address by name, as seen from a namespace."""
        return table(namespace, self._peers(), self._services.items())

    def refresh(self) -> None:
        """Rewrite the files of all pods that are out of date."""
        self._pending = None
        machine, services, peers = self._machine_text(), self._services.items(), self._peers()
        by_namespace: dict[str, list[str]] = {}
        for uid, (pod, own) in self._pods.items():
            if not self._layout.pod(uid).hosts.exists():
                continue
            if own.namespace not in by_namespace:
                by_namespace[own.namespace] = shared_lines(own.namespace, peers, services)
            try:
                self._write_one(uid, pod, own, by_namespace[own.namespace], machine)
            except OSError as error:
                _log.warning("hosts.write_failed", pod=pod.key, error=str(error))

    def close(self) -> None:
        """Write nothing any more."""
        if self._pending is not None:
            self._pending.cancel()

    def _soon(self) -> None:
        # A gang arrives in one go: its files are written once, behind the last of its pods.
        if self._pending is None:
            loop = asyncio.get_running_loop()
            self._pending = loop.call_at(max(loop.time(), self._not_before), self._refresh_in_turn)

    def _refresh_in_turn(self) -> None:
        """As `refresh`; where that takes long, the next one waits in proportion: Services may change all the time."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        self.refresh()
        self._not_before = loop.time() + _PAUSES * (loop.time() - began)

    def _peers(self) -> list[Peer]:
        return [peer for _, peer in self._pods.values()]

    def _machine_text(self) -> str:
        try:
            return _MACHINE_HOSTS.read_text()
        except OSError:
            return ""

    def _write_one(self, uid: str, pod: Pod, own: Peer, shared: list[str], machine: str) -> Path:
        aliases = [(alias.ip, alias.hostnames or []) for alias in pod.spec.host_aliases or ()]
        path = self._layout.pod(uid).hosts
        rewrite_in_place(path, hosts_file(own, shared, aliases, machine))
        return path


@dataclass(slots=True)
class Devices:
    """Which pod holds which of the machine's cards.

    Attributes:
        held: cards that were chosen here for pods with limits of them, by pod and container.
        claimed: cards that the scheduler gave to the resource claims of pods, by pod.
    """

    machine: Machine
    held: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    claimed: dict[str, list[str]] = field(default_factory=dict)

    def allocate(self, pod: Pod) -> dict[str, list[str]]:
        """Cards for the containers of a pod; those that it holds already when it does.

        Raises:
            AgentError: not enough are free.
        """
        uid = pod.metadata.uid or ""
        if uid not in self.held:
            containers = [*(pod.spec.init_containers or ()), *(pod.spec.containers or ())]
            backed = pod.status.extended_resource_claim_status
            elsewhere = {each.resource_name for each in backed.request_mappings or ()} if backed is not None else set()
            served = counts(self.machine.inventories).keys() - elsewhere
            requested = {}
            for c in containers:
                limits = resource_list(c.resources.limits)
                requested[c.name] = {name: -(-limits[name] // 1000) for name in limits if name in served}
            taken = [*self.by_limits()]
            taken += [card for cards in self.claimed.values() for card in cards]
            for name, amounts in requested.items():
                _refuse_several(name, amounts, self.machine.shares)
            every = [device for found in self.machine.inventories for device in found.devices]
            chosen = choose(every, requested, taken)
            self.held[uid] = chosen
        return self.held[uid]

    def claim(self, uid: str, cards: list[str]) -> None:
        """The pod has these cards through its resource claims.

        Raises:
            MissingSource: another pod was given one of them otherwise.
        """
        for other, held in self.held.items():
            both = sorted({card for given in held.values() for card in given} & set(cards))
            if both and other != uid:
                raise MissingSource(
                    f"the card {both[0]} is still in use by a pod that got it by a limit of {NVIDIA_GPU} at the same "
                    "time; the pod starts when that one has ended"
                )
        self.claimed[uid] = cards

    def by_limits(self) -> set[str]:
        """Cards that pods have by limits: no claim may get them."""
        return {card for held in self.held.values() for cards in held.values() for card in cards}

    def by_pod(self) -> dict[str, list[str]]:
        """All cards of each pod, by its UID."""
        cards_by_pod = {
            uid: [card for cards in given.values() for card in cards] for uid, given in dict(self.held).items()
        }
        for uid, cards in dict(self.claimed).items():
            cards_by_pod[uid] = list(dict.fromkeys((*cards_by_pod.get(uid, ()), *cards)))
        return cards_by_pod

    def restore(self, uid: str, devices: dict[str, list[str]], claimed: list[str]) -> None:
        """Take over what an earlier agent gave a pod."""
        self.held[uid] = devices
        self.claimed[uid] = claimed

    def release(self, uid: str) -> None:
        """The pod has ended: its cards are free."""
        self.held.pop(uid, None)
        self.claimed.pop(uid, None)


def _refuse_several(container: str, wanted: Mapping[str, int], shares: Iterable[CardSharing]) -> None:
    """Where more replicas would not give a container more of a card.

    Raises:
        AgentError: it asks for several.
    """
    for share in shares:
        if share.only_one and wanted.get(share.offered, 0) > 1:
            raise AgentError(
                f"The container {container} asks for {wanted[share.offered]} {share.offered}, which is shared by "
                f"{share.strategy}: ask for 1; more of them are no larger part of a card."
            )
