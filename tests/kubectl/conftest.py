"""A real kubectl against a real server, both on this machine."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from support.kubectl import Logs, Plane
from support.programs import needed
from unisono.apiserver.backend import Backend
from unisono.apiserver.http import openapi
from unisono.apiserver.server import ApiServer


@pytest.fixture(autouse=True, scope="session")
def one_document_for_servers_alike() -> Iterator[None]:
    """Servers with the same kinds share their OpenAPI document: each would write it again, for more than a second."""
    make = openapi._make_v2
    known: dict[tuple[tuple[bytes, ...], str, bool], openapi.Encoded] = {}

    def remembered(documents: list[bytes], version: str, protobuf: bool) -> openapi.Encoded:
        key = tuple(documents), version, protobuf
        if key not in known:
            known[key] = make(documents, version, protobuf)
        # What is compressed belongs to the event loop of one test.
        return openapi.Encoded(known[key].body)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(openapi, "_make_v2", remembered)
        yield


@pytest.fixture
def kubectl_binary() -> str:
    return needed("kubectl")


@pytest.fixture
async def plane(kubectl_binary: str) -> AsyncIterator[Plane]:
    with tempfile.TemporaryDirectory() as folder:
        backend = await Backend.open()
        metrics = CollectorRegistry()
        server = ApiServer(backend.service, data_dir=Path(folder) / "data", log_source=Logs(), registry=metrics)
        await server.start()
        home = Path(folder) / "home"
        home.mkdir()
        try:
            yield Plane(server, backend, backend.client(), home, kubectl_binary, metrics)
        finally:
            await server.stop()
            await backend.close()
