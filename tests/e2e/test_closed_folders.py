"""``unisono up`` as root, and jobs whose files lie where only root may go, as in a checkout below ``/root``."""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.plane import REPOSITORY, RunningPlane, unisono
from unisono.sdk import Client, Job

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root's pods run as users of their namespaces"),
]

Start = Callable[..., RunningPlane]


@pytest.fixture
def closed() -> Iterator[Path]:
    """A folder below one that only root may enter."""
    root = Path(tempfile.mkdtemp(prefix="unisono-closed-"))
    (root / "checkout").mkdir()
    yield root / "checkout"
    shutil.rmtree(root)


def test_unisono_run_shows_its_folder_to_the_pods(start_plane: Start, closed: Path) -> None:
    plane = start_plane()
    shutil.copytree(REPOSITORY / "examples", closed / "examples")
    secret = closed / "examples" / "secret"
    secret.write_text("secret")
    secret.chmod(0o600)
    done = unisono("run", "--data-dir", str(plane.data_dir), str(closed / "examples" / "digits-gang.yaml"))
    assert "test accuracy" in done.stdout
    assert f"==> namespace/default: its pods may read {closed}/examples from now on" in done.stdout
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  restartPolicy: Never\n  containers:\n"
    pod += "  - {name: main, image: none, command: [sh, -c, 'test ! -r secret && ls .. && ! touch x']}\n"
    (closed / "examples" / "pod.yaml").write_text(pod)
    done = unisono("run", "--data-dir", str(plane.data_dir), str(closed / "examples" / "pod.yaml"))
    assert "p | examples" in done.stdout
    assert "from now on" not in done.stdout


def test_the_sdk_shows_the_working_directory_to_the_pods(
    start_plane: Start, closed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane = start_plane()
    (closed / "hello.py").write_text("print('hello')\n")
    monkeypatch.chdir(closed)
    with Client(data_dir=plane.data_dir) as client:
        client.submit(Job("hello").task("main", command=["python", "hello.py"], image="none"))
        assert client.wait("hello").phase == "Completed"


@pytest.mark.more
@pytest.mark.skipif(
    shutil.which("mpirun") is None
    or shutil.which("sshd", path="/usr/sbin:/usr/bin") is None
    or importlib.util.find_spec("mpi4py") is None,
    reason="Open MPI, an ssh server or mpi4py is not installed",
)
def test_the_mpi_example_runs_without_the_label_for_privileged_pods(start_plane: Start) -> None:
    done = unisono("run", "--data-dir", str(start_plane().data_dir), str(REPOSITORY / "examples" / "mpi.yaml"))
    assert [f"rank {rank} of 4" in done.stdout for rank in range(4)] == [True] * 4
    assert done.stdout.count("the sum is 10") == 4
    assert "Accepted publickey for unisono-pod" in done.stdout
