from __future__ import annotations

import asyncio
import gc
import logging
import socket
import ssl
import stat
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from aiohttp.web import BaseRequest

from support.serving import ScriptedService, WebClient, serving, token_of, trusting
from unisono.apiserver.access.files import write_private
from unisono.apiserver.access.pki import Authority, utc_now
from unisono.apiserver.flow_control import Limits
from unisono.apiserver.http.exchange import read_body
from unisono.apiserver.server import ApiServer
from unisono.errors import ConfigError


@pytest.fixture
async def web(tmp_path: Path) -> AsyncIterator[WebClient]:
    async with serving(ScriptedService(), tmp_path) as client:
        yield client


ANONYMOUS: dict[str, Any] = {"headers": {"Authorization": None}}

FORBIDDEN = [
    (
        "GET",
        "/api/v1/namespaces/default/pods",
        'pods is forbidden: User "system:anonymous" cannot list resource "pods" in API group "" '
        'in the namespace "default"',
    ),
    (
        "GET",
        "/api/v1/pods?watch=1",
        'pods is forbidden: User "system:anonymous" cannot watch resource "pods" in API group "" at the cluster scope',
    ),
    (
        "DELETE",
        "/apis/batch.volcano.sh/v1alpha1/namespaces/x/jobs/j",
        'jobs.batch.volcano.sh "j" is forbidden: User "system:anonymous" cannot delete resource "jobs" '
        'in API group "batch.volcano.sh" in the namespace "x"',
    ),
    (
        "PATCH",
        "/api/v1/namespaces/x/pods/p/status",
        'pods "p" is forbidden: User "system:anonymous" cannot patch resource "pods/status" in API group "" '
        'in the namespace "x"',
    ),
    (
        "GET",
        "/api/v1/namespaces/x/bogus",
        'bogus is forbidden: User "system:anonymous" cannot list resource "bogus" in API group "" in the namespace "x"',
    ),
    ("GET", "/metrics", 'forbidden: User "system:anonymous" cannot get path "/metrics"'),
    ("GET", "/apis", 'forbidden: User "system:anonymous" cannot get path "/apis"'),
    ("GET", "/nowhere", 'forbidden: User "system:anonymous" cannot get path "/nowhere"'),
    ("POST", "/version", 'forbidden: User "system:anonymous" cannot post path "/version"'),
]


@pytest.mark.parametrize(("method", "path", "message"), FORBIDDEN)
async def test_nobody_gets_anything(web: WebClient, method: str, path: str, message: str) -> None:
    reply = await web.call(method, path, **ANONYMOUS)
    assert (reply.status, reply.json()["reason"], reply.json()["message"]) == (403, "Forbidden", message)


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/version", "/version/"])
async def test_health_and_version_are_public(web: WebClient, path: str) -> None:
    assert (await web.get(path, **ANONYMOUS)).status == 200


@pytest.mark.parametrize("header", ["Bearer wrong", "Bearer ", "Basic YTpi", "nonsense", "Bearer \xe9"])
async def test_unknown_credentials(web: WebClient, header: str) -> None:
    for path in ("/api/v1/pods", "/version"):
        reply = await web.get(path, headers={"Authorization": header})
        assert (reply.status, reply.json()["message"]) == (401, "Unauthorized")


async def by_certificate(web: WebClient, tmp_path: Path, user: str, groups: tuple[str, ...], path: str) -> Any:
    pair = Authority(tmp_path / "pki", utc_now()).issue_client(user, groups)
    (tmp_path / "c.crt").write_bytes(pair.certificate_pem)
    (tmp_path / "c.key").write_bytes(pair.key_pem)
    context = trusting(web.server)
    context.load_cert_chain(tmp_path / "c.crt", tmp_path / "c.key")
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
        async with session.get(web.server.url + path) as answer:
            return answer.status, await answer.text()


async def test_client_certificates(web: WebClient, tmp_path: Path) -> None:
    status, _ = await by_certificate(web, tmp_path, "alice", ("system:masters",), "/api/v1/pods")
    assert status == 200
    status, text = await by_certificate(web, tmp_path, "bob", ("team",), "/api/v1/pods")
    assert status == 403
    assert 'User \\"bob\\" cannot list' in text
    assert (await by_certificate(web, tmp_path, "bob", (), "/apis"))[0] == 200


async def test_certificates_of_others_are_refused(web: WebClient, tmp_path: Path) -> None:
    pair = Authority(tmp_path / "other", utc_now()).issue_client("mallory", ("system:masters",))
    (tmp_path / "m.crt").write_bytes(pair.certificate_pem)
    (tmp_path / "m.key").write_bytes(pair.key_pem)
    context = trusting(web.server)
    context.load_cert_chain(tmp_path / "m.crt", tmp_path / "m.key")
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
        with pytest.raises(aiohttp.ClientError):
            await session.get(web.server.url + "/api/v1/pods")
    assert (await web.get("/readyz")).status == 200


