"""The commands of pages, run one after the other as they stand there; those that only ask run in this process."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.plane import REPOSITORY, asked, unisono

pytestmark = [pytest.mark.processes, pytest.mark.unshared]


@pytest.mark.parametrize(("page", "least"), [("backup", 11), ("history", 10)])
def test_the_commands_of_a_page_work(
    page: str, least: int, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = re.findall(r"^\$ unisono (.+)$", (REPOSITORY / "docs" / f"{page}.md").read_text(), re.MULTILINE)
    assert len(commands) >= least
    monkeypatch.setenv("UNISONO_DATA_DIR", str(tmp_path / "data"))
    try:
        for line in commands:
            words = line.split()
            unisono(*words, cwd=folder) if words[0] == "up" else asked(*words, cwd=folder)
    finally:
        asked("down", "--kill-pods", check=False)
