"""Commands in pods of members: a session on the hub, carried over a WebSocket to the member that runs the pod."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from unisono.apiserver.http.wires import CLOSE, ERROR, RESIZE, ChannelProtocol
from unisono.apiserver.nodes import STDERR, STDIN, STDOUT, ContainerTarget, Session, Wanted
from unisono.errors import ApiError, Unavailable

if TYPE_CHECKING:
    from aiohttp import ClientWebSocketResponse

    from unisono.kube.http import HttpClient

PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
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
                told = self._protocol.decode(bytes(message.data))
                if told is None or told.closed:
                    continue
                if told.channel == ERROR:
                    end = end_of(told.data[:_MOST_STATUS])
                elif told.data and (queue := self._streams.get(told.channel)) is not None:
                    await queue.put(told.data)
        except (OSError, ValueError) as error:
            end = end or RemoteEnd(problem=f"the connection to the member broke: {error}")
        if not self._end.done():
            self._end.set_result(end or RemoteEnd(problem="the member ended the connection without a word"))
        for queue in self._streams.values():
            await queue.put(b"")


class MemberAccess:
    """Reaches into the pods of one member; of `unisono.apiserver.nodes.PodAccess` what a hub relays."""

    def __init__(self, cluster: str, client: HttpClient) -> None:
        self._cluster, self._client = cluster, client

    async def exec(self, target: ContainerTarget, command: list[str], wanted: Wanted) -> Session:
        """See `PodAccess`."""
        return await self._open("exec", target, wanted, [("command", word) for word in command])

    async def attach(self, target: ContainerTarget, wanted: Wanted) -> Session:
        """See `PodAccess`."""
        return await self._open("attach", target, wanted, [])

    async def _open(
        self, verb: str, target: ContainerTarget, wanted: Wanted, more: Sequence[tuple[str, str]]
    ) -> Session:
        asked = {"stdin": wanted.stdin, "stdout": wanted.stdout, "stderr": wanted.stderr, "tty": wanted.tty}
        query = [("container", target.container), *((name, "true") for name, given in asked.items() if given), *more]
        path = f"/api/v1/namespaces/{target.namespace}/pods/{target.pod}/{verb}"
        try:
            async with asyncio.timeout(_OPEN_SECONDS):
                socket = await self._client.web_socket(path, query, PROTOCOLS)
        except TimeoutError:
            raise Unavailable(f"member {self._cluster} does not answer") from None
        except ApiError as error:
            if error.code == 403:
                raise ApiError(
                    f"member {self._cluster} lets this hub run no commands in pods: join it again to renew its rights",
                    code=403,
                    reason="Forbidden",
                ) from None
            raise
        if socket.protocol not in PROTOCOLS:
            await socket.close()
            raise ApiError(
                f"member {self._cluster} speaks none of {', '.join(PROTOCOLS)}", code=502, reason="BadGateway"
            )
        return MemberSession(socket, socket.protocol, wanted)


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
