"""A control plane with simulated nodes, and a way to run programs against it as its users do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.plane import RunningPlane

PROGRAMS = Path(__file__).parent / "programs"
NODES = "- {name: node, count: 2, capacity: {cpu: 8, memory: 32Gi}}"
PATIENCE = 600.0


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlane]:
    """Scheduler, controllers and two simulated nodes behind an API server over TLS."""
    folder = tmp_path_factory.mktemp("clients")
    (folder / "nodes.yaml").write_text(NODES)
    found = RunningPlane(folder / "data", ("--no-agent", "--nodes", str(folder / "nodes.yaml")))
    found.start()
    yield found
    found.stop()


@pytest.fixture
def environment(plane: RunningPlane, tmp_path: Path) -> dict[str, str]:
    """What a program finds: the kubeconfig and a home of its own."""
    return {"PATH": os.environ["PATH"], "KUBECONFIG": str(plane.kubeconfig), "HOME": str(tmp_path)}


@pytest.fixture
def run(environment: dict[str, str]) -> Callable[..., str]:
    """Run a program of ``programs``, with a namespace of its own as the argument, to its end; its output."""

    def start(program: str, *arguments: str, **options: Any) -> str:
        done = subprocess.run(
            [sys.executable, str(PROGRAMS / program), *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
            **options,
        )
        assert done.returncode == 0, f"{program}: {done.stdout}\n{done.stderr}"
        return done.stdout

    return start
