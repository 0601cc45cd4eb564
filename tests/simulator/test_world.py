"""Jobs arrive, wait, run and end as they should."""

from __future__ import annotations

import io
from itertools import pairwise

import pytest

from simulator.worlds import FIFO, PREEMPT, cluster, job, simulate, times
from unisono.cli.simulating import result_lines
from unisono.engine.config_file.reader import DEFAULT_TEXT, load_config
from unisono.simulator.clusters import build
from unisono.simulator.experiment import Experiment
from unisono.simulator.metrics.summary import encode, summary
from unisono.simulator.workload.job import Role
from unisono.simulator.world.outcome import COMPLETED, DROPPED, FAILED, RUNNING, WAITING, write_jobs
from unisono.simulator.world.settings import Failures, NodeChange, Settings
from unisono.simulator.world.world import SimulationError


def test_a_job_runs_at_once_and_ends_after_its_run_time() -> None:
    run = simulate([job("a", submit=5, seconds=100)])
    assert times(run) == {"a": (5, 105)}
    assert run.outcomes[0].state == COMPLETED


def test_a_gang_waits_until_all_of_it_fits() -> None:
    run = simulate([job("a", seconds=100, gpus=4), job("b", submit=1, seconds=50, gpus=4, pods=2)])
    assert times(run)["b"] == (100, 150)


@pytest.mark.parametrize(
    ("submit", "think", "began"),
    [(30, None, 100), (150, None, 150), (30, 25, 125), (300, 25, 125), (30, 0, 100)],
)
def test_a_job_that_follows_another_comes_after_its_end(submit: float, think: float | None, began: float) -> None:
    follower = job("b", submit=submit, seconds=10, after="a", think_seconds=think)
    last = job("c", submit=submit, seconds=10, after="b", think_seconds=5)
    run = simulate([job("a", seconds=100), follower, last])
    assert times(run) == {"a": (0, 100), "b": (began, began + 10), "c": (began + 15, began + 25)}
    assert [outcome.job.submit for outcome in run.outcomes] == [0, began, began + 15]


def test_who_follows_a_job_that_does_not_end_has_not_come() -> None:
    run = simulate([job("a", seconds=100), job("b", submit=10, seconds=10, after="a")], until=50)
    assert [outcome.state for outcome in run.outcomes] == [RUNNING, WAITING]
    assert run.outcomes[1].job.submit > run.end


def test_who_follows_a_job_that_is_given_up_comes_then() -> None:
    changes = (NodeChange(20, "n-0", up=False), NodeChange(20, "n-1", up=False), NodeChange(40, "n-0", up=True))
    jobs = [job("a", seconds=100, max_retries=0), job("b", submit=10, seconds=10, after="a", think_seconds=1)]
    run = simulate(jobs, changes=changes)
    assert [outcome.state for outcome in run.outcomes] == [FAILED, COMPLETED]
    assert times(run)["b"] == (40, 50)


def test_jobs_of_one_moment_start_in_the_order_of_the_workload() -> None:
    run = simulate([job(name, gpus=4, pods=2, seconds=10) for name in ("z", "m", "a")])
    assert times(run) == {"z": (0, 10), "m": (10, 20), "a": (20, 30)}


def test_pods_that_are_no_gang_run_for_themselves() -> None:
    run = simulate([job("a", seconds=10, gpus=4, pods=3, gang=1)])
    outcome = run.outcomes[0]
    assert (outcome.started, outcome.ended) == (0, 20)
    assert sorted((stretch.start, stretch.end) for stretch in outcome.stretches) == [(0, 10), (0, 10), (10, 20)]


def test_an_elastic_job_goes_on_with_what_it_gets() -> None:
    jobs = [job("short", seconds=50, gpus=4), job("wide", seconds=100, gpus=4, pods=2, gang=1, elastic=True)]
    run = simulate(jobs)
    # 50 s at half speed and 75 s at full speed.
    assert times(run) == {"short": (0, 50), "wide": (0, 125)}
    assert [stretch.cause for stretch in run.outcomes[1].stretches] == ["resized", "completed"]


def test_a_preempted_job_starts_from_zero_or_from_its_checkpoint() -> None:
    for checkpoint, end, lost in ((None, 170, 60), (25, 120, 10), (0, 110, 0)):
        jobs = [
            job("low", seconds=100, gpus=4, pods=2, checkpoint=checkpoint),
            job("high", submit=60, seconds=10, gpus=4, pods=2, priority=100),
        ]
        run = simulate(jobs, config=PREEMPT)
        assert times(run) == {"low": (0, end), "high": (60, 70)}
        low = run.outcomes[0]
        assert low.evictions > 0
        assert low.stretches[0].cause == "evicted"
        assert low.stretches[0].lost == lost


