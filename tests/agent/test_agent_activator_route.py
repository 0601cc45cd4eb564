"""The way of a request to a pod of a Knative Service: held, forwarded as it comes, and bounded."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from unisono.agent.activator import requests as route_module
from unisono.agent.activator.requests import Route, open_session
from unisono.kube.listening import AppListener


class Server:
    """A pod's server on a free port of 127.0.0.1; what ``/hold`` asks for is answered when ``go`` is set."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.seen: list[dict[str, str]] = []
        self.busy = self.most = 0
        self.port = 0

    async def reply(self, request: web.Request) -> web.StreamResponse:
        self.seen.append({**request.headers, "path": request.raw_path, "method": request.method})
        self.busy += 1
        self.most = max(self.most, self.busy)
        try:
            body = await request.read()
            if request.path == "/hold":
                await self.go.wait()
            if request.path == "/broken" and request.transport is not None:
                request.transport.close()
            if request.path == "/moved":
                raise web.HTTPFound("/elsewhere")
            if request.path == "/packed":
                return web.Response(body=b"\x1f\x8b\x08", headers={"Content-Encoding": "gzip"})
            if request.path == "/stream":
                response = web.StreamResponse()
                await response.prepare(request)
                await response.write(b"one ")
                await self.go.wait()
                await response.write(b"two")
                return response
            return web.Response(text=f"{len(body)}", headers={"X-Own": "yes", "Set-Cookie": "a=b"})
        finally:
            self.busy -= 1


class Way:
    """A route that listens, and pods that it may lead to."""

    def __init__(self, route: Route, url: str, client: aiohttp.ClientSession, woken: list[int]) -> None:
        self.route, self.url, self.client, self.woken = route, url, client, woken

    async def get(self, path: str = "/", **options: Any) -> tuple[int, str]:
        async with self.client.get(f"{self.url}{path}", allow_redirects=False, **options) as answer:
            return answer.status, await answer.text()

    def lead(self, *servers: Server, port: int = 0) -> None:
        self.route.lead_to({str(id(each)): ("127.0.0.1", port or each.port) for each in servers})


@asynccontextmanager
async def way(servers: int = 1) -> AsyncIterator[tuple[Way, list[Server]]]:
    made, listeners = [Server() for _ in range(servers)], []
    for server in made:
        app = web.Application(client_max_size=0)
        app.router.add_route("*", "/{rest:.*}", server.reply)
        listeners.append(await AppListener.open(app, "127.0.0.1", 0, patience=0.1))
        server.port = listeners[-1].address[1]
    woken: list[int] = []
    async with open_session() as session, aiohttp.ClientSession(auto_decompress=False) as client:
        route = Route("service default/s", asyncio.get_running_loop().time, session, lambda: woken.append(1))
        front = web.Application(client_max_size=0)
        front.router.add_route("*", "/{rest:.*}", route.answer)
        listeners.append(await AppListener.open(front, "127.0.0.1", 0, patience=0.1))
        try:
            yield Way(route, f"http://127.0.0.1:{listeners[-1].address[1]}", client, woken), made
        finally:
            for server in made:
                server.go.set()
            for each in listeners[::-1]:
                await each.close()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.001)


async def test_a_request_is_held_until_there_is_a_pod() -> None:
    async with way() as (front, (server,)):
        asked = asyncio.create_task(front.get("/a%2Fb?c=%20d", headers={"Host": "hello"}))
        await until(lambda: front.route.load.count == 1)
        assert front.woken == [1]
        assert not server.seen
        front.lead(server)
        assert await asked == (200, "0")
        (seen,) = server.seen
        assert (seen["path"], seen["Host"], seen["X-Forwarded-For"]) == ("/a%2Fb?c=%20d", "hello", "127.0.0.1")
        assert front.route.load.count == 0


async def test_bodies_headers_and_streams_pass_as_they_are() -> None:
    async with way() as (front, (server,)):
        front.lead(server)
        body = io.BytesIO(b"x" * 3_000_000)
        async with front.client.post(f"{front.url}/up", data=body, headers={"X-Mine": "1"}) as answer:
            assert await answer.text() == "3000000"
            assert (answer.headers["X-Own"], answer.headers["Set-Cookie"]) == ("yes", "a=b")
        assert server.seen[-1]["Content-Length"] == "3000000"
        assert server.seen[-1]["X-Mine"] == "1"
        async with front.client.head(f"{front.url}/") as answer:
            assert (answer.status, await answer.read()) == (200, b"")
        async with front.client.get(f"{front.url}/packed") as answer:
            assert (answer.headers["Content-Encoding"], await answer.read()) == ("gzip", b"\x1f\x8b\x08")
        assert (await front.get("/moved"))[0] == 302
        async with front.client.get(f"{front.url}/stream") as answer:
            assert await answer.content.readany() == b"one "
            server.go.set()
            assert await answer.read() == b"two"


async def test_no_pod_takes_more_than_its_limit_and_the_idle_one_is_taken() -> None:
    async with way(2) as (front, servers):
        front.route.limit = 1
        front.lead(*servers)
        tasks = [asyncio.create_task(front.get("/hold")) for _ in range(5)]
        await until(lambda: sum(len(each.seen) for each in servers) == 2 and front.route.load.count == 5)
        assert [len(each.seen) for each in servers] == [1, 1]
        for each in servers:
            each.go.set()
        assert {status for status, _ in await asyncio.gather(*tasks)} == {200}
        assert max(each.most for each in servers) == 1


async def test_a_pod_that_does_not_listen_yet_is_tried_again() -> None:
    async with way() as (front, (server,)):
        front.lead(server, port=1)
        asked = asyncio.create_task(front.client.post(f"{front.url}/", data=b"abc"))
        await until(lambda: bool(front.route._refused))
        front.lead(server)
        async with await asked as answer:
            assert await answer.text() == "3"
        assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("path", "status", "told"),
    [("/hold", 504, "did not begin to answer within"), ("/broken", 502, "ended the connection")],
)
async def test_what_a_pod_fails_at_is_told(path: str, status: int, told: str) -> None:
    async with way() as (front, (server,)):
        front.route.timeout = 0.05 if path == "/hold" else 30.0
        front.lead(server)
        found = await front.get(path)
        assert found[0] == status
        assert told in found[1]
        assert front.route.load.count == 0


async def test_requests_that_no_pod_takes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route_module, "MOST_HELD", 2)
    async with way() as (front, (server,)):
        tasks = [asyncio.create_task(front.get()) for _ in range(2)]
        await until(lambda: front.route._held == 2)
        assert await front.get() == (503, "service default/s: 2 requests wait already\n")
        front.lead(server)
        assert [status for status, _ in await asyncio.gather(*tasks)] == [200, 200]
        front.lead()
        front.route.timeout = 0.05
        assert (await front.get())[0] == 504
        status, text = await front.get(headers={"Connection": "Upgrade", "Upgrade": "websocket"})
        assert (status, "plain HTTP/1.1" in text) == (501, True)


async def test_who_goes_away_waits_no_longer() -> None:
    async with way() as (front, _):
        asked = asyncio.create_task(front.get())
        await until(lambda: front.route._held == 1)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        await until(lambda: front.route._held == 0)
        assert front.route.load.count == 0
