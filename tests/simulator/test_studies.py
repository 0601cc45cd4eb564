"""Comparisons, sweeps and reports."""

from __future__ import annotations

import io
import json
import pickle
import shutil
from collections.abc import Sequence
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from simulator.worlds import FIFO, PREEMPT, cluster, job, simulate
from unisono.cli.main import cli
from unisono.cli.simulating import change_lines, on_pods
from unisono.simulator.files import InputError
from unisono.simulator.metrics.summary import summary
from unisono.simulator.studies.compare import compare, compare_jobs, interval, read_results, student
from unisono.simulator.studies.report import Line, page, plot
from unisono.simulator.studies.sweep import key_of, on_processes, points, ship, simulate_shipped, sweep
from unisono.simulator.studies.sweep import simulate as simulate_point
from unisono.simulator.workload import formats
from unisono.simulator.world.outcome import job_record


def test_an_interval_is_students() -> None:
    assert student(9) == 2.262
    assert student(35) == 2.042
    found = interval([1.0, 2.0, 3.0])
    assert found.mean == 2
    assert found.half == pytest.approx(4.303 / 3**0.5)
    assert not found.clear
    assert interval([5.0]).half is None


def _result(seed: int, jct: float, workload: str = "w", **more: Any) -> dict[str, Any]:
    return {
        "unisono": "run",
        "version": 1,
        "workload": workload,
        "cluster": "c",
        "seed": seed,
        "jct": {"mean": jct},
        **more,
    }


def test_differences_are_of_workloads_and_clear_when_their_interval_holds_no_zero() -> None:
    before = [_result(0, 100 + 50 * number, f"w{number}") for number in range(5)]
    after = [_result(0, 90 + 50 * number + number % 2, f"w{number}") for number in reversed(range(5))]
    (change,) = compare(before, after)
    assert change.metric == "jct.mean"
    assert change.difference.mean == pytest.approx(-9.6)
    assert change.difference.clear
    assert change.relative == pytest.approx(-9.6 / 200)


def test_seeds_of_one_workload_are_no_evidence_of_their_own() -> None:
    # Three workloads that differ by 10, 12 and 20; each was run with as many seeds as makes ten times as many pairs.
    worse = {"a": 10.0, "b": 12.0, "c": 20.0}
    for seeds in (1, 10):
        before = [_result(seed, 100, name) for name in worse for seed in range(seeds)]
        after = [_result(seed, 100 + more, name) for name, more in worse.items() for seed in range(seeds)]
        (change,) = compare(before, after)
        assert change.difference == interval(list(worse.values()))
        assert (change.pairs, change.distinct) == (3 * seeds, 3)
    (single,) = compare([_result(seed, 100) for seed in range(5)], [_result(seed, 179) for seed in range(5)])
    assert single.difference.half is None
    assert not single.difference.clear


def test_the_same_policy_twice_is_rarely_a_clear_difference() -> None:
    random, clear = Random(5), 0
    for _ in range(1000):
        runs = [[_result(0, random.lognormvariate(5, 2), f"w{number}") for number in range(5)] for _ in range(2)]
        clear += compare(*runs)[0].difference.clear
    assert clear <= 50


def test_of_many_metrics_it_is_said_how_many_would_look_clear_by_chance() -> None:
    random = Random(7)

    def runs() -> list[dict[str, Any]]:
        figures = [{f"m{number}": random.gauss(10, 1) for number in range(60)} for _ in range(6)]
        return [_result(0, 5.0, f"w{at}", **each) for at, each in enumerate(figures)]

    changes = compare(runs(), runs())
    assert sum(change.difference.clear for change in changes) > 0
    text = " ".join(change_lines(changes))
    assert "60 metrics differ somewhere: of so many up to 3 may be listed by chance alone" in text
    assert "by chance alone" not in " ".join(change_lines(changes[:3]))


def test_runs_without_a_partner_cannot_be_compared() -> None:
    with pytest.raises(InputError, match="no two runs have the same workload"):
        compare([_result(1, 5)], [_result(2, 5)])
    with pytest.raises(InputError, match="two runs have workload w, cluster c, seed 1"):
        compare([_result(1, 5), _result(1, 6)], [_result(1, 5)])


