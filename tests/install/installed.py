"""A cluster that ``UNISONO_TEST_KUBECONFIG`` names, and raw requests to any server."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from support import cluster_turn
from support.cluster_turn import VARIABLE
from unisono.apiserver.backend import Backend
from unisono.apiserver.server import ApiServer
from unisono.kube import kubeconfig
from unisono.kube.http import HttpClient

needs_cluster = pytest.mark.skipif(VARIABLE not in os.environ, reason=f"{VARIABLE} names no cluster")
TRIES = 2400


@asynccontextmanager
async def cluster() -> AsyncIterator[HttpClient]:
    client = HttpClient(cluster_turn.config())
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def servers(kind: str, directory: Path) -> AsyncIterator[tuple[HttpClient, Path]]:
    """An ``embedded`` server, or the ``cluster`` where one is named: a client of its administrator, its kubeconfig."""
    if kind == "cluster":
        if VARIABLE not in os.environ:
            pytest.skip(f"{VARIABLE} names no cluster")
        async with cluster() as client:
            yield client, Path(os.environ[VARIABLE])
        return
    backend = await Backend.open(directory / "state.db")
    server = ApiServer(backend.service, data_dir=directory)
    await server.start()
    client = HttpClient(kubeconfig.load(server.kubeconfig_path))
    try:
        yield client, Path(server.kubeconfig_path)
    finally:
        await client.close()
        await server.stop()
        await backend.close()


async def send(
    client: HttpClient, method: str, path: str, body: Any = None, *, dry: bool = False
) -> tuple[int, dict[str, Any]]:
    params = {"dryRun": "All"} if dry else {}
    kind = "application/json"
    if method == "PATCH":
        params |= {"fieldManager": "test", "force": "true"}
        kind = "application/apply-patch+yaml"
    data = None if body is None else json.dumps(body).encode()
    status, _, answer = await client.request(method, path, body=data, params=params, content_type=kind)
    return status, json.loads(answer)


async def eventually(check: Callable[[], Any]) -> Any:
    """The first answer that is true; what another process does is looked at again and again."""
    for _ in range(TRIES):
        found = await check()
        if found:
            return found
        await asyncio.sleep(0.1)
    raise AssertionError("it did not come true")


def refused(answer: Sequence[Any]) -> str:
    """The message of a refusal; fails when the object was accepted."""
    status, value = answer
    assert status in (400, 403, 422), value
    return str(value["message"])


def place_of(value: dict[str, Any]) -> str:
    """Path of a policy or its binding."""
    plural = {
        "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
        "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
    }[value["kind"]]
    return f"/apis/{value['apiVersion']}/{plural}/{value['metadata']['name']}"
