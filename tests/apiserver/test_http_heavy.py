"""Requests that ask for much: refused, or worked on beside the event loop, so that others are answered meanwhile."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from support.backends import opened
from support.definitions import crd, obj_schema, version, widget
from support.serving import WebClient, serving
from unisono.apiserver import managed_fields
from unisono.apiserver.custom import definitions
from unisono.apiserver.http import metrics, openapi
from unisono.apiserver.http.metrics import LoopWatch, RequestMetrics
from unisono.apiserver.operations import writes
from unisono.apiserver.webhooks import review

CM = "/api/v1/namespaces/default/configmaps"
NOTES = "/metadata/annotations"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"


@pytest.fixture
async def web(tmp_path: Path) -> AsyncIterator[WebClient]:
    async with opened() as backend, serving(backend.service, tmp_path) as client:
        yield client


def config_map(**more: Any) -> bytes:
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, **more}).encode()


def nested(levels: int) -> bytes:
    return b'{"apiVersion":"v1","kind":"ConfigMap","x":' + b'{"a":' * levels + b"1" + b"}" * levels + b"}"


DEEP_YAML = ("apiVersion: v1\nkind: ConfigMap\nx: " + "[" * 300 + "]" * 300).encode()
BOMB = gzip.compress(b'{"a":"' + b" " * 50_000_000 + b'"}')
LAUGHS = ("a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{this}: &{this} [{', '.join([f'*{before}'] * 9)}]\n" for before, this in zip("abcdefgh", "bcdefghi", strict=True)
)).encode()  # fmt: skip
YAML, GZIP = {"type": "application/yaml"}, {"headers": {"Content-Encoding": "gzip"}}

FINALIZERS = [f"a.b/{number:050}" for number in range(40_000)]
DIGITS = config_map()[:-1] + b',"y":' + b"9" * 100_000 + b"}"

REFUSED: dict[str, tuple[bytes, dict[str, Any], int, str]] = {
    "deep JSON": (nested(300), {}, 400, "nested more than 200 levels deep"),
    "very deep JSON": (nested(100_000), {}, 400, "json parse error"),
    "deep YAML": (DEEP_YAML, YAML, 400, "nested too deeply"),
    "laughing YAML": (LAUGHS, YAML, 400, "aliases expand to more than this reader takes"),
    "a compressed bomb": (BOMB, GZIP, 413, "limit is 3145728"),
    "finalizers": (config_map(metadata={"name": "a", "finalizers": FINALIZERS}), {}, 413, "limit is 1572864"),
    "annotations": (config_map(metadata={"name": "a", "annotations": {"a": "x" * 300_000}}), {}, 422, "262144"),
    "a number of a hundred thousand digits": (DIGITS, {}, 400, ""),
    "an infinite number": (config_map()[:-1] + b',"y":1e400}', {}, 400, ""),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_what_is_too_much_is_refused(web: WebClient, name: str) -> None:
    body, options, code, text = REFUSED[name]
    # A file, since the client warns of large bodies.
    reply = await web.call("POST", CM, data=io.BytesIO(body), **{"type": "application/json", **options})
    assert (reply.status, text in reply.json()["message"]) == (code, True), reply.body[:500]


@pytest.mark.parametrize(
    ("media", "patch", "code"),
    [
        ("merge-patch+json", nested(300), 400),
        ("strategic-merge-patch+json", nested(300), 400),
        ("json-patch+json", json.dumps([{"op": "test", "path": "/kind", "value": "ConfigMap"}] * 10_001).encode(), 413),
        (
            "json-patch+json",
            json.dumps([{"op": "copy", "from": "/data", "path": f"/data/a{i}"} for i in range(40)]).encode(),
            422,
        ),
        (
            "json-patch+json",
            json.dumps([{"op": "copy", "from": f"{NOTES}/a", "path": f"{NOTES}/{i}"} for i in range(40)]).encode(),
            422,
        ),
    ],
)
async def test_patches_that_grow_are_refused(web: WebClient, media: str, patch: bytes, code: int) -> None:
    made = await web.post(CM, config_map(metadata={"name": "a", "annotations": {"a": "x" * 100_000}}, data={"k": "v"}))
    assert made.status == 201
    reply = await web.call("PATCH", f"{CM}/a", patch, type=f"application/{media}")
    assert reply.status == code, reply.body[:300]


class Held:
    """Stands in for the check of objects: waits, in its thread, until the test lets it go on."""

    def __init__(self) -> None:
        self.begun, self.go = threading.Event(), threading.Event()
        self.where = ""

    def __call__(self, *_: Any) -> list[Any]:
        self.where = threading.current_thread().name
        self.begun.set()
        # On the event loop nobody could answer the other request, which would then never let go.
        assert self.go.wait(60 if self.where != threading.main_thread().name else 0)
        return []


@pytest.mark.parametrize("what", ["a large object", "a small object with rules"])
async def test_others_are_answered_while_a_request_is_worked_on(
    web: WebClient, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    held = Held()
    if what == "a large object":
        monkeypatch.setattr(writes, "validate", held)
        heavy = web.post(CM, config_map(data={"k": "x" * 100_000}))
    else:
        rule = {"x-kubernetes-validations": [{"rule": "self.a > 0"}]}
        schema = obj_schema(spec=obj_schema(a={"type": "integer"}) | rule)
        assert (await web.post(CRDS, crd("widgets", version(schema=schema)))).status == 201
        monkeypatch.setattr(writes, "check_object", held)
        heavy = web.post(WIDGETS, widget(spec={"a": 1}))
    task = asyncio.create_task(heavy)
    try:
        while not held.begun.is_set():
            assert (await web.get("/livez")).status == 200
        assert (await web.get(CM)).status == 200
        assert not task.done()
    finally:
        held.go.set()
    assert (await task).status == 201
    assert held.where.startswith("heavy-request")


async def test_large_configurations_are_applied_beside_the_event_loop(
    web: WebClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    where: list[str] = []
    merge = managed_fields.apply

    def apply(*arguments: Any, **more: Any) -> Any:
        where.append(threading.current_thread().name)
        return merge(*arguments, **more)

    monkeypatch.setattr(managed_fields, "apply", apply)
    for data in ({"k": "x" * 100_000}, {"k": "y" * 100_000}):
        reply = await web.call(
            "PATCH", f"{CM}/a?fieldManager=me", config_map(data=data), type="application/apply-patch+yaml"
        )
        assert reply.status in (200, 201)
    assert len(where) == 2
    assert all(name.startswith("heavy-request") for name in where)


async def test_large_schemas_are_compiled_once_and_beside_the_event_loop(
    web: WebClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    where: list[str] = []
    compiles = definitions.compile_schema

    def seen(*arguments: Any) -> Any:
        where.append(threading.current_thread().name)
        return compiles(*arguments)

    monkeypatch.setattr(definitions, "compile_schema", seen)
    schema = obj_schema(spec=obj_schema(**{f"property{n}": {"type": "string"} for n in range(2_000)}))
    assert (await web.post(CRDS, crd("widgets", version(schema=schema)))).status == 201
    assert (await web.post(WIDGETS, widget(spec={"property7": "x"}))).status == 201
    # The server marks the definition, which is a change of what is served, and keeps its schema.
    assert (await web.call("DELETE", f"{CRDS}/widgets.example.com")).status == 200
    assert len(where) == 1
    assert where[0].startswith("heavy-request")


async def test_conditions_of_webhooks_are_evaluated_beside_the_event_loop(
    web: WebClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
    hook = {
        "name": "a.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "matchConditions": [{"name": "none", "expression": "object.metadata.name == 'other'"}],
    }
    group = "admissionregistration.k8s.io"
    configuration = {
        "apiVersion": f"{group}/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "a"},
        "webhooks": [hook],
    }
    made = await web.post(f"/apis/{group}/v1/validatingwebhookconfigurations", json.dumps(configuration).encode())
    assert made.status == 201, made.body
    where: list[str] = []
    met = review.met

    def seen(*arguments: Any) -> bool:
        where.append(threading.current_thread().name)
        return met(*arguments)

    monkeypatch.setattr(review, "met", seen)
    assert (await web.post(CM, config_map())).status == 201
    assert len(where) == 1
    assert where[0].startswith("heavy-request")


async def test_open_api_documents_are_made_and_compressed_once(web: WebClient, monkeypatch: pytest.MonkeyPatch) -> None:
    packed: list[int] = []
    made: list[str] = []
    compress, make = gzip.compress, openapi._make

    def compressing(data: bytes, *arguments: Any) -> bytes:
        packed.append(len(data))
        return compress(data, *arguments)

    def making(*arguments: Any) -> Any:
        made.append(threading.current_thread().name)
        return make(*arguments)

    monkeypatch.setattr(gzip, "compress", compressing)
    monkeypatch.setattr(openapi, "_make", making)
    headers = {"Accept-Encoding": "gzip"}
    replies = await asyncio.gather(*(web.get("/openapi/v2", headers=headers) for _ in range(10)))
    assert {reply.status for reply in replies} == {200}
    assert len({reply.body for reply in replies}) == 1
    assert len(packed) == 1
    groups = len((await web.get("/openapi/v3")).json()["paths"])
    assert len(made) == groups
    assert all(name.startswith("heavy-request") for name in made)


class TestWatch:
    """The watch over the event loop, with a clock that stands still between the works' own steps."""

    def setup_method(self) -> None:
        self.now = 0.0
        self.metrics = RequestMetrics(CollectorRegistry())
        self.watch = LoopWatch(self.metrics, lambda: self.now)
        request = SimpleNamespace(method="POST", path="/x", content_length=7)
        self.exchange: Any = SimpleNamespace(
            verb="create", resource="pods", user=SimpleNamespace(name="u"), request=request
        )

    async def works(self, *steps: float, fails: bool = False) -> str:
        for seconds in steps:
            self.now += seconds
            await asyncio.sleep(0)
        if fails:
            raise KeyError("x")
        return "done"

    async def count(self) -> float:
        text = (await self.metrics.text()).decode()
        found = [line for line in text.splitlines() if line.startswith("apiserver_request_held_loop_seconds_count{")]
        return float(found[0].rpartition(" ")[2]) if found else 0.0

    async def test_steps_that_are_too_long_are_counted_and_told_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        told: list[dict[str, Any]] = []
        monkeypatch.setattr(metrics.log, "warning", lambda event, **more: told.append(more), raising=False)
        assert await self.watch.timed(self.exchange, self.works(0.01, 0.04, 0.2, 0.3)) == "done"
        assert await self.count() == 2
        assert told == [
            {"verb": "create", "method": "POST", "path": "/x", "user": "u", "bytes": 7, "milliseconds": 200}
        ]

    async def test_what_waits_long_holds_nothing(self) -> None:
        async def waits() -> None:
            task = asyncio.create_task(self.works(10))
            await task

        await self.watch.timed(self.exchange, waits())
        assert await self.count() == 0

    async def test_failures_and_cancellations_go_through(self) -> None:
        with pytest.raises(KeyError):
            await self.watch.timed(self.exchange, self.works(0.2, fails=True))
        assert await self.count() == 1
        task = asyncio.ensure_future(self._forever())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def _forever(self) -> None:
        await self.watch.timed(self.exchange, asyncio.Event().wait())
