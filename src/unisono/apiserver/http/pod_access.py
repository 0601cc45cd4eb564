"""The subresources ``exec``, ``attach`` and ``portforward`` of pods: what is meant, and in which protocol."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web

from unisono.api.kinds import PODS
from unisono.apiserver.admission import Request
from unisono.apiserver.authorization.authorizer import Action, Authorizer
from unisono.apiserver.failures import bad_request
from unisono.apiserver.flow_control import Limits
from unisono.apiserver.http import wires
from unisono.apiserver.http.exchange import Exchange
from unisono.apiserver.http.logs import choose_container
from unisono.apiserver.http.query import ResourcePath
from unisono.apiserver.http.remote_command import (
    ChannelForwarder,
    ChannelRemote,
    SpdyForwarder,
    SpdyRemote,
    port_number,
    relay,
)
from unisono.apiserver.http.spdy import SpdySession, SpdyStream
from unisono.apiserver.http.status import too_many_requests
from unisono.apiserver.http.wires import WebSocketWire, close_web_socket, open_raw, open_web_socket
from unisono.apiserver.nodes import (
    ContainerTarget,
    PodAccess,
    PodCommands,
    Ports,
    PortStream,
    RemotePods,
    Session,
    Wanted,
)
from unisono.apiserver.tables.values import get
from unisono.errors import ApiError, NotFound, UnisonoError

if TYPE_CHECKING:
    from unisono.apiserver.operations.service import ObjectService


# How many connections to ports of pods are open: in all, and in one session.


class Forwarded:
    """Counts the connections of all sessions.

    Args:
        refused: hears of each connection that is refused.
    """

    def __init__(self, refused: Callable[[str], None]) -> None:
        self._refused = refused
        self._open = 0

    def session(self, ports: Ports, limits: Limits) -> SessionPorts:
        """The ports as one session may use them; ``ports`` reaches the pods."""
        return SessionPorts(self, ports, limits)

    async def connect(self, ports: Ports, target: ContainerTarget, port: int, most: int) -> PortStream:
        """Connect where fewer than ``most`` connections are open.

        Raises:
            UnisonoError: too many are, or the port cannot be reached.
        """
        if self._open >= most:
            raise self.refusal("forwarded")
        self._open += 1
        try:
            return await ports.connect(target, port)
        except BaseException:
            self._open -= 1
            raise

    def refusal(self, cause: str) -> Exception:
        """Counts a refusal, and says so."""
        self._refused(cause)
        return too_many_requests("too many connections are forwarded: close some")

    def closed(self) -> None:
        """A connection has ended."""
        self._open -= 1


class SessionPorts:
    """Counts the connections of one session."""

    def __init__(self, forwarded: Forwarded, ports: Ports, limits: Limits) -> None:
        self._forwarded, self._ports, self._limits = forwarded, ports, limits
        self._open = 0

    async def connect(self, target: ContainerTarget, port: int) -> PortStream:
        """Connect to a TCP port of a pod."""
        if self._open >= self._limits.forwarded_of_one:
            raise self._forwarded.refusal("session_forwarded")
        self._open += 1
        try:
            stream = await self._forwarded.connect(self._ports, target, port, self._limits.forwarded)
        except BaseException:
            self._open -= 1
            raise
        return _Counted(stream, self._closed)

    def _closed(self) -> None:
        self._open -= 1
        self._forwarded.closed()


class _Counted:
    """A connection that says once that it has ended."""

    def __init__(self, stream: PortStream, closed: Callable[[], None]) -> None:
        self._stream, self._closed, self._ended = stream, closed, False
        self.read, self.write, self.end_writing = stream.read, stream.write, stream.end_writing

    async def close(self) -> None:
        """End the connection."""
        if not self._ended:
            self._ended = True
            self._closed()
        await self._stream.close()


Document = dict[str, Any]
# What is asked for, as webhooks are shown it.
_KINDS = {"exec": "PodExecOptions", "attach": "PodAttachOptions", "portforward": "PodPortForwardOptions"}
ACCESS = frozenset(_KINDS)
_SPDY = "SPDY/3.1"
_TUNNEL = "SPDY/3.1+portforward.k8s.io"
_FORWARD = "portforward.k8s.io"
_SPDY_COMMANDS = ("v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io")
# How long a client may take to open its streams.
_STREAMS_SECONDS = 30.0
_TRUE = frozenset({"1", "true", "True", "TRUE", "t", "T"})


class PodAccessHandler:
    """Answers the three subresources.

    Args:
        service: knows the pods.
        access: reaches into them; None when no node agent runs with this server.
        remote: pods that run elsewhere, in which commands can be run; None where there are none.
        authorizer: an upgraded GET needs the right to create, too.
        refused: hears the cause of each connection to a port that is refused.
    """

    def __init__(
        self,
        service: ObjectService,
        access: PodAccess | None,
        authorizer: Authorizer,
        refused: Callable[[str], None],
        remote: RemotePods | None = None,
    ) -> None:
        self._remote = remote
        self._service, self._access, self._authorizer = service, access, authorizer
        self._forwarded = Forwarded(refused)

    async def handle(self, exchange: Exchange, path: ResourcePath) -> web.StreamResponse:
        """Answer one request; returns when its streams have ended."""
        # Kubernetes asks for it since 1.35: a right to read must not be enough to run commands.
        action = Action("create", "", "", "pods", path.subresource, path.namespace, str(path.name))
        self._authorizer.require(exchange.user, action)
        options = await self._admitted(exchange, path)
        access: PodAccess | None = self._access
        try:
            pod = msgspec.json.decode(await self._service.get(PODS, path.namespace, str(path.name)))
        except NotFound:
            elsewhere = await self._elsewhere(path)
            if elsewhere is None:
                raise
            pod, access = elsewhere
        container = ""
        if path.subresource != "portforward":
            container = choose_container(pod, str(options.get("container") or ""))
        target = ContainerTarget(
            namespace=str(path.namespace),
            pod=str(path.name),
            uid=str(get(pod, "metadata", "uid") or ""),
            node=str(get(pod, "spec", "nodeName") or ""),
            container=container,
        )
        if not target.node:
            raise bad_request(f"pod {target.pod} does not have a host assigned")
        if access is None:
            raise ApiError("no node agent runs commands here", code=503, reason="ServiceUnavailable")
        if container:
            return await self._command(exchange, access, path.subresource, target, options)
        return await self._forward(exchange, self._forwarded.session(access, exchange.limits), target, options)

    async def _elsewhere(self, path: ResourcePath) -> tuple[Document, PodAccess] | None:
        """The pod of another cluster, and what reaches into it."""
        if self._remote is None:
            return None
        remote_pod = await self._remote.reach(str(path.namespace), str(path.name))
        return (msgspec.json.decode(remote_pod[0]), remote_pod[1]) if remote_pod is not None else None

    async def _admitted(self, exchange: Exchange, path: ResourcePath) -> Document:
        """What is asked for, as users' webhooks let it pass."""
        options = _options(exchange, path.subresource)
        hooks = self._service.hooks
        if not hooks.present:
            return options
        user, kind = exchange.user, _KINDS[path.subresource]
        request = Request(
            "CONNECT",
            PODS,
            path.namespace,
            str(path.name),
            {"kind": kind, "apiVersion": "v1", **options},
            subresource=path.subresource,
            user=user.name,
            groups=user.groups,
            shown_as=("v1", kind),
        )
        exchange.notes = (*exchange.notes, *await hooks.show(request, dry_run=False))
        changed: Document = request.object
        for name in ("command", "ports"):
            if not isinstance(changed.get(name), list | None):
                why = f"a webhook made {name} of {kind} something else than a list"
                raise ApiError(f"Internal error occurred: {why}", code=500, reason="InternalError")
        return changed

    async def _command(
        self, exchange: Exchange, access: PodCommands, subresource: str, target: ContainerTarget, options: Document
    ) -> web.StreamResponse:
        streams = _wanted(options)
        command = [str(word) for word in options.get("command") or ()]
        if subresource == "exec" and not command:
            raise bad_request("you must specify at least one command for the container")

        async def begin() -> Session:
            try:
                if subresource == "exec":
                    return await access.exec(target, command, streams)
                return await access.attach(target, streams)
            except ApiError:
                raise
            except UnisonoError as error:
                raise ApiError(f"unable to upgrade connection: {error}", code=500, reason="InternalError") from None

        if _upgrade(exchange) == "websocket":
            protocol = _channel_protocol(exchange, wires.REMOTE_COMMAND)
            session = await begin()
            try:
                return await _by_web_socket(exchange, protocol, session, streams)
            finally:
                await session.close()
        version = _spdy_protocol(exchange, _SPDY_COMMANDS)
        session = await begin()
        try:
            return await _by_spdy(exchange, version, session, streams)
        finally:
            await session.close()

    async def _forward(
        self, exchange: Exchange, access: Ports, target: ContainerTarget, options: Document
    ) -> web.StreamResponse:
        if _upgrade(exchange) != "websocket":
            protocol = _spdy_protocol(exchange, (_FORWARD,))
            response, wire = await open_raw(exchange, _SPDY, protocol)
            with contextlib.suppress(ValueError, ConnectionError), wire:
                await SpdyForwarder(access, target).run(wire)
            return response
        if _TUNNEL in _offered(exchange):
            socket = await open_web_socket(exchange, _TUNNEL)
            return await _on_socket(exchange, socket, SpdyForwarder(access, target).run)
        protocol_ = _channel_protocol(exchange, wires.PORT_FORWARD)
        try:
            ports = [port_number(str(port)) for port in options.get("ports") or ()]
        except ValueError as error:
            raise bad_request(str(error)) from None
        if not ports:
            raise bad_request('query parameter "ports" is required')
        socket = await open_web_socket(exchange, protocol_.name)
        return await _on_socket(exchange, socket, ChannelForwarder(access, target, ports, protocol_).run)


