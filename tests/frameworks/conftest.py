"""One control plane for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from api_reader import Reader
from framework_jobs import Jobs

from support.plane import RunningPlane, unisono


@pytest.fixture(scope="session")
def framework_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlane]:
    plane = RunningPlane(tmp_path_factory.mktemp("frameworks") / "data", ())
    plane.start()
    # Jobs that start sshd, and programs below directories of the tests that other users may not enter.
    plane.kubectl("label", "namespace", "default", "pod-security.kubernetes.io/enforce=privileged")
    yield plane
    plane.stop()
    unisono("down", "--kill-pods", "--data-dir", str(plane.data_dir), check=False)


@pytest.fixture(scope="session")
def reader(framework_plane: RunningPlane) -> Reader:
    return Reader(framework_plane)


@pytest.fixture
def jobs(framework_plane: RunningPlane, reader: Reader, tmp_path: Path) -> Iterator[Jobs]:
    """Submits jobs; they are gone, with their pods, when the test ends."""
    made = Jobs(framework_plane, reader, tmp_path)
    yield made
    made.clean()
