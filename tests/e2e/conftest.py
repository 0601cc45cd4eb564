"""Fixtures that start control planes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.plane import MANIFESTS, RunningPlane, asked


@contextmanager
def starting(folder: Path) -> Iterator[Callable[..., RunningPlane]]:
    """Starts control planes in a folder; all are gone, with their pods, at the end."""
    planes: list[RunningPlane] = []

    def start(*arguments: str, nodes: str | None = None, program: tuple[str, ...] = ()) -> RunningPlane:
        if nodes is not None:
            file = folder / "nodes.yaml"
            file.write_text(nodes)
            arguments = (*arguments, "--nodes", str(file))
        plane = RunningPlane(folder / "data", arguments, program)
        planes.append(plane)
        plane.start()
        return plane

    yield start
    for plane in planes:
        plane.stop()
        if "--no-agent" not in plane.arguments:
            asked("down", "--kill-pods", "--data-dir", str(plane.data_dir), check=False)


@pytest.fixture
def start_plane(tmp_path: Path) -> Iterator[Callable[..., RunningPlane]]:
    """Starts control planes for one test. A start takes two seconds of a processor."""
    with starting(tmp_path) as start:
        yield start


@pytest.fixture(scope="module")
def start_shared_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., RunningPlane]]:
    """Starts control planes for all tests of a module."""
    with starting(tmp_path_factory.mktemp("plane")) as start:
        yield start


@pytest.fixture
def manifests() -> Path:
    """The folder of manifests that users of Volcano and Kubeflow write."""
    return MANIFESTS
