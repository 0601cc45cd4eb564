"""The commands of docs/backup.md, run one after the other as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.plane import PATIENCE, REPOSITORY, unisono

pytestmark = [pytest.mark.processes]

COMMANDS = re.findall(r"^\$ unisono (.+)$", (REPOSITORY / "docs" / "backup.md").read_text(), re.MULTILINE)


def test_the_commands_of_the_page_work(tmp_path: Path) -> None:
    assert len(COMMANDS) >= 11
    environment = {**os.environ, "UNISONO_DATA_DIR": str(tmp_path / "data")}
    try:
        for line in COMMANDS:
            done = subprocess.run(
                [sys.executable, "-m", "unisono", *line.split()],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                check=False,
            )
            assert done.returncode == 0, f"{line}: {done.stderr}"
    finally:
        unisono("down", "--kill-pods", check=False, env=environment)
