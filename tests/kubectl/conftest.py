"""A real kubectl against a real server, both on this machine."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from support.kubectl import Logs, Plane
from unisono.apiserver.backend import Backend
from unisono.apiserver.server import ApiServer

MISSING = "kubectl is not on the PATH: install the Debian package kubernetes-client"


@pytest.fixture
def kubectl_binary() -> str:
    found = shutil.which("kubectl")
    if found is None:
        if os.environ.get("CI"):
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    return found


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
