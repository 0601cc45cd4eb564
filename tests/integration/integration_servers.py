"""API servers that the suite runs on: an embedded one always, a cluster where ``UNISONO_TEST_KUBECONFIG`` names one.

The cluster needs our kinds and no nodes; Kubernetes' own controllers may run there, but no other part of Unisono.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from support import cluster_turn
from unisono.api.kinds import NODES
from unisono.apiserver.backend import Backend
from unisono.apiserver.server import ApiServer
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
    config = cluster_turn.config()
    client = HttpClient(config)
    try:
        nodes = (await client.list(NODES)).items
        if nodes:
            pytest.skip(f"the cluster has nodes of its own, such as {nodes[0].metadata.name}")
        yield config
    finally:
        await client.close()


SERVERS: dict[str, Open] = {"embedded": embedded}
if cluster_turn.VARIABLE in os.environ:
    SERVERS["cluster"] = cluster
