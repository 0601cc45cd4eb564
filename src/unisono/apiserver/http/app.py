"""The way of a request: limits, authentication, routing, authorisation, verb, answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

import structlog
from aiohttp import web

from unisono.api.annotations import tenant
from unisono.api.groups.resource_metrics import GROUP as RESOURCE_METRICS
from unisono.apiserver.access.user import ANONYMOUS
from unisono.apiserver.authorization.authorizer import Action, Authorizer
from unisono.apiserver.catalog import Catalog, Served
from unisono.apiserver.custom.kinds import CustomKind
from unisono.apiserver.failures import not_found
from unisono.apiserver.flow_control import CALLER, Limits, Turns
from unisono.apiserver.http import status
from unisono.apiserver.http.authentication import Authenticator, effective_user
from unisono.apiserver.http.connections import STREAMS, Connections, FlowControl
from unisono.apiserver.http.exchange import Exchange
from unisono.apiserver.http.logs import LogHandler
from unisono.apiserver.http.meta import MetaHandlers
from unisono.apiserver.http.metrics import LoopWatch, RequestMetrics, ResourceMetricsHandler
from unisono.apiserver.http.objects import ObjectHandlers
from unisono.apiserver.http.pod_access import ACCESS, PodAccessHandler
from unisono.apiserver.http.protobuf import encodable
from unisono.apiserver.http.query import ResourcePath, flag, parse, split
from unisono.apiserver.http.reviews import ReviewHandlers
from unisono.apiserver.http.watch import WatchHandler
from unisono.apiserver.operations.context import random_uid
from unisono.errors import ApiError, NotFound, Unavailable

log = structlog.get_logger(__name__)
Handler = Callable[[], Coroutine[Any, Any, web.StreamResponse]]

_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_COLLECTION_VERBS = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}
UNKNOWN_RESOURCE = "the server could not find the requested resource"
# Of an answer whose client has gone, as proxies count it.
_CLIENT_LEFT = 499
_READS = {"get", "list", "watch", "log", "connect"}


class App:
    """Turns requests into answers; one failing request never touches another.

    Args:
        catalog: what is served.
        authenticator: who is asking.
        authorizer: what they may do.
        meta: handlers of paths without a resource.
        objects: handlers of object verbs.
        watches: handler of watches.
        logs: handler of pod logs.
        pods: handler of what reaches into pods.
        reviews: handler of kinds that are answered and not stored.
        usage: handler of what nodes and pods use.
        metrics: counts every answer.
        limits: bounds on what clients may ask for.
        connections: learns which user each connection belongs to.
        writing: lets a few writes through per turn of the event loop, users in turn.
        reading: the same for reads.
        frames: the same for what comes on connections that have left HTTP.
        monotonic: seconds of a clock that only goes forward.
    """

    def __init__(
        self,
        *,
        catalog: Catalog,
        authenticator: Authenticator,
        authorizer: Authorizer,
        meta: MetaHandlers,
        objects: ObjectHandlers,
        watches: WatchHandler,
        logs: LogHandler,
        pods: PodAccessHandler,
        reviews: ReviewHandlers,
        usage: ResourceMetricsHandler,
        metrics: RequestMetrics,
        limits: Limits,
        connections: Connections,
        writing: Turns,
        reading: Turns,
        frames: Turns,
        monotonic: Callable[[], float],
    ) -> None:
        self._catalog, self._authenticator, self._meta = catalog, authenticator, meta
        self._authorizer, self._reviews, self._usage = authorizer, reviews, usage
        self._objects, self._watches, self._logs, self._pods = objects, watches, logs, pods
        self._metrics, self._limits, self._monotonic = metrics, limits, monotonic
        self._writing, self._reading, self._frames = writing, reading, frames
        self._connections = connections
        self._flow = FlowControl(limits)
        self._watch = LoopWatch(metrics, monotonic)
        self._streams: set[asyncio.Task[Any]] = set()
        self._writes: set[asyncio.Task[Any]] = set()
        self._stopping = False

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        exchange = Exchange(request, ANONYMOUS, random_uid(), self._limits, self._frames)
        started = self._monotonic()
        self._connections.begins(request.protocol)
        try:
            with exchange.held:
                answer = await self._watch.timed(exchange, self._guarded(exchange))
                if exchange.verb != "connect":
                    # The answer to a client that is gone is not read; aiohttp sees it as well.
                    with suppress(ConnectionError):
                        await exchange.finish(answer)
                return answer
        finally:
            self._connections.ends(request.protocol)
            seconds = None if exchange.verb in STREAMS else self._monotonic() - started
            self._metrics.answered(exchange.verb or "other", exchange.resource, exchange.code, seconds)

    async def stop(self) -> None:
        """End every watch and followed log as if its time were up, and finish the writes that have begun."""
        self._stopping = True
        for task in self._streams:
            task.cancel()
        if self._writes:
            await asyncio.wait(self._writes)

    async def _guarded(self, exchange: Exchange) -> web.StreamResponse:
        try:
            return await self._authenticated(exchange)
        except ApiError as error:
            if exchange.streaming is not None:
                return exchange.streaming
            # The form that could not be negotiated cannot carry the error either: Status is JSON, or else protobuf.
            exchange.form = status.Form("protobuf") if exchange.form.media == "protobuf" else status.Form()
            return await exchange.error(error)
        except Exception as error:
            if isinstance(error, ConnectionError) and _has_left(exchange.request):
                # The answer is not read, and nothing has failed here.
                exchange.code = exchange.code or _CLIENT_LEFT
                return exchange.streaming or web.Response(status=_CLIENT_LEFT)
            log.exception("request failed", audit_id=exchange.audit_id, verb=exchange.verb, resource=exchange.resource)
            if exchange.streaming is not None:
                return exchange.streaming
            return await exchange.error(status.internal_error())

    async def _authenticated(self, exchange: Exchange) -> web.StreamResponse:
        request = exchange.request
        if self._stopping:
            raise Unavailable("the server is shutting down", details={"retryAfterSeconds": 1})
        transport = request.transport
        certificate = transport.get_extra_info("peercert") if transport is not None else None
        user = self._authenticator.authenticate(request.headers.get("Authorization"), certificate)
        if not self._connections.belongs(request.protocol, user):
            exchange.last = True
            raise status.too_many_requests(
                f"user {user.name} has too many open connections: close some, or use them again"
            )
        exchange.user = effective_user(user, request.headers, self._authorizer)
        CALLER.set(exchange.caller)
        parts = split(request.rel_url.raw_path)
        path = parse(parts)
        served = path and self._catalog.find(path.group, path.version, path.resource)
        if path is None or not served:
            return await self._other(exchange, parts, path)
        return await self._resource(exchange, served, path)

    async def _other(self, exchange: Exchange, parts: list[str], path: ResourcePath | None) -> web.StreamResponse:
        method = exchange.request.method
        if path is None:
            self._authorizer.require(exchange.user, Action(method.lower(), path=exchange.request.path))
        else:
            self._authorizer.require(exchange.user, _action(exchange, _verb(exchange, path) or method.lower(), path))
        self._refuse_when_busy(exchange, public=parts[:1] in (["healthz"], ["livez"], ["readyz"]))
        exchange.verb = method.lower()
        if method not in {"GET", "HEAD"} and path is None:
            raise status.method_not_allowed()
        answer = await self._meta.handle(exchange, parts) if path is None else None
        if answer is None and path is not None and self._catalog.resources(path.group, path.version):
            raise NotFound(UNKNOWN_RESOURCE)
        if answer is None:
            return await exchange.send(404, b"404 page not found\n", content_type="text/plain; charset=utf-8")
        return answer

    async def _resource(self, exchange: Exchange, served: Served, path: ResourcePath) -> web.StreamResponse:
        verb = _verb(exchange, path)
        exchange.resource = f"{path.resource}/{path.subresource}" if path.subresource else path.resource
        self._authorizer.require(exchange.user, _action(exchange, verb or exchange.request.method.lower(), path))
        if not _fits(served, path):
            if isinstance(served.kind, CustomKind) and path.name:
                raise not_found(served.kind, path.name)
            raise NotFound(UNKNOWN_RESOURCE)
        if path.subresource == "log" and verb == "get":
            verb = "log"
        elif path.subresource in ACCESS and verb in {"get", "create"}:
            verb = "connect"
        exchange.verb = verb
        if isinstance(served.kind, CustomKind) and served.kind.details.warning:
            exchange.notes = (served.kind.details.warning,)
        handler = self._handler(exchange, served, path, verb)
        if handler is None:
            raise status.method_not_allowed()
        if verb not in {"log", "connect"}:
            form = status.negotiate(exchange.request.headers.get("Accept", ""))
            if form.media == "protobuf" and not encodable(served.kind.api_version, served.kind.kind):
                raise status.not_acceptable(status.OFFERED[:2])
            exchange.form = form
        self._refuse_when_busy(exchange)
        if verb in STREAMS:
            return await self._stream(exchange, handler)
        if verb in _READS:
            await exchange.take(self._reading)
            return await handler()
        return await self._write(exchange, handler)

    def _handler(self, exchange: Exchange, served: Served, path: ResourcePath, verb: str) -> Handler | None:
        kind, objects = served.kind, self._objects
        if path.subresource == "token":
            return partial(self._reviews.token, exchange, path) if verb == "create" else None
        if verb not in served.verbs and verb not in {"log", "connect"}:
            return None
        if kind.group == RESOURCE_METRICS and not isinstance(kind, CustomKind):
            return partial(self._usage.get if path.name else self._usage.list, exchange, kind, path)
        if path.subresource in {"binding", "eviction"}:
            act = objects.bind if path.subresource == "binding" else objects.evict
            return partial(act, exchange, path) if verb == "create" else None
        if verb == "log":
            return partial(self._logs.log, exchange, path)
        if verb == "connect":
            return partial(self._pods.handle, exchange, path)
        if path.subresource and verb not in {"get", "update", "patch"}:
            return None
        if "get" not in served.verbs:
            return partial(self._reviews.review, exchange, kind, path)
        # Objects are made and collections deleted in one namespace, never in all.
        if verb in {"create", "deletecollection"} and (path.name or bool(path.namespace) != kind.namespaced):
            return None
        act_on_kind = {
            "watch": self._watches.watch,
            "get": objects.get,
            "list": objects.list,
            "create": objects.create,
            "update": objects.update,
            "patch": objects.patch,
            "delete": objects.delete,
            "deletecollection": objects.delete_collection,
        }.get(verb)
        return None if act_on_kind is None else partial(act_on_kind, exchange, kind, path)

    async def _write(self, exchange: Exchange, handler: Handler) -> web.StreamResponse:
        # A client that goes away must not stop a write half-way: the write ends, only its answer is lost.
        task = asyncio.create_task(self._timed_write(exchange, handler))
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)
        answer = await asyncio.shield(task)
        try:
            if isinstance(answer, Exception):
                raise answer
            return answer
        finally:
            # The traceback of what is raised holds this frame. A frame that held the exception would close a circle,
            # and keep the body of each refused request until the garbage collector next searches everything.
            del answer, task

    async def _timed_write(
        self, exchange: Exchange, handler: Handler
    ) -> web.StreamResponse | ApiError | ConnectionError:
        return await self._watch.timed(exchange, self._in_turn(exchange, handler))

    async def _in_turn(self, exchange: Exchange, handler: Handler) -> web.StreamResponse | ApiError | ConnectionError:
        """The answer, or why there is none: raised after the client has gone, it would be logged as an error."""
        try:
            await exchange.take(self._writing)
            return await handler()
        except (ApiError, ConnectionError) as error:
            return error

    async def _stream(self, exchange: Exchange, handler: Handler) -> web.StreamResponse:
        task = asyncio.current_task()
        if task is None:
            raise status.internal_error()
        self._streams.add(task)
        self._metrics.stream(exchange.verb, exchange.resource, 1)
        try:
            return await handler()
        except asyncio.CancelledError:
            # A cancellation by ``stop`` ends the stream properly; one by the client's end is passed on.
            if not self._stopping or task.uncancel() > 0 or exchange.streaming is None:
                raise
            return exchange.streaming
        finally:
            self._streams.discard(task)
            self._metrics.stream(exchange.verb, exchange.resource, -1)

    def _refuse_when_busy(self, exchange: Exchange, *, public: bool = False) -> None:
        """Count the request until it is answered.

        Raises:
            ApiError: 429 when too many are in progress, in all or of its user.
        """
        if public:
            return
        user, belongs = exchange.user.name, tenant(exchange.user.name)
        quotas = self._flow.quotas(exchange.verb, exchange.user, own=exchange.own)
        for name, quota in quotas:
            if bound := quota.full(user, belongs):
                self._metrics.rejected(name if bound == "all" else f"{bound}_{name}")
                raise status.too_many_requests()
        for _, quota in quotas:
            exchange.held.enter_context(quota.one(user, belongs))


def _has_left(request: web.BaseRequest) -> bool:
    """Whether the connection is closed, by the client or by us."""
    return request.transport is None or request.transport.is_closing()


def _verb(exchange: Exchange, path: ResourcePath) -> str:
    method = exchange.request.method
    if method == "GET" and flag(exchange.query, "watch") and not path.subresource:
        return "watch"
    return (_VERBS if path.name else _COLLECTION_VERBS).get(method, "")


def _action(exchange: Exchange, verb: str, path: ResourcePath) -> Action:
    name, namespace = path.name or "", path.namespace
    if not name and verb in {"list", "watch", "deletecollection"}:
        name = _selected_name(exchange.query.get("fieldSelector", ""))
    if path.resource == "namespaces" and not path.group and path.name:
        namespace = path.name  # a namespace is read with the rights in it
    return Action(verb, "", path.group, path.resource, path.subresource, namespace, name)


def _selected_name(selector: str) -> str:
    """The name that a field selector asks for: a right to one name reaches so far."""
    for part in selector.split(","):
        key, equals, value = part.replace("==", "=").partition("=")
        if key.strip() == "metadata.name" and equals and not key.endswith("!"):
            return value.strip()
    return ""


def _fits(served: Served, path: ResourcePath) -> bool:
    """True when the path has the shape of the kind: namespace, name and subresource where they belong."""
    if path.subresource and served.subresource(path.subresource) is None:
        return False
    if served.kind.namespaced:
        return path.namespace is not None or path.name is None
    return path.namespace is None
