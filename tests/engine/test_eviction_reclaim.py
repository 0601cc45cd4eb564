"""reclaim: queues below their share get it back, and it stays theirs."""

from __future__ import annotations

import pytest
from eviction_world import OFF, RECLAIM, Plane, running_pods, settings

from support.build import gang, group, node, priority_class, queue
from unisono.engine.verdict import Cause


def two_queues(*, grace: int = 1, capacity: int = 3) -> Plane:
    """Mission example 06: queue-a's six jobs of half a CPU run and fill the node when queue-b's six arrive."""
    things = [node("n1", cpu=capacity), queue("queue-a", 1), queue("queue-b", 2)]
    for number in range(6):
        name = f"job-a-{number}"
        things.append(group(name, queue="queue-a", phase="Running", resources={"cpu": 0.5}, created=number))
        things += running_pods(name, ["n1"], cpu="500m", created=number)
    for number in range(6):
        things += gang(f"job-b-{number}", 1, queue="queue-b", phase="Pending", cpu=0.5, min_resources=True, created=9)
    return Plane(RECLAIM, *things, grace=grace)


def by_queue(plane: Plane) -> dict[str, int]:
    totals = {"a": 0, "b": 0}
    for job, number in plane.running().items():
        totals[job.split("-")[1]] += number
    return totals


@pytest.mark.parametrize("grace", [0, 1, 3])
def test_a_queue_under_its_share_takes_it_back_and_no_more(grace: int) -> None:
    plane = two_queues(grace=grace)
    plane.settle(80)
    assert by_queue(plane) == {"a": 2, "b": 4}
    assert sum(len(jobs) for jobs in plane.evicted) == 4
    assert all(job.startswith("job-a") for jobs in plane.evicted for job in jobs)
    assert plane.made == 4
    for _ in range(5):
        assert plane.cycle().evictions == []
    assert by_queue(plane) == {"a": 2, "b": 4}


def test_evictions_name_reason_and_beneficiary_and_the_verdict_names_the_victims() -> None:
    plane = two_queues()
    decisions = plane.cycle()
    (eviction,) = decisions.evictions
    assert (eviction.reason, eviction.beneficiary, eviction.node) == ("reclaim", "ns/job-b-0", "n1")
    assert [(p.pod, p.node) for p in decisions.pipelined] == [("job-b-0-w-0", "n1")]
    verdict = decisions.verdicts["ns/job-b-0"]
    assert verdict.cause is Cause.WAITING_FOR_VICTIMS
    assert f"ns/{eviction.pod}" in verdict.message
    later = plane.cycle()
    assert later.verdicts["ns/job-b-0"].cause is Cause.WAITING_FOR_VICTIMS
    assert f"ns/{eviction.pod}" in later.verdicts["ns/job-b-0"].message


def test_the_last_job_of_the_queue_goes_first() -> None:
    plane = two_queues()
    plane.settle(80)
    assert [job for jobs in plane.evicted for job in jobs] == [f"job-a-{n}" for n in (5, 4, 3, 2)]


def test_a_queue_that_is_not_reclaimable_keeps_what_it_holds() -> None:
    plane = two_queues()
    plane.put(queue("queue-a", 1, reclaimable=False))
    plane.settle()
    assert by_queue(plane) == {"a": 6, "b": 0}
    assert plane.evicted == [[]] * len(plane.evicted)


def test_a_gang_takes_all_that_it_needs_or_nothing() -> None:
    things = [node("n1", cpu=4), node("n2", cpu=4), queue("a", 1), queue("b", 1)]
    things += [group("holder", 1, queue="a", phase="Running"), *running_pods("holder", ["n1"] * 4 + ["n2"] * 4)]
    big = Plane(RECLAIM, *things, gang("g", 5, queue="b"))
    assert big.cycle().evictions == []
    fits = Plane(RECLAIM, *things, gang("g", 4, queue="b"))
    decisions = fits.cycle()
    assert len(decisions.evictions) == 4 and len(decisions.pipelined) == 4
    fits.settle()
    assert fits.running() == {"holder": 4, "g": 4}


def test_free_places_are_taken_before_anybody_is_evicted() -> None:
    things = [node("n1", cpu=4), node("n2", cpu=4), queue("a", 1), queue("b", 1)]
    things += [group("holder", 1, queue="a", phase="Running"), *running_pods("holder", ["n1"] * 4 + ["n2"] * 2)]
    decisions = Plane(RECLAIM, *things, gang("g", 4, queue="b")).cycle()
    assert len(decisions.evictions) == 2
    assert sorted(p.node for p in decisions.pipelined).count("n2") >= 2


def test_only_victims_whose_resources_are_needed_go() -> None:
    things = [node("n1", cpu=4, gpu=2), queue("a", 1), queue("b", 1)]
    things += [group("plain", 0, queue="a", phase="Running"), *running_pods("plain", ["n1"], created=9)]
    things += [group("cards", 0, queue="a", phase="Running"), *running_pods("cards", ["n1", "n1"], gpu=1)]
    decisions = Plane(RECLAIM, *things, gang("g", 1, queue="b", gpu=1)).cycle()
    assert [eviction.pod[:5] for eviction in decisions.evictions] == ["cards"]