async def _by_web_socket(
    exchange: Exchange, protocol: wires.ChannelProtocol, session: Session, wanted: Wanted
) -> web.StreamResponse:
    socket = await open_web_socket(exchange, protocol.name)

    async def run(wire: WebSocketWire) -> None:
        remote = ChannelRemote(wire, protocol, wanted)
        await remote.greet()
        await relay(session, wanted, remote)

    return await _on_socket(exchange, socket, run)


async def _on_socket(
    exchange: Exchange, socket: web.WebSocketResponse, run: Callable[[WebSocketWire], Any]
) -> web.StreamResponse:
    try:
        with WebSocketWire(exchange, socket) as wire:
            await run(wire)
    except ValueError as error:
        await close_web_socket(socket, broken=str(error))
    except ConnectionError:
        return socket
    else:
        await close_web_socket(socket)
    return socket


async def _by_spdy(exchange: Exchange, version: str, session: Session, wanted: Wanted) -> web.StreamResponse:
    response, wire = await open_raw(exchange, _SPDY, version)
    streams: dict[str, SpdyStream] = {}
    complete, gone = asyncio.Event(), asyncio.Event()
    expected = {"error"} | {name for name in ("stdin", "stdout", "stderr") if getattr(wanted, name)}
    if wanted.tty and version in {"v4.channel.k8s.io", "v3.channel.k8s.io"}:
        expected.add("resize")

    def opened(stream: SpdyStream) -> None:
        kind = stream.headers.get("streamtype", "")
        if kind in streams or kind not in {"error", "stdin", "stdout", "stderr", "resize"}:
            raise ValueError(f'unexpected stream type "{kind}"')
        streams[kind] = stream
        if expected <= streams.keys():
            complete.set()

    async def serve() -> None:
        try:
            await connection.run()
        finally:
            gone.set()
            complete.set()

    connection = SpdySession(wire, opened)
    serving = asyncio.create_task(serve())
    try:
        async with asyncio.timeout(_STREAMS_SECONDS):
            await complete.wait()
        remote = SpdyRemote(streams, version == "v4.channel.k8s.io", gone)
        try:
            with wire:
                await relay(session, wanted, remote)
                await connection.go_away()
        finally:
            await remote.close()
    except (ValueError, ConnectionError, TimeoutError):
        return response
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
    return response


