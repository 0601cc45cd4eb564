"""The HTTPS server of the embedded API: composition, listening socket, start and stop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog
from aiohttp import web
from aiohttp.web_protocol import RequestHandler
from prometheus_client import CollectorRegistry

from unisono.api.groups.resource_metrics import NODE_METRICS, POD_METRICS, Meter
from unisono.api.kind import Kind
from unisono.api.kinds import ALL_KINDS
from unisono.apiserver.access.files import LOOPBACK_NAMES, bind, is_loopback, names_of_machine, write_kubeconfig
from unisono.apiserver.access.pki import Authority, utc_now
from unisono.apiserver.access.service_accounts import ServiceAccountTokens, TokenSigner
from unisono.apiserver.access.user import ADMIN, REVIEW_KINDS
from unisono.apiserver.authorization.authorizer import Reviews
from unisono.apiserver.catalog import Catalog
from unisono.apiserver.encoding import VIEWS
from unisono.apiserver.flow_control import Limits
from unisono.apiserver.http.app import App
from unisono.apiserver.http.authentication import Authenticator
from unisono.apiserver.http.connections import Connections
from unisono.apiserver.http.logs import LogHandler
from unisono.apiserver.http.meta import BackupHandler, HistoryHandler, HistorySource, MetaHandlers, Readiness
from unisono.apiserver.http.metrics import RequestMetrics, ResourceMetricsHandler
from unisono.apiserver.http.objects import ObjectHandlers
from unisono.apiserver.http.pod_access import PodAccessHandler
from unisono.apiserver.http.reviews import ReviewHandlers
from unisono.apiserver.http.watch import WatchHandler
from unisono.apiserver.nodes import LogSource, PodAccess, RemotePods
from unisono.errors import ConfigError, system_reason
from unisono.kube.listening import Listener, open_files

if TYPE_CHECKING:
    from unisono.apiserver.operations.service import ObjectService


# A socket of this machine for the control plane's own components: plain HTTP, for the user who runs it alone.
#
# Scheduler and controllers make thousands of requests a second at their busiest; between two processes of one user TLS
# protects nothing and costs as much as many a request. Who connects says who it is by a token, as everywhere.


class OwnSocket:
    """Listens at ``path``, in a folder that only its owner may enter."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._listener: Listener | None = None

    async def open(self, served: Callable[[], asyncio.BaseProtocol]) -> None:
        """Listen; what a process that was killed has left is taken away.

        Raises:
            ConfigError: nothing can listen there.
        """
        bound = socket.socket(socket.AF_UNIX)
        try:
            self._path.parent.mkdir(mode=0o700, exist_ok=True)
            self._path.parent.chmod(0o700)
            self._path.unlink(missing_ok=True)
            bound.bind(str(self._path))
            self._path.chmod(0o600)
            self._listener = Listener(bound, lambda address: served())
            self._listener.start()
        except OSError as error:
            bound.close()
            raise ConfigError(f"cannot listen at {self._path} ({system_reason(error)})", key="own_socket") from error

    async def close(self) -> None:
        """Take no more connections."""
        listener, self._listener = self._listener, None
        if listener is not None:
            await listener.close()
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)


log = structlog.get_logger(__name__)

_DRAIN_SECONDS = 5.0
# Time in which clients of a server that ends may answer the end of their TLS session.
_FAREWELL_SECONDS = 0.5
_MAX_LINE = 32 * 1024
_MAX_HEADERS = 100
# Bytes of an answer that wait in a transport for a client that doesn't read.
_UNREAD = 64 * 1024


