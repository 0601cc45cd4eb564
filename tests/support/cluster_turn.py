"""The cluster that ``UNISONO_TEST_KUBECONFIG`` names: one run of tests has it at a time, and finds it empty.

Components act on the whole cluster, so two runs would schedule each other's pods. A run therefore holds a Lease for as
long as it lasts; a run that was killed loses it within a minute, and what it left is taken away by the next one.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from unisono.kube import kubeconfig
from unisono.kube.client import Client
from unisono.kube.http import HttpClient
from unisono.kube.kubeconfig import ClusterConfig
from unisono.kube.leader import LeaderElector, LeadershipLost

VARIABLE = "UNISONO_TEST_KUBECONFIG"
PREFIXES = ("together-", "contract-", "rights-test-", "install-test-", "install-users-", "webhook-test-")
"""Of everything that the suites make on a cluster."""
_LEASE, _NAMESPACE = "unisono-tests", "default"
_EVERYWHERE = (
    "/api/v1/nodes",
    "/apis/scheduling.volcano.sh/v1beta1/queues",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    "/apis/resource.k8s.io/v1/deviceclasses",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
)
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_JOBS = "/apis/batch.volcano.sh/v1alpha1"


def config() -> ClusterConfig:
    """The cluster's address and credentials; the variable must be set."""
    return kubeconfig.load(Path(os.environ[VARIABLE]))


@contextmanager
def turn() -> Iterator[None]:
    """Have the cluster alone; waits for other runs, and clears what killed ones left."""
    mine, over = threading.Event(), threading.Event()
    errors: list[BaseException] = []

    def hold() -> None:
        try:
            asyncio.run(_hold(mine, over))
        except BaseException as error:
            errors.append(error)
        finally:
            mine.set()

    thread = threading.Thread(target=hold, name="cluster-turn", daemon=True)
    thread.start()
    mine.wait()
    if errors:
        raise errors[0]
    try:
        yield
    finally:
        over.set()
        thread.join()


async def _hold(mine: threading.Event, over: threading.Event) -> None:
    client = HttpClient(config())

    async def work(_: Client) -> None:
        if not mine.is_set():
            await clear(client)
            mine.set()
        while not over.is_set():
            await asyncio.sleep(0.1)

    identity = f"{os.getpid()}-{secrets.token_hex(4)}"
    try:
        while not over.is_set():
            elector = LeaderElector(
                client, _LEASE, _NAMESPACE, identity, lease_seconds=60.0, renew_deadline=40.0, retry_seconds=1.0
            )
            try:
                await elector.run(work)
            except LeadershipLost:
                # The server did not answer for long; nobody else has run here, unless it answered them.
                continue
    finally:
        await client.close()


async def clear(client: HttpClient) -> None:
    """Take away what runs left that were ended from outside; what hinders others goes first."""
    for kind in ("mutating", "validating"):
        path = f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations"
        for name in await _names(client, path):
            if name.startswith(("unisono", *PREFIXES)):
                await client.request("DELETE", f"{path}/{name}")
    for path in _EVERYWHERE:
        await _clear(client, path)
    await _clear(client, _LEASES)
    spaces = [name for name in await _names(client, "/api/v1/namespaces") if name.startswith(PREFIXES)]
    for space in spaces:
        # First the namespace, so that nothing is made in it any more. Nobody runs the pods, nor says that they ended.
        await client.request("DELETE", f"/api/v1/namespaces/{space}")
        await _all(client, f"{_JOBS}/namespaces/{space}/jobs")
        await _all(client, f"/api/v1/namespaces/{space}/pods")


async def _all(client: HttpClient, path: str) -> None:
    body = json.dumps({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}).encode()
    await client.request("DELETE", path, body=body)


async def _clear(client: HttpClient, path: str) -> None:
    for name in await _names(client, path):
        if name.startswith(PREFIXES):
            await client.request("DELETE", f"{path}/{name}")


async def _names(client: HttpClient, path: str) -> list[str]:
    status, _, answer = await client.request("GET", path)
    items: list[dict[str, Any]] = json.loads(answer)["items"] if status == 200 else []
    return [item["metadata"]["name"] for item in items]