async def test_strict_clients_accept_the_certificates(web: WebClient) -> None:
    context = trusting(web.server)
    context.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
    url = web.server.url.replace("127.0.0.1", "localhost") + "/version"
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
        async with session.get(url) as answer:
            assert answer.status == 200


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_secrets_are_for_their_owner_only(web: WebClient, tmp_path: Path) -> None:
    pki = tmp_path / "pki"
    assert mode(pki) == 0o700
    assert mode(web.server.kubeconfig_path) == 0o600
    for name in ("ca.key", "server.key", "admin.token"):
        assert mode(pki / name) == 0o600
    assert not [path for path in pki.iterdir() if path.suffix == ".tmp"]


async def test_kubeconfig(web: WebClient) -> None:
    config = yaml.safe_load(web.server.kubeconfig_path.read_text())
    assert config["clusters"][0]["cluster"]["server"] == web.server.url
    assert config["contexts"][0]["context"] == {"cluster": "unisono", "user": "unisono", "namespace": "default"}
    assert config["current-context"] == "unisono"


async def test_the_token_never_reaches_a_log(web: WebClient, capsys: pytest.CaptureFixture[str]) -> None:
    await web.get("/api/v1/pods")
    await web.get("/api/v1/pods", headers={"Authorization": "Bearer mistaken-secret"})
    out, err = capsys.readouterr()
    assert web.token not in out + err
    assert "mistaken-secret" not in out + err


async def test_a_restart_keeps_authority_and_token(tmp_path: Path) -> None:
    async with serving(ScriptedService(), tmp_path) as web:
        ca, token = web.server.ca_path.read_bytes(), web.token
    server = ApiServer(ScriptedService(), data_dir=tmp_path)  # type: ignore[arg-type]
    await server.start()
    try:
        assert (server.ca_path.read_bytes(), token_of(server)) == (ca, token)
    finally:
        await server.stop()
        await server.stop()


def test_the_server_certificate_is_renewed_in_time(tmp_path: Path) -> None:
    now = utc_now()
    for days, renewed in ((0, True), (300, False), (340, True)):
        before = (tmp_path / "server.crt").read_bytes() if (tmp_path / "server.crt").exists() else b""
        Authority(tmp_path, now + timedelta(days=days)).server_context()
        assert ((tmp_path / "server.crt").read_bytes() != before) is renewed
    Authority(tmp_path, now + timedelta(days=341)).server_context(["example.test"])
    assert (tmp_path / "server.crt").read_bytes() != before


async def test_clients_connect_after_a_clock_that_was_ahead_was_set_back(tmp_path: Path) -> None:
    """The first start made the certificates by a clock that showed another zone's time as UTC."""
    Authority(tmp_path / "pki", utc_now() + timedelta(hours=14)).server_context()
    made = (tmp_path / "pki" / "server.crt").read_bytes()
    async with serving(ScriptedService(), tmp_path) as web:
        assert (await web.get("/version")).status == 200
    assert (tmp_path / "pki" / "server.crt").read_bytes() == made


def test_a_broken_key_is_a_clear_error(tmp_path: Path) -> None:
    Authority(tmp_path, utc_now())
    (tmp_path / "ca.key").write_text("garbage")
    with pytest.raises(ConfigError, match=r"ca\.crt: unreadable certificate or key .* remove"):
        Authority(tmp_path, utc_now())


def test_private_files_are_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("old")
    path.chmod(0o644)
    write_private(path, b"new")
    assert (path.read_text(), mode(path)) == ("new", 0o600)
    with pytest.raises(IsADirectoryError):
        (tmp_path / "dir").mkdir()
        write_private(tmp_path / "dir", b"x")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["dir", "secret"]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.test"])
def test_other_machines_need_an_explicit_yes(tmp_path: Path, host: str) -> None:
    with pytest.raises(ConfigError, match="allow remote access explicitly"):
        ApiServer(ScriptedService(), host=host, data_dir=tmp_path)  # type: ignore[arg-type]
    ApiServer(ScriptedService(), host=host, data_dir=tmp_path, allow_remote=True)  # type: ignore[arg-type]


async def test_a_taken_port_is_a_clear_error(web: WebClient, tmp_path: Path) -> None:
    port = int(web.server.url.rpartition(":")[2])
    with pytest.raises(
        ConfigError, match=rf"cannot listen on 127.0.0.1:{port} \(Address already in use\); choose another port"
    ):
        await ApiServer(ScriptedService(), port=port, data_dir=tmp_path / "b").start()  # type: ignore[arg-type]


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
async def test_an_address_of_no_machine_here_is_not_blamed_on_the_port(tmp_path: Path, host: str) -> None:
    with pytest.raises(ConfigError, match=rf"cannot listen on {host} \(.*\); choose an address of this machine"):
        await ApiServer(ScriptedService(), host=host, data_dir=tmp_path, allow_remote=True).start()  # type: ignore[arg-type]


