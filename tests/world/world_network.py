"""What lies between a process and the API: requests that come late, fail, or lose their answer, and watches that break.

A request is carried out by the server as a task of its own: it goes on when the process that sent it dies. No request
is under way for longer than ``LONGEST``, as the margin between a leader's deadline and its lease supposes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol

from world_loop import PROCESS

from unisono.apiserver.local import LocalClient
from unisono.errors import ApiError, Conflict, Unavailable
from unisono.kube.client import Listing, WatchEvent
from unisono.kube.pace import WritePace

LONGEST = 3.0
_UNREACHABLE = "connection refused"


@dataclass(slots=True)
class Weather:
    """What the network and the server do to requests.

    Attributes:
        trouble: share of the requests with which something goes wrong.
        cutting: share of the events of watches after which the stream ends.
        slowest: longest way of a request or an answer in seconds.
        often: whether most ways are about that long, and not a few.
        lag: longest way of an event of a watch in seconds; events stay in order.
        slowed: beginning of the names of processes of which requests are ``often`` slow and events late.
        parted: names of processes that reach nobody.
        refusals: by verb, the share of the requests that fail, and how: ``busy`` and ``conflict`` are not carried out,
            ``lost`` is.

    """

    trouble: float = 0.0
    cutting: float = 0.0
    slowest: float = 0.02
    often: bool = False
    lag: float = 0.0
    slowed: str = ""
    parted: frozenset[str] = frozenset()
    refusals: dict[str, tuple[float, str]] = field(default_factory=dict)


class Server(Protocol):
    """The API as processes reach it."""

    weather: Weather
    draw: Random

    def local(self, manager: str) -> LocalClient | None:
        """A client in the server's process, None while it is down."""
        ...

    def serve(self, work: Awaitable[Any]) -> asyncio.Task[Any]:
        """Run a request; it dies with the server."""
        ...

    def is_paused(self, process: str) -> bool:
        """Whether a process stands still."""
        ...

    def sent(self, process: str, verb: str, what: str) -> None:
        """A request reaches the server."""
        ...

    def acknowledged(self, process: str, verb: str, answer: Any) -> None:
        """A process was told that its write is done."""
        ...


