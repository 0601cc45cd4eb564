"""The implementations of ``kube.Client`` that the contract holds for.

To add one, write an async context manager that takes a directory and yields a client, and name it in
``IMPLEMENTATIONS``. Where ``UNISONO_TEST_KUBECONFIG`` names a kubeconfig, the contract is also held on that cluster; it
needs the definitions of our kinds and a queue named ``default``.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from support import cluster_turn
from support.memory import MemoryClient
from unisono.api.base import ObjectMeta
from unisono.api.core import Namespace
from unisono.api.kinds import NAMESPACES, PODS
from unisono.apiserver.backend import Backend
from unisono.apiserver.server import ApiServer
from unisono.errors import ApiError
from unisono.kube import kubeconfig
from unisono.kube.client import Client
from unisono.kube.command_transport import CommandTransport
from unisono.kube.http import HttpClient
from unisono.kube.transport import Transport


@dataclass(frozen=True)
class Implementation:
    """A client and the server behind it.

    Attributes:
        open: context manager; its argument is an empty directory.
        serves: a real API server is behind it: it validates, sets defaults, collects garbage and keeps real time.
        admits: it also holds our rules that no schema can say, such as that a job's queue exists.
    """

    open: Callable[[Path], AbstractAsyncContextManager[Client]]
    serves: bool = True
    admits: bool = True


@asynccontextmanager
async def local(directory: Path) -> AsyncIterator[Client]:
    backend = await Backend.open(directory / "state.db")
    try:
        yield backend.client()
    finally:
        await backend.close()


@asynccontextmanager
async def http(directory: Path, transport: type[Transport] = Transport) -> AsyncIterator[Client]:
    backend = await Backend.open(directory / "state.db")
    server = ApiServer(backend.service, data_dir=directory)
    try:
        await server.start()
        config = kubeconfig.load(server.kubeconfig_path)
        client = HttpClient(config, transport=transport(config))
        try:
            yield client
        finally:
            await client.close()
    finally:
        await server.stop()
        await backend.close()


def command(directory: Path) -> AbstractAsyncContextManager[Client]:
    """As commands ask: with the standard library's client."""
    return http(directory, CommandTransport)


@asynccontextmanager
async def memory(directory: Path) -> AsyncIterator[Client]:
    client = MemoryClient()
    yield client
    await client.close()


@asynccontextmanager
async def cluster(directory: Path) -> AsyncIterator[Client]:
    client = HttpClient(cluster_turn.config())
    try:
        yield client
    finally:
        await client.close()


IMPLEMENTATIONS = {
    "local": Implementation(local),
    "http": Implementation(http),
    "command": Implementation(command),
    "memory": Implementation(memory, serves=False, admits=False),
}
if cluster_turn.VARIABLE in os.environ:
    IMPLEMENTATIONS["cluster"] = Implementation(cluster, admits=False)


@pytest.fixture(params=IMPLEMENTATIONS)
def implementation(request: pytest.FixtureRequest) -> Implementation:
    if request.param == "cluster":
        request.getfixturevalue("cluster_turn")
    return IMPLEMENTATIONS[request.param]


@pytest.fixture
async def client(implementation: Implementation, tmp_path: Path) -> AsyncIterator[Client]:
    async with implementation.open(tmp_path) as client:
        yield client


@pytest.fixture
def serves(implementation: Implementation) -> None:
    if not implementation.serves:
        pytest.skip("there is no API server behind this client")


@pytest.fixture
def admits(implementation: Implementation) -> None:
    if not implementation.admits:
        pytest.skip("our admission does not stand before this server")


@pytest.fixture
async def namespace(client: Client) -> AsyncIterator[str]:
    """A namespace of the test's own; a cluster that goes on living gets rid of it."""
    made = await client.create(NAMESPACES, Namespace(metadata=ObjectMeta(generate_name="contract-")))
    yield made.metadata.name
    with suppress(ApiError):
        # Nobody runs these pods, so nobody would ever say that they have ended.
        for pod in (await client.list(PODS, made.metadata.name)).items:
            await client.delete(PODS, pod.metadata.name, made.metadata.name, grace_seconds=0)
        await client.delete(NAMESPACES, made.metadata.name)
