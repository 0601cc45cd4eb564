"""``unisono simulate``: what it prints, and what it says of bad files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from unisono.cli.main import cli
from unisono.errors import UnisonoError

WORKLOAD = """{"unisono": "workload", "version": 1}
{"name": "a", "submit": 0, "runSeconds": 60, "roles": [{"count": 2, "gpus": 4}]}
{"name": "b", "submit": 10, "runSeconds": 30, "roles": [{"gpus": 4}]}
"""
CLUSTER = "nodes: [{name: gpu, count: 2, cpu: 8, memory: 32Gi, gpus: 4, price: 10}]\n"


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    workload, cluster = tmp_path / "w.jsonl", tmp_path / "c.yaml"
    workload.write_text(WORKLOAD)
    cluster.write_text(CLUSTER)
    return str(workload), str(cluster)


def test_a_workload_is_simulated_and_its_metrics_are_one_line_of_json(files: tuple[str, str], tmp_path: Path) -> None:
    out = tmp_path / "jobs.jsonl"
    words = ["simulate", files[0], "--cluster", files[1], "-o", "json", "--jobs-out", str(out)]
    answer = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert answer.exit_code == 0
    assert answer.stdout.count("\n") == 1
    result = json.loads(answer.stdout)
    assert result["jobs"] == {"all": 2, "completed": 2}
    assert result["end"] == 90
    assert result["cost"]["total"] == 0.5
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(line["name"], line["started"], line["ended"]) for line in lines] == [("a", 0, 60), ("b", 60, 90)]


def test_people_get_a_table(files: tuple[str, str]) -> None:
    answer = CliRunner().invoke(cli, ["simulate", "run", files[0], "-c", files[1]], catch_exceptions=False)
    assert "2 jobs: 2 completed; 1m 30s simulated" in answer.stdout
    assert "completion time" in answer.stdout


def test_a_file_of_no_known_form_is_refused(files: tuple[str, str]) -> None:
    with pytest.raises(UnisonoError, match="the form of the workload is not recognised"):
        CliRunner().invoke(cli, ["simulate", files[1], "-c", files[1]], catch_exceptions=False)
