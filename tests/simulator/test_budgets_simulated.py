"""Budgets of a cluster file, on the simulation's clock, which begins at 22:13:20, and in a control plane."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.simulator.live_worlds import live, simulated
from tests.simulator.worlds import job

from unisono.engine.config_file.reader import DEFAULT_TEXT, default_config
from unisono.simulator.clusters import ClusterError, build
from unisono.simulator.workload.job import Job
from unisono.simulator.world.settings import Settings
from unisono.simulator.world.world import World

GPU = "nvidia.com/gpu"
NODE = {"name": "n", "cpu": 32, "memory": "64Gi", "gpus": 4}
HOUR_ENDS = 2800.0


def run(jobs: list[Job], until: float | None = None, **more: Any) -> dict[str, Any]:
    cluster = build({"nodes": [NODE], **more})
    return simulated(World(cluster, jobs, default_config(), Settings(run_times="exact", until=until)).run())


def a_budget(amount: str, **more: Any) -> dict[str, Any]:
    return {"name": "team", "queues": ["default"], "amounts": {GPU: amount}, **more}


def test_the_next_period_starts_the_job() -> None:
    """Two GPUs run for an hour, from half an hour before the hour's end: one GPU-hour is used up after it."""
    jobs = [job("first", 0, 2000, gpus=2), job("second", 2100, 60, gpus=2)]
    assert run(jobs) == {"first": [(0.0, "n")], "second": [(2100.0, "n")]}
    placed = run(jobs, budgets=[a_budget("1", period="Hour")])
    assert placed["first"] == [(0.0, "n")]
    assert [begun for begun, _ in placed["second"]] == [pytest.approx(HOUR_ENDS, abs=1.01)]


def test_nothing_comes_of_what_is_used_up_for_all_time() -> None:
    placed = run([job("first", 0, 2000, gpus=2), job("second", 2100, 60, gpus=2)], budgets=[a_budget("1")])
    assert placed == {"first": [(0.0, "n")], "second": []}


def test_pods_leave_when_it_is_used_up_and_come_again() -> None:
    jobs = [job("long", 0, 4000, gpus=2)]
    budgets = [a_budget("1", period="Hour", running="Evict")]
    world = World(
        build({"nodes": [NODE], "budgets": budgets}),
        jobs,
        default_config(),
        Settings(run_times="exact", until=20_000.0),
    )
    told = world.run()
    assert {one.reason for one in told.evictions} == {"budget"}
    begun = [at for at, _ in simulated(told)["long"]]
    assert begun[:2] == [0.0, pytest.approx(HOUR_ENDS, abs=1.01)]
    assert told.evictions[0].at == pytest.approx(1800.0, abs=1.01)


def test_short_jobs_count_longer() -> None:
    """Each counts for ten minutes, so that six of them use up an hour; the others are there in vain."""
    jobs = [job(f"j{n}", n * 700.0, 60, gpus=1) for n in range(9)]
    placed = run(jobs, budgets=[a_budget("1", least="10m")])
    assert sum(bool(found) for found in placed.values()) == 6


@pytest.mark.parametrize(
    "row",
    [
        [a_budget("0.1", period="Hour")],
        [a_budget("0.1", starts="IfItFits")],
        [a_budget("0.1", period="Hour", running="Evict")],
    ],
    ids=["hard", "fits", "evicts"],
)
def test_hard_budgets_decide_as_live(row: list[dict[str, Any]], tmp_path: Path) -> None:
    cluster = build({"nodes": [NODE], "budgets": row})
    jobs = [job("a", 0, 200, gpus=2), job("b", 30, 300, gpus=1), job("c", 240, 60, gpus=1)]
    settings = Settings(run_times="exact", until=600.0)
    expected = simulated(World(cluster, jobs, default_config(), settings).run())
    found = live(cluster, jobs, DEFAULT_TEXT, 600.0, tmp_path)
    assert {name: len(places) for name, places in found.items()} == {
        name: len(places) for name, places in expected.items()
    }
    for name, places in expected.items():
        for (at, where), (live_at, live_where) in zip(places, found[name], strict=True):
            assert where == live_where
            assert at - 1.0 <= live_at <= at + 8.0


def test_what_is_wrong_names_its_place() -> None:
    with pytest.raises(ClusterError, match=r"budgets\[0\]: spec.amounts: Required value"):
        build({"nodes": [NODE], "budgets": [{"name": "x", "queues": ["q"]}]})
    with pytest.raises(ClusterError, match=r"priceLists\[0\]: spec.prices\[0\].perHour"):
        build({"nodes": [NODE], "priceLists": [{"name": "x", "prices": [{"resource": "cpu", "perHour": "dear"}]}]})
