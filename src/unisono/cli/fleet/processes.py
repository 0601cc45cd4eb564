"""Control planes of embedded members: where their data is, and their end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from unisono.cli.options import Where


def folder(where: Where, name: str) -> Path:
    """The data directory of an embedded member."""
    from unisono.standalone.paths import DataDir

    return DataDir.at(where.data_dir).root / "members" / name


def stop(where: Where, name: str) -> bool:
    """Stop the control plane of an embedded member; answers whether one ran."""
    from unisono.standalone.paths import DataDir

    home = folder(where, name)
    if not home.is_dir() or DataDir.at(home).running_pid() is None:
        return False
    words = ["down", "--data-dir", str(home)]
    return subprocess.run([sys.executable, "-m", "unisono", *words], capture_output=True, check=False).returncode == 0
