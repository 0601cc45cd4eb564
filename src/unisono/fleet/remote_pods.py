"""Pods of a hub's jobs, read where they run: one at a time, by name, on request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from unisono.api.annotations import CLUSTER, HUB, ORIGIN_UID
from unisono.api.base import Object
from unisono.api.kind import Kind
from unisono.api.kind_families import ATTACHED_CLUSTERS
from unisono.api.kinds import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, SECRETS
from unisono.apiserver.http.wires import CLOSE, ERROR, RESIZE, ChannelProtocol
from unisono.apiserver.nodes import STDERR, STDIN, STDOUT, ContainerTarget, Session, Wanted
from unisono.errors import ApiError, ConfigError, NotFound, Unavailable
from unisono.fleet.jobs.copies import placement_of
from unisono.fleet.jobs.described import kinds_of
from unisono.fleet.jobs.replicas import recorded
from unisono.fleet.jobs.work import KINDS
from unisono.fleet.members.joining import member_config
from unisono.jobkinds.registry import DIVIDED
from unisono.kube.client import Client
from unisono.kube.http import HttpClient
from unisono.kube.kubeconfig import ClusterConfig
from unisono.kube.transport import Transport

if TYPE_CHECKING:
    from aiohttp import ClientWebSocketResponse

# Commands in pods of members: a session on the hub, carried over a WebSocket to the member that runs the pod.

PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
PORT_PROTOCOLS: Final = ("v4.channel.k8s.io",)
_PORT_ERRORS: Final = 1
_PORT_BYTES: Final = 2
_OPEN_SECONDS: Final = 15.0
_MOST_STATUS: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class RemoteEnd:
    """How a command in a member has ended; see `unisono.apiserver.nodes.Ended`."""

    exit_code: int = 0
    problem: str = ""


class MemberSession:
    """The streams of one command; see `unisono.apiserver.nodes.Session`."""

    def __init__(self, socket: ClientWebSocketResponse, protocol: str, wanted: Wanted) -> None:
        self._socket, self._protocol = socket, ChannelProtocol(protocol)
        self._streams: dict[int, asyncio.Queue[bytes]] = {
            number: asyncio.Queue(maxsize=1)
            for number, asked in ((STDOUT, wanted.stdout), (STDERR, wanted.stderr))
            if asked
        }
        self._end: asyncio.Future[RemoteEnd] = asyncio.get_running_loop().create_future()
        self._sending: set[asyncio.Task[None]] = set()
        self._reader = asyncio.create_task(self._read())

    async def read(self, stream: int) -> bytes:
        """See `Session`."""
        queue = self._streams.get(stream)
        return await queue.get() if queue is not None else b""

    async def write(self, data: bytes) -> None:
        """See `Session`."""
        await self._send(self._protocol.encode(STDIN, data))

    def close_stdin(self) -> None:
        """See `Session`; before version 5 of the protocol this cannot be told."""
        if self._protocol.has_close:
            self._later(bytes((CLOSE, STDIN)))

    def resize(self, columns: int, rows: int) -> None:
        """See `Session`."""
        self._later(self._protocol.encode(RESIZE, msgspec.json.encode({"Width": columns, "Height": rows})))

    async def wait(self) -> RemoteEnd:
        """See `Session`."""
        return await self._end

    async def close(self) -> None:
        """See `Session`."""
        for task in (self._reader, *self._sending):
            task.cancel()
        await asyncio.gather(self._reader, *self._sending, return_exceptions=True)
        await self._socket.close()

    def _later(self, data: bytes) -> None:
        task = asyncio.create_task(self._send(data))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send(self, data: bytes) -> None:
        try:
            await self._socket.send_bytes(data)
        except (ConnectionError, OSError):
            return  # the end is told by what reads

    async def _read(self) -> None:
        from aiohttp import WSMsgType

        end: RemoteEnd | None = None
        try:
            async for message in self._socket:
                if message.type is not WSMsgType.BINARY:
                    continue
                frame = self._protocol.decode(bytes(message.data))
                if frame is None or frame.closed:
                    continue
                if frame.channel == ERROR:
                    end = end_of(frame.data[:_MOST_STATUS])
                elif frame.data and (queue := self._streams.get(frame.channel)) is not None:
                    await queue.put(frame.data)
        except (OSError, ValueError) as error:
            end = end or RemoteEnd(problem=f"the connection to the member broke: {error}")
        if not self._end.done():
            self._end.set_result(end or RemoteEnd(problem="the member ended the connection without a word"))
        for queue in self._streams.values():
            await queue.put(b"")


class MemberPort:
    """A connection to a port of a pod in a member; see `unisono.apiserver.nodes.PortStream`.

    Each has a WebSocket of its own, with a channel for data and one for errors. Both begin with the port's number.
    """

    def __init__(self, socket: ClientWebSocketResponse, cluster: str) -> None:
        self._socket, self._cluster = socket, cluster
        self._protocol = ChannelProtocol(socket.protocol or "")
        self._messages = aiter(socket)
        self._greeted: set[int] = set()

    async def read(self) -> bytes:
        """See `PortStream`.

        Raises:
            Unavailable: the member cannot reach the port.
        """
        from aiohttp import WSMsgType

        async for message in self._messages:
            frame = self._protocol.decode(bytes(message.data)) if message.type is WSMsgType.BINARY else None
            if frame is None or frame.channel > _PORT_ERRORS:
                continue
            data = frame.data
            if frame.channel not in self._greeted:
                self._greeted.add(frame.channel)
                data = data[_PORT_BYTES:]
            if data and frame.channel == _PORT_ERRORS:
                raise Unavailable(f"member {self._cluster}: {data[:500].decode(errors='replace')}")
            if data:
                return data
        return b""

    async def write(self, data: bytes) -> None:
        """See `PortStream`."""
        await self._socket.send_bytes(self._protocol.encode(0, data))

    def end_writing(self) -> None:
        """See `PortStream`; the protocol has no words for it."""

    async def close(self) -> None:
        """See `PortStream`."""
        await self._socket.close()


class MemberAccess:
    """Reaches into the pods of one member."""

    def __init__(self, cluster: str, client: HttpClient) -> None:
        self._cluster, self._client = cluster, client

    async def exec(self, target: ContainerTarget, command: list[str], wanted: Wanted) -> Session:
        """See `PodAccess`."""
        return await self._open("exec", target, wanted, [("command", word) for word in command])

    async def attach(self, target: ContainerTarget, wanted: Wanted) -> Session:
        """See `PodAccess`."""
        return await self._open("attach", target, wanted, [])

    async def connect(self, target: ContainerTarget, port: int) -> MemberPort:
        """See `PodAccess`."""
        socket = await self._socket(
            "portforward", target, [("ports", str(port))], PORT_PROTOCOLS, "open no ports of pods"
        )
        return MemberPort(socket, self._cluster)

    async def _open(
        self, verb: str, target: ContainerTarget, wanted: Wanted, more: Sequence[tuple[str, str]]
    ) -> Session:
        asked = {"stdin": wanted.stdin, "stdout": wanted.stdout, "stderr": wanted.stderr, "tty": wanted.tty}
        query = [("container", target.container), *((name, "true") for name, given in asked.items() if given), *more]
        socket = await self._socket(verb, target, query, PROTOCOLS, "run no commands in pods")
        return MemberSession(socket, socket.protocol or "", wanted)

    async def _socket(
        self,
        verb: str,
        target: ContainerTarget,
        query: Sequence[tuple[str, str]],
        protocols: Sequence[str],
        forbidden: str,
    ) -> ClientWebSocketResponse:
        path = f"/api/v1/namespaces/{target.namespace}/pods/{target.pod}/{verb}"
        try:
            async with asyncio.timeout(_OPEN_SECONDS):
                socket: ClientWebSocketResponse = await self._client.web_socket(path, query, protocols)
        except TimeoutError:
            raise Unavailable(f"member {self._cluster} does not answer") from None
        except ApiError as error:
            if error.code == 403:
                raise ApiError(
                    f"member {self._cluster} lets this hub {forbidden}: join it again to renew its rights",
                    code=403,
                    reason="Forbidden",
                ) from None
            raise
        if socket.protocol not in protocols:
            await socket.close()
            raise ApiError(
                f"member {self._cluster} speaks none of {', '.join(protocols)}", code=502, reason="BadGateway"
            )
        return socket


def end_of(text: bytes) -> RemoteEnd:
    """The end that a Status tells."""
    try:
        value: Any = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return RemoteEnd(problem=text.decode(errors="replace")[:500] or "the member told no status")
    if not isinstance(value, Mapping):
        return RemoteEnd(problem="the member told no status")
    if value.get("status") == "Success":
        return RemoteEnd()
    details = value.get("details")
    causes = details.get("causes") if isinstance(details, Mapping) else None
    for cause in causes if isinstance(causes, list) else ():
        code = cause.get("message") if isinstance(cause, Mapping) and cause.get("reason") == "ExitCode" else None
        if isinstance(code, str) and code.isdigit() and len(code) < 6:
            return RemoteEnd(exit_code=int(code))
    return RemoteEnd(problem=str(value.get("message") or "the member told no reason")[:500])


_SECONDS: Final = 10.0
_MOST_NAMES: Final = 8
_LIST_SECONDS: Final = 3.0
_MOST_LISTED: Final = 5000
_MOST_BYTES: Final = 64 * 1024 * 1024
_IDENTITY_NAMESPACE: Final = "default"


class _Pods(msgspec.Struct):
    items: list[dict[str, Any]] = []


@dataclass(slots=True)
class _Reach:
    identity: str
    client: HttpClient


def _client_of(config: ClusterConfig) -> HttpClient:
    return HttpClient(config, transport=Transport(config, most_bytes=_MOST_BYTES))


class MemberPods:
    """Looks for the job that a pod's name begins with, and asks the job's member.

    A pod counts only when its labels say that this hub brought its job, and that is the job: a member's own pods are
    not shown to users of the hub.
    """

    def __init__(self, hub: Client, open_client: Callable[[ClusterConfig], HttpClient] = _client_of) -> None:
        """``hub`` reads the hub's objects with the server's rights, ``open_client`` connects to a member."""
        self._hub, self._open = hub, open_client
        self._reaches: dict[str, _Reach] = {}

    async def find(self, namespace: str, name: str) -> bytes | None:
        """See `RemotePods`."""
        located = await self._search(namespace, name)
        return _named(msgspec.json.decode(located[1]), located[2]) if located is not None else None

    async def listed(self, namespace: str | None, query: Mapping[str, str]) -> tuple[list[bytes], list[str]]:
        """See `RemotePods`."""
        own, silent = await self._uids(namespace)
        if not own:
            return [], silent
        hub = await self._hub.get(NAMESPACES, _IDENTITY_NAMESPACE)
        labels = ",".join(filter(None, (f"{HUB}={hub.metadata.uid or 'hub'}", query.get("labelSelector", ""))))
        asked = {"labelSelector": labels, "limit": str(_MOST_LISTED)}
        if query.get("fieldSelector"):
            asked["fieldSelector"] = query["fieldSelector"]
        path = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"
        clusters = sorted({cluster for clusters in own.values() for cluster in clusters})
        answers = await asyncio.gather(*(self._of_member(cluster, path, asked) for cluster in clusters))
        own_pods = []
        for pods, why in answers:
            own_pods += [pod for uid, pod in pods if uid in own]
            silent += [why] if why else []
        return own_pods, silent

    async def _uids(self, namespace: str | None) -> tuple[dict[str, list[str]], list[str]]:
        """Jobs with their members, and why those of a kind of somebody's own cannot be read."""
        clusters_by_uid: dict[str, list[str]] = {}
        silent: list[str] = []
        described = await self._described()
        for kind in (*KINDS, *DIVIDED, *described):
            try:
                jobs = (await self._hub.list(kind, namespace)).items
            except ApiError as error:
                if kind not in described:
                    raise
                silent.append(f"{kind.resource} cannot be read: {error}")
                continue
            for job in jobs:
                if clusters := clusters_of(job):
                    clusters_by_uid[job.metadata.uid or ""] = clusters
        return clusters_by_uid, silent

    async def _described(self) -> list[Kind[Any]]:
        """Kinds that the hub sends to members by a table."""
        return [each.kind for each in kinds_of((await self._hub.list(CUSTOM_RESOURCE_DEFINITIONS)).items).values()]

    async def _of_member(
        self, cluster: str, path: str, asked: Mapping[str, str]
    ) -> tuple[list[tuple[str, bytes]], str]:
        """Pods of one member by uid of their jobs, and why it does not tell; one that is slow is not waited for."""
        try:
            async with asyncio.timeout(_LIST_SECONDS):
                client = await self._client(cluster)
                status, _, body = await client.request("GET", path, params=dict(asked))
            if status != 200:
                return [], f"member {cluster} does not show its pods: it answers {status}"
            items = msgspec.json.decode(body, type=_Pods).items
        except (TimeoutError, OSError, ApiError, msgspec.MsgspecError) as error:
            return [], f"member {cluster} does not show its pods: {error or 'it is slow'}"
        return [(_labels(item).get(ORIGIN_UID, ""), _named(item, cluster)) for item in items], ""

    async def reach(self, namespace: str, name: str) -> tuple[bytes, MemberAccess] | None:
        """See `RemotePods`."""
        located = await self._search(namespace, name)
        return (located[1], MemberAccess(located[2], located[0])) if located is not None else None

    async def log(self, namespace: str, name: str, query: Mapping[str, str]) -> AsyncIterator[bytes]:
        """See `RemotePods`."""
        located = await self._search(namespace, name)
        if located is None:
            raise NotFound(f'pods "{name}" not found')
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/log"
        async with aclosing(located[0].stream(path, dict(query), accept="*/*")) as chunks:
            async for chunk in chunks:
                yield chunk

    async def close(self) -> None:
        """End all connections."""
        for reach in self._reaches.values():
            await reach.client.close()
        self._reaches.clear()

    async def _search(self, namespace: str, name: str) -> tuple[HttpClient, bytes, str] | None:
        for job in await self._jobs(namespace, name):
            for cluster in clusters_of(job):
                client = await self._client(cluster)
                pod = await self._pod(client, cluster, namespace, name)
                if pod is not None and await self._is_of(pod, job):
                    return client, pod, cluster
        return None

    async def _jobs(self, namespace: str, pod: str) -> list[Object]:
        """Jobs of the namespace whose name is a beginning of the pod's, the longest first."""
        words = pod.split("-")
        names = ["-".join(words[:count]) for count in range(len(words) - 1, 0, -1)][:_MOST_NAMES]
        jobs: list[Object] = []
        described = await self._described()
        for name in names:
            for kind in (*KINDS, *DIVIDED, *described):
                try:
                    jobs.append(await self._hub.get(kind, name, namespace))
                except NotFound:
                    continue
                except ApiError:
                    if kind not in described:  # one of somebody's own that cannot be read hides no other's pods
                        raise
        return jobs

    async def _pod(self, client: HttpClient, cluster: str, namespace: str, name: str) -> bytes | None:
        try:
            async with asyncio.timeout(_SECONDS):
                status, _, body = await client.request("GET", f"/api/v1/namespaces/{namespace}/pods/{name}")
        except (TimeoutError, OSError) as error:
            raise Unavailable(f"member {cluster} does not answer: {error or 'it is slow'}") from None
        if status == 404:
            return None
        if status != 200:
            raise ApiError(f"member {cluster} does not show pod {namespace}/{name}", code=502, reason="BadGateway")
        return body

    async def _is_of(self, pod: bytes, job: Object) -> bool:
        hub = await self._hub.get(NAMESPACES, _IDENTITY_NAMESPACE)
        meta: Any = msgspec.json.decode(pod).get("metadata") or {}
        labels = meta.get("labels") or {}
        return labels.get(ORIGIN_UID) == job.metadata.uid and labels.get(HUB) == (hub.metadata.uid or "hub")

    async def _client(self, cluster: str) -> HttpClient:
        """The connection to a member, opened again when its Secret has changed."""
        candidates = [each for each in (await self._hub.list(ATTACHED_CLUSTERS)).items if each.metadata.name == cluster]
        if not candidates:
            raise Unavailable(f"member {cluster} has left")
        attached = min(candidates, key=lambda each: (each.metadata.creation_timestamp or "", each.key))
        try:
            secret = await self._hub.get(SECRETS, attached.spec.secret.name or "", attached.metadata.namespace)
            identity = f"{secret.metadata.uid}/{secret.metadata.resource_version}"
            cached = self._reaches.get(cluster)
            if cached is not None and cached.identity == identity:
                return cached.client
            data = {key: str(value) for key, value in (secret.data or {}).items()}
            config = member_config(data, attached.spec.secret.key, f"Secret {secret.key}")
        except (NotFound, ConfigError) as error:
            raise Unavailable(f"member {cluster} cannot be reached: {error}") from None
        if cached is not None:
            await cached.client.close()
        self._reaches[cluster] = _Reach(identity, self._open(config))
        return self._reaches[cluster].client


def clusters_of(job: Object) -> list[str]:
    """Members that have pods of a job: that of its placement, or all over which it is divided."""
    cluster = placement_of(job).cluster
    return [cluster] if cluster else sorted(recorded(job))


def _labels(pod: dict[str, Any]) -> dict[str, str]:
    labels = (pod.get("metadata") or {}).get("labels")
    return labels if isinstance(labels, dict) else {}


def _named(pod: dict[str, Any], cluster: str) -> bytes:
    """A member's pod as the hub shows it: its label names the member."""
    meta = {**(pod.get("metadata") or {}), "labels": {**_labels(pod), CLUSTER: cluster}}
    return msgspec.json.encode({"apiVersion": "v1", "kind": "Pod", **pod, "metadata": meta})