class Wire:
    """A ``kube.client.Client`` of one life of one process."""

    def __init__(self, server: Server, process: str, manager: str, clock: Any) -> None:
        self._server, self.process, self._manager = server, process, manager
        self._order = 0
        self._open: dict[int, asyncio.Queue[Any]] = {}
        self.dead = False
        self._time = clock.monotonic
        self.pace = WritePace(clock)

    def cut(self) -> None:
        """Break every watch."""
        for stream in list(self._open.values()):
            stream.put_nowait((0.0, ConnectionResetError("connection reset")))

    # ---- requests

    async def get(self, kind: Any, name: str, namespace: str | None = None) -> Any:
        """Read one object."""
        return await self._call("get", f"{kind.plural} {namespace}/{name}", lambda c: c.get(kind, name, namespace))

    async def list(
        self, kind: Any, namespace: str | None = None, *, label_selector: str = "", field_selector: str = ""
    ) -> Listing[Any]:
        """Read all objects of a kind."""
        answer: Listing[Any] = await self._call(
            "list",
            kind.plural,
            lambda c: c.list(kind, namespace, label_selector=label_selector, field_selector=field_selector),
        )
        return answer

    async def create(self, kind: Any, obj: Any, *, dry_run: bool = False) -> Any:
        """Create."""
        what = f"{kind.plural} {obj.metadata.namespace}/{obj.metadata.name}"
        with self.pace.write():
            return await self._call("create", what, lambda c: c.create(kind, obj, dry_run=dry_run))

    async def patch(
        self,
        kind: Any,
        name: str,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        namespace: str | None = None,
        subresource: str | None = None,
        patch_type: Any = "merge",
    ) -> Any:
        """Patch."""
        with self.pace.write():
            return await self._call(
                "patch",
                f"{kind.plural} {namespace}/{name}",
                lambda c: c.patch(
                    kind, name, patch, namespace=namespace, subresource=subresource, patch_type=patch_type
                ),
            )

    async def delete(
        self,
        kind: Any,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        grace_seconds: int | None = None,
        propagation: Any = None,
    ) -> None:
        """Delete."""
        with self.pace.write():
            await self._call(
                "delete",
                f"{kind.plural} {namespace}/{name}",
                lambda c: c.delete(
                    kind, name, namespace, uid=uid, grace_seconds=grace_seconds, propagation=propagation
                ),
            )

    async def bind(
        self,
        namespace: str,
        pod: str,
        node: str,
        *,
        uid: str | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Bind."""
        with self.pace.write():
            await self._call(
                "bind",
                f"pods {namespace}/{pod} {node}",
                lambda c: c.bind(namespace, pod, node, uid=uid, annotations=annotations),
            )

    async def evict(
        self, namespace: str, pod: str, *, uid: str | None = None, grace_seconds: int | None = None
    ) -> None:
        """Evict."""
        with self.pace.write():
            await self._call(
                "evict",
                f"pods {namespace}/{pod}",
                lambda c: c.evict(namespace, pod, uid=uid, grace_seconds=grace_seconds),
            )

    async def close(self) -> None:
        """Nothing to release."""

    async def _call(self, verb: str, what: str, ask: Callable[[LocalClient], Awaitable[Any]]) -> Any:
        """What is under way stays so while the process stands still, which then hears of it late."""
        mark = PROCESS.set("")
        try:
            return await self._carry(verb, what, ask)
        finally:
            PROCESS.reset(mark)
            if self._server.is_paused(PROCESS.get()):
                await asyncio.sleep(0)

    async def _carry(self, verb: str, what: str, ask: Callable[[LocalClient], Awaitable[Any]]) -> Any:
        weather, draw = self._server.weather, self._server.draw
        reads = verb in ("get", "list")
        trouble = draw.random() < weather.trouble
        await self._way()
        kind = draw.choice(("refused", "busy", "lost", "lost", "twice", "late")) if trouble else ""
        share, how = weather.refusals.get(verb, (0.0, ""))
        if share and draw.random() < share:
            kind = how
        if kind == "conflict":
            raise Conflict("the object was changed meanwhile")
        if kind == "refused":
            raise ConnectionResetError("connection reset before the request was sent")
        if kind == "busy":
            raise Unavailable("the server is too busy", code=429, reason="TooManyRequests")
        client = self._server.local(self._manager)
        if client is None or self.dead:
            raise ConnectionRefusedError(_UNREACHABLE)
        self._server.sent(self.process, verb, what)
        if kind == "twice" and not reads:
            # A proxy sends it again, because it heard nothing; the second answer is the one that comes.
            with suppress(ApiError):
                await self._answer(ask(client))
        answer = await self._answer(ask(client))
        if kind == "lost":
            raise TimeoutError("the answer got lost")
        if kind == "late":
            await asyncio.sleep(draw.random() * LONGEST / 2)
        await self._way()
        if not reads:
            self._server.acknowledged(self.process, verb, answer)
        return answer

    async def _answer(self, work: Awaitable[Any]) -> Any:
        """What the server answers; it goes on though nobody listens any more."""
        task = self._server.serve(work)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise ConnectionResetError("the server went away") from None
            raise

    async def _way(self) -> None:
        weather, draw = self._server.weather, self._server.draw
        if self.dead or self.process in weather.parted:
            await asyncio.sleep(0 if self.dead else draw.random())
            raise ConnectionRefusedError(_UNREACHABLE)
        seconds = draw.random() ** (1 if weather.often and self.process.startswith(weather.slowed) else 6) * min(
            weather.slowest, LONGEST / 4
        )
        if seconds > weather.slowest / 50:
            await asyncio.sleep(seconds)

    # ---- watches

    async def watch(self, kind: Any, namespace: str | None = None, **options: Any) -> AsyncIterator[WatchEvent[Any]]:
        """Changes, until the stream breaks."""
        weather, draw = self._server.weather, self._server.draw
        await self._way()
        client = self._server.local(self._manager)
        if client is None:
            raise ConnectionRefusedError(_UNREACHABLE)
        came: asyncio.Queue[Any] = asyncio.Queue()
        self._order += 1
        number = self._order
        self._open[number] = came
        due = 0.0
        pump = self._server.serve(self._fill(came, client.watch(kind, namespace, **options)))
        try:
            while True:
                at, event = await came.get()
                if event is None:
                    return
                if isinstance(event, Exception):
                    raise event
                weather = self._server.weather
                if weather.lag and self.process.startswith(weather.slowed):
                    due = max(due, at + draw.random() ** 2 * weather.lag)
                    await asyncio.sleep(max(0.0, due - self._time()))
                if self.process in weather.parted or self.dead:
                    raise ConnectionResetError("the network is gone")
                seconds = draw.random() ** 8 * weather.slowest
                if seconds > weather.slowest / 10:
                    await asyncio.sleep(seconds)
                yield event
                if draw.random() < self._server.weather.cutting:
                    raise ConnectionResetError("connection reset")
        finally:
            self._open.pop(number, None)
            pump.cancel()

    async def _fill(self, came: asyncio.Queue[Any], stream: AsyncIterator[Any]) -> None:
        try:
            async for event in stream:
                came.put_nowait((self._time(), event))
            came.put_nowait((0.0, None))
        except asyncio.CancelledError:
            came.put_nowait((0.0, ConnectionResetError("the server went away")))
            raise
        except Exception as error:
            came.put_nowait((0.0, error))
