"""A review at which the webhook itself fails is answered with a refusal that names the object; the server goes on."""

from __future__ import annotations

import asyncio
import json
from threading import Event
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request
from prometheus_client import CollectorRegistry

from support.memory import MemoryClient
from support.virtual_clock import VirtualClock
from unisono.api.base import ObjectMeta
from unisono.api.groups.scheduling import Queue
from unisono.api.kinds import QUEUES
from unisono.webhook import server as module
from unisono.webhook.review import BadReview, read
from unisono.webhook.server import WebhookServer


def review(name: str, note: str = "") -> bytes:
    task = {"replicas": 1, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}
    value = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "ns", "annotations": {"note": note}},
        "spec": {"tasks": [task]},
    }
    request = {
        "uid": "u1",
        "kind": {"group": "batch.volcano.sh", "version": "v1alpha1", "kind": "Job"},
        "name": name,
        "namespace": "ns",
        "operation": "CREATE",
        "object": value,
        "oldObject": None,
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


@pytest.mark.parametrize("path", ["mutate", "validate"])
async def test_a_review_that_fails_is_a_refusal_of_that_object_alone(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = "completed" if path == "mutate" else "check"
    whole = getattr(module, function)

    def breaking(question: Any, view: Any, *rest: Any) -> Any:
        if question.name == "bad":
            raise OverflowError("too large")
        return whole(question, view, *rest)

    monkeypatch.setattr(module, function, breaking)
    client: Any = MemoryClient(VirtualClock())
    await client.create(QUEUES, Queue(metadata=ObjectMeta(name="default")))
    registry = CollectorRegistry()
    server = WebhookServer(client, registry, host="127.0.0.1", port=0, namespace="system", clock=client.clock)

    async def ask(name: str) -> dict[str, Any]:
        request: Any = make_mocked_request("POST", f"/{path}")
        request._read_bytes = review(name)
        answer = await getattr(server, f"_{path}")(request)
        assert answer.status == 200
        response: dict[str, Any] = json.loads(answer.body)["response"]
        return response

    refused = await ask("bad")
    assert refused["uid"] == "u1"
    assert not refused["allowed"]
    assert refused["status"]["message"] == 'jobs.batch.volcano.sh "ns/bad" cannot be checked: OverflowError: too large'
    assert (await ask("good"))["allowed"]
    labels = {"path": path, "resource": "jobs.batch.volcano.sh", "operation": "CREATE", "outcome": "failed"}
    assert registry.get_sample_value("unisono_webhook_answers_total", labels) == 1.0


@pytest.mark.parametrize("path", ["mutate", "validate"])
async def test_others_do_not_wait_for_an_object_that_is_large(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, begun, go_on = "completed" if path == "mutate" else "check", Event(), Event()
    whole = getattr(module, function)

    def slow(question: Any, *rest: Any) -> Any:
        if question.name == "large":
            begun.set()
            assert go_on.wait(10), "it is worked on where everybody else is answered"
        return whole(question, *rest)

    monkeypatch.setattr(module, function, slow)
    client: Any = MemoryClient(VirtualClock())
    await client.create(QUEUES, Queue(metadata=ObjectMeta(name="default")))
    server = WebhookServer(
        client, CollectorRegistry(), host="127.0.0.1", port=0, namespace="system", clock=client.clock
    )

    async def ask(name: str, note: str = "") -> bool:
        request: Any = make_mocked_request("POST", f"/{path}")
        request._read_bytes = review(name, note)
        answer = await getattr(server, f"_{path}")(request)
        return bool(json.loads(answer.body)["response"]["allowed"])

    large = asyncio.create_task(ask("large", "x" * 100_000))
    try:
        assert await asyncio.to_thread(begun.wait, 10)
        assert await ask("small")
        assert not large.done()
    finally:
        go_on.set()
    assert await large


def test_a_review_that_is_nested_too_deeply_is_no_review() -> None:
    deep = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    with pytest.raises(BadReview):
        read(deep)
