"""The node agent: offers this machine as a node and runs the pods that are bound to it as processes."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import structlog

from unisono.agent.activator.controller import ActivatorController
from unisono.agent.colocation.decide import Offer
from unisono.agent.colocation.keeper import Colocation, UseMeter, machine_memory, machine_seconds
from unisono.agent.cpus.book import NO_POLICIES, SYSTEM, AffinityKeeper, CpuBook, CpuPolicies, read_cpus
from unisono.agent.cpus.numatopology import NumaPublisher
from unisono.agent.devices.inventory import CardSharing
from unisono.agent.devices.nvidia import MpsDaemon
from unisono.agent.devices.slices import NVIDIA, DevicePublisher, card_devices
from unisono.agent.devices.slices import Offer as DeviceOffer
from unisono.agent.environment import ObjectSource
from unisono.agent.host import Devices, Host, NameRegistry
from unisono.agent.layout import Layout
from unisono.agent.limits.disk import DEFAULT_EVICTION, Disk, DiskPressure, Occupant, StorageWatch, Threshold, read_disk
from unisono.agent.limits.memory_watch import ListedProcess, MemoryWatch, descendants, processes, share
from unisono.agent.logs import LastWords
from unisono.agent.machine.cgroups import CONTROLLERS
from unisono.agent.machine.facts import Isolation, Level, Machine, find_isolation, no_namespaces, this_machine
from unisono.agent.machine.procfs import PROC
from unisono.agent.network.names import SERVICE_NETWORK, AddressBook
from unisono.agent.network.ports import PortBook
from unisono.agent.node import NodeRegistration, build_node
from unisono.agent.pods.containers import PYTHON_NOT_READABLE
from unisono.agent.pods.worker import PodSupervisor
from unisono.agent.processes.launch import python_folder
from unisono.agent.processes.users import PodUsers, UserBook
from unisono.agent.spawner.client import Spawner
from unisono.agent.volumes.provisioner import Folders, VolumeProvisioner
from unisono.api.core import ConfigMap, Namespace, Node
from unisono.api.groups.resource_metrics import Amounts, Metered
from unisono.api.kinds import CONFIG_MAPS, NAMESPACES, NODES, PODS, SECRETS, SERVICES
from unisono.api.resources import resource_list
from unisono.errors import ApiError
from unisono.kube.client import Client
from unisono.kube.clock import SYSTEM_CLOCK, Clock
from unisono.kube.controller import Manager
from unisono.kube.events import EventRecorder
from unisono.kube.informer import Informer
from unisono.kube.pace import Backoff

_log = structlog.get_logger(__name__)


class _Stopped(Exception):
    """The agent was asked to stop."""


class Agent:
    """One node: this machine.

    Args:
        client: the API.
        node_name: name of the node; None takes the host name in lower case.
        data_dir: where pods, logs and volumes are kept; one agent at a time.
        clock: times and timers.
        cpus: offer only that many processors.
        memory: offer only that many bytes of memory.
        labels: further labels of the node.
        working_dir: where containers start that name no directory; None takes the present one.
        isolation: the most that is tried to keep pods apart: "none" forgoes namespaces.
        machine: what there is; None looks.
        spawner: starts processes; None makes one for this agent alone.
        own_users: pods of a namespace run as a user of its own, where this process is root.
        eviction: from when on the node's disk counts as full.
        disk: tells how full it is; None asks the kernel.
        policies: which containers have CPUs for themselves.
        system: where the kernel tells where CPUs sit.
        shares: how cards of NVIDIA are shared by several containers.
    """

    def __init__(
        self,
        client: Client,
        node_name: str | None,
        data_dir: Path,
        clock: Clock = SYSTEM_CLOCK,
        *,
        cpus: float | None = None,
        memory: int | None = None,
        labels: Mapping[str, str] | None = None,
        working_dir: Path | None = None,
        isolation: Level = "root",
        machine: Machine | None = None,
        spawner: Spawner | None = None,
        own_users: bool = False,
        eviction: Sequence[Threshold] = DEFAULT_EVICTION,
        disk: Callable[[], Disk] | None = None,
        policies: CpuPolicies = NO_POLICIES,
        system: Path = SYSTEM,
        shares: Sequence[CardSharing] = (),
    ) -> None:
        self._client, self._clock = client, clock
        self._layout = Layout(data_dir.absolute())
        self._machine = replace(machine or this_machine(data_dir), shares=tuple(shares))
        self._mps = MpsDaemon(self._layout.root) if any(each.strategy == "mps" for each in shares) else None
        self.node_name = (node_name or self._machine.hostname).lower()
        self._memory, self._labels = memory, dict(labels or {})
        self._book = CpuBook(read_cpus(system), policies)
        self._cpus = self._offered_cpus(cpus)
        self._working_dir, self._allowed = working_dir or Path.cwd(), isolation
        self._spawner, self._shares_spawner = spawner or Spawner(), spawner is not None
        self._own_users, self._eviction = own_users, eviction
        self._read_disk = disk or partial(read_disk, self._layout.root)
        self._last_words = LastWords(self._layout, self._clock)
        self._leaving = self._empty = False
        self._stop = asyncio.Event()
        self._ended = asyncio.Event()
        self._host: Host | None = None
        self._pods: PodSupervisor | None = None
        self._registration: NodeRegistration | None = None
        self.ready = asyncio.Event()

    async def run(self) -> None:
        """Register the node and run its pods until ``stop``, or until cancelled: running processes go on then.

        Raises:
            AgentError: this machine cannot run pods.
        """
        self._ended.clear()
        self._layout.create()
        self._last_words.clear()
        if self._mps is not None:
            await self._mps.start()
        isolation = await asyncio.to_thread(find_isolation, self._layout.root, self._machine.addresses, self._allowed)
        _log.info("agent.isolation", namespaces=isolation.level, own_ports=isolation.own_ports)
        node = build_node(
            self.node_name,
            self._machine,
            now=self._clock.time(),
            cpus=self._cpus,
            memory=self._memory,
            shared_network=not isolation.own_ports,
            labels=self._labels,
        )
        try:
            async with asyncio.TaskGroup() as group:
                await self._run(group, node, isolation)
        except* _Stopped:
            _log.info("agent.stopped", node=self.node_name)
            if self._mps is not None:
                await self._mps.stop()
        finally:
            await self._close()

    async def stop(self, kill_pods: bool = False) -> None:
        """End ``run``; with ``kill_pods`` every process of every pod ends first, within its grace period."""
        self._leaving, self._empty = True, kill_pods
        if self._pods is not None:
            self._pods.leave()
        if self._registration is not None:
            await self._registration.leave()
        if kill_pods and self._pods is not None:
            await self._pods.end_all()
        self._stop.set()
        if self._host is not None:
            await self._ended.wait()

    async def _run(self, group: asyncio.TaskGroup, node: Node, isolation: Isolation) -> None:
        pods = Informer(self._client, PODS, field_selector=f"spec.nodeName={self.node_name}", clock=self._clock)
        services = Informer(self._client, SERVICES, clock=self._clock)
        config_maps = Informer(self._client, CONFIG_MAPS, clock=self._clock)
        secrets = Informer(self._client, SECRETS, clock=self._clock)
        namespaces = Informer(self._client, NAMESPACES, clock=self._clock)
        self._host = Host(
            client=self._client,
            clock=self._clock,
            layout=self._layout,
            machine=self._machine,
            isolation=isolation,
            addresses=AddressBook(self._layout.addresses),
            names=NameRegistry(self._layout, services),
            sources=ObjectSource(self._client, config_maps, secrets),
            recorder=EventRecorder(self._client, "unisono-agent", clock=self._clock, host=self.node_name),
            allocatable=resource_list(node.status.allocatable),
            working_dir=self._working_dir,
            python_folder=python_folder(self._layout.root, Path(sys.executable)),
            devices=Devices(self._machine),
            ports=PortBook(self._clock, own_ports=isolation.own_ports),
            spawner=self._spawner,
            users=self._pod_users(isolation, namespaces),
            memory=MemoryWatch(self._clock),
            storage=StorageWatch(self._clock),
            cpus=self._book,
            disk=DiskPressure(self._clock, self._read_disk, self._occupants, self._report_disk, self._eviction),
        )
        self._restore_devices(self._host)
        # New workers with each run, from the API and from disk.
        supervisor = self._pods = PodSupervisor(self._host, self._last_words)
        if self._leaving:
            supervisor.leave()
        group.create_task(self._wait_for_stop())
        group.create_task(self._last_words.run())
        group.create_task(self._host.memory.run())
        group.create_task(self._host.storage.run())
        group.create_task(self._host.disk.run())
        nodes = Informer(self._client, NODES, field_selector=f"metadata.name={self.node_name}", clock=self._clock)
        group.create_task(self._colocation(self._host, nodes, config_maps).run())
        group.create_task(NumaPublisher(self._client, self._clock, self.node_name, self._book, supervisor.pod).run())
        group.create_task(AffinityKeeper(self._clock, self._book, isolation.limits, self._uids).run())
        for informer in (services, config_maps, secrets, namespaces, nodes):
            group.create_task(informer.run())
        config_maps.on_change(supervisor.content_changed)
        secrets.on_change(supervisor.content_changed)
        self._registration = NodeRegistration(self._client, node, self._clock)
        await self._register(self._registration)
        self._say_once(node, isolation)
        group.create_task(self._registration.run())
        activator = ActivatorController(
            self._host.recorder, AddressBook(self._layout.service_addresses, SERVICE_NETWORK), pods.items
        )
        group.create_task(self._control(self._host.recorder, activator))
        await services.synced.wait()
        await namespaces.synced.wait()
        pods.on_change(supervisor.pod_changed)
        pods.on_change(activator.pod_changed)
        group.create_task(pods.run())
        await pods.synced.wait()
        isolation.limits.sweep(spare=set(self._uids()))
        await supervisor.forget_strangers()
        self.ready.set()

    def _offered_cpus(self, cpus: float | None) -> float | None:
        """Reserved CPUs are for no pod to ask for, as with a kubelet."""
        if not self._book.pins:
            return cpus
        most = self._machine.cpu / 1000 - self._book.policies.reserved
        return most if cpus is None else min(cpus, most)

    def _uids(self) -> list[str]:
        return [directory.uid for directory in self._layout.pods()]

    def _occupants(self) -> list[Occupant]:
        return self._pods.occupants() if self._pods is not None else []

    def _colocation(self, host: Host, nodes: Informer[Node], config_maps: Informer[ConfigMap]) -> Colocation:
        limits = host.isolation.limits
        return Colocation(
            self._client,
            self._clock,
            self.node_name,
            nodes,
            config_maps,
            host.recorder,
            lambda: Offer(
                max(0, host.allocatable.get("cpu", 0) - host.cpus.exclusive.bit_count() * 1000),
                host.allocatable.get("memory", 0),
            ),
            limits,
            UseMeter(host.isolation.cgroups, limits),
            self._occupants,
        )

    def _pod_users(self, isolation: Isolation, namespaces: Informer[Namespace]) -> PodUsers:
        """Users of their own need mounts: what belongs to a pod lies in folders that they cannot reach by a path."""
        euid = os.geteuid()
        if not self._own_users or isolation.level != "root":
            return PodUsers(euid)
        book = UserBook(self._layout.users, lambda name: namespaces.get(name) is not None)
        return PodUsers(euid, book, namespaces.get, self._layout.root.parent)

    async def _register(self, registration: NodeRegistration) -> None:
        backoff, failures = Backoff(base=0.2, cap=5.0), 0
        while True:
            try:
                await registration.register()
                return
            except (ApiError, OSError) as error:
                failures += 1
                _log.warning("node.register_failed", node=self.node_name, error=str(error))
                await self._clock.sleep(backoff.delay(failures))

    async def _control(self, recorder: EventRecorder, activator: ActivatorController) -> None:
        """Make volumes for claims, offer the machine's cards to resource claims, take requests of services."""
        gpus = self._machine.whole_cards

        def offer(node: str) -> DeviceOffer | None:
            if node != self.node_name:
                return None
            given = self._host.devices.by_limits() if self._host is not None else ()
            return {NVIDIA: card_devices(gpus, given)} if gpus else {}

        controllers = [
            VolumeProvisioner(recorder, self.node_name.__eq__, Folders(self._layout.volumes)),
            DevicePublisher([NVIDIA] if gpus else [], offer, limits=bool(gpus)),
            activator,
        ]
        try:
            await Manager(self._client, clock=self._clock).run(controllers)
        finally:
            await activator.close()

    async def _report_disk(self, pressure: bool) -> None:
        if self._registration is not None:
            await self._registration.report_disk(pressure)

    async def _wait_for_stop(self) -> None:
        await self._stop.wait()
        raise _Stopped

    def _say_once(self, node: Node, isolation: Isolation) -> None:
        if self._host is None:
            return
        self._host.recorder.event(
            node,
            "Normal",
            "ImagesIgnored",
            "This node runs containers as processes of the machine: images are not pulled, commands find what is "
            "installed here.",
        )
        if missing := [name for name in CONTROLLERS if name not in isolation.limits.enforced]:
            message = (
                f"The kernel enforces no limits of {', '.join(missing)} on this node (no writable cgroup): memory is "
                "looked at once a second instead, processes are bounded by user (root's are not), and containers may "
                "use as much CPU as there is."
            )
            _log.warning("agent.limits_not_enforced", missing=missing)
            self._host.recorder.event(node, "Warning", "LimitsNotEnforced", message)
        if problem := self._host.users.problem:
            _log.warning("agent.python_not_readable", message=problem)
            self._host.recorder.event(node, "Warning", PYTHON_NOT_READABLE, problem)
        if isolation.level == "none":
            message = no_namespaces(isolation.problem)
            _log.warning("agent.no_namespaces", message=message)
            self._host.recorder.event(node, "Warning", "NoNamespaces", message)

    def card_holders(self) -> dict[str, tuple[str, str]]:
        """By the id of a card, namespace and name of the pod that has it."""
        host, holders = self._host, dict[str, tuple[str, str]]()
        if host is None:
            return holders
        for uid, cards in host.devices.by_pod().items():
            if cards and (record := host.layout.pod(uid).record()) is not None:
                holders |= dict.fromkeys(cards, (record.namespace, record.name))
        return holders

    def _restore_devices(self, host: Host) -> None:
        for directory in host.layout.pods():
            if (record := directory.record()) is not None:
                host.devices.restore(record.uid, record.devices, record.claimed)
                host.cpus.restore(record.uid, record.cpus)

    async def _close(self) -> None:
        if self._pods is not None:
            await self._pods.close()
            self._pods = None
        if self._host is not None:
            self._host.names.close()
            if self._host.isolation.cgroups is not None:
                # Stays while pods go on running in it.
                self._host.isolation.cgroups.remove_root()
            if self._empty:
                self._host.isolation.limits.sweep()
            self._host.isolation.limits.remove_root()
            await self._host.recorder.close()
        if not self._shares_spawner:
            await self._spawner.close()
        self._ended.set()


