"""The commands of the page on the simulator run as written, on the files that the page shows."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from support.plane import REPOSITORY
from unisono.cli.main import cli
from unisono.engine.config_file.reader import DEFAULT_TEXT

PAGE = (REPOSITORY / "docs" / "simulator.md").read_text()
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _blocks(language: str) -> list[str]:
    return [match[2] for match in BLOCK.finditer(PAGE) if match[1] == language]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the page's commands name, in the working directory."""
    monkeypatch.chdir(tmp_path)
    workload = next(text for text in _blocks("json") if '"workload"' in text)
    for name in ("workload.jsonl", "other.jsonl"):
        (tmp_path / name).write_text(workload)
    (tmp_path / "cluster.yaml").write_text(next(text for text in _blocks("yaml") if "gpuModel" in text))
    config = DEFAULT_TEXT
    for name in ("scheduler.conf", "fifo.conf"):
        (tmp_path / name).write_text(config)
    (tmp_path / "easy.conf").write_text(f"{config}  - name: reservation\n")
    return tmp_path


@pytest.mark.parametrize("text", _blocks("sh"), ids=lambda text: text.split()[2])
def test_commands_of_the_page_run(text: str, folder: Path) -> None:
    for line in (
        text.replace("--jobs 5000 --load 0.9", "--jobs 50 --load 0.1")
        .replace("--seeds 0-9", "--seeds 0-1")
        .splitlines()
    ):
        words = line.split()
        assert words[0] == "unisono"
        extra = ["--processes", "1"] if words[2] == "sweep" else []
        answer = CliRunner().invoke(cli, words[1:] + extra, catch_exceptions=False)
        assert answer.exit_code == 0, line
        if words[-1] == "json":
            assert json.loads(answer.stdout)["jobs"]["completed"] == 2


def test_every_metric_of_a_run_is_described(folder: Path) -> None:
    answer = CliRunner().invoke(cli, ["simulate", "workload.jsonl", "-c", "cluster.yaml", "-o", "json"])
    inputs = {"unisono", "version", "workload", "cluster", "config", "configHash", "seed"}
    described = PAGE[PAGE.index("## Metrics") :]
    for key in json.loads(answer.stdout).keys() - inputs:
        assert f"`{key}`" in described, key
