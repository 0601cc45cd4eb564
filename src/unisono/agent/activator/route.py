"""The way of requests to the pods of one service: they wait for a pod that is free, and are forwarded as they come."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from unisono.agent.activator.scaling import Load

MOST_HELD = 1_000
"""Requests of one service that wait for a pod; more are refused."""
_LONGEST_WAIT = 1.0
# A pod that is ready need not listen yet, when nothing probes it.
_REFUSED_SECONDS = 0.1
_CONNECT_SECONDS = 5.0
_CHUNK = 64 * 1024
_HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "expect",
    }
)


def open_session() -> aiohttp.ClientSession:
    """Connections to pods: nothing is added to a request, and nothing is read into an answer."""
    return aiohttp.ClientSession(
        auto_decompress=False,
        connector=aiohttp.TCPConnector(limit=0),
        cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
        trust_env=False,
    )


class Route:
    """One service.

    Args:
        name: what answers of this route call it.
        clock: monotonic time in seconds.
        session: connections to pods.
        wake: called for a request that finds no pod.

    Attributes:
        load: its requests.
        limit: requests that one pod takes at a time; 0 for any number.
        timeout: seconds in which a response must begin, waiting included.

    """

    def __init__(
        self, name: str, clock: Callable[[], float], session: aiohttp.ClientSession, wake: Callable[[], None]
    ) -> None:
        self._name, self._clock, self._session, self._wake = name, clock, session, wake
        self.load = Load(clock())
        self.limit, self.timeout = 0, 300.0
        self._held = 0
        self._pods: dict[str, tuple[str, int]] = {}
        self._busy: dict[str, int] = {}
        self._refused: dict[str, float] = {}
        self._changed = asyncio.Event()

    @property
    def ready(self) -> int:
        """How many pods take requests."""
        return len(self._pods)

    def lead_to(self, pods: Mapping[str, tuple[str, int]]) -> None:
        """From now on these pods take requests: address and port by uid; what is under way goes on."""
        if pods != self._pods:
            self._pods = dict(pods)
            self._refused = {uid: at for uid, at in self._refused.items() if uid in pods}
            self._tell()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Forward one request; it is held while no pod is free."""
        if "upgrade" in request.headers.get("Connection", "").lower():
            return self._problem(501, "this address forwards plain HTTP/1.1 only")
        if self._held >= MOST_HELD:
            return self._problem(503, f"{MOST_HELD} requests wait already", {"Retry-After": "1"})
        self.load.begin(self._clock())
        try:
            if not self._pods:
                self._wake()
            return await self._forwarded(request)
        finally:
            self.load.end(self._clock())

    async def _forwarded(self, request: web.Request) -> web.StreamResponse:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.timeout
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    uid = await self._free_pod(request)
            except TimeoutError:
                return self._problem(504, f"no pod took the request within {self.timeout:g} s")
            host, port = self._pods[uid]
            async with self._taken(uid):
                try:
                    async with asyncio.timeout_at(deadline) as limit:
                        response = await self._send(request, f"http://{host}:{port}{request.raw_path}")
                        # It has begun to answer: how long that takes is its own affair.
                        limit.reschedule(None)
                        return await _passed_on(request, response)
                except aiohttp.ClientConnectorError:
                    # Nothing was sent yet, so that another try is no second request.
                    self._refused[uid] = loop.time() + _REFUSED_SECONDS
                except TimeoutError:
                    return self._problem(504, f"its pod did not begin to answer within {self.timeout:g} s")
                except aiohttp.ClientError as error:
                    return self._problem(502, f"its pod ended the connection: {type(error).__name__}")

    async def _send(self, request: web.Request, url: str) -> aiohttp.ClientResponse:
        headers = _kept(request.headers)
        peer = request.remote or ""
        headers["X-Forwarded-For"] = ", ".join(filter(None, (request.headers.get("X-Forwarded-For"), peer)))
        headers.setdefault("X-Forwarded-Proto", "http")
        body = request.content if request.can_read_body else None
        return await self._session.request(
            request.method, URL(url, encoded=True), headers=headers, data=body, allow_redirects=False
        )

    async def _free_pod(self, request: web.Request) -> str:
        """The pod with the fewest requests under way that may take one more.

        Raises:
            web.HTTPRequestTimeout: who asked is gone.

        """
        loop = asyncio.get_running_loop()
        self._held += 1
        try:
            while True:
                now = loop.time()
                free = [
                    uid
                    for uid in self._pods
                    if self._refused.get(uid, 0.0) <= now and (not self.limit or self._busy.get(uid, 0) < self.limit)
                ]
                if free:
                    return min(free, key=lambda uid: self._busy.get(uid, 0))
                if request.transport is None or request.transport.is_closing():
                    raise web.HTTPRequestTimeout
                waits = [at - now for uid, at in self._refused.items() if uid in self._pods and at > now]
                await self._change(min([_LONGEST_WAIT, *waits]))
        finally:
            self._held -= 1

    @contextlib.asynccontextmanager
    async def _taken(self, uid: str) -> AsyncIterator[None]:
        self._busy[uid] = self._busy.get(uid, 0) + 1
        try:
            yield
        finally:
            self._busy[uid] -= 1
            if not self._busy[uid]:
                del self._busy[uid]
            self._tell()

    async def _change(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    def _tell(self) -> None:
        # Those who wait have this event; later ones wait for the next.
        self._changed.set()
        self._changed = asyncio.Event()

    def _problem(self, status: int, text: str, headers: Mapping[str, str] | None = None) -> web.Response:
        return web.Response(status=status, text=f"{self._name}: {text}\n", headers=headers)


async def _passed_on(request: web.Request, response: aiohttp.ClientResponse) -> web.StreamResponse:
    """Stream a pod's answer to the client."""
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(response.close)
        answer = web.StreamResponse(status=response.status, reason=response.reason, headers=_kept(response.headers))
        await answer.prepare(request)
        async for part in response.content.iter_chunked(_CHUNK):
            await answer.write(part)
        await answer.write_eof()
        stack.pop_all()
    response.release()
    return answer


def _kept(headers: Mapping[str, str]) -> CIMultiDict[str]:
    """Without what is about one connection alone."""
    named = {each.strip().lower() for each in headers.get("Connection", "").split(",")}
    pairs: Iterable[tuple[str, str]] = headers.items()
    return CIMultiDict((name, value) for name, value in pairs if name.lower() not in _HOP_BY_HOP | named)
