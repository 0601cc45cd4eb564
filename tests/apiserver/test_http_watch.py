from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.serving import TABLE, ScriptedService, WebClient, serving, trusting
from unisono.api.kinds import CONFIG_MAPS
from unisono.apiserver.flow_control import Limits
from unisono.apiserver.http.exchange import Exchange
from unisono.errors import ApiError, Gone

CM = "/api/v1/namespaces/default/configmaps"
WATCH = f"{CM}?watch=true&resourceVersion=1"


@pytest.fixture
def service() -> ScriptedService:
    return ScriptedService()


@pytest.fixture
async def web(service: ScriptedService, tmp_path: Path) -> AsyncIterator[WebClient]:
    async with serving(service, tmp_path, clock=lambda: 1_800_000_000.0) as client:
        yield client


def config_map(name: str, version: int = 5) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "resourceVersion": str(version)},
        "data": {"a": "1"},
    }


def lines(body: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in body.splitlines()]


async def test_events_are_lines_of_json(service: ScriptedService, web: WebClient) -> None:
    service.script = [("ADDED", config_map("a")), ("MODIFIED", config_map("a", 6)), ("DELETED", config_map("a", 7))]
    reply = await web.get(WATCH)
    assert (reply.status, reply.headers["Content-Type"]) == (200, "application/json")
    assert reply.headers["Transfer-Encoding"] == "chunked"
    assert lines(reply.body) == [{"type": event, "object": obj} for event, obj in service.script]


async def test_parameters_reach_the_service(service: ScriptedService, web: WebClient) -> None:
    await web.get(
        f"{CM}/a?watch=1&resourceVersion=3&timeoutSeconds=77&allowWatchBookmarks=true"
        "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&labelSelector=x&fieldSelector=metadata.namespace%3Dn"
    )
    assert service.asked == [
        (
            "watch",
            "v1",
            "configmaps",
            "default",
            {
                "resource_version": "3",
                "label_selector": "x",
                "field_selector": "metadata.namespace=n,metadata.name=a",
                "timeout_seconds": 77.0,
                "bookmarks": True,
                "send_initial_events": True,
            },
        )
    ]


async def test_watch_false_is_a_list(service: ScriptedService, web: WebClient) -> None:
    assert (await web.get(f"{CM}?watch=false")).json()["kind"] == "ConfigMapList"


async def test_too_old_arrives_as_an_event(service: ScriptedService, web: WebClient) -> None:
    service.script = [Gone("too old resource version: 1 (260)")]
    reply = await web.get(WATCH)
    assert reply.status == 200
    (event,) = lines(reply.body)
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
    assert event["object"]["message"] == "too old resource version: 1 (260)"


async def test_a_selector_error_is_a_plain_error(service: ScriptedService, web: WebClient) -> None:
    service.failure = ApiError("field label not supported: spec.foo", code=400, reason="BadRequest")
    reply = await web.get(WATCH)
    assert (reply.status, reply.json()["message"]) == (400, "field label not supported: spec.foo")


