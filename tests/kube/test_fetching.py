"""Servers that administrators name are asked over real TLS: trust, credentials, bounds."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from unisono.api.topology_sources import Question, SourceFailed, Switch
from unisono.apiserver.access.pki import Authority, utc_now
from unisono.controllers.hypernode.sources import find_source
from unisono.kube.fetching import NetworkFetch
from unisono.kube.listening import AppListener

PORTS = [
    {"description": "Computer IB Port", "system_name": system, "peer_node_name": leaf, "tier": 1, "lid": 7}
    for system, leaf in (("gpu-0", "leaf-a"), ("gpu-1", "leaf-a"), ("gpu-2", "leaf-b"))
]
LOGIN = {"username": "admin", "password": "s3cret: ü"}


class Manager:
    """Plays a manager of a network; ``answers`` are by path."""

    def __init__(self, root: Path) -> None:
        self.authority = Authority(root, utc_now())
        self.seen: list[dict[str, str]] = []
        self.url = ""

    async def reply(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(dict(request.headers))
        match request.path:
            case "/ufmRest/resources/ports":
                allowed = request.headers.get("Authorization", "").startswith(("Basic ", "Bearer "))
                return web.json_response(PORTS) if allowed else web.Response(status=401)
            case "/moved":
                raise web.HTTPFound(f"{self.url}/elsewhere")
            case "/large":
                return web.Response(body=b"x" * 5_000_000)
            case "/slow":
                response = web.StreamResponse()
                await response.prepare(request)
                await response.write(b"[")
                return response
            case _:
                return web.Response(status=500, text="oops")


@asynccontextmanager
async def manager(root: Path, *, tls: bool = True) -> AsyncIterator[Manager]:
    made = Manager(root)
    app = web.Application()
    app.router.add_get("/{tail:.*}", made.reply)
    context = made.authority.server_context(["127.0.0.1"]) if tls else None
    listener = await AppListener.open(app, "127.0.0.1", 0, tls=context)
    made.url = f"http{'s' if tls else ''}://127.0.0.1:{listener.address[1]}"
    try:
        yield made
    finally:
        await listener.close()


def trusted(made: Manager) -> dict[str, str]:
    return {**LOGIN, "ca.crt": made.authority.ca_pem.decode()}


async def ask(made: Manager, credentials: dict[str, str], **config: Any) -> Any:
    question = Question({"endpoint": made.url, **config}, frozenset(), NetworkFetch(), credentials)
    return await find_source("ufm").discover(question)


async def test_ufm_is_asked_over_tls_that_the_secret_trusts(tmp_path: Path) -> None:
    async with manager(tmp_path) as made:
        assert await ask(made, trusted(made)) == {
            "leaf-hn-0": Switch(("gpu-0", "gpu-1")),
            "leaf-hn-1": Switch(("gpu-2",)),
            "spine-hn": Switch((), ("leaf-hn-0", "leaf-hn-1")),
        }
        assert await ask(made, LOGIN, insecureSkipVerify=True)


async def test_credentials_go_to_nobody_who_is_not_trusted(tmp_path: Path) -> None:
    async with manager(tmp_path) as made:
        with pytest.raises(SourceFailed, match=r"shows no certificate that is trusted.*ca\.crt"):
            await ask(made, LOGIN)
        other = Authority(tmp_path / "other", utc_now())
        with pytest.raises(SourceFailed, match="no certificate that is trusted"):
            await ask(made, {**LOGIN, "ca.crt": other.ca_pem.decode()})
        with pytest.raises(SourceFailed, match="cannot be reached"):
            await ask(made, {**LOGIN, "ca.crt": "no certificate"})
        assert made.seen == []


async def test_a_token_goes_before_a_password(tmp_path: Path) -> None:
    async with manager(tmp_path, tls=False) as made:
        fetch = NetworkFetch()
        url = f"{made.url}/ufmRest/resources/ports"
        assert json.loads(await fetch.get(url, credentials={**LOGIN, "token": "t"})) == PORTS
        assert made.seen[-1]["Authorization"] == "Bearer t"
        with pytest.raises(SourceFailed, match="status 401; are the credentials right"):
            await fetch.get(url, credentials={})


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/moved", "answers status 302"),
        ("/broken", "answers status 500$"),
        ("/large", "longer than 1000000 bytes"),
    ],
)
async def test_other_answers_are_told(tmp_path: Path, path: str, told: str) -> None:
    async with manager(tmp_path, tls=False) as made:
        with pytest.raises(SourceFailed, match=told):
            await NetworkFetch().get(f"{made.url}{path}", credentials=LOGIN, most_bytes=1_000_000)
        assert len(made.seen) == 1


async def test_a_server_that_does_not_answer_is_given_up(tmp_path: Path) -> None:
    async with manager(tmp_path, tls=False) as made:
        with pytest.raises(SourceFailed, match="does not answer within 0 s"):
            await NetworkFetch(0.0).get(f"{made.url}/slow", credentials={})
        with pytest.raises(SourceFailed, match="cannot be reached"):
            await NetworkFetch().get("http://127.0.0.1:1/", credentials={})
        with pytest.raises(SourceFailed, match="cannot be reached"):
            await NetworkFetch().get("http://[", credentials={})
