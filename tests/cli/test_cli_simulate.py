"""``unisono simulate``: what it prints, and what it says of bad files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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


# ---- options on how the world goes


def _run(files: tuple[str, str], *words: str) -> Any:
    told = CliRunner().invoke(
        cli, ["simulate", *files[:1], "-c", files[1], "-o", "json", *words], catch_exceptions=False
    )
    return json.loads(told.stdout)


@pytest.fixture
def racks(tmp_path: Path) -> tuple[str, str]:
    workload, cluster = tmp_path / "w.jsonl", tmp_path / "c.yaml"
    workload.write_text(WORKLOAD)
    cluster.write_text(
        "nodes:\n- {name: old, cpu: 8, memory: 32Gi, gpus: 4, gpuModel: A100}\n"
        "- {name: new, cpu: 8, memory: 32Gi, gpus: 4, gpuModel: H100}\n"
        "topology: [{name: leaf, size: 1}, {name: spine, size: 2}]\n"
    )
    return str(workload), str(cluster)


@pytest.mark.parametrize(
    ("words", "end"),
    [
        ((), 90),
        (("--topology-slowdown", "2=1.5"), 120),
        (("--model-speed", "A100=0.5,H100=2"), 135),
        (("--away", "new=10s-1m40s"), 160),
        (("--away", "new=70s"), 100),
        (("--away", "old=70s", "--away", "new=70s-2m"), 150),
    ],
)
def test_the_command_line_says_how_the_world_goes(racks: tuple[str, str], words: tuple[str, ...], end: int) -> None:
    assert _run(racks, *words)["end"] == end


def test_failures_follow_the_seed_and_their_mean_times(racks: tuple[str, str]) -> None:
    ends = {seed: _run(racks, "--failures", "node=60s,repair=10s", "--seed", str(seed))["end"] for seed in range(5)}
    assert len(set(ends.values())) > 1
    assert _run(racks, "--failures", "node=60s,repair=10s", "--seed", "3")["end"] == ends[3]
    assert _run(racks, "--failures", "pod=2000000h,domain=2000000h,tier=2")["end"] == 90


@pytest.mark.parametrize(
    ("option", "word", "message"),
    [
        ("--failures", "disk=3h", "there is no disk"),
        ("--failures", "repair=3h", "neither pod, node nor domain fails"),
        ("--failures", "node=soon", "'soon' is no time"),
        ("--failures", "domain=9h,tier=3", "there are no domains of tier 3: the topology has 2"),
        ("--topology-slowdown", "4=2", "there is no tier 4: the cluster's topology has 2"),
        ("--topology-slowdown", "2=0", "'0' is no number"),
        ("--model-speed", "V100=1", "no node has GPUs of the model V100, but A100, H100"),
        ("--model-speed", "A100", "'A100' is no NAME=VALUE"),
        ("--model-speed", "A100=1,A100=2", "A100 stands twice"),
        ("--away", "new=6h-2h", "ends before it begins"),
        ("--away", "gone=2h", "a node gone, which the cluster does not have"),
    ],
)
def test_what_an_option_says_in_vain_is_refused(racks: tuple[str, str], option: str, word: str, message: str) -> None:
    with pytest.raises(UnisonoError, match=message):
        _run(racks, option, word)


def test_a_sweep_takes_the_models_of_all_its_clusters(racks: tuple[str, str], tmp_path: Path) -> None:
    for model in ("V100", "L4"):
        (tmp_path / f"{model}.yaml").write_text(
            f"nodes: [{{name: gpu, count: 2, cpu: 8, memory: 32Gi, gpus: 4, gpuModel: {model}}}]"
        )
    clusters = ["-c", str(tmp_path / "V100.yaml"), "-c", str(tmp_path / "L4.yaml")]
    words = ["simulate", "sweep", "-w", racks[0], *clusters, "--processes", "1", "--out", str(tmp_path / "out.jsonl")]
    CliRunner().invoke(cli, [*words, "--model-speed", "V100=0.5,L4=0.25"], catch_exceptions=False)
    lines = [json.loads(line)["end"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert lines == [180, 360]
