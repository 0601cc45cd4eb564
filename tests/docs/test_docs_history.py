"""The commands of docs/history.md, run one after the other as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from support.plane import PATIENCE, REPOSITORY, unisono
from unisono.history.database import Bounds

pytestmark = [pytest.mark.processes]

PAGE = (REPOSITORY / "docs" / "history.md").read_text()
COMMANDS = re.findall(r"^\$ unisono (.+)$", PAGE, re.MULTILINE)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where jobs of other users of this machine may work, too: pods are such users where this is root."""
    with TemporaryDirectory(prefix="unisono-docs-") as made:
        Path(made).chmod(0o755)
        yield Path(made)


def test_the_commands_of_the_page_work(tmp_path: Path, folder: Path) -> None:
    assert len(COMMANDS) >= 10
    environment = {**os.environ, "UNISONO_DATA_DIR": str(tmp_path / "data")}
    try:
        for line in COMMANDS:
            done = subprocess.run(
                [sys.executable, "-m", "unisono", *line.split()],
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                check=False,
            )
            assert done.returncode == 0, f"{line}: {done.stderr}"
    finally:
        unisono("down", "--kill-pods", check=False, env=environment)


def test_the_page_says_how_much_is_kept() -> None:
    bounds = Bounds()
    assert f"{bounds.detail_days:.0f} days" in PAGE
    assert f"{bounds.days:.0f} days" in PAGE
    assert f"{bounds.most_bytes // 2**20} MiB" in PAGE