@pytest.mark.parametrize(
    ("protected", "options"),
    [
        ("by annotation", {"annotations": {"volcano.sh/preemptable": "false"}}),
        ("critical", {"priority_class": "system-node-critical"}),
        ("of another scheduler", {"scheduler": "default-scheduler"}),
        ("not yet running", {"phase": "Pending"}),
    ],
)
def test_protected_pods_stay(protected: str, options: dict[str, object]) -> None:
    things = [node("n1", cpu=2), queue("a", 1), queue("b", 1)]
    things += [group("h", 0, queue="a", phase="Running"), *running_pods("h", ["n1", "n1"], **options)]
    assert Plane(RECLAIM, *things, gang("g", 1, queue="b")).cycle().evictions == []


def test_a_preemption_policy_of_never_takes_nothing() -> None:
    things = [node("n1", cpu=2), queue("a", 1), queue("b", 1)]
    things += [group("h", 0, queue="a", phase="Running"), *running_pods("h", ["n1", "n1"])]
    job = gang("g", 1, queue="b")
    job[1].spec.preemption_policy = "Never"  # type: ignore[attr-defined]
    plane = Plane(RECLAIM, *things, job)
    assert plane.cycle().evictions == []


def test_a_closed_queue_takes_nothing() -> None:
    things = [node("n1", cpu=2), queue("a", 1), queue("b", 1, state="Closed")]
    things += [group("h", 0, queue="a", phase="Running"), *running_pods("h", ["n1", "n1"])]
    assert Plane(RECLAIM, *things, gang("g", 1, queue="b")).cycle().evictions == []


def test_nodes_that_filters_refuse_are_left_alone() -> None:
    things = [node("n1", cpu=2, labels={"zone": "x"}), node("n2", cpu=2, labels={"zone": "y"})]
    things += [queue("a", 1), queue("b", 1), group("h", 0, queue="a", phase="Running")]
    things += running_pods("h", ["n1", "n1", "n2", "n2"])
    decisions = Plane(RECLAIM, *things, gang("g", 1, queue="b", selector={"zone": "y"})).cycle()
    assert [eviction.node for eviction in decisions.evictions] == ["n2"]


@pytest.mark.parametrize("quota", ["proportion", "capacity"])
def test_a_queue_within_its_share_loses_nothing_though_its_job_has_pods_to_spare(quota: str) -> None:
    """Volcano asks gang in the first tier, which gives up spare pods, and never asks who holds too much."""
    things = [node("n1", cpu=4), queue("a", 1, deserved={"cpu": 2}), queue("b", 1, deserved={"cpu": 2})]
    things += [queue("c", 1, deserved={"cpu": 2}), group("spare", 0, queue="a", phase="Running")]
    things += [*running_pods("spare", ["n1"]), group("fat", 0, queue="c", phase="Running")]
    things += running_pods("fat", ["n1"] * 3)
    plane = Plane(settings("enqueue, allocate, reclaim, backfill", quota=quota), *things, gang("g", 1, queue="b"))
    assert [eviction.pod[:3] for eviction in plane.cycle().evictions] == ["fat"]


def test_a_gang_that_is_broken_anyway_loses_its_other_pods_first() -> None:
    things = [node("n1", cpu=6), queue("a", 1), queue("b", 1), group("whole", 3, queue="a", phase="Running")]
    things += running_pods("whole", ["n1"] * 3)
    things += [group("other", 3, queue="a", phase="Running", created=5), *running_pods("other", ["n1"] * 3, created=5)]
    plane = Plane(RECLAIM, *things, gang("g", 3, queue="b"))
    assert len({eviction.pod[:5] for eviction in plane.cycle().evictions}) == 1


def test_a_place_that_was_made_for_a_job_goes_to_it_and_not_to_the_first_in_line() -> None:
    things = [node("n1", cpu=2), queue("a", 1, deserved={"cpu": 1}), queue("b", 1, deserved={"cpu": 1})]
    things += [group("h", 0, queue="a", phase="Running"), *running_pods("h", ["n1", "n1"])]
    reclaim = settings("enqueue, allocate, reclaim, backfill", quota="capacity")
    plane = Plane(reclaim, *things, gang("g", 1, queue="b", created=9))
    assert len(plane.cycle().evictions) == 1
    for thing in gang("early", 1, queue="b"):
        plane.put(thing)
    plane.settle()
    assert plane.running() == {"h": 1, "g": 1}


def test_a_job_that_fits_keeps_its_free_place_although_reclaim_comes_before_allocate() -> None:
    config = settings("enqueue, reclaim, allocate, backfill", gang=OFF, drf=OFF)
    things = [node("n1", cpu=4), queue("a", 1), queue("b", 3)]
    things += [group("holder", 1, queue="a", phase="Running"), *running_pods("holder", ["n1"] * 3)]
    plane = Plane(config, *things, gang("first", 1, queue="b", created=1), gang("second", 2, queue="b", created=2))
    decisions = plane.cycle()
    assert [(bind.pod, bind.node) for bind in decisions.binds] == [("first-w-0", "n1")]
    assert len(decisions.pipelined) == len(decisions.evictions) == 2


def test_spare_pods_go_before_a_gang_breaks_though_few_may_be_taken_from_the_queue() -> None:
    things = [node("n1", cpu=8), queue("a", 1), queue("b", 1), priority_class("low", 1), priority_class("mid", 2)]
    for name, minimum, rank in (("spare", 1, "mid"), ("whole", 4, "low")):
        things += [group(name, minimum, queue="a", phase="Running", priority_class=rank)]
        things += running_pods(name, ["n1"] * (4 if name == "whole" else 3), priority={"low": 1, "mid": 2}[rank])
    things += [group("own", 1, queue="b", phase="Running"), *running_pods("own", ["n1"])]
    plane = Plane(RECLAIM, *things, gang("wants", 1, queue="b"))
    plane.cycle()
    assert plane.evicted == [["spare"]]
