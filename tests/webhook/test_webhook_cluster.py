"""A real API server asks the webhook: objects come back complete, and bad ones do not get in."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from unisono.api.base import ObjectMeta
from unisono.api.core import Namespace
from unisono.api.kinds import JOBS, NAMESPACES, QUEUES
from unisono.install.options import InstallOptions
from unisono.install.webhooks import webhooks
from unisono.kube import kubeconfig
from unisono.kube.http import HttpClient
from unisono.webhook.server import WebhookServer

VARIABLE = "UNISONO_TEST_KUBECONFIG"
pytestmark = pytest.mark.skipif(VARIABLE not in os.environ, reason=f"{VARIABLE} names no cluster")
NAME = f"webhook-test-{secrets.token_hex(4)}"


def place(configuration: dict[str, Any]) -> str:
    plural = f"{configuration['kind'].lower()}s"
    return f"/apis/{configuration['apiVersion']}/{plural}/{configuration['metadata']['name']}"


class World:
    """A cluster, requests to it, and the webhook that it asks."""

    def __init__(self, client: HttpClient, server: WebhookServer, space: str) -> None:
        self.client, self.server, self.space = client, server, space

    async def send(self, method: str, path: str, body: Any = None, **params: str) -> tuple[int, dict[str, Any]]:
        import json

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
    server = WebhookServer(
        client,
        CollectorRegistry(),
        host="127.0.0.1",
        port=0,
        namespace=space.metadata.name,
        configuration=NAME,
        also=("127.0.0.1",),
    )
    made = World(client, server, space.metadata.name)
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
