"""The webhook of a world: a part like the others, which a server asks that knows webhook configurations."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

from prometheus_client import CollectorRegistry

from support.ports import free_port
from unisono.api.kinds import JOBS
from unisono.install.admission import webhooks
from unisono.install.workloads import InstallOptions
from unisono.kube.client import Client
from unisono.kube.clock import SYSTEM_CLOCK
from unisono.kube.http import HttpClient
from unisono.kube.pace import Backoff
from unisono.standalone.component import keep_running
from unisono.webhook.server import WebhookServer

_API = "/apis/admissionregistration.k8s.io/v1"


class Hooks:
    """The webhook server, and the configurations by which it is asked about everything but other namespaces."""

    def __init__(self, admin: HttpClient, namespace: str) -> None:
        self._admin, self._namespace = admin, namespace
        # The same after a restart, or the server would ask nobody.
        self.port = free_port()
        self._ready = asyncio.Event()
        self._asked = False
        self._registry = CollectorRegistry()
        self._configurations = webhooks(InstallOptions(namespace=namespace))
        for one in self._configurations:
            one["metadata"]["name"] = namespace
            for hook in one["webhooks"]:
                path = hook["clientConfig"].pop("service")["path"]
                hook["clientConfig"]["url"] = f"https://127.0.0.1:{self.port}{path}"
                hook["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}

    async def work(self, client: Client) -> None:
        """Serve until cancelled, also where the server refuses for a while."""
        assert isinstance(client, HttpClient)

        async def once() -> None:
            self._registry = CollectorRegistry()
            server = WebhookServer(
                client,
                self._registry,
                host="127.0.0.1",
                port=self.port,
                namespace=self._namespace,
                configuration=self._namespace,
                also=("127.0.0.1",),
            )
            running = asyncio.ensure_future(server.run())
            ready = asyncio.ensure_future(server.ready.wait())
            try:
                await asyncio.wait((running, ready), return_when=asyncio.FIRST_COMPLETED)
                if server.ready.is_set():
                    self._ready.set()
                await running
            finally:
                ready.cancel()
                running.cancel()
                await asyncio.gather(running, ready, return_exceptions=True)

        await keep_running("webhook", once, SYSTEM_CLOCK, Backoff(base=0.1, cap=1.0), lambda: False)

    async def let_ask(self) -> None:
        """Apply the configurations, without an authority; nothing where the server does not know them."""
        status, served = await self._send("GET", _API)
        if status != 200 or not any(one["name"] == "mutatingwebhookconfigurations" for one in served["resources"]):
            return
        self._asked = True
        for one in self._configurations:
            status, answer = await self._send("PATCH", _path(one), one)
            assert status in (200, 201), answer

    async def asked(self) -> None:
        """Return when the webhook works, and the server asks it and trusts its answers."""
        await self._ready.wait()
        job = {
            "apiVersion": JOBS.api_version,
            "kind": "Job",
            "metadata": {"generateName": "probe-"},
            "spec": {
                "queue": "no-such-queue",
                "tasks": [{"replicas": 1, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}],
            },
        }
        while self._asked:
            status, answer = await self._send("POST", JOBS.path(self._namespace), job, dryRun="All")
            if status == 422 and "no-such-queue" in answer["message"]:
                return
            await asyncio.sleep(0.1)

    def reviews(self) -> Counter[tuple[str, str, str]]:
        """What the webhook was asked since its last start: path, resource, operation."""
        found: Counter[tuple[str, str, str]] = Counter()
        for family in self._registry.collect():
            for sample in family.samples:
                if sample.name == "unisono_webhook_answers_total":
                    labels = sample.labels
                    found[labels["path"], labels["resource"], labels["operation"]] += int(sample.value)
        return found

    async def remove(self) -> None:
        """Take the configurations away."""
        if self._asked:
            for one in self._configurations:
                await self._send("DELETE", _path(one))

    async def _send(self, method: str, path: str, body: Any = None, **params: str) -> tuple[int, dict[str, Any]]:
        apply = method == "PATCH"
        status, _, answer = await self._admin.request(
            method,
            path,
            body=None if body is None else json.dumps(body).encode(),
            params={"fieldManager": "test", "force": "true"} if apply else params,
            content_type="application/apply-patch+yaml" if apply else "application/json",
        )
        return status, json.loads(answer) if answer.startswith(b"{") else {}


def _path(configuration: dict[str, Any]) -> str:
    return f"{_API}/{configuration['kind'].lower()}s/{configuration['metadata']['name']}"
