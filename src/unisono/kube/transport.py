"""HTTP to one API server: connections, TLS, credentials, and retries where nothing was done yet.

Answers are returned whatever their status; only a server that cannot be reached raises. ``kube.http`` makes
typed calls of it, the command line uses it as it is.
"""

from __future__ import annotations

import asyncio
import io
import ipaddress
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from unisono import __version__
from unisono.errors import ApiError, Unavailable, from_status, system_reason
from unisono.kube import auth
from unisono.kube.auth import credentials
from unisono.kube.clock import SYSTEM_CLOCK, Clock
from unisono.kube.kubeconfig import ClusterConfig
from unisono.kube.pace import Backoff, Flow, WritePace

if TYPE_CHECKING:
    # Imported at the first connection: it takes longer than most commands that never open one.
    import aiohttp

JSON = "application/json"
Params = Mapping[str, str]
Answer = tuple[int, Mapping[str, str], bytes]
Observer = Callable[[str, str, int, float | None], None]
"""Called after each try with method, path, status (0: no answer) and seconds (None for streams)."""

_CHUNK = 1 << 16
# A larger body is written piece by piece, with turns of the event loop in between.
_LARGE_BODY = 1 << 20
# Of a WebSocket.
_LARGE_MESSAGE = 4 << 20
# Answers that say "not now" and promise that nothing was done.
_BUSY = frozenset({429, 503})
# Requests that never wait for others of this client: a leader that cannot renew its lease is none any more.
_PASS = ("/healthz", "/livez", "/readyz", "/version")
_LEASES = "/apis/coordination.k8s.io/"