class ApiServer:
    """Serves an ``ObjectService`` over HTTPS to kubectl and every other Kubernetes client.

    Args:
        service: the objects.
        host: address to listen on.
        port: port to listen on; 0 takes a free one.
        data_dir: where keys, token and the kubeconfig live.
        log_source: reads container logs; None when no node runs here.
        pod_access: runs commands in containers and reaches their ports; None when no node runs here.
        remote_pods: pods that run elsewhere and can be read here; None where there are none.
        kinds: what is served.
        allow_remote: listen on an address that other machines reach.
        limits: bounds on what clients may ask for.
        clock: Unix seconds, for ages in tables.
        monotonic: seconds of a clock that only goes forward, for the patience with clients.
        registry: where the server's metrics are registered; a new one when None.
        readiness: reasons why the control plane is not ready, for ``/readyz``.
        own_socket: where components of the same control plane connect without TLS; None for nowhere.
        more_metrics: metrics of other processes of the control plane, as Prometheus text.
        meter: measures what this machine and its pods use; None when no node runs here.
        history: answers what ran; None where that is not kept.
    """

    def __init__(
        self,
        service: ObjectService,
        *,
        data_dir: Path,
        host: str = "127.0.0.1",
        port: int = 0,
        log_source: LogSource | None = None,
        pod_access: PodAccess | None = None,
        remote_pods: RemotePods | None = None,
        kinds: Iterable[Kind[Any]] = ALL_KINDS,
        allow_remote: bool = False,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        registry: CollectorRegistry | None = None,
        readiness: Readiness | None = None,
        own_socket: Path | None = None,
        more_metrics: Callable[[], Awaitable[bytes]] | None = None,
        meter: Meter | None = None,
        history: HistorySource | None = None,
    ) -> None:
        if not allow_remote and not is_loopback(host):
            raise ConfigError(
                f"{host} can be reached from other machines; listen on 127.0.0.1, or allow remote access explicitly",
                key="host",
            )
        self._service, self._log_source, self._clock, self._monotonic = service, log_source, clock, monotonic
        self._pod_access, self._meter, self._history = pod_access, meter, history
        self._remote_pods = remote_pods
        self._host, self._port, self._data_dir = host, port, data_dir
        self._limits = (limits or Limits()).within(open_files())
        self._readiness: Readiness = readiness or (list)
        self._backups = BackupHandler(service.store.backup, data_dir)
        self._metrics = RequestMetrics(registry or CollectorRegistry(), more_metrics)
        self._metrics.history(lambda: service.store.statistics()["history_bytes"])
        self._connections = Connections(self._limits, monotonic, self._metrics.rejected)
        self._own = None if own_socket is None else OwnSocket(own_socket)
        self.catalog = Catalog((*kinds, *(view.kind for view in VIEWS)))
        for kind in REVIEW_KINDS:
            self.catalog.add(kind, ("create",))
        for measured in (NODE_METRICS, POD_METRICS):
            self.catalog.add(measured, ("get", "list"))
        service.follow_kinds(self.catalog.set_custom)
        self._app: App | None = None
        self._web: _Server | None = None
        self._listener: Listener | None = None

    @property
    def url(self) -> str:
        """``https://host:port`` of the running server, as clients of this machine reach it."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self._host, self._host)  # noqa: S104  # nosec B104 # read
        return f"https://[{host}]:{self._port}" if ":" in host else f"https://{host}:{self._port}"

    @property
    def kubeconfig_path(self) -> Path:
        """The kubeconfig that ``start`` writes."""
        return self._data_dir / "kubeconfig"

    @property
    def ca_path(self) -> Path:
        """The certificate of the authority that clients trust."""
        return self._data_dir / "pki" / "ca.crt"

    async def start(self) -> None:
        """Listen, and write the kubeconfig.

        Raises:
            ConfigError: the address is taken, or a key on disk cannot be read.
        """
        self._data_dir.mkdir(parents=True, exist_ok=True)
        authority = Authority(self._data_dir / "pki", utc_now())
        token = authority.token("admin")
        accounts = ServiceAccountTokens(TokenSigner(self._data_dir / "pki", self._clock), self._service.view)
        app = self._compose(Authenticator({token: ADMIN}, accounts), accounts)
        names = LOOPBACK_NAMES if is_loopback(self._host) else names_of_machine(self._host)
        bound = bind(self._host, self._port)
        try:
            await self._listen(app, bound, authority.server_context(names))
        except BaseException:
            bound.close()
            raise
        self._port = bound.getsockname()[1]
        self._service.publish_certificate(authority.ca_pem.decode())
        write_kubeconfig(self.kubeconfig_path, self.url, authority.ca_pem, token)
        log.info("api server listens", url=self.url)

    async def stop(self) -> None:
        """Take no more connections, end watches, let requests finish, then close; can be called twice."""
        listener, served, app = self._listener, self._web, self._app
        self._listener = self._web = self._app = None
        if listener is None or served is None or app is None:
            return
        await listener.close()
        if self._own is not None:
            await self._own.close()
        await app.stop()
        served.pre_shutdown()
        await served.shutdown(_DRAIN_SECONDS)
        await served.cut_off(_FAREWELL_SECONDS)

    def _compose(self, authenticator: Authenticator, accounts: ServiceAccountTokens) -> App:
        authorizer = self._service.authorizer
        return App(
            catalog=self.catalog,
            authenticator=authenticator,
            authorizer=authorizer,
            meta=MetaHandlers(
                self.catalog,
                self._metrics,
                self._readiness,
                accounts.signer,
                self._backups,
                HistoryHandler(self._history, authorizer),
            ),
            objects=ObjectHandlers(self._service, self._clock, self._remote_pods),
            watches=WatchHandler(self._service, self._clock),
            logs=LogHandler(self._service, self._log_source, self._clock, self._remote_pods),
            pods=PodAccessHandler(
                self._service, self._pod_access, authorizer, self._metrics.rejected, self._remote_pods
            ),
            reviews=ReviewHandlers(
                Reviews(authorizer, authenticator.token_user), accounts, self._service.hooks, self._clock
            ),
            usage=ResourceMetricsHandler(self._service, self._meter, self._clock),
            metrics=self._metrics,
            limits=self._limits,
            connections=self._connections,
            writing=self._service.shares.requests,
            reading=self._service.shares.reads,
            frames=self._service.shares.frames,
            monotonic=self._monotonic,
        )

    async def _listen(self, app: App, bound: socket.socket, context: ssl.SSLContext) -> None:
        served = _Server(app, self._connections, self._limits)
        if self._own is not None:
            await self._own.open(served)
        self._listener = Listener(
            bound,
            served.take,
            lost=served.left,
            tls=context,
            room=self._connections.room,
            handshake_seconds=self._limits.handshake_seconds,
            shutdown_seconds=_DRAIN_SECONDS,
        )
        served.listener = self._listener
        self._listener.start()
        self._web, self._app = served, app


class _Server(web.Server):
    """aiohttp's low-level server with bounds on headers, idle time and connections."""

    def __init__(self, app: App, connections: Connections, limits: Limits) -> None:
        super().__init__(
            app.handle,
            # Streams must notice that their client is gone; writes are shielded from it.
            handler_cancellation=True,
            keepalive_timeout=limits.idle_seconds,
            max_line_size=_MAX_LINE,
            max_field_size=_MAX_LINE,
            max_headers=_MAX_HEADERS,
            access_log=None,
        )
        self._book = connections
        self._head_seconds = limits.head_seconds
        self._transports: dict[RequestHandler, asyncio.Transport] = {}
        self._alone = asyncio.Event()
        self._alone.set()
        self.listener: Listener | None = None

    def take(self, address: str) -> RequestHandler | None:
        """A handler for a connection from another program; None when there are too many."""
        handler: RequestHandler = self()
        return handler if self._book.admit(handler, address, partial(self._end, handler)) else None

    def left(self, handler: RequestHandler) -> None:
        """A connection has ended."""
        self._book.leave(handler)

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        transport.set_write_buffer_limits(high=_UNREAD)
        self._transports[handler] = transport
        self._alone.clear()
        self._book.secured(handler)
        asyncio.get_running_loop().call_later(self._head_seconds, self._expect, handler)
        super().connection_made(handler, transport)

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        self._transports.pop(handler, None)
        self._book.leave(handler)
        if not self._transports:
            self._alone.set()
        super().connection_lost(handler, exc)

    async def cut_off(self, seconds: float) -> None:
        """After ``shutdown``: wait until the clients have closed as well, then close without them."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._alone.wait()
        for transport in list(self._transports.values()):
            transport.abort()
        await asyncio.sleep(0)  # the loop closes the sockets of aborted connections in its next turn
        await asyncio.sleep(0)

    def _expect(self, handler: RequestHandler) -> None:
        """End a connection on which no request has come."""
        if self._book.silent(handler):
            self._book.drop(handler, "head")

    def _end(self, handler: RequestHandler) -> None:
        transport = self._transports.get(handler)
        if transport is not None:
            transport.abort()
        elif self.listener is not None:
            self.listener.drop(handler)
