"""Metrics, against values found by hand."""

from __future__ import annotations

from random import Random

import pytest

from simulator.worlds import PREEMPT, cluster, job, simulate
from unisono.simulator.metrics.durations import bounded_slowdown, deadlines, durations, jain, percentile, starvation
from unisono.simulator.metrics.summary import encode, entitled, fairness, finish_time_fairness, summary
from unisono.simulator.metrics.usage import integral, lca_cost, least_cost, steps, topology, usage, waste


def test_percentiles_are_nearest_rank_and_jain_is_one_for_equals() -> None:
    assert [percentile([4, 1, 3, 2], p) for p in (25, 50, 51, 99)] == [1, 2, 3, 4]
    assert percentile([], 50) is None
    assert jain([2, 2, 2]) == 1
    assert jain([1, 0, 0, 0]) == 0.25


def test_steps_and_areas() -> None:
    line = steps([(5, -1), (0, 2), (0, 1), (9, -2)])
    assert line == [(0, 3), (5, 2), (9, 0)]
    assert integral(line, 3, 7) == 2 * 3 + 2 * 2


def test_times_of_two_jobs_one_after_the_other() -> None:
    run = simulate([job("a", gpus=4, pods=2, seconds=100), job("b", submit=10, gpus=4, pods=2, seconds=5)])
    found = durations(run)
    assert found["jct"]["mean"] == (100 + 95) / 2
    assert found["wait"]["max"] == 90
    assert found["makespan"] == 105
    assert found["slowdown"]["max"] == 95 / 10
    assert bounded_slowdown(run.outcomes[1], tau=60) == 95 / 60
    assert usage(run)["allocationToEnd"] == 1.0


def test_a_wait_that_preemption_makes_is_no_first_wait() -> None:
    jobs = [job("low", gpus=4, pods=2), job("high", submit=60, seconds=10, gpus=4, pods=2, priority=100)]
    run = simulate(jobs, config=PREEMPT)
    found = durations(run)
    assert found["wait"]["max"] == 0
    assert found["totalWait"]["max"] == 10
    wasted = waste(run)
    assert wasted["lostGpuHours"] == pytest.approx(8 * 60 / 3600)
    assert wasted["futile"] == 0
    assert wasted["overEvictedGpus"] == 0
    assert usage(run)["useful"] == pytest.approx(1 - 8 * 60 / (8 * 60 + 8 * 10 + 8 * 100))


def test_deadlines_are_met_or_missed() -> None:
    jobs = [
        job("a", gpus=4, pods=2, deadline=100, job_class="strict"),
        job("b", gpus=4, pods=2, deadline=150, job_class="soft"),
    ]
    found = deadlines(simulate(jobs))
    assert found is not None
    assert (found["jobs"], found["met"], found["tardiness"]) == (2, 0.5, 25)
    assert found["byClass"]["strict"]["met"] == 1
    assert deadlines(simulate([job("a")])) is None


def test_a_large_job_starves_while_later_small_ones_start() -> None:
    small = [job(f"s{at}", submit=at * 90, seconds=100, gpus=2) for at in range(12)]
    run = simulate([*small, job("large", submit=1, seconds=10, gpus=4, pods=2)])
    found = starvation(run)
    assert found["starved"] == 1
    assert found["longestWait"] > 900


def test_rho_is_one_for_a_job_alone_and_grows_with_waiting() -> None:
    assert finish_time_fairness(simulate([job("a")])) == [1]
    run = simulate([job("a", gpus=4, pods=2), job("b", gpus=4, pods=2)])
    # b: two contenders for 100 s and one for 100 s, so N = 1.5 and its ideal time is 150 s.
    assert finish_time_fairness(run) == [100 / 200, 200 / 150]
    assert fairness(run)["unfair"] == 0.5


def test_shares_fill_up_to_demand_by_weight() -> None:
    assert entitled({"a": 0.1, "b": 1, "c": 1}, {"b": 2.0}) == pytest.approx({"a": 0.1, "b": 0.6, "c": 0.3})
    assert entitled({"a": 0.2, "b": 0.3}, {}) == {"a": 0.2, "b": 0.3}


def test_queues_that_hold_what_they_are_entitled_to_deviate_by_nothing() -> None:
    even = [job("a", gpus=4, queue="x"), job("b", gpus=4, queue="y"), job("late", submit=50, queue="x", gpus=4)]
    found = fairness(simulate(even))
    assert found["shareDeviation"] == 0
    assert found["jain"] == 1
    odd = [job("a", gpus=4, pods=2, queue="x"), job("b", submit=50, gpus=4, queue="y"), job("c", submit=80, queue="y")]
    found = fairness(simulate(odd))
    assert found["shareDeviation"] == pytest.approx(0.5 * 30 / 80)
    assert found["worstShortfall"] == pytest.approx(0.5 * 30 / 80)


TREE = {f"h{at}": (f"l{at // 2}", f"p{at // 4}") for at in range(8)}


def test_costs_count_twice_the_tier_of_the_common_domain() -> None:
    def cost(*hosts: int) -> float:
        return lca_cost([TREE[f"h{at}"] for at in hosts])

    assert cost(0) == 0
    assert cost(0, 1) == 2
    assert cost(0, 2) == 4
    assert cost(0, 4) == 6
    assert cost(0, 1, 2) == (2 + 4 + 4) / 3
    assert least_cost(3, TREE) == (2 + 4 + 4) / 3
    assert least_cost(5, TREE) == cost(0, 1, 2, 3, 4)


def test_least_costs_are_reached_and_never_undercut() -> None:
    random = Random(5)
    for _ in range(300):
        hosts = random.sample(range(8), random.randint(2, 8))
        assert lca_cost([TREE[f"h{at}"] for at in hosts]) >= least_cost(len(hosts), TREE) - 1e-9


def test_the_topology_of_a_run() -> None:
    where = cluster(count=4, topology=[{"name": "leaf", "size": 2}, {"name": "spine", "size": 2}])
    found = topology(simulate([job("a", gpus=4, pods=4)], where))
    assert found is not None
    assert found["cost"] == found["least"] == pytest.approx((2 * 2 + 4 * 4) / 6)
    assert found["acrossTop"] == 1
    found = topology(simulate([job("a", gpus=4, pods=2)], where))
    assert found is not None
    assert (found["cost"], found["atLeast"], found["acrossTop"]) == (2, 1, 0)
    assert topology(simulate([job("a")])) is None


def test_a_summary_is_one_line_and_rounds_to_nine_digits() -> None:
    line = encode({"a": 1 / 3, "b": [None, {"c": None}], "d": None})
    assert line == b'{"a":0.333333333,"b":[null,{}]}'
    found = summary(simulate([job("a")]), seed=3)
    assert found["seed"] == 3
    assert found["jobs"] == {"all": 1, "completed": 1}
