"""Fixtures that start control planes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.plane import REPOSITORY, RunningPlane, unisono

MISSION = REPOSITORY.parent / "shared" / "mission" / "examples"


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
        unisono("down", "--kill-pods", "--data-dir", str(plane.data_dir), check=False)


@pytest.fixture
def mission() -> Path:
    """The folder of the mission's manifests."""
    if not MISSION.exists():
        pytest.skip("the mission's manifests are not beside this checkout")
    return MISSION