def test_an_overhead_delays_every_start_after_an_interruption_and_start_up_every_start() -> None:
    jobs = [
        job("low", seconds=100, gpus=4, pods=2, checkpoint=0, restart_overhead=7),
        job("high", submit=60, seconds=10, gpus=4, pods=2, priority=100),
    ]
    run = simulate(jobs, config=PREEMPT, startup=2)
    assert times(run) == {"low": (0, 60 + 12 + 2 + 7 + 42), "high": (60, 72)}


def test_an_evicted_pod_holds_its_place_for_the_time_of_grace() -> None:
    jobs = [job("low", gpus=4, pods=2), job("high", submit=60, seconds=10, gpus=4, pods=2, priority=100)]
    run = simulate(jobs, config=PREEMPT, grace=30)
    assert times(run)["high"] == (90, 100)


def test_a_node_that_goes_takes_its_pods_with_it_and_may_come_back() -> None:
    changes = (NodeChange(30, "n-0", up=False), NodeChange(50, "n-0", up=True))
    run = simulate([job("a", gpus=4, pods=2)], changes=changes)
    assert times(run) == {"a": (0, 150)}
    assert [stretch.cause for stretch in run.outcomes[0].stretches] == ["node lost", "completed"]
    assert run.capacity == [(0, 8, 64000), (30, 4, 32000), (50, 8, 64000)]


def test_a_node_that_goes_takes_no_pod_that_has_ended_there() -> None:
    jobs = [job("a", seconds=10, gpus=4, pods=3, gang=1)]
    run = simulate(jobs, changes=(NodeChange(15, "n-1", up=False),))
    assert times(run) == {"a": (0, 20)}
    assert run.outcomes[0].failures == 0


@pytest.mark.parametrize(
    ("gate", "cycles"),
    [
        pytest.param("", 3, id="nothing may refuse: only while there is room for a pod that waits"),
        pytest.param("  - name: sla\n", 3, id="a gate that only permits"),
        pytest.param(
            "  - name: overcommit\n",
            13,
            id="a gate that may refuse is asked about each job that comes, and pods are made when it lets them in",
        ),
    ],
)
def test_the_engine_is_not_asked_while_no_node_has_room_for_a_pod_that_waits(gate: str, cycles: int) -> None:
    jobs = [job("a", gpus=4, pods=2), *(job(f"b{at}", submit=at, gpus=3, pods=2) for at in range(10, 60, 10))]
    run = simulate(jobs, config=FIFO + gate, until=250)
    assert times(run)["b10"] == (100, 200)
    assert times(run)["b20"] == (200, None)
    assert run.cycles == cycles


def test_a_job_is_given_up_after_its_failures() -> None:
    run = simulate([job("a", seconds=1e6, max_retries=3)], failures=Failures(pod=1000), seed=1)
    assert run.outcomes[0].state == FAILED
    assert run.outcomes[0].failures == 4


def test_what_cannot_start_is_dropped_where_jobs_may_not_wait() -> None:
    run = simulate([job("a", seconds=None, gpus=4, pods=2), job("b", submit=1), job("c", submit=2)], retry=False)
    assert [outcome.state for outcome in run.outcomes] == [RUNNING, DROPPED, DROPPED]


def test_what_never_fits_waits_to_the_end() -> None:
    run = simulate([job("a", gpus=5), job("b", submit=3)])
    assert [outcome.state for outcome in run.outcomes] == [WAITING, COMPLETED]


def test_the_end_of_time_cuts_what_runs() -> None:
    run = simulate([job("a", seconds=1000)], until=300)
    assert run.outcomes[0].state == RUNNING
    assert run.outcomes[0].stretches[0].end == 300 == run.end


def test_pods_share_a_gpu_where_they_ask_for_parts_of_it() -> None:
    half = (Role(gpus=1, gpu_milli=600),)
    jobs = [job(name, roles=half) for name in "abc"] + [job("d", roles=(Role(gpus=1, gpu_milli=400),))]
    run = simulate(jobs, cluster(count=1, gpus=2), config=f"{FIFO}  - name: deviceshare\n")
    assert times(run) == {"a": (0, 100), "b": (0, 100), "c": (100, 200), "d": (0, 100)}


@pytest.mark.parametrize("apart", [False, True])
def test_gangs_slow_down_where_the_topology_joins_them_high_up(apart: bool) -> None:
    where = cluster(count=4, topology=[{"name": "leaf", "size": 2}, {"name": "spine", "size": 2}])
    before = [job(f"x{at}", seconds=1000, gpus=4) for at in range(1 if apart else 0)]
    run = simulate([*before, job("gang", submit=1, gpus=4, pods=3 if apart else 2)], where, topology_slowdown={2: 2.0})
    assert times(run)["gang"] == (1, 201 if apart else 101)


def test_the_same_inputs_and_seed_give_the_same_bytes() -> None:
    jobs = [job(f"j{at}", submit=at, seconds=40 + at % 7, gpus=1 + at % 4, priority=at % 3) for at in range(60)]

    def told(seed: int) -> bytes:
        run = simulate(jobs, config=PREEMPT, seed=seed, failures=Failures(pod=300, node=2000, repair=50), until=5000)
        file = io.BytesIO()
        write_jobs(run, file)
        return encode(summary(run)) + file.getvalue()

    assert told(1) == told(1)
    assert told(1) != told(2)


