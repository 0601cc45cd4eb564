"""Licences and other floating resources: in gangs, queues, shares, evictions, and for a job as a whole."""

from __future__ import annotations

from typing import Any

import pytest
from eviction_world import BOTH, PREEMPT, RECLAIM, Plane, running_pods

from support.build import (
    bound_per_job,
    cluster,
    config,
    confirm,
    floating,
    gang,
    group,
    node,
    nodes,
    pod,
    priority_class,
    queue,
    schedule,
)
from unisono.api.annotations import LICENSES

RANKS = [priority_class("low", 10), priority_class("high", 100)]
SHARES = config(("priority", "gang"), ("predicates", "proportion", "nodeorder"))


def holder(name: str, number: int, *, licenses: str = "", minimum: int | None = None, **options: Any) -> list[Any]:
    """A job that runs on node ``n1``."""
    rank, where = options.pop("rank", ""), options.pop("queue", "default")
    notes = {LICENSES: licenses} if licenses else None
    needed = number if minimum is None else minimum
    head = group(name, needed, phase="Running", priority_class=rank, queue=where, annotations=notes)
    at = options.pop("at", "n1")
    return [head, *running_pods(name, [at] * number, **({"cpu": 1} | options))]


@pytest.mark.parametrize(
    ("amount", "in_use", "size", "starts"),
    [(4, 0, 2, True), (4, 1, 2, False), (3, 0, 2, False), (None, 0, 2, False)],
    ids=["enough", "held elsewhere", "too few", "no such resource"],
)
def test_a_gang_has_licences_for_all_its_pods_or_does_not_start(
    amount: int | None, in_use: int, size: int, starts: bool
) -> None:
    there = [floating("matlab", amount, in_use)] if amount is not None else []
    decisions = schedule(cluster(nodes(3), there, gang("g", size, matlab=2)))
    assert bound_per_job(decisions) == ({"g": size} if starts else {})
    assert not decisions.violations


def test_which_node_a_pod_is_on_says_nothing_about_licences() -> None:
    state = cluster(nodes(3, cpu=2), floating("matlab", 5), [gang(f"j{at}", 1, matlab=1) for at in range(9)])
    decisions = schedule(state)
    assert len(decisions.binds) == 5
    confirm(state, decisions)
    assert schedule(state).binds == []


@pytest.mark.parametrize("holds", [{"matlab": 1}, {}], ids=["pods", "the job"])
def test_a_lost_pod_keeps_its_licences_below_a_capability(holds: dict[str, Any]) -> None:
    notes = {} if holds else {LICENSES: "matlab"}
    head = group("o", 1, phase="Running", queue="a", annotations=notes)
    lost = pod("o-0", "o", node="n1", phase="Unknown", cpu=1, **holds)
    things = [node("n1"), floating("matlab", 2), queue("a", capability={"matlab": 1}), head, lost]
    assert schedule(cluster(*things, gang("g", 1, queue="a", matlab=1))).binds == []


def test_licences_are_free_once_their_holders_are_gone() -> None:
    leaving = pod("old", "o", node="n1", deleting=True, cpu=1, matlab=2)
    state = cluster(node("n1"), floating("matlab", 2), group("o", 1, phase="Running"), leaving, gang("g", 1, matlab=2))
    assert schedule(state).binds == []
    state = cluster(node("n1"), floating("matlab", 2), gang("g", 1, matlab=2))
    assert len(schedule(state).binds) == 1


def test_pods_of_other_schedulers_hold_theirs() -> None:
    other = pod("other", node="n1", scheduler="default-scheduler", cpu=1, matlab=2)
    assert schedule(cluster(node("n1"), floating("matlab", 3), other, gang("g", 1, matlab=2))).binds == []


