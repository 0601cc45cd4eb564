"""One machine's control plane: API server, scheduler, controllers and agent in one process.

Nothing here decides anything: it makes the parts, hands each its ``kube.Client``, starts them in an order in which each
finds what it needs, keeps them running and stops them in the opposite order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import structlog
from prometheus_client import CollectorRegistry

from unisono.agent.access import FilePodAccess
from unisono.agent.agent import Agent
from unisono.agent.logs import FileLogSource
from unisono.agent.simulated import SimulatedNodes
from unisono.agent.simulated_specs import NodeSpec, parse_specs
from unisono.agent.spawner.client import Spawner
from unisono.apiserver.backend import Backend
from unisono.apiserver.server import ApiServer
from unisono.controllers.builtin import builtin_controllers
from unisono.controllers.registry import COMPONENT, all_controllers
from unisono.errors import ConfigError
from unisono.kube.backoff import Backoff
from unisono.kube.clock import SYSTEM_CLOCK
from unisono.kube.controller import Manager
from unisono.kube.events import EventRecorder
from unisono.kube.probes import NetworkProber
from unisono.scheduler.scheduler import Scheduler
from unisono.scheduler.settings import ConfigSource, FileConfig, FixedConfig
from unisono.standalone.metrics import PartMetrics
from unisono.standalone.paths import DataDir
from unisono.standalone.supervision import keep_running

_log = structlog.get_logger(__name__)

# There is no other scheduler here: pods that name Kubernetes' own would wait for ever.
SCHEDULER_NAMES = ("volcano", "unisono", "default-scheduler")


@dataclass(frozen=True, slots=True)
class PlaneOptions:
    """How a control plane of one machine is put together.

    Attributes:
        port: of the API; 0 takes the last one again where it is free, else any.
        host: address of the API; any but a loopback address lets other machines in.
        local_node: offer this machine as a node.
        simulated_nodes: entries ``{name, count, capacity, labels, taints, devices}``.
        scheduler_config: file with the scheduler's configuration, or None for the default.
    """

    port: int = 0
    host: str = "127.0.0.1"
    local_node: bool = True
    simulated_nodes: Sequence[dict[str, Any]] = ()
    scheduler_config: Path | None = None


class Plane:
    """A control plane that is started once and stopped once."""

    def __init__(self, data: DataDir, options: PlaneOptions) -> None:
        self._data, self._options = data, options
        self._lock: IO[str] | None = None
        self._stack = AsyncExitStack()
        self._agent: Agent | None = None
        self._spawner = Spawner()
        self._stopping = False
        self._ready: dict[str, asyncio.Event] = {}
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

    async def _start(self, source: ConfigSource, nodes: Sequence[NodeSpec]) -> None:
        self._stack.push_async_callback(self._spawner.close)
        backend = await Backend.open(self._data.database)
        self._stack.push_async_callback(backend.close)
        await self._serve(backend)
        self._keep("controllers", lambda: self._run_controllers(backend))
        self._keep("scheduler", lambda: self._run_scheduler(backend, source))
        if self._options.local_node:
            client = backend.client(field_manager="unisono-agent")
            self._agent = Agent(client, None, self._data.agent, spawner=self._spawner)
            self._ready["agent"] = self._agent.ready
            self._keep("agent", self._agent.run)
        if nodes:
            client = backend.client(field_manager="unisono-simulated-nodes")
            simulated = SimulatedNodes(client, nodes, SYSTEM_CLOCK, volumes=True)
            self._ready["simulated nodes"] = simulated.ready
            self._keep("simulated nodes", simulated.run)

    async def _serve(self, backend: Backend) -> None:
        """Start the HTTP surface, on the port of last time where nobody has taken it."""
        wanted = self._options.port or self._last_port()
        try:
            server = await self._listen(backend, wanted)
        except ConfigError:
            if self._options.port or not wanted:
                raise
            _log.warning("port.taken", port=wanted)
            server = await self._listen(backend, 0)
        self._stack.push_async_callback(server.stop)
        self.url = server.url
        self._port_file.write_text(server.url.rpartition(":")[2])

    async def _listen(self, backend: Backend, port: int) -> ApiServer:
        server = ApiServer(
            backend.service,
            data_dir=self._data.root,
            host=self._options.host,
            port=port,
            # Who names an address of another machine's reach means it.
            allow_remote=True,
            log_source=FileLogSource(self._data.agent),
            pod_access=FilePodAccess(self._data.agent, self._spawner),
            registry=self.metrics,
            readiness=self._reasons,
        )
        await server.start()
        return server

    @property
    def _port_file(self) -> Path:
        return self._data.root / "port"

    def _last_port(self) -> int:
        try:
            text = self._port_file.read_text().strip()
        except OSError:
            return 0
        return int(text) if text.isdigit() else 0

    def _config_source(self) -> ConfigSource:
        file = self._options.scheduler_config
        return FixedConfig() if file is None else FileConfig(file)

    def _reasons(self) -> list[str]:
        """Parts that have not taken up their work yet; what ``/readyz`` answers."""
        return [f"{name} not ready" for name, ready in self._ready.items() if not ready.is_set()]

    async def _run_scheduler(self, backend: Backend, source: ConfigSource) -> None:
        client = backend.client(field_manager="unisono-scheduler")
        scheduler = Scheduler(client, source, registry=self._scheduler_metrics.renew(), scheduler_names=SCHEDULER_NAMES)
        self._ready["scheduler"] = scheduler.ready
        await scheduler.run()

    async def _run_controllers(self, backend: Backend) -> None:
        client = backend.client(field_manager=COMPONENT)
        recorder = EventRecorder(client, COMPONENT)
        manager = Manager(client)
        self._ready["controllers"] = manager.ready
        try:
            everywhere = all_controllers(recorder, scheduler_names=SCHEDULER_NAMES, prober=NetworkProber())
            await manager.run([*everywhere, *builtin_controllers(recorder)])
        finally:
            await recorder.close()

    def _keep(self, name: str, part: Callable[[], Awaitable[None]]) -> None:
        self._ready.setdefault(name, asyncio.Event())
        backoff = Backoff(base=0.2, cap=30.0)
        kept = keep_running(name, part, SYSTEM_CLOCK, backoff, lambda: self._stopping)
        task = asyncio.create_task(kept, name=name)
        self._stack.push_async_callback(_cancelled, task)


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
