"""Probes over the network, against servers on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from unisono.controllers.metrics import Probe
from unisono.kube.fetching import NetworkProber


@pytest.fixture
async def server() -> AsyncIterator[TestServer]:
    async def answer(request: web.Request) -> web.Response:
        wanted = request.match_info["status"]
        if wanted == "header":
            return web.Response(status=200 if request.headers.get("X-Probe") == "yes" else 400)
        if wanted == "never":
            await asyncio.Event().wait()
        return web.Response(status=int(wanted), headers={"Location": "/500"} if wanted == "302" else {})

    app = web.Application()
    app.router.add_get("/{status}", answer)
    async with TestServer(app) as running:
        yield running


@pytest.mark.parametrize(
    ("path", "header", "holds"),
    [
        ("/200", None, True),
        ("/204", None, True),
        ("/302", None, True),
        ("/404", None, False),
        ("/500", None, False),
        ("/header", None, False),
        ("/header", ("X-Probe", "yes"), True),
        ("/never", None, False),
        ("", None, True),
    ],
)
async def test_answers(server: TestServer, path: str, header: tuple[str, str] | None, holds: bool) -> None:
    prober = NetworkProber(timeout_seconds=0.05 if path == "/never" else 60.0)
    assert await prober.holds(Probe("127.0.0.1", server.port or 0, path, header)) is holds


@pytest.mark.parametrize("path", ["", "/200"])
@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "no such host"])
async def test_what_does_not_listen_does_not_hold(host: str, path: str) -> None:
    assert not await NetworkProber(timeout_seconds=2.0).holds(Probe(host, 1, path))