LEVELS = """
actions: enqueue, allocate, preempt
tiers:
- plugins:
  - name: service-order
    arguments: {service-order.levels: [400], service-order.inLevel: turn, service-order.wideLevel: -1}
  - name: gang
    enablePreemptable: false
- plugins:
  - name: predicates
"""


@pytest.mark.parametrize(
    ("marks", "starts"),
    [((), 200), ((400.0,), 101), ((800.0,), 200)],
    ids=["without a mark", "at the end of the level", "at another mark, when nothing runs any more"],
)
def test_marks_of_service_make_cycles(marks: tuple[float, ...], starts: float) -> None:
    """4 GPUs for 100 s end the first level; nothing else happens before the job ends."""
    jobs = [job("long", seconds=200, gpus=4), job("short", submit=50, seconds=10, gpus=4)]
    run = simulate(jobs, cluster(1), LEVELS, run_times="none", marks=marks)
    assert times(run)["short"][0] == pytest.approx(starts, abs=1)


def test_jobs_that_can_never_start_are_named_with_the_reason() -> None:
    jobs = [
        job("runs", gpus=4),
        *(job(f"huge-{number}", submit=number, gpus=16) for number in range(3)),
        job("model", roles=(Role(gpus=1, gpu_models=("H100",)),)),
        job("over", queue="small", gpus=2),
        job("late", submit=50, seconds=None, gpus=4, pods=2),
        job("behind", submit=60, gpus=4, pods=2),
    ]
    where = cluster(queues=[{"name": "small", "capability": {"nvidia.com/gpu": 1}}])
    study = Experiment(sorted(jobs, key=lambda each: each.submit), where, load_config(FIFO), Settings(until=1000))
    result = study.result(study.run())
    told = {each["job"]: (each["jobs"], each["why"]) for each in result["hopeless"]}
    assert {name: count for name, (count, _) in told.items()} == {"huge-0": 3, "model": 1, "over": 1}
    assert "nvidia.com/gpu 16" in told["huge-0"][1]
    assert "H100" in told["model"][1]
    assert "queue small has capability nvidia.com/gpu 1" in told["over"][1]
    assert "Job huge-0 and 2 jobs like it would not start on the empty cluster either: " in "\n".join(
        result_lines(result)
    )


def test_nodes_and_domains_fail_as_often_as_is_said_together_too() -> None:
    """Each has one chain of failures, however often the other takes the node away."""
    where = cluster(count=2, topology=[{"name": "leaf", "size": 2}])
    jobs = [job("a", seconds=None)]
    failures = Failures(node=1000, domain=1000, tier=1, repair=1)
    for length in (20_000, 80_000):
        run = simulate(jobs, where, failures=failures, until=length)
        gone = [now for (_, before, _), (now, after, _) in pairwise(run.capacity) if after < before]
        # Two nodes and one domain: 3 a thousand seconds; those of the domain take both nodes.
        assert len(set(gone)) == pytest.approx(3 * length / 1000, rel=0.25)


def test_a_node_that_is_away_as_planned_is_not_repaired() -> None:
    changes = (NodeChange(10, "n", up=False), NodeChange(500, "n", up=True))
    failures = Failures(node=5, repair=1)
    run = simulate([job("a", seconds=None)], cluster(count=1), failures=failures, changes=changes, until=600)
    assert not [now for now, gpus, _ in run.capacity if 10 < now < 500 and gpus]
    assert [now for now, gpus, _ in run.capacity if now > 500 and gpus]


def test_failures_end_with_the_jobs_that_can_still_run() -> None:
    run = simulate([job("never", gpus=64), job("a")], failures=Failures(node=5000, repair=50))
    assert [outcome.state for outcome in run.outcomes] == [WAITING, COMPLETED]
    hopeless = simulate([job("long", seconds=1e6, gpus=4)], failures=Failures(pod=100))
    assert hopeless.outcomes[0].state == FAILED
    with pytest.raises(SimulationError, match="job a runs until the end, which never comes"):
        simulate([job("a", seconds=None)], failures=Failures(node=5000))


def test_a_job_for_nodes_that_are_not_there_keeps_none_of_its_size_from_others() -> None:
    """Both wait for admission, and are alike but for the model that their pods want."""
    one = build({"nodes": [{"name": "n", "count": 1, "cpu": 32, "memory": "64Gi", "gpus": 8, "gpuModel": "A100"}]})
    never = Role(count=1, gpus=8, cpu_milli=1000, gpu_models=("H100",))
    any_of_two = Role(count=1, gpus=8, cpu_milli=1000, gpu_models=("A100", "H100"))
    jobs = [job("a", gpus=8), job("never", roles=(never,)), job("any", roles=(any_of_two,))]
    assert times(simulate(jobs, one, DEFAULT_TEXT))["any"] == (101, 201)