async def test_tables_name_their_columns_once(service: ScriptedService, web: WebClient) -> None:
    bookmark = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"resourceVersion": "9"}}
    service.script = [("ADDED", config_map("a")), ("ADDED", config_map("b", 6)), ("BOOKMARK", bookmark)]
    first, second, last = (event["object"] for event in lines((await web.get(WATCH, accept=TABLE)).body))
    assert [column["name"] for column in first["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert second["columnDefinitions"] is None
    assert second["rows"][0]["cells"] == ["b", 1, "<unknown>"]
    assert second["metadata"] == {"resourceVersion": "6"}
    assert (last["rows"], last["metadata"]) == ([], {"resourceVersion": "9"})


async def test_metadata_watches(service: ScriptedService, web: WebClient) -> None:
    service.script = [("ADDED", config_map("a"))]
    accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    (event,) = lines((await web.get(WATCH, accept=accept)).body)
    assert set(event["object"]) == {"kind", "apiVersion", "metadata"}


async def test_events_arrive_while_the_watch_is_open(service: ScriptedService, web: WebClient) -> None:
    more = asyncio.Event()
    service.script = [("ADDED", config_map("a")), more, ("ADDED", config_map("b"))]
    async with web.open("GET", WATCH) as answer:
        assert json.loads(await answer.content.readline())["object"]["metadata"]["name"] == "a"
        more.set()
        assert json.loads(await answer.content.readline())["object"]["metadata"]["name"] == "b"


async def test_stopping_ends_watches_as_if_their_time_were_up(service: ScriptedService, web: WebClient) -> None:
    service.script = [("ADDED", config_map("a")), asyncio.Event()]
    async with web.open("GET", WATCH) as answer:
        await answer.content.readline()
        await web.server.stop()
        assert await answer.content.read() == b""


async def test_a_client_that_leaves_frees_its_watch(service: ScriptedService, web: WebClient) -> None:
    left = asyncio.Event()

    class Closing(asyncio.Event):
        async def wait(self) -> Any:
            try:
                return await super().wait()
            finally:
                left.set()

    service.script = [("ADDED", config_map("a")), Closing()]
    async with web.open("GET", WATCH) as answer:
        await answer.content.readline()
        answer.close()
    async with asyncio.timeout(300):
        await left.wait()
    assert (await web.get(CM)).status == 200


async def test_a_client_that_does_not_read_is_dropped(service: ScriptedService, tmp_path: Path) -> None:
    big = config_map("a")
    big["data"]["a"] = "x" * 1_000_000
    dropped = asyncio.Event()

    class Endless(list[Any]):
        def __iter__(self) -> Any:
            try:
                while True:
                    yield ("ADDED", big)
            finally:
                dropped.set()

    service.script = Endless()
    async with serving(service, tmp_path, limits=Limits(write_seconds=0.05)) as web:
        async with web.open("GET", WATCH, read_bufsize=1):
            async with asyncio.timeout(300):
                await dropped.wait()
        assert (await web.get(CM)).status == 200


async def test_the_number_of_watches_is_bounded(service: ScriptedService, tmp_path: Path) -> None:
    service.script = [("ADDED", config_map("a")), asyncio.Event()]
    async with serving(service, tmp_path, limits=Limits(streams=1)) as web:
        async with web.open("GET", WATCH) as answer:
            await answer.content.readline()
            refused = await web.get(WATCH)
            assert (refused.status, refused.headers["Retry-After"]) == (429, "1")
            assert (await web.get(CM)).status == 200


async def test_a_defect_in_one_watch_ends_only_that(service: ScriptedService, web: WebClient) -> None:
    service.script = [("ADDED", config_map("a")), RuntimeError("defect")]
    assert len(lines((await web.get(WATCH)).body)) == 1
    service.put(CONFIG_MAPS, "a", "default")
    assert (await web.get(f"{CM}/a")).status == 200


async def test_a_large_object_is_not_copied_for_each_watcher(
    service: ScriptedService, web: WebClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    big = config_map("a")
    big["data"]["a"] = "x" * 1_000_000
    service.script = [("ADDED", big)]
    written: list[bytes | memoryview] = []
    stored: list[bytes] = []
    write, play = Exchange.write, ScriptedService._play

    async def seen(self: Exchange, response: Any, piece: bytes | memoryview) -> None:
        written.append(piece)
        await write(self, response, piece)

    async def played(self: ScriptedService) -> Any:
        async for event in play(self):
            stored.append(event.object)
            yield event

    monkeypatch.setattr(Exchange, "write", seen)
    monkeypatch.setattr(ScriptedService, "_play", played)
    (line,) = lines((await web.get(WATCH)).body)
    assert (line["type"], line["object"]["data"]) == ("ADDED", big["data"])
    assert any(piece is stored[0] for piece in written)


async def test_a_client_that_leaves_before_its_answer_is_no_error(
    service: ScriptedService, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    service.gate = asyncio.Event()
    async with serving(service, tmp_path) as web:
        port = int(web.server.url.rpartition(":")[2])
        head = f"GET {CM}/a HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {web.token}\r\n\r\n".encode()
        for _ in range(5):
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting(web.server))
            writer.write(head)
            before = len(service.asked)
            while len(service.asked) == before:
                await asyncio.sleep(0)
            writer.transport.abort()
        service.gate.set()
        assert (await web.get("/livez")).status == 200
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
