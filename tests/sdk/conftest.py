"""Two control planes that the SDK starts: one with simulated nodes, one that runs processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from unisono.sdk import Client

NODES = ({"name": "sim", "count": 2, "capacity": {"cpu": 4, "memory": "8Gi"}},)


@pytest.fixture(autouse=True)
def own_data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A control plane that the developer runs must not take part."""
    monkeypatch.setenv("UNISONO_DATA_DIR", str(tmp_path / "none"))


@pytest.fixture(scope="package")
def simulated() -> Iterator[Client]:
    with Client(nodes=NODES, local_node=False) as client:
        yield client


@pytest.fixture(scope="package")
def machine() -> Iterator[Client]:
    with Client(private=True) as client:
        yield client
