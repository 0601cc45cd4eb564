"""A proxy before an API server that makes trouble: refusals, lost answers, cut and repeated watch events."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace

from aiohttp import web

from unisono.kube.http import split_lines
from unisono.kube.kubeconfig import ClusterConfig
from unisono.kube.listening import AppListener
from unisono.kube.transport import Transport

_WRITES = ("POST", "PATCH", "DELETE")


@dataclass(frozen=True)
class Trouble:
    """How often what happens, each from 0 to 1.

    Attributes:
        busy: 429 with Retry-After; nothing is done.
        broken: 500; nothing is done.
        conflict: 409 on a write; nothing is done.
        lost: the request is done, and the connection ends without an answer.
        cut: a watch ends after an event.
        repeated: a watch event comes twice.
        delayed: a watch event is late, and all that follow it.
    """

    busy: float = 0.0
    broken: float = 0.0
    conflict: float = 0.0
    lost: float = 0.0
    cut: float = 0.0
    repeated: float = 0.0
    delayed: float = 0.0


class Proxy:
    """Forwards to the server of ``config``; ``did`` counts the troubles that it made."""

    def __init__(self, config: ClusterConfig, trouble: Trouble, seed: int) -> None:
        self.trouble = trouble
        self.did: Counter[str] = Counter()
        self._rng = random.Random(seed)
        self._config = config
        self._upstreams: dict[str, Transport] = {}

    def _upstream(self, request: web.Request) -> Transport:
        """The server as whoever asks."""
        token = request.headers["Authorization"].removeprefix("Bearer ")
        if token not in self._upstreams:
            config = replace(self._config, token=token, client_certificate=None, client_key=None)
            self._upstreams[token] = Transport(config, max_wait=60.0)
        return self._upstreams[token]

    def _now(self, what: str) -> bool:
        hit = self._rng.random() < getattr(self.trouble, what)
        self.did[what] += hit
        return hit

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.query.get("watch") == "true":
            return await self._watch(request)
        if self._now("busy"):
            return _status(429, "TooManyRequests", {"Retry-After": "0"})
        if self._now("broken"):
            return _status(500, "InternalError")
        if request.method in _WRITES and self._now("conflict"):
            return _status(409, "Conflict")
        status, headers, body = await self._upstream(request).request(
            request.method,
            request.path,
            body=await request.read() or None,
            params=dict(request.query),
            content_type=request.headers.get("Content-Type", "application/json"),
        )
        # Who asked may have been killed meanwhile.
        if request.method in _WRITES and self._now("lost") and request.transport is not None:
            request.transport.abort()
        return web.Response(status=status, body=body, headers={"Content-Type": headers["Content-Type"]})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        await answer.prepare(request)
        async with (
            aclosing(self._upstream(request).stream(request.path, dict(request.query))) as chunks,
            aclosing(split_lines(chunks)) as lines,
        ):
            async for line in lines:
                if self._now("delayed"):
                    await asyncio.sleep(self._rng.random() * 0.3)
                for _ in range(1 + self._now("repeated")):
                    await answer.write(line + b"\n")
                if self._now("cut"):
                    break
        return answer

    async def close(self) -> None:
        for upstream in self._upstreams.values():
            await upstream.close()


def _status(code: int, reason: str, headers: dict[str, str] | None = None) -> web.Response:
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": f"made up: {reason}"}
    return web.Response(
        status=code, text=json.dumps(body), headers={"Content-Type": "application/json", **(headers or {})}
    )


@asynccontextmanager
async def proxied(config: ClusterConfig, trouble: Trouble, seed: int) -> AsyncIterator[tuple[ClusterConfig, Proxy]]:
    """The proxy's address as a cluster, and the proxy."""
    proxy = Proxy(config, trouble, seed)
    app = web.Application(client_max_size=1 << 22)
    app.router.add_route("*", "/{path:.*}", proxy.handle)
    listener = await AppListener.open(app, "127.0.0.1", 0, patience=0.1)
    host, port = listener.address
    try:
        yield ClusterConfig(server=f"http://{host}:{port}"), proxy
    finally:
        await listener.close()
        await proxy.close()