def test_jobs_that_changed_are_named_with_the_reason() -> None:
    jobs = [job("low", gpus=4, pods=2), job("high", submit=60, seconds=10, gpus=4, pods=2, priority=9)]
    one, two = simulate(jobs), simulate(jobs, config=PREEMPT)
    changes = compare_jobs(*([job_record(run, each) for each in run.outcomes] for run in (one, two)))
    assert [(change.name, change.wait, change.end) for change in changes] == [("low", 0, 70), ("high", -40, -40)]
    assert changes[0].why == "evicted pods: 0 before, 2 now"
    assert changes[1].why == "started earlier"


@pytest.fixture
def inputs(tmp_path: Path) -> tuple[Path, Path, list[Path | None]]:
    random = Random(3)
    jobs = [job(f"j{at}", submit=at * 5, seconds=random.randint(5, 90), gpus=random.randint(1, 4)) for at in range(25)]
    text = io.StringIO()
    formats.write(jobs, text)
    workload, where, fifo, preempt = (tmp_path / name for name in ("w.jsonl", "c.yaml", "fifo.conf", "preempt.conf"))
    workload.write_text(text.getvalue())
    where.write_text("nodes: [{name: gpu, count: 2, cpu: 16, memory: 64Gi, gpus: 4}]")
    fifo.write_text(FIFO)
    preempt.write_text(PREEMPT)
    return workload, where, [fifo, preempt]


def test_a_sweep_writes_the_same_bytes_however_it_was_run(
    inputs: tuple[Path, Path, list[Path | None]], tmp_path: Path
) -> None:
    workload, where, configs = inputs
    todo = points([workload], [where], configs, [0, 1])
    one, other = tmp_path / "one.jsonl", tmp_path / "other.jsonl"
    assert sweep(todo, one) == 4
    # The last ones first, stopped after three, and then the rest.
    ran: list[int] = []

    def backwards(some: Any) -> Any:
        for number in reversed(range(len(some))):
            if len(ran) == 3:
                raise KeyboardInterrupt
            ran.append(number)
            yield from ((number, line) for _, line in on_processes([some[number]], 1))

    with pytest.raises(KeyboardInterrupt):
        sweep(todo, other, run_all=backwards)
    assert not other.exists()
    assert sweep(todo, other) == 1
    assert other.read_bytes() == one.read_bytes()
    assert [(each["config"], each["seed"]) for each in read_results(one)] == [
        ("fifo.conf", 0), ("fifo.conf", 1), ("preempt.conf", 0), ("preempt.conf", 1),
    ]  # fmt: skip
    assert {each.name for each in tmp_path.iterdir()} >= {"one.jsonl", "other.jsonl"}
    assert not list(tmp_path.glob("*.parts"))


def test_a_changed_input_is_run_again(inputs: tuple[Path, Path, list[Path | None]]) -> None:
    workload, where, configs = inputs
    (point, *_) = points([workload], [where], configs[:1], [0])
    before = key_of(point)
    where.write_text("nodes: [{name: gpu, count: 3, cpu: 16, memory: 64Gi, gpus: 4}]")
    assert key_of(point) != before


@pytest.mark.more
def test_processes_give_the_same_bytes(inputs: tuple[Path, Path, list[Path | None]], tmp_path: Path) -> None:
    workload, where, configs = inputs
    todo = points([workload], [where], configs, range(3))
    one, other = tmp_path / "one.jsonl", tmp_path / "other.jsonl"
    sweep(todo, one)
    sweep(todo, other, processes=2)
    assert other.read_bytes() == one.read_bytes()


def test_runs_travel_with_their_files(inputs: tuple[Path, Path, list[Path | None]]) -> None:
    """Where the paths mean nothing, the bytes are the same: files of one name in two folders are told apart."""
    workload, where, configs = inputs
    twin = where.parent / "twin" / where.name
    twin.parent.mkdir()
    twin.write_text("nodes: [{name: gpu, count: 5, cpu: 16, memory: 64Gi, gpus: 4}]")
    todo = points([workload], [where, twin], [None, *configs], [1])
    here = [simulate_point(point) for point in todo]
    shipped = pickle.loads(pickle.dumps(ship(todo)))  # as the SDK sends them
    shutil.rmtree(where.parent)
    assert [simulate_shipped(one) for one in shipped] == here
    assert len(set(here)) == len(here)


