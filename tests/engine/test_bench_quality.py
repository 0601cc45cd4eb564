"""benchmarks.quality: suites on small generated traces, and results that are not worked out twice."""

from __future__ import annotations

import csv
import gzip
import json
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))


def write_rows(file: Path, rows: list[dict[str, Any]]) -> None:
    with gzip.open(file, "wt", encoding="utf-8") as packed:
        writer = csv.DictWriter(packed, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture
def openb_folder(tmp_path: Path) -> Path:
    """Twenty nodes and two hundred pods in the form of the openb lists."""
    draw = Random(1)
    folder = tmp_path / "openb-fgd-2023"
    folder.mkdir()
    nodes = [
        {
            "sn": f"s{at}",
            "cpu_milli": 64000,
            "memory_mib": 262144,
            "gpu": draw.choice((2, 8)),
            "model": draw.choice("AB"),
        }
        for at in range(20)
    ]
    write_rows(folder / "openb_node_list_gpu_node.csv.gz", nodes)
    pods = []
    for at in range(200):
        gpus, milli = draw.choice(((0, 0), (1, 300), (1, 600), (1, 1000), (2, 1000)))
        spec = draw.choice(("", "", "A", "A|B"))
        asked = {"cpu_milli": 4000, "memory_mib": 1024, "num_gpu": gpus, "gpu_milli": milli, "gpu_spec": spec}
        pods.append({"name": f"p{at:03}", **asked})
    write_rows(folder / "openb_pod_list_default.csv.gz", pods)
    return folder


@pytest.mark.parametrize("policy", ["random", "dot-product", "clustering", "packing", "best-fit", "fgd", "unisono"])
def test_a_filling_is_a_function_of_its_seed(openb_folder: Path, policy: str) -> None:
    openb = import_module("benchmarks.quality.openb")
    first, again = (openb.run(openb_folder, policy, "default", 42) for _ in range(2))
    assert first["unallocated"] == again["unallocated"]
    assert 0 <= first["unallocated"] < 40
    assert 0 < first["placed"] <= first["arrivals"]


def test_learning_does_not_depend_on_how_arrivals_are_put_into_cycles(
    openb_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    openb = import_module("benchmarks.quality.openb")
    together = openb.run(openb_folder, "unisono", "default", 43)
    cycles = openb.jobs

    def one_each(order: Any) -> Any:
        return [job.__class__(**{**fields(job), "submit": float(at)}) for at, job in enumerate(cycles(order))]

    def fields(job: Any) -> dict[str, Any]:
        return {name: getattr(job, name) for name in job.__struct_fields__}

    monkeypatch.setattr(openb, "jobs", one_each)
    alone = openb.run(openb_folder, "unisono", "default", 43)
    assert (alone["unallocated"], alone["placed"]) == (together["unallocated"], together["placed"])


def test_runs_that_are_in_the_file_are_not_done_again(tmp_path: Path) -> None:
    runner = import_module("benchmarks.quality.runner")
    calls: list[int] = []

    def call(number: int) -> dict[str, Any]:
        calls.append(number)
        return {"figure": number * 2}

    cases = [runner.Case("Q0", {"number": number}, call, (number,)) for number in range(3)]
    file, said = tmp_path / "out.jsonl", []
    runner.run_all(cases[:2], file, 1, said.append)
    with file.open("a", encoding="utf-8") as out:
        out.write('{"suite": "Q0", "numb')  # a run that was killed while it wrote
    runner.run_all(cases, file, 1, said.append)
    assert calls == [0, 1, 2]
    assert [line["figure"] for line in runner.done(file)] == [0, 2, 4]
    assert "about" in said[-1]


def test_the_page_gets_its_tables(openb_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main = import_module("benchmarks.quality.__main__")
    out, page = tmp_path / "out.jsonl", tmp_path / "page.md"
    page.write_text("before\n<!-- Q1: begin -->\nold\n<!-- Q1: end -->\nafter\n", encoding="utf-8")
    given = ["--traces", str(openb_folder.parent), "--seeds", "1", "--only", "best-fit", "--only", "default"]
    monkeypatch.setattr(sys, "argv", ["quality", "Q1", *given, "--out", str(out)])
    assert main.main() == 0
    assert json.loads(out.read_text(encoding="utf-8"))["policy"] == "best-fit"
    main.write_page(out, ["Q1"], page)
    text = page.read_text(encoding="utf-8")
    assert "| default |" in text
    assert "old" not in text
    assert text.startswith("before\n") and text.endswith("after\n")


def test_other_lists_of_the_folder_run_by_their_names(
    openb_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    main = import_module("benchmarks.quality.__main__")
    out, (known,) = tmp_path / "out.jsonl", openb_folder.glob("openb_pod_list_default.csv.gz")
    known.with_name("openb_pod_list_own.csv.gz").write_bytes(known.read_bytes())
    given = ["--traces", str(openb_folder.parent), "--seeds", "1", "--only", "best-fit", "--out", str(out), "--only"]
    monkeypatch.setattr(sys, "argv", ["quality", "Q1", *given, "own"])
    assert main.main() == 0
    assert [line["trace"] for line in map(json.loads, out.read_text(encoding="utf-8").splitlines())] == ["own"]
    assert "| own |" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["quality", "Q1", *given, "owm"])
    with pytest.raises(SystemExit):
        main.main()
    assert "--only owm: there is no such policy or trace here; known are best-fit," in capsys.readouterr().err


def test_short_work_first_beats_knowing_nothing(tmp_path: Path) -> None:
    """A list in Muri's form: a long wide job, then short ones; with run times the short ones wait less."""
    muri = import_module("benchmarks.quality.muri")
    folder = tmp_path / "muri-2022"
    folder.mkdir()
    wide = [{"job_id": at, "num_gpu": 64, "submit_time": at, "iterations": 10**5} for at in range(2)]
    short = [{"job_id": at, "num_gpu": 8, "submit_time": 1000 * at, "iterations": 10**3} for at in range(2, 30)]
    rows = [{**row, "model_name": "m", "duration": 0, "iteration_time": 1000} for row in [*wide, *short]]
    write_rows(folder / "trace1.csv.gz", rows)
    found = {policy: muri.run(folder, policy, "trace1") for policy in ("srsf", "sjf", "las")}
    assert all(one["unfinished"] == 0 for one in found.values())
    assert found["srsf"]["meanJct"] < found["sjf"]["meanJct"]
    assert found["srsf"]["meanJct"] <= found["las"]["meanJct"]
    lines = [{"policy": policy, "trace": "trace1", **figures} for policy, figures in found.items()]
    assert muri.section(lines).count("| trace1 |") == 3
    only = import_module("benchmarks.quality.runner").Only(["trace2"])
    (folder / "trace2.csv.gz").write_bytes((folder / "trace1.csv.gz").read_bytes())
    assert [case.key["trace"] for case in muri.cases("Q3", tmp_path, only)] == ["trace2"]
    assert "| trace2 |" in muri.section([{**lines[0], "trace": "trace2"}])


def test_pooling_starts_jobs_that_shares_of_queues_keep_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list in Philly's form; jobs of other days, and of virtual clusters that are not listed, are left out."""
    philly = import_module("benchmarks.quality.philly")
    monkeypatch.setattr(philly, "NODES", 2)
    folder = tmp_path / "philly-sia"
    folder.mkdir()
    write_rows(folder / "philly.csv.gz", [_philly(at) for at in range(60)])
    (folder / "philly_vc_nodes_helios.csv").write_text("vc,node num\na,3\nb,1\n", encoding="utf-8")
    found = {policy: philly.run(tmp_path, policy) for policy in ("easy", "unisono", "queues")}
    assert {one["unfinished"] for one in found.values()} == {0}
    given, _ = philly.jobs(tmp_path)
    assert {job.queue for job in given} == {"a", "b"}
    assert min(job.submit for job in given) >= 0
    assert len(given) < 60
    assert found["unisono"]["meanJct"] <= found["easy"]["meanJct"]
    assert set(found["queues"]["waitByQueue"]) == {"a", "b"}
    assert 0 <= found["queues"]["shareDeviation"] <= 1
    text = philly.section([{"policy": policy, **figures} for policy, figures in found.items()])
    assert "| easy, baseline | 22,922 |" in text


def _philly(at: int) -> dict[str, Any]:
    day = "2017-09-30" if at < 5 else "2017-10-01"
    seconds = 3000 if at % 7 == 0 else 300
    vc = "ab?"[at % 3]
    return {
        "timestamp": f"{day} 12:{at:02}:00",
        "duration": seconds,
        "num_gpus": 1 + at % 12,
        "gpu_time": 0,
        "cluster": vc,
    }


def test_jobs_with_deadlines_take_the_places_of_those_that_lose_least(tmp_path: Path) -> None:
    chronus = import_module("benchmarks.quality.chronus")
    folder = tmp_path / "chronus-philly"
    folder.mkdir()
    best = [_chronus(at, "best", 8, 1 + at, 1000) for at in range(2)]
    rows = [*best, _chronus(2, "strict", 8, 100, 50)]
    write_rows(folder / "trace_job_Philly_MIX1.csv.gz", rows)
    figures = chronus.run(tmp_path, "least-loss", "MIX1", 2)
    assert figures["evictions"] == 1
    assert figures["lostGpuHours"] == round(8 * 98 / 60)  # the later of the two, which has run for 98 minutes
    assert (figures["futile"], figures["overEvictedGpus"], figures["unfinished"]) == (0, 0, 0)
    assert figures["highJct"] == 50
    assert figures["deadlinesMet"] == 1
    spared = chronus.run(tmp_path, "headroom", "MIX1", 2)  # of the best-effort jobs one waits at any time
    assert (spared["evictions"], spared["lostGpuHours"], spared["highJct"]) == (0, 0, 50)
    assert spared["bestEffortJct"] > figures["bestEffortJct"]
    found = {"headroom": spared, "least-loss": figures}
    lines = [{"policy": policy, "trace": "MIX1", "nodes": 125, **one} for policy, one in found.items()]
    assert chronus.section(lines).count("(30,972 / 30,218)") == 2


def _chronus(number: int, kind: str, gpus: int, submit: int, minutes: int) -> dict[str, Any]:
    told = {"job_id": number, "user": "vc_1", "num_gpu": gpus, "submit_time": submit, "duration": minutes}
    return {**told, "expect_time_list": "60-90", "job_type": kind}


def test_gangs_lie_closer_with_the_topology_than_without(tmp_path: Path) -> None:
    lingjun = import_module("benchmarks.quality.lingjun")
    hosts = [
        {"ip": f"h{at * 37 % 96:02}", "DSW": "d", "PSW": f"p{at // 48}", "ASW": f"a{at % 48 // 8}"} for at in range(96)
    ]
    (tmp_path / lingjun.MAP.parent).mkdir()
    write_rows(tmp_path / lingjun.MAP, hosts)
    found = {policy: lingjun.run(tmp_path, policy, 0.6, 0, 80, 10) for policy in ("unisono", "off")}
    assert found["unisono"]["least"] <= found["unisono"]["cost"] < found["off"]["cost"]
    assert found["unisono"]["atLeast"] > found["off"]["atLeast"]
    lines = [{"policy": policy, "load": 0.6, "seed": 0, **figures} for policy, figures in found.items()]
    assert lingjun.section(lines).count("| 0.6 |") == 2


def test_rho_is_completion_time_over_that_with_a_share(tmp_path: Path) -> None:
    shockwave = import_module("benchmarks.quality.shockwave")
    (tmp_path / shockwave.TRACE.parent).mkdir()
    rows = ["\t".join(["M", "c", ".", "n", "0", "1", "4", "static", "1", "-1", "1000", str(at)]) for at in range(40)]
    with gzip.open(tmp_path / shockwave.TRACE, "wt", encoding="utf-8") as packed:
        packed.write("\n".join(rows) + "\n")
    found = {policy: shockwave.run(tmp_path, policy) for policy in ("unisono", "easy", "srsf")}
    assert all(one["unfinished"] == 0 for one in found.values())
    assert found["easy"]["makespan"] == 5007  # forty jobs of a node each, eight at a time, from 7 s on
    assert found["easy"]["worstRho"] == pytest.approx((5007 - 39) / (1000 * 40 / 32), abs=1e-3)
    text = shockwave.section([{"policy": policy, **figures} for policy, figures in found.items()])
    assert "| easy | 5,007 |" in text


def test_the_large_simulation_is_of_generated_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    scale = import_module("benchmarks.quality.scale")
    monkeypatch.setattr(scale, "NODES", 3)
    figures = scale.run("easy", replace(scale.RECIPE, jobs=60, gpus=24))
    assert (figures["jobs"], figures["unfinished"]) == (60, 0)
    assert figures["meanJct"] > figures["meanWait"] > 0
    assert scale.section([{"policy": "easy", **figures}]).count("| easy | 60 | 3 |") == 1
