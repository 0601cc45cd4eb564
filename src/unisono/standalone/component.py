"""Components as processes: kept running, elected, probed, measured, and ended cleanly."""

from __future__ import annotations

import asyncio
import os
import socket
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import structlog
from aiohttp import web
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Gauge,
    GCCollector,
    Metric,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.registry import Collector

from unisono.errors import ConfigError, UnisonoError, system_reason
from unisono.kube.client import Client
from unisono.kube.clock import SYSTEM_CLOCK, Clock
from unisono.kube.http import HttpClient
from unisono.kube.kubeconfig import ClusterConfig
from unisono.kube.leader import LeaderElector, LeadershipLost, fenced
from unisono.kube.listening import AppListener
from unisono.kube.metrics import ClientMetrics, StreamMetrics
from unisono.kube.pace import Backoff
from unisono.kube.reflector import ReflectorStatistics
from unisono.kube.transport import Transport

# Keeps a part of the control plane running: a failure is logged and the part restarts after a pause.

_log = structlog.get_logger(__name__)

HEALTHY_SECONDS = 60.0


class PartEnded(UnisonoError):
    """A part is gone for a reason that its message tells in full: a traceback would lead nowhere."""


async def keep_running(
    name: str, part: Callable[[], Awaitable[None]], clock: Clock, backoff: Backoff, stopping: Callable[[], bool]
) -> None:
    """Run ``part`` again and again until cancelled, or until it ends while ``stopping`` answers True.

    Args:
        name: of the part, for the log.
        part: makes and runs it; called for each start, so that nothing of a failed one is left.
        clock: paces the pauses.
        backoff: the pauses; they become short again after the part has run well for a minute.
        stopping: whether an end is wanted now.
    """
    failures = 0
    while True:
        started = clock.monotonic()
        try:
            await part()
            if stopping():
                return
            reason = "it ended by itself"
        except (PartEnded, LeadershipLost) as error:
            reason = str(error)
        except Exception as error:
            _log.exception("part.failed", part=name)
            reason = str(error)
        failures = 1 if clock.monotonic() - started > HEALTHY_SECONDS else failures + 1
        pause = backoff.delay(failures)
        _log.warning("part.restarts", part=name, reason=reason, seconds=round(pause, 2))
        await clock.sleep(pause)


# Metrics of components that may restart, behind one registry.


class PartMetrics(Collector):
    """Shows the metrics of each part's latest start; register it once."""

    def __init__(self) -> None:
        self._registries: dict[str, CollectorRegistry] = {}

    def renew(self, part: str = "") -> CollectorRegistry:
        """An empty registry for the part that starts now; ``part`` is its name where there are several."""
        registry = self._registries[part] = CollectorRegistry()
        return registry

    def collect(self) -> Iterable[Metric]:
        """Metrics of the latest starts."""
        for registry in self._registries.values():
            yield from registry.collect()


# ``/healthz``, ``/livez``, ``/readyz`` and ``/metrics`` of a component that runs as its own process.

Reasons = Callable[[], Sequence[str]]


class StatusServer:
    """Plain HTTP for probes and Prometheus; it tells numbers and states, never objects."""

    def __init__(self, listen: str, registry: CollectorRegistry, *, dead: Reasons, unready: Reasons) -> None:
        """Make a server.

        Args:
            listen: ``HOST:PORT``; port 0 takes a free one, ``[::]:8080`` is IPv6.
            registry: what ``/metrics`` shows.
            dead: why the process should be restarted; empty when it lives.
            unready: why the component does not do its work now; empty when it does.

        Raises:
            ConfigError: ``listen`` is not an address.
        """
        self._host, self._port = parse_listen(listen)
        self._registry, self._dead, self._unready = registry, dead, unready
        self._listener: AppListener | None = None
        self.url = ""

    async def start(self) -> None:
        """Listen.

        Raises:
            ConfigError: the address is taken or not of this machine.
        """
        app = web.Application()
        app.router.add_get("/healthz", self._live)
        app.router.add_get("/livez", self._live)
        app.router.add_get("/readyz", self._ready)
        app.router.add_get("/metrics", self._metrics)
        try:
            listener = await AppListener.open(app, self._host, self._port)
        except OSError as error:
            raise ConfigError(
                f"cannot listen on {self._host}:{self._port} ({system_reason(error)}): name another address",
                key="--listen",
            ) from error
        self._listener = listener
        host, port = listener.address
        self.url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def stop(self) -> None:
        """Stop listening."""
        if self._listener is not None:
            await self._listener.close()
            self._listener = None

    async def _live(self, _: web.Request) -> web.Response:
        return _answer(self._dead())

    async def _ready(self, _: web.Request) -> web.Response:
        return _answer([*self._dead(), *self._unready()])

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})


def parse_listen(text: str) -> tuple[str, int]:
    """Host (empty: every address) and port of ``HOST:PORT``, ``:PORT`` or ``[IPV6]:PORT``.

    Raises:
        ConfigError: it is not of that form.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535 or (":" in host and not host.startswith("[")):
        raise ConfigError(f"{text!r} is not an address such as 127.0.0.1:8080 or :8080", key="--listen")
    return host.strip("[]"), int(port)


def _answer(reasons: Sequence[str]) -> web.Response:
    if reasons:
        return web.Response(status=503, text="".join(f"{reason}\n" for reason in reasons))
    return web.Response(text="ok")


# One component as its own process beside any API server: leader election, probes, metrics, a clean end.
#
# ::
#
#     waits for the lease ──► leads: the part runs with a fenced client ──► lease lost: the part is ended, waits again
#           │                        │
#           └── /readyz: ok          └── /readyz: ok when the part is ready and its watches are fresh

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
            await elector.run(lambda _: self._work(fenced(client, elector)))
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