def _options(exchange: Exchange, subresource: str) -> Document:
    """The query as the options that Kubernetes makes of it."""
    query = exchange.query
    if subresource == "portforward":
        named = [part for text in query.getall("ports", []) for part in text.split(",")]
        ports = [*query.getall("port", []), *named]
        return {"ports": [int(port) if port.isascii() and port.isdigit() else port for port in ports]} if ports else {}
    options: Document = {name: True for name in ("stdin", "stdout", "stderr", "tty") if query.get(name, "") in _TRUE}
    if query.get("container"):
        options["container"] = query["container"]
    if subresource == "exec":
        options["command"] = query.getall("command", [])
    return options


def _wanted(options: Document) -> Wanted:
    asked = {name: options.get(name) is True for name in ("stdin", "stdout", "stderr", "tty")}
    # A terminal has one output.
    streams = Wanted(asked["stdin"], asked["stdout"], asked["stderr"] and not asked["tty"], asked["tty"])
    if not (streams.stdin or streams.stdout or streams.stderr):
        raise bad_request("you must specify at least 1 of stdin, stdout, stderr")
    return streams


def _upgrade(exchange: Exchange) -> str:
    headers = exchange.request.headers
    wants = "upgrade" in headers.get("Connection", "").lower()
    upgrade = headers.get("Upgrade", "").lower() if wants else ""
    if upgrade not in {"websocket", _SPDY.lower()}:
        raise bad_request("Upgrade request required")
    return upgrade


def _offered(exchange: Exchange) -> list[str]:
    lists = exchange.request.headers.getall("Sec-WebSocket-Protocol", [])
    return [name for text in lists for part in text.split(",") if (name := part.strip())]


def _channel_protocol(exchange: Exchange, served: tuple[str, ...]) -> wires.ChannelProtocol:
    offered = _offered(exchange)
    chosen = wires.choose(offered, served)
    if chosen is None:
        raise bad_request(f"requested protocol(s) are not supported: {offered}; supports {list(served)}")
    return chosen


def _spdy_protocol(exchange: Exchange, served: tuple[str, ...]) -> str:
    lists = exchange.request.headers.getall("X-Stream-Protocol-Version", [])
    offered = [name for text in lists for part in text.split(",") if (name := part.strip())]
    if not offered:
        raise bad_request("unable to upgrade: header X-Stream-Protocol-Version does not exist in request")
    for name in offered:
        if name in served:
            return name
    raise ApiError(
        f"unable to upgrade: unable to negotiate protocol: client supports {offered}, server accepts {list(served)}",
        code=403,
        reason="Forbidden",
    )
