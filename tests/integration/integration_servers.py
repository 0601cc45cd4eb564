"""API servers that the suite runs on: an embedded one always, a cluster where ``UNISONO_TEST_KUBECONFIG`` names one.

The cluster needs our kinds and no nodes; Kubernetes' own controllers may run there, but no other part of Unisono.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path

import pytest

from unisono.api.kinds import NODES, PRIORITY_CLASSES, QUEUES
from unisono.apiserver.backend import Backend
from unisono.apiserver.server import ApiServer
from unisono.errors import ApiError
from unisono.kube import kubeconfig
from unisono.kube.http import HttpClient
from unisono.kube.kubeconfig import ClusterConfig

PREFIX = "together-"
"""Of the namespaces of this suite, and of everything in no namespace that it makes."""
Open = Callable[[Path], AbstractAsyncContextManager[ClusterConfig]]


@asynccontextmanager
async def embedded(directory: Path) -> AsyncIterator[ClusterConfig]:
    backend = await Backend.open(directory / "state.db")
    server = ApiServer(backend.service, data_dir=directory)
    try:
        await server.start()
        yield kubeconfig.load(server.kubeconfig_path)
    finally:
        await server.stop()
        await backend.close()


@asynccontextmanager
async def cluster(directory: Path) -> AsyncIterator[ClusterConfig]:
    config = kubeconfig.load(Path(os.environ["UNISONO_TEST_KUBECONFIG"]))
    client = HttpClient(config)
    try:
        await _clear(client)
        nodes = (await client.list(NODES)).items
        if nodes:
            pytest.skip(f"the cluster has nodes of its own, such as {nodes[0].metadata.name}")
        yield config
    finally:
        await client.close()


async def _clear(client: HttpClient) -> None:
    """Take away what a former run left that was ended from outside.

    Its nodes would count as the cluster's own, and its webhook would be asked for ever.
    """
    for kind in ("mutating", "validating"):
        await client.request("DELETE", f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/unisono")
    for kind in (NODES, QUEUES, PRIORITY_CLASSES):
        for left in (await client.list(kind)).items:
            if left.metadata.name.startswith(PREFIX):
                with suppress(ApiError):
                    await client.delete(kind, left.metadata.name)


SERVERS: dict[str, Open] = {"embedded": embedded}
if "UNISONO_TEST_KUBECONFIG" in os.environ:
    SERVERS["cluster"] = cluster