class Transport:
    """Requests to the server of ``config``; belongs to the event loop of its first request."""

    def __init__(
        self,
        config: ClusterConfig,
        *,
        clock: Clock = SYSTEM_CLOCK,
        timeout: float = 60.0,
        max_wait: float = 15.0,
        connections: int = 256,
        backoff: Backoff | None = None,
        observer: Observer | None = None,
        socket: Path | None = None,
        program: str = "unisono",
        most_bytes: int | None = None,
    ) -> None:
        """``timeout`` bounds one request, ``max_wait`` all waiting for a busy server during one call
        (seconds); ``observer`` hears of every try. ``socket`` is a socket of this machine to connect to instead of the
        host in the configuration; ``program`` is what the server takes for the name of the writer.
        ``most_bytes`` bounds one answer, for servers that are not trusted.
        """
        self.config = config
        self.clock = clock
        # By group and plural, of kinds that the server does not serve in the version that we prefer.
        self.versions: dict[tuple[str, str], str] = {}
        self._timeout, self._max_wait, self._connections = timeout, max_wait, connections
        self._backoff = backoff or Backoff(base=0.1, cap=5.0)
        self._observe = observer or _ignore
        self._socket, self._program, self._most_bytes = socket, program, most_bytes
        self.flow = Flow(clock, connections)
        self.pace = WritePace(clock)
        self._credentials = credentials(config, clock)
        self._tls = auth.context(config)
        self._session: aiohttp.ClientSession | None = None
        self._certificate: tuple[bytes, bytes] | None = None
        self._retired: list[aiohttp.ClientSession] = []
        self._ending: set[asyncio.Future[None]] = set()
        self._closed = False

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        params: Params | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        timeout: float | None = None,
        max_wait: float | None = None,
        more: Sequence[tuple[str, str]] = (),
    ) -> Answer:
        """One call: status, headers and body of the answer; ``more`` are further headers of the request.

        After a 429 fewer requests of this transport are under way at a time (`kube.flow`).
        A busy server (429, 503) is asked again after its ``Retry-After`` or a back-off, for ``max_wait``
        seconds in all (None: the transport's); then its answer is returned. A 401 is tried once more where
        credentials can be renewed.

        Raises:
            Unavailable: the server cannot be reached or broke off.
        """
        waited, tries, renewed = 0.0, 0, False
        longest = self._max_wait if max_wait is None else max_wait
        while True:
            headers = [*await self._headers(accept, content_type if body is not None else None), *more]
            started, status = self.clock.monotonic(), 0
            try:
                with nullcontext() if method == "GET" else self.pace.write():
                    async with self._turn(path):
                        limit = timeout or self._timeout
                        status, answered, data = await self._exchange(method, path, params, body, headers, limit)
                        self._note_pressure(path, status)
            finally:
                self._observe(method, path, status, self.clock.monotonic() - started)
            if status == 401 and not renewed and self._credentials.refused():
                renewed = True
                continue
            if status not in _BUSY:
                return status, answered, data
            tries += 1
            pause = _retry_after(answered) or self._backoff.delay(tries)
            if waited + pause > longest:
                return status, answered, data
            waited += pause
            await self.clock.sleep(pause)

    async def _exchange(
        self,
        method: str,
        path: str,
        params: Params | None,
        body: bytes | None,
        headers: list[tuple[str, str]],
        seconds: float,
    ) -> Answer:
        """One try of a call.

        Raises:
            Unavailable: the server cannot be reached or broke off.
        """
        from aiohttp import ClientTimeout

        async with self._send(method, path, params, body, headers, ClientTimeout(total=seconds)) as response:
            return response.status, response.headers, await self._body(response)

    async def _body(self, response: aiohttp.ClientResponse) -> bytes:
        if self._most_bytes is None:
            return await response.read()
        parts: list[bytes] = []
        left = self._most_bytes
        async for chunk in response.content.iter_chunked(_CHUNK):
            left -= len(chunk)
            if left < 0:
                raise self._unreachable(f"its answer is larger than {self._most_bytes} bytes")
            parts.append(chunk)
        return b"".join(parts)

    def _turn(self, path: str) -> AbstractAsyncContextManager[None]:
        urgent = path.startswith(_LEASES) or path in _PASS
        return nullcontext() if urgent else self.flow.slot()

    def _note_pressure(self, path: str, status: int) -> None:
        # A refused eviction tells of a disruption budget and not of the server.
        if status == 429 and not path.endswith("/eviction"):
            self.flow.refused()
        else:
            self.flow.answered()

    async def stream(
        self, path: str, params: Params | None = None, *, accept: str = JSON, timeout: float | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Body of a GET as it comes, for as long as the server sends (``timeout`` None: for ever).

        Raises:
            ApiError: the server refused.
            Unavailable: it cannot be reached, or the connection broke.
        """
        from aiohttp import ClientTimeout

        limit = ClientTimeout(total=timeout, sock_connect=self._timeout)
        headers = await self._headers(accept, None)
        async with self._send("GET", path, params, None, headers, limit) as response:
            self._observe("WATCH" if params and "watch" in params else "GET", path, response.status, None)
            if response.status >= 400:
                raise error_of(response.status, response.headers, await self._body(response))
            async for chunk in response.content.iter_chunked(_CHUNK):
                yield chunk

    async def web_socket(
        self, path: str, params: Sequence[tuple[str, str]], protocols: Sequence[str]
    ) -> aiohttp.ClientWebSocketResponse:
        """A WebSocket to the server, which has chosen one of the protocols or none; the caller closes it.

        Raises:
            ApiError: the server refused.
            Unavailable: it cannot be reached.
        """
        import aiohttp
        from yarl import URL

        headers = await self._headers("*/*", None)
        try:
            return await self._open().ws_connect(
                URL(self.config.server + path).with_query(list(params)),
                protocols=protocols,
                headers=headers,
                proxy=self.config.proxy,
                server_hostname=self.config.tls_server_name,
                max_msg_size=_LARGE_MESSAGE,
            )
        except aiohttp.WSServerHandshakeError as error:
            raise error_of(error.status, error.headers or {}, b"") from None
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._unreachable(str(error) or type(error).__name__) from error

    async def close(self) -> None:
        """Close all connections, and return when they are; later requests get ``Unavailable``."""
        for session in (self._session, *self._retired):
            if session is not None:
                if session.connector is not None:
                    # The answer to the end of TLS is not waited for: the event loop may be gone before it comes.
                    await session.connector.close(abort_ssl=True)
                await session.close()
        self._session, self._retired, self._closed = None, [], True
        if self._ending:
            await asyncio.wait(self._ending)

    @asynccontextmanager
    async def _send(
        self,
        method: str,
        path: str,
        params: Params | None,
        body: bytes | None,
        headers: list[tuple[str, str]],
        timeout: aiohttp.ClientTimeout,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        import aiohttp
        from yarl import URL

        session = self._open()
        try:
            async with session.request(
                method,
                URL(self.config.server + path),
                params=params,
                data=io.BytesIO(body) if body is not None and len(body) > _LARGE_BODY else body,
                headers=headers,
                timeout=timeout,
                proxy=self.config.proxy,
                server_hostname=self.config.tls_server_name,
                allow_redirects=False,
            ) as response:
                try:
                    yield response
                finally:
                    self._cut_off(response)
        except aiohttp.ClientConnectorCertificateError as error:
            raise self._unreachable(f"its certificate is not trusted ({error.certificate_error})") from error
        except aiohttp.ClientConnectorError as error:
            raise self._unreachable(system_reason(error.os_error)) from error
        except TimeoutError as error:
            raise self._unreachable("it gave no answer in time") from error
        except (aiohttp.ClientError, OSError) as error:
            raise self._unreachable(str(error) or type(error).__name__) from error

    def _cut_off(self, response: aiohttp.ClientResponse) -> None:
        """End the connection of an answer that is not read to its end, and wait for no answer to the end of TLS."""
        connection = response.connection
        if connection is None or connection.protocol is None or connection.transport is None:
            return
        ended = connection.protocol.closed
        if ended is not None:
            self._ending.add(ended)
            ended.add_done_callback(self._ended)
        connection.transport.abort()

    def _ended(self, connection: asyncio.Future[None]) -> None:
        self._ending.discard(connection)
        if not connection.cancelled():
            connection.exception()  # its end does not matter, and asyncio complains of errors that are not retrieved

    def _open(self) -> aiohttp.ClientSession:
        if self._closed:
            raise Unavailable(f"The client of {self.config.server} has been closed.")
        if self._session is None:
            from aiohttp import ClientSession

            local = is_loopback(self.config.server)
            connector = self._connector()
            # Compressing for a server on this machine costs time and saves nothing; and a proxy set for the
            # outer world must not be asked for it.
            encoding = {"Accept-Encoding": "identity"} if local else {}
            self._session = ClientSession(
                connector=connector,
                headers={"User-Agent": f"{self._program}/{__version__}", **encoding},
                trust_env=not local,
            )
        return self._session

    def _connector(self) -> aiohttp.BaseConnector:
        from aiohttp import TCPConnector, UnixConnector

        if self._socket is not None:
            return UnixConnector(path=str(self._socket), limit=self._connections)
        return TCPConnector(ssl=self._tls if self._tls is not None else True, limit=self._connections)

    async def authorization(self) -> str | None:
        """Value of the Authorization header with which the server would be asked now; None for none."""
        return await self._credentials.authorization()

    async def _headers(self, accept: str, content_type: str | None) -> list[tuple[str, str]]:
        headers = [("Accept", accept), *self.config.impersonate]
        if content_type is not None:
            headers.append(("Content-Type", content_type))
        authorization = await self._credentials.authorization()
        self._adopt(self._credentials.certificate)
        if authorization is not None:
            headers.append(("Authorization", authorization))
        return headers

    def _adopt(self, certificate: tuple[bytes, bytes] | None) -> None:
        """New connections show the certificate that the credentials have now; those under way end as they are."""
        if certificate is self._certificate:
            return
        self._certificate = certificate
        pair = certificate or (self.config.client_certificate, self.config.client_key)
        self._tls = auth.context(replace(self.config, client_certificate=pair[0], client_key=pair[1]))
        if self._session is not None:
            self._retired.append(self._session)
            self._session = None

    def _unreachable(self, why: str) -> Unavailable:
        return Unavailable(f"The API server at {self.config.server} cannot be reached: {why}.")


def error_of(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """The error that an answer with ``status`` of 400 or more means; bodies that are no Status are quoted."""
    try:
        value: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        value = None
    if not isinstance(value, dict) or value.get("kind") != "Status":
        text = body[:200].decode(errors="replace").strip()
        value = {"message": text or f"the server answered {status}", "code": status}
        value["reason"] = {404: "NotFound", 409: "Conflict", 410: "Expired", 429: "TooManyRequests"}.get(status, "")
    error = from_status(value, status)
    if isinstance(error, Unavailable) and error.retry_after is None:
        error.retry_after = _retry_after(headers)
    return error


def _retry_after(headers: Mapping[str, str]) -> float | None:
    try:
        return max(0.0, float(headers.get("Retry-After", "")))
    except ValueError:
        return None


def _ignore(method: str, path: str, status: int, seconds: float | None) -> None:
    """Do nothing."""


def is_loopback(server: str) -> bool:
    """Whether a server's URL names this machine."""
    host = urlsplit(server).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
