"""One machine's control plane: API server, scheduler, controllers and agent, in one process or in two.

Nothing here decides anything: it makes the parts, hands each its ``kube.Client``, starts them in an order in which each
finds what it needs, keeps them running and stops them in the opposite order. What runs apart is not read here.
"""

from __future__ import annotations

import asyncio
import getpass
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING, Any

import structlog
from prometheus_client import CollectorRegistry

from unisono.agent.cpus.book import NO_POLICIES, CpuPolicies
from unisono.agent.devices.inventory import CardSharing
from unisono.agent.limits.disk import DEFAULT_EVICTION, Threshold
from unisono.agent.simulated.specs import NodeSpec, parse_specs
from unisono.agent.spawner.client import Spawner
from unisono.api.annotations import CYCLES_LEASE
from unisono.api.keys import CONFIG_MAP_NAMES, CONFIG_MAP_SUFFIX
from unisono.api.kind_families import FLEET_KINDS, PLACEMENT_KINDS
from unisono.api.kinds import CONFIG_MAPS, LEASES
from unisono.api.node_usage import silence
from unisono.api.pod_limit import MOST_PODS
from unisono.apiserver.admission import Adviser, Request
from unisono.errors import ConfigError, UnisonoError
from unisono.kube.clock import SYSTEM_CLOCK
from unisono.kube.kubeconfig import load
from unisono.kube.pace import Backoff
from unisono.standalone.component import PartMetrics, keep_running
from unisono.standalone.paths import DataDir
from unisono.standalone.worker_process import Settings, WorkerProcess

if TYPE_CHECKING:
    from unisono.agent.agent import Agent
    from unisono.apiserver.backend import Backend
    from unisono.apiserver.flow_control import Limits
    from unisono.apiserver.nodes import RemotePods
    from unisono.apiserver.server import ApiServer
    from unisono.kube.client import Client
    from unisono.scheduler.settings import ConfigSource
    from unisono.standalone.background import Work

# Warnings to the author of an object that this machine stores: what controllers make of it, or that none does.

NO_HUB = "nothing acts on this object here: only a hub does, which 'unisono up --fleet' starts"


def advisers(*, fleet: bool) -> Mapping[str, Adviser]:
    """By resource.

    Args:
        fleet: the control plane is a hub.
    """
    by_resource: dict[str, Adviser] = {CONFIG_MAPS.resource: _of_configuration}
    if not fleet:
        by_resource |= {kind.resource: _of_fleets for kind in (*FLEET_KINDS, *PLACEMENT_KINDS)}
    return by_resource


async def _of_fleets(request: Request) -> list[str]:
    return [NO_HUB]


async def _of_configuration(request: Request) -> list[str]:
    """What the scheduler makes of its configuration in a ConfigMap; beside the event loop."""
    if request.name not in CONFIG_MAP_NAMES and not request.name.endswith(CONFIG_MAP_SUFFIX):
        return []

    def advise() -> list[str]:
        # Large, and only for those who write such a thing.
        from unisono.scheduler.settings import advice

        return advice(request.object)

    return await asyncio.to_thread(advise)


_log = structlog.get_logger(__name__)

# How often is looked whether all is ready, and told that it is not (seconds).
_LOOK_SECONDS = 0.02
_TELL_SECONDS = 60.0
# How often is looked whether the scheduler ends its cycles.
_CYCLES_SECONDS = 10.0
# How long the path of a socket may be (macOS has the least, 104 bytes with the end).
_SOCKET_BYTES = 100


@dataclass(frozen=True, slots=True)
class PlaneOptions:
    """How a control plane of one machine is put together.

    Attributes:
        port: of the API; 0 takes the last one again where it is free, else any.
        host: address of the API; any but a loopback address lets other machines in.
        local_node: offer this machine as a node.
        own_users: where this process is root, pods of a namespace run as a user of its own.
        eviction: from when on this machine's disk counts as full.
        cpu_policies: which containers have CPUs of this machine for themselves.
        shares: how this machine's cards are shared by several containers.
        simulated_nodes: entries ``{name, count, capacity, labels, taints, devices}``.
        scheduler_config: file with the scheduler's configuration, or None for the default.
        apart: scheduler, controllers and simulated nodes run in a process of their own, so that the API answers while
            they work; it costs their memory once more.
        log_file: log of that process, None for standard error.
        log_level: what its log tells.
        limits: bounds on what clients of the API may take; None for the defaults.
        most_pods: pods that one object may ask for.
        fleet: the control plane is a hub, whose jobs run in the members of its fleets.
        record: file in which the scheduler writes down what it sees and decides.
        history_days: how long jobs that ended are remembered one by one, for reports; 0 keeps no history.
    """

    port: int = 0
    host: str = "127.0.0.1"
    local_node: bool = True
    own_users: bool = False
    eviction: Sequence[Threshold] = DEFAULT_EVICTION
    cpu_policies: CpuPolicies = NO_POLICIES
    shares: Sequence[CardSharing] = ()
    simulated_nodes: Sequence[dict[str, Any]] = ()
    scheduler_config: Path | None = None
    apart: bool = False
    log_file: Path | None = None
    log_level: str = "info"
    limits: Limits | None = None
    most_pods: int = MOST_PODS
    fleet: bool = False
    record: Path | None = None
    history_days: float = 0.0


