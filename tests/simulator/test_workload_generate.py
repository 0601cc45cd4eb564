"""Generated workloads."""

from __future__ import annotations

from collections import Counter

import pytest

from unisono.simulator.workload.generate import GENERATORS, Recipe, generate
from unisono.simulator.workload.job import Job, NodeShape, WorkloadError, check

SHAPE = NodeShape(gpus=8)


def _load(jobs: list[Job], gpus: int) -> float:
    """GPUs that run in the mean until the last job comes, had each job started when it came, over those there are."""
    window = jobs[-1].submit
    used = sum(job.gpu_demand / 1000 * (min(job.submit + (job.run_seconds or 0), window) - job.submit) for job in jobs)
    return used / (gpus * window)


@pytest.mark.parametrize(("count", "gpus", "seconds"), [(200, 8, 600), (600, 64, 20_000), (3000, 512, 3600)])
@pytest.mark.parametrize("load", [0.5, 0.9, 1.6])
@pytest.mark.parametrize("kind", GENERATORS)
def test_the_load_is_that_of_the_time_in_which_jobs_come(
    kind: str, load: float, count: int, gpus: int, seconds: float
) -> None:
    for seed in range(4):
        recipe = Recipe(kind=kind, jobs=count, gpus=gpus, load=load, mean_seconds=seconds, seed=seed)
        assert _load(generate(recipe, SHAPE), gpus) == pytest.approx(load, rel=0.01)


def test_too_few_jobs_for_a_load_are_refused() -> None:
    with pytest.raises(WorkloadError, match="3 jobs cannot give a load of 5 on 64 GPUs: ask for more jobs"):
        generate(Recipe(jobs=3, gpus=64, load=5), SHAPE)


@pytest.mark.parametrize("kind", GENERATORS)
def test_a_workload_follows_its_recipe_and_its_seed(kind: str) -> None:
    recipe = Recipe(kind=kind, jobs=800, gpus=64, load=0.7, queues={"a": 3, "b": 1}, seed=5)
    jobs = generate(recipe, SHAPE)
    assert jobs == generate(recipe, SHAPE)
    assert jobs != generate(Recipe(kind=kind, jobs=800, gpus=64, load=0.7, queues={"a": 3, "b": 1}, seed=6), SHAPE)
    assert len({job.name for job in jobs}) == 800
    assert not any(check(job) for job in jobs)
    assert [job.submit for job in jobs] == sorted(job.submit for job in jobs)
    assert _load(jobs, 64) == pytest.approx(0.7, rel=1e-3)
    assert all((job.estimate or 0) >= (job.run_seconds or 0) for job in jobs)
    queues = Counter(job.queue for job in jobs)
    assert 0.65 < queues["a"] / 800 < 0.85


def test_a_daily_cycle_has_busy_and_quiet_hours() -> None:
    jobs = generate(Recipe(kind="diurnal", jobs=4000, gpus=64, load=0.1, mean_seconds=3600, seed=1), SHAPE)
    days = int(jobs[-1].submit // 86400)
    assert days >= 2
    hours = Counter(int(job.submit % 86400 // 21600) for job in jobs if job.submit < days * 86400)
    assert hours[0] > 1.5 * hours[2]


def test_gangs_of_the_model_are_serial_or_powers_of_two_more_often_than_not() -> None:
    jobs = generate(Recipe(kind="lublin", jobs=2000, gpus=256, seed=2), SHAPE)
    sizes = [job.gpu_demand // 1000 for job in jobs]
    assert 0.2 < sizes.count(1) / 2000 < 0.5
    assert sum(size & (size - 1) == 0 for size in sizes) / 2000 > 0.6
    assert max(sizes) <= 256


def test_a_recipe_that_cannot_be_followed_is_refused() -> None:
    with pytest.raises(WorkloadError, match="no generator 'weekly'"):
        generate(Recipe(kind="weekly"), SHAPE)
    with pytest.raises(WorkloadError, match="a load above 0"):
        generate(Recipe(load=0), SHAPE)
