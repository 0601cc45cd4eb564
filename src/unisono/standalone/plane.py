"""One machine's control plane: API server, scheduler, controllers and agent in one process.

Nothing here decides anything: it makes the parts, hands each its `kube.Client`, starts them in an order in which each
finds what it needs, keeps them running and stops them in the opposite order.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import structlog
from prometheus_client import CollectorRegistry

from unisono.agent.agent import Agent
from unisono.agent.logs import FileLogSource
from unisono.agent.simulated import SimulatedNodes
from unisono.apiserver.local import LocalClient
from unisono.apiserver.server import ApiServer
from unisono.apiserver.service import ObjectService
from unisono.apiserver.store import Store
from unisono.controllers.registry import all_controllers
from unisono.errors import UnisonoError
from unisono.kube.backoff import Backoff
from unisono.kube.clock import SYSTEM_CLOCK
from unisono.kube.controller import Manager
from unisono.scheduler.scheduler import Scheduler
from unisono.standalone.paths import DataDir

_log = structlog.get_logger(__name__)

STOP_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class PlaneOptions:
    """How a control plane of one machine is put together.

    Attributes:
        port: of the API on 127.0.0.1; 0 takes a free one, the last one again where possible.
        local_node: offer this machine as a node.
        simulated_nodes: entries ``{name, count, capacity, labels, taints}``.
        scheduler_config: file with the scheduler's configuration, or None for the default.
    """

    port: int = 0
    local_node: bool = True
    simulated_nodes: Sequence[dict[str, Any]] = field(default=())
    scheduler_config: Path | None = None


class Plane:
    """A control plane that can be started once and stopped once."""

    def __init__(self, data: DataDir, options: PlaneOptions) -> None:
        self._data, self._options = data, options
        self._lock: IO[str] | None = None
        self._stack = AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []
        self._agent: Agent | None = None
        self._server: ApiServer | None = None
        self.metrics = CollectorRegistry()
        self.url = ""

    async def start(self) -> None:
        """Start everything; returns when the API answers and every part runs.

        Raises:
            AlreadyRunning: another process holds the data directory.
            ConfigError: the port is taken, the scheduler's configuration or a simulated node is wrong.
        """
        config = self._scheduler_config()
        self._lock = self._data.acquire()
        try:
            await self._start(config)
        except BaseException:
            await self.stop()
            raise

    async def _start(self, config: ConfigSource) -> None:
        store = await Store.open(self._data.database)
        self._stack.push_async_callback(store.close)
        service = ObjectService(store)
        await service.start()
        self._stack.push_async_callback(service.stop)
        await self._serve(service)
        self._keep("controllers", self._run_controllers, service)
        self._keep("scheduler", self._run_scheduler, service, config)
        if self._options.local_node:
            self._keep("agent", self._run_agent, service)
        if self._options.simulated_nodes:
            nodes = SimulatedNodes(_client(service, "unisono-simulated"), self._options.simulated_nodes, SYSTEM_CLOCK)
            self._keep("simulated nodes", lambda _: nodes.run(), service)