@pytest.mark.parametrize(("amount", "started"), [(1, 1), (2, 2), (3, 3)])
def test_a_job_as_a_whole_holds_its_licences_once(amount: int, started: int) -> None:
    jobs = [gang(f"j{at}", 3, licenses="matlab") for at in range(3)]
    state = cluster(nodes(3), floating("matlab", amount), jobs)
    decisions = schedule(state)
    assert bound_per_job(decisions) == {f"j{at}": 3 for at in range(started)}
    assert not decisions.violations
    confirm(state, decisions)
    assert schedule(state).binds == []


@pytest.mark.parametrize(("amount", "started"), [(4, 0), (5, 2), (6, 3)])
def test_what_pods_ask_for_comes_beside_what_their_job_does(amount: int, started: int) -> None:
    decisions = schedule(cluster(nodes(2), floating("matlab", amount), gang("g", 4, 2, licenses="matlab=3", matlab=1)))
    assert len(decisions.binds) == started
    assert not decisions.violations


def test_what_is_promised_to_one_pod_for_later_is_not_there_for_another_one_now() -> None:
    """The large pod waits for room and for the licence, both of which a terminating pod has; the small one fits now."""
    leaving = [group("o", 1, phase="Running", annotations={LICENSES: "matlab"})]
    leaving.append(pod("o-0", "o", node="n1", deleting=True, cpu=6))
    gang_of_two = group("g", 1, annotations={LICENSES: "matlab"})
    pods = [pod("g-large", "g", cpu=6, priority=9), pod("g-small", "g", cpu=1)]
    decisions = schedule(cluster(node("n1", cpu=8), floating("matlab", 1), leaving, gang_of_two, pods))
    assert decisions.binds == []
    assert decisions.violations == []


def test_a_job_keeps_its_licences_until_its_last_pod_has_gone() -> None:
    head = group("o", 1, phase="Running", annotations={LICENSES: "matlab=2"})
    leaving = pod("o-0", "o", node="n1", deleting=True, cpu=1)
    ended = pod("o-1", "o", node="n1", phase="Succeeded", cpu=1)
    asks = gang("g", 1, licenses="matlab=2")
    assert schedule(cluster(node("n1"), floating("matlab", 2), head, leaving, ended, asks)).binds == []
    assert bound_per_job(schedule(cluster(node("n1"), floating("matlab", 2), head, ended, asks))) == {"g": 1}


def test_more_pods_of_a_job_need_no_more_of_its_licences() -> None:
    head = group("g", 1, phase="Running", annotations={LICENSES: "matlab"})
    pods = [pod("g-0", "g", node="n1", cpu=1), pod("g-1", "g", cpu=1)]
    assert len(schedule(cluster(node("n1"), floating("matlab", 1), head, pods)).binds) == 1


def test_the_elastic_part_of_a_gang_gets_what_is_left() -> None:
    decisions = schedule(cluster(nodes(2), floating("matlab", 3), gang("g", 5, 2, matlab=1)))
    assert bound_per_job(decisions) == {"g": 3}


@pytest.mark.parametrize("asks", [{"matlab": 2}, {"licenses": "matlab=2"}], ids=["pods", "the job"])
def test_a_queue_has_a_capability_of_licences(asks: dict[str, Any]) -> None:
    queues = [queue("a", capability={"matlab": 3}), queue("b")]
    jobs = [gang(f"{name}{at}", 1, queue=name, **asks) for name in "ab" for at in range(2)]
    state = cluster(nodes(2), floating("matlab", 10), queues, jobs)
    decisions = schedule(state)
    assert bound_per_job(decisions) == {"a0": 1, "b0": 1, "b1": 1}
    confirm(state, decisions)
    assert schedule(state).binds == []


def test_queues_share_licences_by_weight() -> None:
    queues = [queue("a", 3), queue("b", 1)]
    jobs = [gang(f"{name}{at}", 1, queue=name, matlab=1) for name in "ab" for at in range(8)]
    decisions = schedule(cluster(nodes(4), floating("matlab", 8), queues, jobs), SHARES)
    found = bound_per_job(decisions)
    assert sum(name.startswith("a") for name in found) == 6
    assert sum(name.startswith("b") for name in found) == 2


