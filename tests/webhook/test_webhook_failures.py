"""A review at which the webhook itself fails is answered with a refusal that names the object; the server goes on."""

from __future__ import annotations

import json
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


def review(name: str) -> bytes:
    task = {"replicas": 1, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}
    value = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "ns"},
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


def test_a_review_that_is_nested_too_deeply_is_no_review() -> None:
    deep = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    with pytest.raises(BadReview):
        read(deep)
