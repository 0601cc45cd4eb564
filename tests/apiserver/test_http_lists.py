"""Long lists: sent in pieces, in every form, and no further than the client reads."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.backends import opened
from support.serving import TABLE, ScriptedService, WebClient, serving, trusting
from unisono.api.kind import Kind
from unisono.api.kinds import CONFIG_MAPS
from unisono.apiserver.flow_control import Limits
from unisono.apiserver.http.objects import list_pieces
from unisono.apiserver.http.protobuf import MAGIC, fields
from unisono.apiserver.http.status import Form
from unisono.apiserver.types import DeleteOptions, Page, WriteOptions

PATH = "/api/v1/namespaces/default/configmaps"
PARTIAL = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


def config_map(number: int, size: int = 10_000) -> bytes:
    metadata = {"name": f"c{number:04}", "namespace": "default", "uid": f"u{number}", "resourceVersion": "5"}
    metadata["creationTimestamp"] = "2026-01-01T00:00:00Z"
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"x": "y" * size}}
    return json.dumps(obj, separators=(",", ":")).encode()


class Watched(Sequence[bytes]):
    """Objects that are made when they are asked for; knows how many were."""

    def __init__(self, count: int) -> None:
        self._count, self.asked = count, 0

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: Any) -> Any:
        if not 0 <= index < self._count:
            raise IndexError
        self.asked = max(self.asked, index + 1)
        return config_map(index)


class Long(ScriptedService):
    """Answers every list with the same page."""

    page: Page

    async def list(self, kind: Kind[Any], namespace: str | None, **options: Any) -> Page:
        return self.page


def long(count: int) -> tuple[Long, Watched]:
    service, items = Long(), Watched(count)
    service.page = Page(items, 7)
    return service, items


@pytest.mark.parametrize("count", [0, 1, 7, 200])
@pytest.mark.parametrize("encoding", ["identity", "gzip"])
async def test_every_form_of_a_list_is_whole(count: int, encoding: str, tmp_path: Path) -> None:
    service, _ = long(count)
    async with serving(service, tmp_path) as web:

        async def body(accept: str) -> bytes:
            reply = await web.get(PATH, accept=accept, headers={"Accept-Encoding": encoding})
            assert reply.status == 200
            packed = reply.headers.get("Content-Encoding") == "gzip"
            return gzip.decompress(reply.body) if packed else reply.body

        objects = [json.loads(config_map(number)) for number in range(count)]
        bare = [{key: each[key] for key in ("metadata", "data")} for each in objects]
        whole = {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": bare}
        assert json.loads(await body("application/json")) == whole
        assert yaml.load(await body("application/yaml"), yaml.CSafeLoader) == whole
        table = json.loads(await body(TABLE))
        assert [row["cells"][0] for row in table["rows"]] == [each["metadata"]["name"] for each in objects]
        assert table["columnDefinitions"][0]["name"] == "Name"
        partial = json.loads(await body(PARTIAL))
        assert [each["metadata"] for each in partial["items"]] == [each["metadata"] for each in objects]
        packed = dict(fields((await body("application/vnd.kubernetes.protobuf")).removeprefix(MAGIC)))
        raw = packed[2]
        assert isinstance(raw, bytes)
        assert [number for number, _ in fields(raw)] == [1, *([2] * count)]


async def test_protobuf_of_a_list_is_the_same_in_pieces() -> None:
    items = [config_map(number) for number in range(200)]

    async def encoded(count: int) -> list[bytes]:
        page = Page(items[:count], 7)
        return [piece async for piece in list_pieces(CONFIG_MAPS, page, Form("protobuf"), "None", lambda: 0.0)]

    short, pieces = await encoded(5), await encoded(200)
    assert len(short) == 1
    assert len(pieces) > 20
    assert max(map(len, pieces)) < 80_000
    assert b"".join(pieces).count(b"yyyyyyyyyy" * 1000) == 200


async def asked(web: WebClient, accept: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A client that has sent its request, and takes little."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
    client.setblocking(False)
    await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", int(web.server.url.rpartition(":")[2])))
    reader, writer = await asyncio.open_connection(
        sock=client, ssl=trusting(web.server), server_hostname="localhost", limit=1024
    )
    head = f"GET {PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {web.token}\r\nAccept: {accept}\r\n\r\n"
    writer.write(head.encode())
    return reader, writer


@pytest.mark.parametrize("accept", ["application/json", "application/yaml"])
async def test_a_list_that_nobody_reads_is_not_made(accept: str, tmp_path: Path) -> None:
    """Forty megabytes of objects: what is made is what fits into the buffers of the system and a piece or two."""
    service, items = long(4000)
    async with asyncio.timeout(300), serving(service, tmp_path) as web:
        reader, writer = await asked(web, accept)
        assert b"200" in await reader.readline()
        before = -1
        while items.asked > before:
            before = items.asked
            for _ in range(20):
                assert (await web.get("/livez")).status == 200
        assert items.asked < 2000
        # The rest comes when it is read.
        while items.asked < len(items):
            await reader.read(1 << 20)
        writer.transport.abort()


async def test_a_reader_that_stops_loses_its_connection(tmp_path: Path) -> None:
    service, items = long(4000)
    async with asyncio.timeout(300), serving(service, tmp_path, limits=Limits(write_seconds=0.05)) as web:
        _, writer = await asked(web, "application/json")
        while 'code="200",resource="configmaps"' not in (await web.get("/metrics")).body.decode():
            pass
        assert items.asked < len(items)
        writer.transport.abort()


async def test_a_list_that_fails_in_the_middle_is_not_taken_for_complete(tmp_path: Path) -> None:
    service, items = long(100)

    class Broken(Watched):
        def __getitem__(self, index: Any) -> Any:
            if index == 90:
                raise RuntimeError("defect")
            return super().__getitem__(index)

    service.page = Page(Broken(100), 7)
    async with serving(service, tmp_path) as web:
        with pytest.raises(Exception, match=r"(?i)payload|disconnected|reset"):
            await web.get(PATH)
        service.page = Page(items, 7)
        assert len((await web.get(PATH)).json()["items"]) == 100


async def test_a_list_shows_one_moment_however_late_it_is_read() -> None:
    async with opened() as backend:
        service, options = backend.service, WriteOptions()
        for number in range(30):
            body = json.loads(config_map(number))
            body["metadata"] = {"name": f"c{number:04}", "namespace": "default"}
            await service.create(CONFIG_MAPS, "default", body, options)
        page = await service.list(CONFIG_MAPS, "default")
        pieces = list_pieces(CONFIG_MAPS, page, Form(), "None", lambda: 0.0)
        read = [await anext(pieces)]
        await service.delete(CONFIG_MAPS, "default", "c0020", DeleteOptions())
        body["metadata"]["name"] = "c0029"
        await service.update(CONFIG_MAPS, "default", "c0029", {**body, "data": {"x": "new"}}, options)
        read += [piece async for piece in pieces]
    found = json.loads(b"".join(read))["items"]
    assert len(read) > 3
    assert [each["metadata"]["name"] for each in found] == [f"c{number:04}" for number in range(30)]
    assert {each["data"]["x"] for each in found} == {"y" * 10_000}


async def test_http_1_0_reads_a_long_list(tmp_path: Path) -> None:
    service, _ = long(50)
    async with serving(service, tmp_path) as web:
        body = await _old(web)
    assert len(json.loads(body)["items"]) == 50


async def _old(web: WebClient) -> bytes:
    port = int(web.server.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting(web.server))
    writer.write(f"GET {PATH} HTTP/1.0\r\nHost: x\r\nAuthorization: Bearer {web.token}\r\n\r\n".encode())
    data = await reader.read()
    writer.close()
    return data.partition(b"\r\n\r\n")[2]