async def raw(web: WebClient, data: bytes) -> bytes:
    port = int(web.server.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting(web.server))
    try:
        writer.write(data)
        await writer.drain()
        async with asyncio.timeout(300):
            return await reader.read(100)
    finally:
        # A polite end of TLS takes turns of the loop that a test may not have any more.
        writer.transport.abort()


@pytest.mark.parametrize(
    "data",
    [
        b"GARBAGE\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 40_000 + b"\r\n\r\n",
        b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    ],
)
async def test_broken_requests_disturb_nobody(web: WebClient, data: bytes) -> None:
    assert (await raw(web, data)).startswith((b"HTTP/1.1 4", b"HTTP/1.0 4"))
    assert (await web.get("/readyz")).body == b"ok"


async def test_plain_text_on_the_tls_port_disturbs_nobody(web: WebClient) -> None:
    port = int(web.server.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port)) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
    assert (await web.get("/readyz")).body == b"ok"


async def test_a_body_that_does_not_arrive_times_out(tmp_path: Path) -> None:
    async with serving(ScriptedService(), tmp_path, limits=Limits(body_seconds=0.05)) as web:
        head = (
            b"POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Authorization: Bearer " + web.token.encode() + b"\r\nContent-Length: 10\r\n\r\n{"
        )
        assert (await raw(web, head)).startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize("verb", [b"POST /api/v1/namespaces", b"PATCH /api/v1/namespaces/x"])
async def test_a_client_that_leaves_amid_its_body_is_no_error(
    tmp_path: Path, verb: bytes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def observed(request: BaseRequest, limits: Limits) -> bytes:
        begun.set()
        try:
            return await read_body(request, limits)
        finally:
            ended.set()

    monkeypatch.setattr("unisono.apiserver.http.exchange.read_body", observed)
    async with serving(ScriptedService(), tmp_path) as client:
        port = int(client.server.url.rpartition(":")[2])
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting(client.server))
        writer.write(
            verb + b" HTTP/1.1\r\nHost: x\r\nContent-Type: application/merge-patch+json\r\n"
            b"Authorization: Bearer " + client.token.encode() + b"\r\nContent-Length: 10\r\n\r\n{"
        )
        async with asyncio.timeout(300):
            await begun.wait()
            writer.transport.abort()
            await ended.wait()
            assert (await client.get("/livez")).status == 200
        # Exceptions that nobody took are told when they are thrown away.
        gc.collect()
    assert not [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


async def test_too_many_requests_at_once(tmp_path: Path) -> None:
    service = ScriptedService(gate=asyncio.Event())
    async with serving(service, tmp_path, limits=Limits(in_flight=1)) as web:
        first = asyncio.create_task(web.get("/api/v1/nodes"))
        while not service.asked:
            await asyncio.sleep(0)
        refused = await web.get("/api/v1/nodes")
        assert (refused.status, refused.json()["reason"]) == (429, "TooManyRequests")
        assert refused.headers["Retry-After"] == "1"
        assert (await web.get("/livez")).status == 200
        service.gate.set()
        assert (await first).status == 200


async def test_a_write_outlives_its_client(tmp_path: Path) -> None:
    service = ScriptedService(gate=asyncio.Event())
    done = asyncio.Event()

    class Finishing(ScriptedService):
        async def create(self, *arguments: Any) -> Any:
            written = await super().create(*arguments)
            done.set()
            return written

    service = Finishing(gate=asyncio.Event())
    async with serving(service, tmp_path) as web:
        request = asyncio.create_task(web.post("/api/v1/namespaces", {"metadata": {"name": "x"}}))
        while not service.asked:
            await asyncio.sleep(0)
        request.cancel()
        await asyncio.gather(request, return_exceptions=True)
        await web.get("/livez")
        service.gate.set()
        async with asyncio.timeout(300):
            await done.wait()


async def test_the_number_of_connections_is_bounded(tmp_path: Path) -> None:
    async with serving(ScriptedService(), tmp_path, limits=Limits(connections=1)) as web:
        port = int(web.server.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting(web.server))
        token = b"Authorization: Bearer " + web.token.encode()
        writer.write(b"GET /readyz HTTP/1.1\r\nHost: x\r\n" + token + b"\r\n\r\n")
        async with asyncio.timeout(300):
            assert b"200" in await reader.readline()
            # An idle connection gives way to another client.
            assert (await web.get("/livez")).status == 200
            with suppress(ConnectionError):
                await reader.read()
        writer.transport.abort()