def test_a_sweep_goes_out_as_jobs_of_pods(
    inputs: tuple[Path, Path, list[Path | None]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a cluster the files travel; jobs of so many pods make 16 runs each, and results come in order."""
    workload, where, configs = inputs
    workload.write_text("".join(workload.read_text().splitlines(keepends=True)[:4]))  # each point is run twice
    todo = points([workload], [where], configs, range(20))
    asked: list[dict[str, Any]] = []

    def spread(function: Any, items: Sequence[Any], **options: Any) -> list[Any]:
        asked.append({"runs": len(items), "function": function.__name__, **options})
        return [function(item) for item in items]

    monkeypatch.setattr("unisono.sdk.map", spread)
    lines: dict[bool, list[tuple[int, bytes]]] = {}
    for local in (False, True):
        client: Any = SimpleNamespace(endpoint=lambda: SimpleNamespace(local=local))  # noqa: B023
        lines[local] = list(on_pods(client, todo, workers=2, image="unisono:x", queue="night"))
    assert lines[True] == lines[False]
    assert [number for number, _ in lines[True]] == list(range(len(todo)))
    assert [(one["runs"], one["workers"], one["function"]) for one in asked] == [
        (32, 2, "simulate_shipped"),
        (8, 2, "simulate_shipped"),
        (32, 2, "simulate"),
        (8, 2, "simulate"),
    ]
    assert {(one["queue"], one.get("image")) for one in asked} == {("night", "unisono:x"), ("night", None)}


def test_sweep_and_compare_on_the_command_line(inputs: tuple[Path, Path, list[Path | None]], tmp_path: Path) -> None:
    workload, where, configs = inputs
    for config in configs:
        assert config is not None
        words = ["simulate", "sweep", "-w", workload, "-c", where, "--config", config, "--seeds", "0-2"]
        out = tmp_path / f"{config.stem}.jsonl"
        done = CliRunner().invoke(
            cli, [*map(str, words), "--processes", "1", "--out", str(out)], catch_exceptions=False
        )
        assert "Wrote 3 results" in done.stdout
    words = ["simulate", "compare", str(tmp_path / "fifo.jsonl"), str(tmp_path / "preempt.jsonl")]
    told = CliRunner().invoke(cli, [*words, "-o", "json"], catch_exceptions=False)
    metrics = {each["metric"]: each for each in json.loads(told.stdout)["metrics"]}
    assert (metrics["jct.mean"]["pairs"], metrics["jct.mean"]["distinct"], metrics["jct.mean"]["workloads"]) == (
        3,
        1,
        1,
    )
    text = CliRunner().invoke(cli, words, catch_exceptions=False).stdout
    assert text.startswith(
        "3 pairs of runs of 1 workload, each with the same cluster and seed.\nSeeds change nothing here"
    )
    assert "One workload tells nothing of chance" in text


def test_a_report_stands_alone(inputs: tuple[Path, Path, list[Path | None]], tmp_path: Path) -> None:
    workload, where, _ = inputs
    out = tmp_path / "report.html"
    words = ["simulate", "report", str(workload), "-c", str(where), "--out", str(out)]
    CliRunner().invoke(cli, words, catch_exceptions=False)
    text = out.read_text()
    assert text.count("<svg") >= 4
    assert "http" not in text
    assert "<script" not in text


def test_a_report_shows_queues_and_topology_and_escapes_names() -> None:
    where = cluster(count=4, topology=[{"name": "leaf", "size": 2}, {"name": "spine", "size": 2}])
    jobs = [job("a", gpus=4, pods=3, queue="<b>"), job("b", submit=3, gpus=4, queue="x"), job("c", submit=4, queue="x")]
    run = simulate(jobs, where)
    text = page(run, summary(run, workload="w & v"))
    for title in ("Utilisation", "Queue length", "Wait by size", "Share by queue", "Fragmentation", "Topology"):
        assert f"<h2>{title}</h2>" in text
    assert "<b>" not in text
    assert "&lt;b&gt;" in text
    assert "w &amp; v" in text


def test_long_lines_are_thinned_to_means() -> None:
    points_ = [(float(at), float(at % 2)) for at in range(100_000)]
    text = plot([Line("x", points_)], 100_000.0)
    assert len(text) < 60_000
    assert plot([], 5) == ""
