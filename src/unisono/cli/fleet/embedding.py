"""Members on this machine: control planes of their own, each a process with its own data."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unisono.cli.fleet.processes import folder
from unisono.cli.options import Where
from unisono.errors import UnisonoError


class NotStarted(UnisonoError):
    """The control plane of an embedded member did not start."""


def embed(where: Where, name: str, nodes: Path, about: Mapping[str, Any], *, agent: bool) -> None:
    """Start the member's control plane where it does not run, and join it.

    Raises:
        NotStarted: it did not start; says what it said.

    """
    from unisono.cli.connection import run_async
    from unisono.cli.fleet.joining import join
    from unisono.standalone.nodes_file import read_nodes
    from unisono.standalone.paths import DataDir

    read_nodes(nodes)  # says what is wrong with it
    home = folder(where, name)
    data = DataDir.at(home)
    if data.running_pid() is None:
        home.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        words = ["up", "--detach", "--data-dir", str(home), "--nodes", str(nodes.absolute())]
        done = subprocess.run(
            [sys.executable, "-m", "unisono", *words, *([] if agent else ["--no-agent"])],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            said = done.stderr.strip().splitlines()
            raise NotStarted(f"the control plane of {name} did not start: {said[-1] if said else 'it said nothing'}")
    run_async(join(where, name, data.kubeconfig, None, about))
