"""A real API server asks the webhook: objects come back complete, and bad ones do not get in."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from unisono.api.annotations import CHECKED
from unisono.api.base import ObjectMeta
from unisono.api.core import Namespace
from unisono.api.kinds import JOBS, NAMESPACES, QUEUES
from unisono.install.admission import webhooks
from unisono.install.workloads import InstallOptions
from unisono.kube import kubeconfig
from unisono.kube.http import HttpClient
from unisono.kube.listening import AppListener
from unisono.webhook.server import WebhookServer

VARIABLE = "UNISONO_TEST_KUBECONFIG"
pytestmark = pytest.mark.skipif(VARIABLE not in os.environ, reason=f"{VARIABLE} names no cluster")
MUTATING = "admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
OUTCOMES = ("allowed", "refused")
NAME = f"webhook-test-{secrets.token_hex(4)}"


def place(configuration: dict[str, Any]) -> str:
    plural = f"{configuration['kind'].lower()}s"
    return f"/apis/{configuration['apiVersion']}/{plural}/{configuration['metadata']['name']}"


class World:
    """A cluster, requests to it, and the webhook that it asks."""

    def __init__(self, client: HttpClient, server: WebhookServer, registry: CollectorRegistry, space: str) -> None:
        self.client, self.server, self.registry, self.space = client, server, registry, space

    async def send(self, method: str, path: str, body: Any = None, **params: str) -> tuple[int, dict[str, Any]]:
        apply = method == "PATCH"
        status, _, answer = await self.client.request(
            method,
            path,
            body=None if body is None else json.dumps(body).encode(),
            params=params | ({"fieldManager": "test", "force": "true"} if apply else {}),
            content_type="application/apply-patch+yaml" if apply else "application/json",
        )
        return status, json.loads(answer)

    async def job(self, **spec: Any) -> tuple[int, dict[str, Any]]:
        pod = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
        body = {
            "apiVersion": JOBS.api_version,
            "kind": "Job",
            "metadata": {"generateName": "j-"},
            "spec": {"tasks": [{"replicas": 2, "template": pod}]} | spec,
        }
        return await self.send("POST", JOBS.path(self.space), body, dryRun="All")


@pytest.fixture
async def world(cluster_turn: None) -> AsyncIterator[World]:
    client = HttpClient(kubeconfig.load(Path(os.environ[VARIABLE])))
    space = await client.create(NAMESPACES, Namespace(metadata=ObjectMeta(generate_name="webhook-test-")))
    registry = CollectorRegistry()
    server = WebhookServer(
        client,
        registry,
        host="127.0.0.1",
        port=0,
        namespace=space.metadata.name,
        configuration=NAME,
        also=("127.0.0.1",),
    )
    made = World(client, server, registry, space.metadata.name)
    queue = {"apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": {"name": "default"}, "spec": {"weight": 1}}
    await made.send("POST", QUEUES.path(), queue)
    running = asyncio.create_task(server.run())
    configurations = webhooks(InstallOptions())
    try:
        async with asyncio.timeout(600):
            await server.ready.wait()
            for one in configurations:
                one["metadata"]["name"] = NAME
                for hook in one["webhooks"]:
                    path = hook["clientConfig"].pop("service")["path"]
                    hook["clientConfig"]["url"] = f"https://127.0.0.1:{server.port}{path}"
                    hook["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": made.space}}
                status, answer = await made.send("PATCH", place(one), one)
                assert status in (200, 201), answer
            await server.certificates.publish(await server.certificates.refresh(), NAME)
            while (await made.job(queue="no-such-queue"))[0] == 201:
                await asyncio.sleep(0.1)
            yield made
    finally:
        for one in configurations:
            await made.send("DELETE", place(one))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await made.send("DELETE", f"/api/v1/namespaces/{made.space}")
        await client.close()


async def test_jobs_come_back_with_defaults_and_bad_ones_are_refused(world: World) -> None:
    status, answer = await world.job()
    assert status == 201, answer
    assert answer["spec"]["queue"] == "default"
    assert answer["spec"]["minAvailable"] == 2
    assert answer["spec"]["tasks"][0]["name"] == "default0"
    status, answer = await world.job(queue="no-such-queue")
    assert status == 422
    assert 'queue.scheduling.volcano.sh "no-such-queue" not found' in answer["message"]


async def test_a_queue_made_a_moment_ago_takes_jobs(world: World) -> None:
    for number in range(5):
        name = f"{NAME}-{number}"
        queue = {"apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": {"name": name}, "spec": {"weight": 1}}
        status, answer = await world.send("POST", QUEUES.path(), queue)
        assert status in (201, 409), answer
        try:
            status, answer = await world.job(queue=name)
            assert status == 201, answer
        finally:
            await world.send("DELETE", QUEUES.path(None, name))


async def test_pods_are_not_asked_about(world: World) -> None:
    """A policy checks them; none is in force here."""
    notes = {"volcano.sh/jdb-min-available": "none"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "annotations": notes},
        "spec": {"schedulerName": "volcano", "containers": [{"name": "c", "image": "i"}]},
    }
    status, answer = await world.send("POST", f"/api/v1/namespaces/{world.space}/pods", pod, dryRun="All")
    assert status == 201, answer


async def test_the_other_spelling_of_a_guarantee_gets_through_default_validation(world: World) -> None:
    queue = {"apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": {"name": f"{NAME}-alias"}}
    queue["spec"] = {"guaranteed": {"cpu": 2}}
    status, answer = await world.send("POST", QUEUES.path(), queue, dryRun="All", fieldValidation="Strict")
    assert status == 201, answer
    assert answer["spec"]["guaranteed"] == {"cpu": 2}


def reviews(world: World, path: str) -> float:
    """How many new Jobs the webhook was asked about."""
    labels = {"path": path, "resource": JOBS.resource, "operation": "CREATE"}
    found = (
        world.registry.get_sample_value("unisono_webhook_answers_total", labels | {"outcome": o}) for o in OUTCOMES
    )
    return sum(value or 0.0 for value in found)


async def test_a_new_job_waits_for_one_review(world: World) -> None:
    before = {path: reviews(world, path) for path in ("mutate", "validate")}
    status, answer = await world.job()
    assert status == 201, answer
    assert answer["metadata"]["annotations"][CHECKED].startswith("default |")
    assert reviews(world, "mutate") == before["mutate"] + 1
    assert reviews(world, "validate") == before["validate"]


@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_nobody_passes_with_a_seal_of_his_own(world: World, method: str) -> None:
    body = {
        "apiVersion": JOBS.api_version,
        "kind": "Job",
        "metadata": {
            "name": "forged",
            "deletionTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {CHECKED: "no-such-queue |  |  | 1"},
        },
        "spec": {"queue": "no-such-queue", "tasks": [{"replicas": 1, "template": {"spec": {"containers": []}}}]},
    }
    path = JOBS.path(world.space) if method == "POST" else JOBS.path(world.space, "forged")
    status, answer = await world.send(method, path, body, dryRun="All")
    assert status == 422, answer


@pytest.mark.parametrize("turn", [1, 2], ids=["ours is asked again", "after the last time that ours is asked"])
async def test_a_queue_that_another_webhook_names_afterwards_is_checked(world: World, turn: int) -> None:
    """Kubernetes asks a webhook a second time at most; the seal tells what came after that."""
    asked = 0

    async def mutate(request: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        question = (await request.json())["request"]
        response: dict[str, Any] = {"uid": question["uid"], "allowed": True}
        # Another size needs another seal, and what ours changes the other one is shown again.
        patch: list[dict[str, Any]] = [{"op": "add", "path": "/spec/tasks/0/replicas", "value": 3}]
        if asked == turn:
            patch.append({"op": "add", "path": "/spec/queue", "value": "no-such-queue"})
        response |= {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(patch).encode()).decode()}
        return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})

    app = web.Application()
    app.router.add_post("/mutate", mutate)
    listener = await AppListener.open(app, "127.0.0.1", 0, tls=world.server.certificates.context)
    try:
        status, own = await world.send("GET", f"/apis/{MUTATING}/{NAME}")
        assert status == 200, own
        hook = next(hook for hook in own["webhooks"] if hook["name"].startswith("new-jobs"))
        other = hook | {"name": "jobs.other.webhook", "reinvocationPolicy": "IfNeeded"}
        other["clientConfig"] = hook["clientConfig"] | {"url": f"https://127.0.0.1:{listener.address[1]}/mutate"}
        body = {
            "apiVersion": own["apiVersion"],
            "kind": own["kind"],
            "metadata": {"name": f"{NAME}-z"},
            "webhooks": [other],
        }
        status, answer = await world.send("POST", f"/apis/{MUTATING}", body)
        assert status == 201, answer
        async with asyncio.timeout(600):
            while not asked:
                await world.job()
                await asyncio.sleep(0.1)
        asked = 0
        status, answer = await world.job()
        assert asked >= turn
        assert status == 422, answer
        assert '"no-such-queue" not found' in answer["message"]
        assert ("new-jobs" if turn == 1 else "gangs") + ".webhook.unisono" in answer["message"]
    finally:
        await world.send("DELETE", f"/apis/{MUTATING}/{NAME}-z")
        await listener.close()