class Plane:
    """A control plane that is started once and stopped once."""

    def __init__(self, data: DataDir, options: PlaneOptions) -> None:
        self._data, self._options = data, options
        self._lock: IO[str] | None = None
        self._stack = AsyncExitStack()
        self._agent: Agent | None = None
        self._spawner = Spawner()
        self._stopping = False
        self._served = asyncio.Event()
        self._work: Work | None = None
        self._cycles: Client | None = None
        self._silent = ""
        self._worker = WorkerProcess(self._settings, _parts(options)) if options.apart else None
        self.metrics = CollectorRegistry()
        self._scheduler_metrics = PartMetrics()
        self.metrics.register(self._scheduler_metrics)
        self.url = ""

    async def start(self) -> None:
        """Start everything; returns when the API answers and every part is on its way.

        Raises:
            AlreadyRunning: another process holds the data directory.
            ConfigError: the port is taken, the scheduler's configuration or a simulated node is wrong.
        """
        source = self._config_source()
        nodes = parse_specs(list(self._options.simulated_nodes))
        self._lock = self._data.acquire()
        try:
            await self._start(source, nodes)
        except BaseException:
            await self.stop()
            raise

    @property
    def worker_pid(self) -> int:
        """Process id of the latest worker; 0 where all is one process."""
        return 0 if self._worker is None else self._worker.pid

    async def wait_ready(self) -> None:
        """Return when every part has taken up its work; what they wait for is logged once a minute."""
        last_logged = SYSTEM_CLOCK.monotonic()
        while reasons := self._reasons():
            if SYSTEM_CLOCK.monotonic() - last_logged >= _TELL_SECONDS:
                last_logged = SYSTEM_CLOCK.monotonic()
                _log.warning("plane.waits", reasons=reasons)
            await SYSTEM_CLOCK.sleep(_LOOK_SECONDS)

    async def stop(self, *, kill_pods: bool = False) -> None:
        """Stop every part, the last started first.

        Args:
            kill_pods: also end the processes of running pods; without it they go on and are found again.
        """
        self._stopping = True
        if self._agent is not None:
            await self._agent.stop(kill_pods=kill_pods)
        await self._stack.aclose()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    async def _start(self, source: ConfigSource | None, nodes: Sequence[NodeSpec]) -> None:
        self._stack.push_async_callback(self._spawner.close)
        worker = None if self._worker is None else self._kept("worker", self._worker.run)
        if worker is not None:
            # It ends last where this start fails half-way. By this pause its process is made, and reads its modules
            # while this one reads its own.
            self._stack.push_async_callback(_cancelled, worker)
            await SYSTEM_CLOCK.sleep(0)
        from unisono.apiserver.admission import Admission
        from unisono.apiserver.admission import Settings as Rules
        from unisono.apiserver.backend import Backend
        from unisono.apiserver.flow_control import Limits

        most, limits = self._options.most_pods, self._options.limits or Limits()
        admission = Admission(Rules(most_pods=most, namespace_bytes=limits.namespace_bytes))
        admission.extend(advisers=advisers(fleet=self._options.fleet))
        backend = await Backend.open(self._data.database, admission=admission)
        self._stack.push_async_callback(backend.close)
        await self._serve(backend)
        self._served.set()
        self._cycles = backend.client()
        self._keep("cycles", self._watch_cycles)
        if worker is not None:
            # Well after a start it ends before what it talks to.
            self._stack.push_async_callback(_cancelled, worker)
        elif source is not None:
            from unisono.standalone.background import Work

            self._work = Work(
                lambda name: backend.client(field_manager=name),
                source,
                nodes,
                self._scheduler_metrics,
                most_pods=most,
                fleet=self._options.fleet,
                record=self._options.record,
                history=self._history,
                history_days=self._options.history_days,
            )
            for name, part in self._work.parts.items():
                self._keep(name, part)
        if self._options.local_node:
            from unisono.agent.agent import Agent
            from unisono.agent.devices.nvidia import GpuMetrics

            self.metrics.register(GpuMetrics(holders=lambda: self._agent.card_holders() if self._agent else {}))
            client = backend.client(field_manager="unisono-agent")
            own_users = self._options.own_users
            self._agent = Agent(
                client,
                None,
                self._data.agent,
                spawner=self._spawner,
                own_users=own_users,
                eviction=self._options.eviction,
                policies=self._options.cpu_policies,
                shares=self._options.shares,
            )
            self._keep("agent", self._agent.run)

    async def _serve(self, backend: Backend) -> None:
        """Start the HTTP surface, on the port of last time if it is free."""
        preferred = self._options.port or self._last_port()
        try:
            server = await self._listen(backend, preferred)
        except ConfigError:
            if self._options.port or not preferred:
                raise
            _log.warning("port.taken", port=preferred)
            server = await self._listen(backend, 0)
        self._stack.push_async_callback(server.stop)
        self.url = server.url
        self._port_file.write_text(server.url.rpartition(":")[2])

    async def _listen(self, backend: Backend, port: int) -> ApiServer:
        from unisono.agent.access import FilePodAccess
        from unisono.agent.agent import FileMeter
        from unisono.agent.logs import FileLogSource
        from unisono.agent.machine.facts import hostname
        from unisono.apiserver.server import ApiServer
        from unisono.history.reading import StoredHistory
        from unisono.history.sqlite import SqliteFile

        server = ApiServer(
            backend.service,
            data_dir=self._data.root,
            host=self._options.host,
            port=port,
            # Who names an address of another machine's reach means it.
            allow_remote=True,
            log_source=FileLogSource(self._data.agent),
            pod_access=FilePodAccess(self._data.agent, self._spawner),
            remote_pods=self._member_pods(backend) if self._options.fleet else None,
            meter=FileMeter(hostname(), self._data.agent) if self._options.local_node else None,
            registry=self.metrics,
            readiness=self._reasons,
            own_socket=None if self._worker is None else self.socket,
            limits=self._options.limits,
            more_metrics=None if self._worker is None else self._worker.metrics,
            history=None if self._history is None else StoredHistory(SqliteFile(self._history), owner=_own_name()),
        )
        await server.start()
        return server

    def _member_pods(self, backend: Backend) -> RemotePods:
        from unisono.apiserver.local import LocalClient
        from unisono.fleet.remote_pods import MemberPods

        pods = MemberPods(LocalClient(backend.service))
        self._stack.push_async_callback(pods.close)
        return pods

    async def _settings(self) -> Settings:
        await self._served.wait()
        options, data = self._options, self._data
        return Settings(
            parent=os.getpid(),
            socket=str(self.socket),
            token=load(data.kubeconfig).token or "",
            nodes=options.simulated_nodes,
            scheduler_config=str(options.scheduler_config.absolute()) if options.scheduler_config else "",
            log_file=str(options.log_file or ""),
            log_level=options.log_level,
            most_pods=options.most_pods,
            fleet=options.fleet,
            record=str(options.record.absolute()) if options.record else "",
            history=str(self._history or ""),
            history_days=options.history_days,
        )

    @cached_property
    def socket(self) -> Path:
        """Where its own components reach the API; elsewhere than in the data directory where its path is too long."""
        path = self._data.socket
        if len(os.fsencode(path)) <= _SOCKET_BYTES:
            return path
        folder = self._stack.enter_context(TemporaryDirectory(prefix="unisono-", ignore_cleanup_errors=True))
        return Path(folder) / "api"

    @property
    def _history(self) -> Path | None:
        return self._data.history if self._options.history_days else None

    @property
    def _port_file(self) -> Path:
        return self._data.root / "port"

    def _last_port(self) -> int:
        try:
            text = self._port_file.read_text().strip()
        except OSError:
            return 0
        return int(text) if text.isdigit() else 0

    def _config_source(self) -> ConfigSource | None:
        """None where nothing is to be read: the one who schedules reads it as well."""
        file = self._options.scheduler_config
        if file is None and self._worker is not None:
            return None
        from unisono.scheduler.settings import FileConfig, FixedConfig

        return FixedConfig() if file is None else FileConfig(file)

    async def _watch_cycles(self) -> None:
        """Notice a scheduler that does not end its cycles, also where its whole process is stopped."""
        assert self._cycles is not None
        while True:
            await SYSTEM_CLOCK.sleep(_CYCLES_SECONDS)
            was, self._silent = self._silent, ""
            with suppress(UnisonoError):  # before the first cycle there is no Lease
                lease = await self._cycles.get(LEASES, CYCLES_LEASE, "kube-system")
                self._silent = silence(lease, SYSTEM_CLOCK.time())
            if self._silent and not was:
                _log.warning("scheduler.silent", reason=self._silent)
            elif was and not self._silent:
                _log.info("scheduler.answers")

    def _reasons(self) -> list[str]:
        """Parts that have not taken up their work yet, or stopped doing it; what ``/readyz`` answers."""
        names: list[str] = []
        if self._worker is not None:
            names += self._worker.unready()
        if self._work is not None:
            names += self._work.unready()
        if self._agent is not None and not self._agent.ready.is_set():
            names.append("agent")
        return [f"{name} not ready" for name in names] + ([self._silent] if self._silent else [])

    def _keep(self, name: str, part: Callable[[], Awaitable[None]]) -> None:
        self._stack.push_async_callback(_cancelled, self._kept(name, part))

    def _kept(self, name: str, part: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        backoff = Backoff(base=0.2, cap=30.0)
        kept = keep_running(name, part, SYSTEM_CLOCK, backoff, lambda: self._stopping)
        return asyncio.create_task(kept, name=name)


def _parts(options: PlaneOptions) -> list[str]:
    return ["controllers", "scheduler", *(["simulated nodes"] if options.simulated_nodes else [])]


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _own_name() -> str:
    """Who runs the control plane, whose the jobs are of which no user is known; empty for a user without a name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
