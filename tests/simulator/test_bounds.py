"""Bounds: worked out by hand, by brute force, and never above what a simple scheduler achieves."""

from __future__ import annotations

from itertools import combinations
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.examples import examples
from unisono.simulator import bounds
from unisono.simulator.bounds import Ask, Shape, Work, least_cost, makespan, mean_completion, most_allocated

# ---- completion times


def test_the_shorter_work_goes_first() -> None:
    """On 2 GPUs: 4 and 8 GPU-seconds at once end after 2 and 6 seconds at best; alone each takes 4."""
    jobs = [(0.0, 4.0, 1.0), (0.0, 4.0, 2.0)]
    assert mean_completion(jobs, 2) == 4.0
    assert makespan(jobs, 2) == 6.0


def test_a_job_that_comes_later_interrupts() -> None:
    assert mean_completion([(0.0, 10.0, 1.0), (1.0, 1.0, 1.0)], 1) == (11.0 + 1.0) / 2


def test_no_job_is_faster_than_alone() -> None:
    assert mean_completion([(0.0, 10.0, 1.0)], 64) == 10.0
    assert makespan([(5.0, 10.0, 1.0), (0.0, 1.0, 1.0)], 64) == 15.0


@pytest.mark.parametrize("bound", [mean_completion, makespan])
def test_without_jobs_or_gpus_there_is_no_bound(bound: object) -> None:
    for jobs, gpus in (([], 1), ([(0.0, 1.0, 1.0)], 0)):
        with pytest.raises(ValueError, match="needs jobs and GPUs"):
            bound(jobs, gpus)  # type: ignore[operator]


JOBS = st.lists(
    st.tuples(st.integers(0, 20).map(float), st.integers(1, 20).map(float), st.integers(1, 4).map(float)),
    min_size=1,
    max_size=12,
)


@settings(max_examples=examples(100), deadline=None)
@given(JOBS)
def test_one_after_the_other_is_never_better(jobs: list[Work]) -> None:
    now, times = 0.0, []
    for arrival, seconds, _ in sorted(jobs):
        now = max(now, arrival) + seconds
        times.append(now - arrival)
    assert mean_completion(jobs, 4) <= sum(times) / len(jobs) + 1e-9
    assert makespan(jobs, 4) <= now - min(arrival for arrival, _, _ in jobs) + 1e-9


# ---- topology


TREES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1)), min_size=1, max_size=7)


@settings(max_examples=examples(60), deadline=None)
@given(TREES, st.integers(1, 5))
def test_the_programme_finds_the_best_hosts(places: list[tuple[int, int]], hosts: int) -> None:
    paths = {f"h{at}": (f"leaf{pod}-{leaf}", f"pod{pod}") for at, (leaf, pod) in enumerate(places)}

    def cost(chosen: tuple[str, ...]) -> float:
        pairs = [(paths[one], paths[other]) for one, other in combinations(chosen, 2)]
        return sum(2 if one == other else 4 if one[1] == other[1] else 6 for one, other in pairs)

    best = min((cost(chosen) for chosen in combinations(paths, hosts)), default=inf)
    assert least_cost(paths, hosts) == best


def test_trees_must_be_even() -> None:
    with pytest.raises(ValueError, match="equally deep"):
        least_cost({"a": ("x",), "b": ("x", "y")}, 1)


# ---- filling


def _solver() -> None:
    pytest.importorskip("scipy")


def test_parts_must_fit_into_whole_gpus() -> None:
    """Three pods of 0.6 on two GPUs: two fit, though 1.8 are asked for and 2 are there."""
    _solver()
    part = Ask(1000, 1, 1, 600)
    assert most_allocated([part] * 3, [Shape(64000, 64, 2)]) == pytest.approx(1200)


def test_models_cpu_and_whole_groups_bind() -> None:
    _solver()
    node = Shape(8000, 64, 4, "A")
    assert most_allocated([Ask(1000, 1, 1, 1000, ("B",))], [node]) == pytest.approx(0)
    assert most_allocated([Ask(4000, 1, 1, 1000)] * 4, [node]) == pytest.approx(2000)
    assert most_allocated([Ask(0, 0, 4, 1000)] * 2, [node, Shape(8000, 64, 2, "A")]) == pytest.approx(4000)


def test_it_is_never_below_what_a_scheduler_achieves() -> None:
    _solver()
    pods = [Ask(2000, 1, 1, size) for size in (500, 300, 200, 700, 1000)]
    assert most_allocated(pods, [Shape(10_000, 64, 3)]) == pytest.approx(2700)


def test_a_missing_solver_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "scipy.optimize", None)
    with pytest.raises(bounds.SolverMissing, match=r"unisono\[solver\]"):
        most_allocated([Ask(1, 1, 1, 1000)], [Shape(1, 1, 1)])
