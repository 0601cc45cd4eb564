"""What one client can take from the others: connections, watches, time."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest

from support.backends import DELETE, opened
from support.serving import ScriptedService, WebClient, serving, trusting
from unisono.api.kinds import CONFIG_MAPS
from unisono.apiserver.access.files import is_loopback, names_of_machine
from unisono.apiserver.access.pki import Authority
from unisono.apiserver.flow_control import Limits
from unisono.apiserver.storage.objects import Retention
from unisono.apiserver.types import WriteOptions


async def connected(web: WebClient) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    port = int(web.server.url.rpartition(":")[2])
    return await asyncio.open_connection("127.0.0.1", port, ssl=trusting(web.server))


async def lives(web: WebClient) -> bool:
    """Whether the server answers; where the client is slow, the limit may be over before its request is sent."""
    while True:
        with suppress(aiohttp.ClientError):
            return (await web.get("/livez")).status == 200


@pytest.mark.parametrize("sent", [b"", b"GET /livez HTTP/1.1\r\nHost: x\r\nA-Header-Tha"])
async def test_a_request_that_does_not_come_loses_its_connection(tmp_path: Path, sent: bytes) -> None:
    async with serving(ScriptedService(), tmp_path, limits=Limits(idle_seconds=0.05)) as web:
        reader, writer = await connected(web)
        writer.write(sent)
        async with asyncio.timeout(300):
            # What is sent after the end is answered with a reset.
            with suppress(ConnectionError):
                assert await reader.read() == b""
            writer.transport.abort()
            assert await lives(web)


async def test_clients_that_trickle_their_headers_do_not_keep_others_out(tmp_path: Path) -> None:
    """Half the descriptors are the most that connections have, a quarter of those for clients that are not known."""
    limits = Limits(connections=12, newcomers=3, head_seconds=300, idle_seconds=300)
    now = 0.0
    async with serving(ScriptedService(), tmp_path, limits=limits, monotonic=lambda: now) as web:
        held = [await connected(web) for _ in range(3)]
        for _, writer in held:
            writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\nA-Header-Tha")
        # They have had their time: the first of them loses its connection to the next client.
        now = 60.0
        async with asyncio.timeout(300):
            assert await lives(web)
            with suppress(ConnectionError):
                await held[0][0].read()
        text = (await web.get("/metrics")).body.decode()
        for _, writer in held:
            writer.transport.abort()
    assert 'apiserver_request_rejected_total{what="newcomers"} 1.0' in text


async def test_a_head_that_does_not_come_after_tls_is_counted(tmp_path: Path) -> None:
    async with serving(ScriptedService(), tmp_path, limits=Limits(head_seconds=0.05)) as web:
        reader, writer = await connected(web)
        async with asyncio.timeout(300):
            with suppress(ConnectionError):
                assert await reader.read() == b""
            writer.transport.abort()
        while not await lives(web):
            pass
        assert 'rejected_total{what="head"}' in (await web.get("/metrics")).body.decode()


async def test_one_user_cannot_take_all_requests(tmp_path: Path) -> None:
    service = ScriptedService(gate=asyncio.Event())
    eve = {"Impersonate-User": "eve", "Impersonate-Group": "cluster-admins"}
    limits = Limits(in_flight=8, in_flight_of_one=2)
    async with serving(service, tmp_path, limits=limits) as web:
        service.authorizer.require = lambda user, action: None  # type: ignore[method-assign]
        held = [asyncio.create_task(web.get("/api/v1/nodes", headers=eve)) for _ in range(2)]
        while len(service.asked) < 2:
            await asyncio.sleep(0)
        refused = await web.get("/api/v1/nodes", headers=eve)
        assert (refused.status, refused.headers["Retry-After"]) == (429, "1")
        held.append(asyncio.create_task(web.get("/api/v1/nodes", headers={**eve, "Impersonate-User": "alice"})))
        held.append(asyncio.create_task(web.get("/api/v1/nodes")))
        while len(service.asked) < 4:
            await asyncio.sleep(0)
        service.gate.set()
        assert {(await each).status for each in held} == {200}
        assert (await web.get("/api/v1/nodes", headers=eve)).status == 200
        text = (await web.get("/metrics")).body.decode()
    assert 'apiserver_request_rejected_total{what="user_requests"} 1.0' in text


async def test_one_user_cannot_take_all_watches(tmp_path: Path) -> None:
    service = ScriptedService(script=[asyncio.Event()])
    async with serving(service, tmp_path, limits=Limits(streams=10, streams_of_one=2)) as web:
        path = "/api/v1/nodes?watch=1"
        async with web.open("GET", path), web.open("GET", path):
            while len(service.asked) < 2:
                await asyncio.sleep(0)
            refused = await web.get(path)
            assert (refused.status, refused.json()["reason"]) == (429, "TooManyRequests")
            eve = {"Impersonate-User": "eve", "Impersonate-Group": "system:masters"}
            async with web.open("GET", path, headers=eve) as answer:
                assert answer.status == 200


async def test_a_watcher_behind_the_history_is_told_to_list_again() -> None:
    async with opened(retention=Retention(events=4, seconds=0, max_bytes=1)) as backend:
        service, options = backend.service, WriteOptions()
        start = str(backend.store.revision)
        events = service.watch(CONFIG_MAPS, "default", resource_version=start)
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}}
        await service.create(CONFIG_MAPS, "default", body, options)
        first = await anext(aiter(events))
        assert json.loads(first.object)["metadata"]["name"] == "c"
        for _ in range(600):
            await service.delete(CONFIG_MAPS, "default", "c", DELETE)
            await service.create(CONFIG_MAPS, "default", body, options)
        with pytest.raises(Exception, match="too old resource version"):
            async for _ in events:
                pass


def test_the_certificate_of_a_reachable_server_names_the_machine(tmp_path: Path) -> None:
    assert [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "example.test")] == [
        True,
        True,
        True,
        False,
        False,
    ]
    names = names_of_machine("192.0.2.1")
    assert {"localhost", "127.0.0.1", "192.0.2.1"} <= set(names)
    Authority(tmp_path, datetime.now(UTC)).server_context(names)
