"""One component as its own process beside any API server: leader election, probes, metrics, a clean end.

::

    waits for the lease ──► leads: the part runs with a fenced client ──► lease lost: the part is ended, waits again
          │                        │
          └── /readyz: ok          └── /readyz: ok when the part is ready and its watches are fresh
"""

from __future__ import annotations

import asyncio
import os
import socket
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import structlog
from prometheus_client import CollectorRegistry, Gauge, GCCollector, PlatformCollector, ProcessCollector

from unisono.kube.backoff import Backoff
from unisono.kube.client import Client
from unisono.kube.clock import SYSTEM_CLOCK, Clock
from unisono.kube.http import HttpClient
from unisono.kube.kubeconfig import ClusterConfig
from unisono.kube.leader import FencedClient, LeaderElector
from unisono.kube.metrics import ClientMetrics, StreamMetrics
from unisono.kube.reflector import ReflectorStatistics
from unisono.kube.transport import Transport
from unisono.standalone.metrics import PartMetrics
from unisono.standalone.status_server import StatusServer
from unisono.standalone.supervision import keep_running

_log = structlog.get_logger(__name__)

# A watch that is silent for longer than its life and the grace of its end is not coming back by itself.
STALE_SECONDS = 660.0


class Part(Protocol):
    """What a component does while it leads; made again for each time."""

    ready: asyncio.Event
    """Set once it does its work."""

    def run(self) -> Awaitable[None]:
        """Work until cancelled."""
        ...

    def streams(self) -> Mapping[str, ReflectorStatistics]:
        """How its watches fare, by resource."""
        ...

    def unready(self) -> list[str]:
        """Why it does not do its work although it is ready."""
        ...


MakePart = Callable[[Client, CollectorRegistry], Part]


def _identity() -> str:
    return f"{socket.gethostname()}_{uuid.UUID(bytes=os.urandom(16), version=4)}"


@dataclass(frozen=True, slots=True)
class ComponentOptions:
    """How a component runs.

    Attributes:
        listen: ``HOST:PORT`` of probes and metrics, empty for none.
        lease: ``NAMESPACE/NAME`` of the Lease, empty for no leader election.
        identity: unique name of this process in the Lease.
        stale_seconds: silence of a watch after which the component counts as not ready.
    """

    listen: str = ""
    lease: str = ""
    identity: str = field(default_factory=_identity)
    stale_seconds: float = STALE_SECONDS


class Component:
    """Runs a part against the API server of ``config`` for as long as this process leads."""

    def __init__(
        self,
        name: str,
        config: ClusterConfig,
        make: MakePart,
        options: ComponentOptions | None = None,
        *,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """``make`` gets the client to use and a registry for the part's metrics."""
        self.name, self._config, self._make, self._clock = name, config, make, clock
        self._options = options or ComponentOptions()
        self._part: Part | None = None
        self._part_metrics = PartMetrics()
        self.registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        self._requests = ClientMetrics(self.registry)
        self.registry.register(self._part_metrics)
        self.registry.register(StreamMetrics(self._streams))
        leading = Gauge(
            "leader_election_master_status", "1 while this process leads.", ["name"], registry=self.registry
        )
        leading.labels(name).set_function(lambda: float(self._part is not None))
        self.status: StatusServer | None = None
        if self._options.listen:
            self.status = StatusServer(self._options.listen, self.registry, dead=list, unready=self.unready)

    async def run(self) -> None:
        """Work until cancelled; failures of the part and lost leases are logged and tried again.

        Raises:
            ConfigError: the address of probes and metrics cannot be used.

        """
        if self.status is not None:
            await self.status.start()
            _log.info("component.listens", component=self.name, url=self.status.url)
        try:
            await keep_running(self.name, self._once, self._clock, Backoff(base=0.5, cap=30.0), lambda: False)
        finally:
            if self.status is not None:
                await self.status.stop()

    def unready(self) -> list[str]:
        """Why the component does not do its work; a process that waits for the lease is ready to."""
        if self._part is None:
            return [] if self._options.lease else [f"{self.name} has not started yet"]
        if not self._part.ready.is_set():
            return [f"{self.name} has not read everything yet"]
        return self._part.unready() + [
            f"the watch on {resource} has been silent for {statistics.silent_seconds:.0f} s"
            for resource, statistics in self._part.streams().items()
            if statistics.silent_seconds > self._options.stale_seconds
        ]

    def _streams(self) -> Mapping[str, ReflectorStatistics]:
        return {} if self._part is None else self._part.streams()

    async def _once(self) -> None:
        """Everything of one time as leader, from new connections to the part's end."""
        client = self._client()
        try:
            if self._options.lease:
                await self._elected(client)
            else:
                await self._work(client)
        finally:
            await client.close()

    async def _elected(self, client: Client) -> None:
        # The lease has its own connections: renewing must not wait behind thousands of binds.
        keeper = self._client()
        namespace, _, name = self._options.lease.partition("/")
        elector = LeaderElector(keeper, name, namespace, self._options.identity, clock=self._clock)
        try:
            _log.info("component.waits", component=self.name, lease=self._options.lease)
            await elector.run(lambda _: self._work(FencedClient(client, elector)))
        finally:
            await keeper.close()

    async def _work(self, client: Client) -> None:
        self._part = self._make(client, self._part_metrics.renew())
        try:
            await self._part.run()
        finally:
            self._part = None

    def _client(self) -> HttpClient:
        return HttpClient(
            self._config, transport=Transport(self._config, clock=self._clock, observer=self._requests.observe)
        )
