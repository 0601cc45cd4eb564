"""Requests to the pods of one service: they wait for a free pod and are forwarded; how many pods that takes."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from unisono.api import keys
from unisono.api.keda import number
from unisono.api.knative import MOST_REPLICAS, KnativeService, stated
from unisono.api.times import duration_or_none

# How many pods a service needs by the rules of Knative's autoscaler, and how many requests are under way. Pure.

_CONCURRENCY, _RATE = 100.0, 200.0
_UTILIZATION = 70.0
_WINDOW, _SHORTEST_WINDOW = 60.0, 6.0
_PANIC_PART, _PANIC_LOAD = 0.1, 2.0
_FASTEST_UP, _FASTEST_DOWN = 1000.0, 2.0
_LEAST_TARGET = 0.01
LONGEST_WINDOW = 3600.0
"""What is remembered, in seconds."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What a service asks for.

    Attributes:
        target: load of one pod: requests at a time, or per second.
        by_rate: the target is a number of requests per second.
        window: seconds over which the load is averaged.
        least, most: bounds of the number of pods.
        initial: pods of a revision that was never ready.
        retention: seconds for which the last pod stays longer than it must.
    """

    target: float
    by_rate: bool = False
    window: float = _WINDOW
    least: int = 0
    most: int = MOST_REPLICAS
    initial: int = 1
    retention: float = 0.0


def rules_of(service: KnativeService) -> Rules:
    """As annotations of the revision and ``containerConcurrency`` say; what cannot be read counts as not said."""
    template = service.spec.template
    notes, limit = template.metadata.annotations or {}, template.spec.container_concurrency or 0
    by_rate = notes.get(keys.KNATIVE_METRIC) == "rps"
    used = next((number(notes[key]) for key in keys.KNATIVE_UTILIZATION if key in notes), None) or _UTILIZATION
    target = number(notes.get(keys.KNATIVE_TARGET, "")) or (_RATE if by_rate else limit or _CONCURRENCY)
    if limit and not by_rate:
        target = min(target, limit)
    window = duration_or_none(notes.get(keys.KNATIVE_WINDOW)) or _WINDOW
    retention = next((duration_or_none(notes[key]) for key in keys.KNATIVE_RETENTION if key in notes), None) or 0.0
    least = stated(notes, keys.KNATIVE_LEAST, 0)
    return Rules(
        target=max(target * min(used, 100.0) / 100.0, _LEAST_TARGET),
        by_rate=by_rate,
        window=min(max(window, _SHORTEST_WINDOW), LONGEST_WINDOW),
        least=least,
        most=max(stated(notes, keys.KNATIVE_MOST, MOST_REPLICAS), least, 1),
        initial=stated(notes, keys.KNATIVE_INITIAL, 1),
        retention=max(0.0, retention),
    )


class Scaler:
    """Decides for one service; remembers whether there is a panic."""

    def __init__(self) -> None:
        self._panic_at: float | None = None
        self._most_in_panic = 0

    @property
    def panics(self) -> bool:
        """Whether pods are only added."""
        return self._panic_at is not None

    def wanted(self, now: float, load: Load, rules: Rules, ready: int, *, proven: bool) -> int:
        """The number of pods.

        Args:
            now: monotonic time in seconds.
            load: the service's.
            rules: the service's.
            ready: pods that take requests.
            proven: its present revision was ready once; before that it keeps its first pods.
        """
        average = load.rate if rules.by_rate else load.concurrency
        long = math.ceil(average(now, rules.window) / rules.target - 1e-9)
        short = math.ceil(average(now, rules.window * _PANIC_PART) / rules.target - 1e-9)
        if short >= _PANIC_LOAD * max(ready, 1):
            if self._panic_at is None:
                self._most_in_panic = 0
            self._panic_at = now
        elif self._panic_at is not None and now >= self._panic_at + rules.window:
            self._panic_at = None
        desired = long
        if self._panic_at is not None:
            self._most_in_panic = max(self._most_in_panic, short, ready)
            desired = self._most_in_panic
        desired = min(desired, math.ceil(max(ready, 1) * _FASTEST_UP))
        desired = max(desired, math.floor(ready / _FASTEST_DOWN))
        if load.count or load.idle(now) < rules.window + rules.retention:
            desired = max(desired, 1)
        if not proven:
            desired = max(desired, rules.initial)
        return min(max(desired, rules.least), rules.most)


class Load:
    """The requests of one service.

    Args:
        now: monotonic time in seconds, as in all methods.
    """

    def __init__(self, now: float) -> None:
        self.count = 0
        self._born = self._last = self._busy = now
        # Of each second that is not over or was not idle: its number, request seconds, and requests that began.
        self._seconds: deque[list[float]] = deque()

    def begin(self, now: float) -> None:
        """A request came."""
        self._advance(now)
        self._second(int(now))[2] += 1
        self.count += 1

    def end(self, now: float) -> None:
        """One is answered."""
        self._advance(now)
        self.count -= 1

    def idle(self, now: float) -> float:
        """For how many seconds no request has been there."""
        return 0.0 if self.count else now - self._busy

    def concurrency(self, now: float, window: float) -> float:
        """Requests under way at a time, on average over the last seconds, or since there is a service."""
        return self._sum(now, window, 1)

    def rate(self, now: float, window: float) -> float:
        """Requests that came per second, on average over the last seconds, or since there is a service."""
        return self._sum(now, window, 2)

    def _sum(self, now: float, window: float, field: int) -> float:
        self._advance(now)
        start = now - window
        # Of the second in which the window begins, what is inside of it.
        total = sum(each[field] * min(1.0, max(0.0, each[0] + 1.0 - start)) for each in self._seconds)
        return total / max(1.0, min(window, now - self._born))

    def _advance(self, now: float) -> None:
        start = max(self._last, float(int(now - LONGEST_WINDOW)))
        while self.count and start < now:
            end = min(now, int(start) + 1.0)
            self._second(int(start))[1] += self.count * (end - start)
            start = end
        if self.count:
            self._busy = now
        self._last = now
        while self._seconds and self._seconds[0][0] + 1.0 < now - LONGEST_WINDOW:
            self._seconds.popleft()

    def _second(self, number: int) -> list[float]:
        if not self._seconds or self._seconds[-1][0] != number:
            self._seconds.append([number, 0.0, 0.0])
        return self._seconds[-1]


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
