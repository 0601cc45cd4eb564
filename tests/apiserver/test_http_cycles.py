"""Requests leave no reference cycles: what a request held is freed with it, not when everything is searched."""

from __future__ import annotations

import gc
import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.backends import opened
from support.definitions import crd, widget
from support.serving import WebClient, serving
from unisono.apiserver.http.exchange import Exchange
from unisono.errors import UnisonoError

CM = "/api/v1/namespaces/default/configmaps"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"


@pytest.fixture
async def web(tmp_path: Path) -> AsyncIterator[WebClient]:
    async with opened() as backend, serving(backend.service, tmp_path) as client:
        await client.post(CM, config_map("kept"))
        await client.post(CRDS, json.dumps(crd()).encode())
        yield client


@pytest.fixture
def unsearched() -> Iterator[None]:
    gc.collect()
    gc.freeze()  # what is there already need not be searched for each request
    gc.disable()
    try:
        yield
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.unfreeze()
        gc.enable()


def config_map(name: str, **more: Any) -> bytes:
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, **more}).encode()


def left_behind() -> int:
    """How many requests, and errors of ours, only the collector finds."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    gc.set_debug(0)
    return sum(isinstance(one, UnisonoError | Exchange) for one in gc.garbage)


REQUESTS: dict[str, tuple[int, Callable[[WebClient], Any]]] = {
    "created": (201, lambda web: web.post(CM, config_map("new"))),
    "exists": (409, lambda web: web.post(CM, config_map("kept"))),
    "invalid": (422, lambda web: web.post(CM, config_map("A_B"))),
    "of a wrong version": (400, lambda web: web.post(JOBS, b'{"metadata": {"name": "a"}}')),
    "unreadable": (400, lambda web: web.post(CM, b'{"a":')),
    "of a wrong type": (422, lambda web: web.post(CM, b'{"data": 1}')),
    "custom": (201, lambda web: web.post(WIDGETS, json.dumps(widget()).encode())),
    "custom, unreadable": (400, lambda web: web.post(WIDGETS, b'{"kind": 1}')),
    "read": (200, lambda web: web.get(f"{CM}/kept")),
    "missing": (404, lambda web: web.get(f"{CM}/missing")),
    "listed": (200, lambda web: web.get(CM)),
    "unknown selector": (400, lambda web: web.get(f"{CM}?fieldSelector=a=b")),
    "no such path": (404, lambda web: web.get("/apis/nothing/v1")),
    "patched": (200, lambda web: web.call("PATCH", f"{CM}/kept", b'{"data": {"a": "b"}}', type=MERGE)),
    "patch of nothing": (404, lambda web: web.call("PATCH", f"{CM}/missing", b"{}", type=MERGE)),
    "patch that fails": (
        422,
        lambda web: web.call("PATCH", f"{CM}/kept", b'[{"op": "remove", "path": "/none/x"}]', type=JSON_PATCH),
    ),
    "applied": (
        200,
        lambda web: web.call("PATCH", f"{CM}/kept?fieldManager=a", config_map("kept", data={"x": "y"}), type=APPLY),
    ),
    "apply refused": (
        422,
        lambda web: web.call("PATCH", f"{CM}/kept?fieldManager=a", config_map("kept", immutable=3), type=APPLY),
    ),
    "replaced": (200, lambda web: web.call("PUT", f"{CM}/kept", config_map("kept", data={"a": "c"}))),
    "conflict": (
        409,
        lambda web: web.call(
            "PUT", f"{CM}/kept", b'{"kind":"ConfigMap","metadata":{"name":"kept","resourceVersion":"1"}}'
        ),
    ),
    "deleted": (200, lambda web: web.call("DELETE", f"{CM}/kept")),
    "deletion of nothing": (404, lambda web: web.call("DELETE", f"{CM}/missing")),
    "wrong media type": (415, lambda web: web.call("PATCH", f"{CM}/kept", b"{}", type="text/plain")),
    "log of nothing": (404, lambda web: web.get(f"{PODS}/missing/log")),
}


@pytest.mark.parametrize("name", REQUESTS)
async def test_a_request_is_freed_with_its_answer(name: str, web: WebClient, unsearched: None) -> None:
    code, send = REQUESTS[name]
    reply = await send(web)
    await web.get("/readyz")  # the connection forgets a request with the next one
    found = left_behind()
    assert (reply.status, found) == (code, 0), reply.body