# What this machine and the containers on it use, measured on request.

_FRESH = 5.0
"""Seconds for which an answer is given again."""
_SHORTEST = 1.0
"""Seconds between the two looks of a measurement."""
_LONGEST = 60.0
"""An earlier look than that is not compared with: what has happened since is not what is used now."""
_TICKS = os.sysconf("SC_CLK_TCK")

Run = tuple[str, str, int]
"""Uid of a pod, name of a container, process id of the shim of its present run."""


@dataclass(frozen=True, slots=True)
class _Look:
    at: float
    machine: float
    memory: int
    runs: Mapping[Run, tuple[float, int]]


class FileMeter:
    """Measures by the files of the agent in ``folder`` and by what the kernel tells of processes.

    Args:
        node: name of this machine's node.
        folder: the agent's data directory.
        clock: paces the looks.
        proc: where the kernel tells of processes.
        offload: runs a look, which reads many files, away from the event loop.
    """

    def __init__(
        self,
        node: str,
        folder: Path,
        clock: Clock = SYSTEM_CLOCK,
        proc: Path = PROC,
        offload: Callable[[Callable[[], _Look]], Awaitable[_Look]] = asyncio.to_thread,
    ) -> None:
        self._node, self._layout, self._clock, self._proc = node, Layout(folder), clock, proc
        self._offload = offload
        self._last: _Look | None = None
        self._answer: Metered | None = None
        self._one = asyncio.Lock()

    async def read(self) -> Metered:
        """What is used now; an answer that is a few seconds old is given again."""
        async with self._one:
            before = self._last
            if self._answer is not None and before is not None and self._clock.monotonic() - before.at < _FRESH:
                return self._answer
            if before is None or self._clock.monotonic() - before.at > _LONGEST:
                before = await self._offload(self._look)
                await self._clock.sleep(_SHORTEST)
            now = await self._offload(self._look)
            self._last, self._answer = now, self._between(before, now)
            return self._answer

    def _between(self, before: _Look, now: _Look) -> Metered:
        seconds = max(now.at - before.at, 1e-3)
        pods: dict[str, dict[str, Amounts]] = {}
        for run, (spent, memory) in now.runs.items():
            # What a container has spent before it was first seen, it has spent since the look before.
            used = spent - before.runs.get(run, (0.0, 0))[0]
            pods.setdefault(run[0], {})[run[1]] = Amounts(_milli(used, seconds), memory)
        machine = Amounts(_milli(now.machine - before.machine, seconds), now.memory)
        return Metered(self._node, self._clock.time(), seconds, machine, pods)

    def _look(self) -> _Look:
        children = processes(self._proc)
        runs = {}
        for run in self._runs():
            running = descendants(run[2], children)
            if running:
                runs[run] = sum(self._spent(each) for each in running), sum(share(each, self._proc) for each in running)
        return _Look(self._clock.monotonic(), machine_seconds(self._proc), machine_memory(self._proc), runs)

    def _runs(self) -> list[Run]:
        runs = []
        for pod in self._layout.pods():
            for run in pod.all_runs():
                started = run.started()
                if started is not None and run.exit() is None:
                    runs.append((pod.uid, run.path.parent.name, int(started["pid"])))
        return runs

    def _spent(self, process: ListedProcess) -> float:
        """Seconds of processor time of a process and of its children that have ended."""
        try:
            stat = (self._proc / str(process.pid) / "stat").read_text(errors="replace")
        except OSError:
            return 0.0
        fields = stat[stat.rindex(")") + 2 :].split()
        return sum(int(each) for each in fields[11:15]) / _TICKS


def _milli(seconds: float, of: float) -> int:
    return max(0, round(seconds / of * 1000))
