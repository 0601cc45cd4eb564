"""Fixtures that start control planes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.plane import MANIFESTS, RunningPlane, unisono


@pytest.fixture
def start_plane(tmp_path: Path) -> Iterator[Callable[..., RunningPlane]]:
    """Starts control planes; all are gone, with their pods, when the test ends."""
    planes: list[RunningPlane] = []

    def start(*arguments: str, nodes: str | None = None) -> RunningPlane:
        if nodes is not None:
            file = tmp_path / "nodes.yaml"
            file.write_text(nodes)
            arguments = (*arguments, "--nodes", str(file))
        plane = RunningPlane(tmp_path / "data", arguments)
        planes.append(plane)
        plane.start()
        return plane

    yield start
    for plane in planes:
        plane.stop()
        if "--no-agent" not in plane.arguments:
            unisono("down", "--kill-pods", "--data-dir", str(plane.data_dir), check=False)


@pytest.fixture
def manifests() -> Path:
    """The folder of manifests that users of Volcano and Kubeflow write."""
    return MANIFESTS
