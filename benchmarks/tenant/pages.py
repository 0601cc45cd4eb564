"""Attacks on the dashboard: its port, sessions, views and texts."""

from __future__ import annotations

import asyncio
import json
import time

import aiohttp

from benchmarks.tenant.table import attack
from benchmarks.tenant.world import World
from unisono.dashboard.http.guard import KEY_HEADER

_LONGEST_SECONDS = 5.0


class _Browser:
    """One that is signed in with a token."""

    def __init__(self, address: str, token: str) -> None:
        self._address, self._token, self._key = address, token, ""
        self._http = aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))

    async def sign_in(self, namespaces: list[str]) -> int:
        body = json.dumps({"token": self._token, "namespaces": namespaces})
        status, answer = await self.ask("POST", "/api/session", body)
        self._key = json.loads(answer).get("key", "") if status == 200 else ""
        return status

    async def ask(self, method: str, path: str, body: str | None = None) -> tuple[int, bytes]:
        headers = {"Content-Type": "application/json", KEY_HEADER: self._key}
        url = f"{self._address}{path}"
        async with self._http.request(method, url, data=body, headers=headers) as answer:
            return answer.status, await answer.content.read(1 << 20)

    async def close(self) -> None:
        await self._http.close()


async def _open(w: World, count: int, namespaces: list[str]) -> list[_Browser]:
    port = int((w.folder / "data" / "run" / "dashboard-port").read_text())
    found = [_Browser(f"http://127.0.0.1:{port}", w.user.config.token or "") for _ in range(count)]
    for browser in found:
        w.answers.append(await browser.sign_in(namespaces))
    return found


async def _check(w: World, other: _Browser) -> None:
    """The other viewer is still signed in, and is answered soon."""
    began = time.perf_counter()
    try:
        async with asyncio.timeout(60):
            status, _ = await other.ask("GET", "/api/session")
    except (TimeoutError, aiohttp.ClientError) as error:
        status = 599
        w.fault(f"another viewer is not answered: {error!r}")
    took = time.perf_counter() - began
    if status != 200:
        w.fault(f"another viewer is signed out: {status}")
    if took > _LONGEST_SECONDS:
        w.fault(f"another viewer is answered after {took:.1f} s")


async def _other(w: World) -> _Browser:
    [browser] = await _open(w, 1, [])
    browser._token = w.admin.config.token or ""
    if await browser.sign_in([]) != 200:
        w.fault("the administrator cannot sign in")
    return browser


@attack("600 sessions of the dashboard, and views of ever other namespaces")
async def sessions(w: World) -> None:
    other = await _other(w)
    crowd: list[_Browser] = []
    try:
        for number in range(600):
            crowd += await _open(w, 1, [f"n{number}"])
            if number % 20 == 0:
                w.answers.append((await crowd[-1].ask("GET", "/api/session"))[0])
        await _check(w, other)
    finally:
        for browser in (*crowd, other):
            await browser.close()


@attack("large texts for the dashboard: changes and specs of 1 MB of YAML, aliases of aliases")
async def texts(w: World) -> None:
    other = await _other(w)
    crowd = await _open(w, 5, [])
    laughs = "\n".join(["a0: &a0 [x, x, x, x]", *(f"a{n}: &a{n} [{f'*a{n - 1}, ' * 9}]" for n in range(1, 9))])
    try:
        works = []
        for browser in crowd:
            for text in ("a: b\n" * 150_000, "- " * 500_000, laughs, "k: " + "[" * 300_000):
                works.append(browser.ask("POST", "/api/whatif", json.dumps({"changes": text})))
                spec = json.dumps({"name": "default", "spec": text, "before": text})
                works.append(browser.ask("POST", "/api/queue", spec))
        sent = asyncio.gather(*works, return_exceptions=True)
        await asyncio.sleep(0.5)
        await _check(w, other)
        await sent
    finally:
        for browser in (*crowd, other):
            await browser.close()


@attack("3,000 connections to the dashboard that say nothing", machine=True)
async def silence(w: World) -> None:
    other = await _other(w)
    port = int((w.folder / "data" / "run" / "dashboard-port").read_text())
    held = []
    try:
        for number in range(3_000):
            held.append(await asyncio.open_connection("127.0.0.1", port))
            held[-1][1].write(b"GET / HTTP/1.1\r\nX: " if number % 2 else b"")
        await _check(w, other)
    except OSError as error:
        w.fault(f"no connection: {error}")
    finally:
        for _, writer in held:
            writer.transport.abort()
        await other.close()
