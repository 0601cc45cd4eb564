"""Generated workloads."""

from __future__ import annotations

from collections import Counter

import pytest

from unisono.simulator.workload.generate import GENERATORS, Recipe, generate
from unisono.simulator.workload.job import NodeShape, WorkloadError, check

SHAPE = NodeShape(gpus=8)


@pytest.mark.parametrize("kind", GENERATORS)
def test_a_workload_follows_its_recipe_and_its_seed(kind: str) -> None:
    recipe = Recipe(kind=kind, jobs=800, gpus=64, load=0.7, queues={"a": 3, "b": 1}, seed=5)
    jobs = generate(recipe, SHAPE)
    assert jobs == generate(recipe, SHAPE)
    assert jobs != generate(Recipe(kind=kind, jobs=800, gpus=64, load=0.7, queues={"a": 3, "b": 1}, seed=6), SHAPE)
    assert len({job.name for job in jobs}) == 800
    assert not any(check(job) for job in jobs)
    assert [job.submit for job in jobs] == sorted(job.submit for job in jobs)
    work = sum(job.gpu_demand / 1000 * (job.run_seconds or 0) for job in jobs)
    assert work / (64 * jobs[-1].submit) == pytest.approx(0.7, rel=1e-3)
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
