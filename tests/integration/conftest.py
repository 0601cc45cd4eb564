"""Every test of this folder runs on each API server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from integration_servers import SERVERS

from unisono.kube.kubeconfig import ClusterConfig


@pytest.fixture(params=SERVERS)
async def config(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ClusterConfig]:
    if request.param == "cluster":
        request.getfixturevalue("cluster_turn")
    async with SERVERS[request.param](tmp_path) as config:
        yield config
