"""A recording proxy: plain HTTP in, requests as the kubeconfig's user out, every exchange written down."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
from aiohttp import web

from unisono.kube import auth
from unisono.kube.kubeconfig import ClusterConfig
from unisono.kube.listening import AppListener

# Headers that belong to one connection, or that the proxy sets itself.
OWN = {"host", "authorization", "accept-encoding", "connection", "transfer-encoding", "content-length"}


@dataclass(frozen=True)
class Raw:
    """One request and its answer, as they went over the wire."""

    method: str
    target: str
    content_type: str
    status: int
    warnings: tuple[str, ...]
    answer_type: str
    body: bytes


class Recorder:
    """The exchanges since ``take`` was called last, in the order in which the requests came."""

    def __init__(self, upstream: ClusterConfig, session: aiohttp.ClientSession) -> None:
        self._upstream, self._session = upstream, session
        self._found: list[Raw | None] = []
        self.url = ""

    def take(self) -> list[Raw]:
        found, self._found = self._found, []
        return [raw for raw in found if raw is not None]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        found, place = self._found, len(self._found)
        found.append(None)
        headers = {key: value for key, value in request.headers.items() if key.lower() not in OWN}
        if self._upstream.token:
            headers["Authorization"] = f"Bearer {self._upstream.token}"
        headers["Accept-Encoding"] = "identity"
        # Both servers answer in JSON, so that answers can be read.
        accepted = [one for one in headers.get("Accept", "").split(",") if one and "protobuf" not in one]
        headers["Accept"] = ",".join(accepted) or "application/json"
        body = await request.read()
        url = self._upstream.server.rstrip("/") + request.raw_path
        async with self._session.request(request.method, url, headers=headers, data=body or None) as reply:
            kept = [(key, value) for key, value in reply.headers.items() if key.lower() not in OWN]
            answer = web.StreamResponse(status=reply.status, headers=kept)
            await answer.prepare(request)
            # A watch that kubectl leaves counts without its events: how many it has seen by then depends on the moment.
            found[place] = _raw(request, reply, b"") if "watch=" in request.raw_path else None
            read = bytearray()
            with contextlib.suppress(ConnectionResetError):
                async for chunk in reply.content.iter_any():
                    read += chunk
                    await answer.write(chunk)
                found[place] = _raw(request, reply, bytes(read))
                await answer.write_eof()
        return answer


def _raw(request: web.Request, reply: aiohttp.ClientResponse, body: bytes) -> Raw:
    return Raw(
        request.method,
        request.raw_path,
        request.headers.get("Content-Type", ""),
        reply.status,
        tuple(reply.headers.getall("Warning", ())),
        reply.headers.get("Content-Type", ""),
        body,
    )


@asynccontextmanager
async def recording(upstream: ClusterConfig) -> AsyncIterator[Recorder]:
    """A running proxy in front of ``upstream``; its address is ``url``."""
    connector = aiohttp.TCPConnector(ssl=auth.context(upstream) or True)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as session:
        recorder = Recorder(upstream, session)
        app = web.Application(client_max_size=2**26)
        app.router.add_route("*", "/{path:.*}", recorder.handle)
        listener = await AppListener.open(app, "127.0.0.1", 0, patience=1.0)
        try:
            host, port = listener.address
            recorder.url = f"http://{host}:{port}"
            yield recorder
        finally:
            await listener.close()
