"""The walk of docs/fleet.md: its commands, with the files that it shows."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.plane import REPOSITORY, unisono

pytestmark = [pytest.mark.more, pytest.mark.processes, pytest.mark.xdist_group("processes")]

FILES = ("t4.yaml", "a100.yaml", "train.yaml")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Environment of a user who has nothing yet; what the walk leaves running is stopped."""
    environment = {**os.environ, "HOME": str(tmp_path), "UNISONO_DATA_DIR": str(tmp_path / "hub")}
    environment.pop("KUBECONFIG", None)
    yield environment
    for folder in (tmp_path / "hub", *(tmp_path / "hub" / "members").glob("*")):
        unisono("down", "--data-dir", str(folder), check=False, env=environment)


def test_the_walk(home: dict[str, str], tmp_path: Path) -> None:
    page = (REPOSITORY / "docs" / "fleet.md").read_text()
    walk = page[page.index("## A walk") : page.index("## Join")]
    for name, text in zip(FILES, re.findall(r"```yaml\n(.*?)```", walk, re.DOTALL), strict=True):
        (tmp_path / name).write_text(text)
    told: dict[str, str] = {}
    for block in re.findall(r"```console\n(.*?)```", walk, re.DOTALL):
        for line in block.splitlines():
            words = shlex.split(line.removeprefix("$ unisono "))
            told[" ".join(words[:3])] = unisono(*words, cwd=tmp_path, env=home).stdout
    assert "It takes work: 2 nodes" in told["fleet embed gpu1"]
    assert re.search(r"^gpu2 +True .* 16 nvidia-a100 +eu", told["fleet list"], re.MULTILINE), told["fleet list"]
    assert "job/train" in told["fleet explain train"]
    assert "nvidia.com/gpu" in told["fleet top"]
    assert "The control plane of gpu1 is stopped" in told["fleet leave gpu1"]