def test_a_job_waits_for_its_admission_where_licences_are_promised_to_others() -> None:
    settings = config(("priority", "gang"), ("overcommit", "predicates", "proportion"))
    jobs = [
        [group(f"j{at}", 2, phase="Pending", created=float(at), resources={"cpu": 2, "matlab": 4})] for at in range(3)
    ]
    decisions = schedule(cluster(nodes(4), floating("matlab", 8), jobs), settings)
    assert sorted(each.key for each in decisions.pod_groups if each.phase == "Inqueue") == ["ns/j0", "ns/j1"]


@pytest.mark.parametrize("as_whole", [False, True], ids=["pods", "the job"])
def test_as_many_holders_go_as_the_licences_need(as_whole: bool) -> None:
    held = [
        holder(f"low{at}", 1, rank="low", **({"licenses": "matlab=2"} if as_whole else {"matlab": 2}))
        for at in range(4)
    ]
    asks: dict[str, Any] = {"licenses": "matlab=4"} if as_whole else {"matlab": 4}
    other = holder("other", 2, rank="low", at="n2")
    plane = Plane(PREEMPT, RANKS, node("n1"), node("n2"), floating("matlab", 8), held, other)
    for thing in gang("g", 1, priority_class="high", **asks):
        plane.put(thing)
    decisions = plane.cycle()
    assert len(decisions.evictions) == 2
    assert all(one.pod.startswith("low") for one in decisions.evictions)
    plane.settle()
    assert plane.running()["g"] == 1


@pytest.mark.parametrize("asks", [{"matlab": 2}, {"licenses": "matlab=2"}], ids=["pods", "the job"])
@pytest.mark.parametrize("holds", [{"matlab": 2}, {"licenses": "matlab=2"}], ids=["of pods", "of a job"])
def test_holders_go_where_the_pod_itself_has_no_place(asks: dict[str, Any], holds: dict[str, Any]) -> None:
    held = holder("low", 1, rank="low", **holds)
    there = [node("n1"), node("gpu", gpu=1)]
    plane = Plane(PREEMPT, RANKS, there, floating("matlab", 2), held)
    for thing in gang("g", 1, priority_class="high", cpu=0, gpu=1, **asks):
        plane.put(thing)
    assert [one.pod for one in plane.cycle().evictions] == ["low-w-0"]
    plane.settle()
    assert plane.running() == {"g": 1}


@pytest.mark.parametrize("rank", ["low", "high"])
def test_nobody_goes_for_licences_that_evictions_do_not_free(rank: str) -> None:
    held = holder("low", 1, rank="low", matlab=2)
    plane = Plane(BOTH, RANKS, node("n1"), floating("matlab", 4, 2), held)
    for thing in gang("g", 1, priority_class=rank, matlab=3):
        plane.put(thing)
    assert plane.cycle().evictions == []


def test_a_queue_takes_back_its_share_of_licences() -> None:
    queues = [queue("a"), queue("b")]
    held = [holder(f"a{at}", 1, queue="a", matlab=1) for at in range(4)]
    plane = Plane(RECLAIM, queues, node("n1", cpu=16), floating("matlab", 4), held)
    for at in range(3):
        for thing in gang(f"b{at}", 1, queue="b", matlab=1):
            plane.put(thing)
    plane.settle()
    running = plane.running()
    assert sum(name.startswith("a") for name in running) == 2
    assert sum(name.startswith("b") for name in running) == 2


def test_raising_the_amount_starts_what_waits() -> None:
    plane = Plane(PREEMPT, node("n1"), floating("matlab", 1), gang("g", 2, matlab=1), gang("h", 1, matlab=1))
    plane.settle()
    assert plane.running() == {"h": 1}
    plane.put(floating("matlab", 3))
    plane.settle()
    assert plane.running() == {"g": 2, "h": 1}
