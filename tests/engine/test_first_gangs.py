"""``proportion.firstGang``: a gang that is larger than the share of its queue starts where the cluster is idle."""

from __future__ import annotations

from typing import Any

import pytest
from eviction_world import OFF, Plane, running_pods, settings
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from support.build import flatten, gang, group, node, nodes, pod, queue
from support.examples import examples
from unisono.api.base import Object
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.config_file.reader import default_config
from unisono.engine.verdict import Cause

ON = "proportion\n    arguments: {proportion.firstGang: true}"
ALLOCATE = "enqueue, allocate, backfill"
RECLAIM = "enqueue, allocate, reclaim, backfill"
FIRST = settings(ALLOCATE, quota=ON)
CONFIGS = {
    "allocate": FIRST,
    "reclaim": settings(RECLAIM, gang=OFF, drf=OFF, quota=ON),
    "reclaim from gangs": settings(RECLAIM, gang="\n    enableReclaimable: false", quota=ON),
    "whole gangs": settings("enqueue, allocate, gangpreempt, gangreclaim, backfill", quota=ON),
    "evict first": settings("enqueue, reclaim, preempt, allocate", gang=OFF, drf=OFF, quota=ON),
    "both": settings("enqueue, allocate, preempt, reclaim, backfill", quota=ON),
}


def half_gangs(*names: str, cpu: int = 6) -> list[Object]:
    """A cluster of 12 cpus, and one queue with one gang of half of it for each name, the oldest first."""
    things: list[Any] = [nodes(6, cpu=2)]
    for created, name in enumerate(names):
        things += [queue(name), gang(f"j{name}", cpu, queue=name, created=created, cpu=1)]
    return flatten(things)


def test_three_queues_with_a_gang_of_half_the_cluster() -> None:
    plane = Plane(FIRST, half_gangs("c", "b", "a"))
    last = plane.settle()
    assert plane.running() == {"jc": 6, "jb": 6}
    assert last.verdicts["ns/ja"].cause is Cause.NODES_FULL
    for name in ("jc", "jb"):
        for one in [p for p in plane.pods() if p.metadata.name.startswith(name)]:
            plane.drop(one.key)
    plane.settle()
    assert plane.running() == {"ja": 6}


def test_it_is_off_unless_asked_for_and_on_in_the_default_configuration() -> None:
    def running(config: SchedulerConfig) -> dict[str, int]:
        plane = Plane(config, half_gangs("a", "b", "c"))
        plane.settle()
        return plane.running()

    assert running(settings(ALLOCATE)) == {}
    assert running(default_config()) == {"ja": 6, "jb": 6}


def test_a_capability_holds() -> None:
    things = [nodes(6, cpu=2), queue("a", capability={"cpu": 5}), gang("ja", 6, queue="a", cpu=1)]
    plane = Plane(FIRST, things, half_gangs("b", "c"))
    plane.settle()
    assert plane.running() == {"jb": 6, "jc": 6}


def test_what_is_guaranteed_to_others_is_left() -> None:
    plane = Plane(FIRST, half_gangs("a", "b", "c", cpu=7), queue("kept", guarantee={"cpu": 6}))
    plane.settle()
    assert plane.running() == {}


def test_work_within_its_share_comes_first() -> None:
    """Although the gang has waited longer, and would start if it were asked first."""
    small = [queue("d"), gang("jd", 3, queue="d", created=9, cpu=1)]
    plane = Plane(FIRST, half_gangs("a", "b", cpu=10), small)
    plane.settle()
    assert plane.running() == {"jd": 3}


def test_a_queue_that_holds_something_keeps_to_its_share() -> None:
    held = [group("held", 1, queue="a", phase="Running"), running_pods("held", ["n000"])]
    plane = Plane(FIRST, half_gangs("a", "b", "c"), held)
    last = plane.settle()
    assert plane.running() == {"held": 1, "jb": 6}
    assert last.verdicts["ns/ja"].cause is Cause.OVER_SHARE
    assert last.verdicts["ns/jc"].cause is Cause.NODES_FULL


def test_only_the_minimum_of_an_elastic_gang_goes_over_the_share() -> None:
    things = [group("je", 5, queue="a"), [pod(f"je-{i}", "je", cpu=1) for i in range(9)]]
    plane = Plane(FIRST, half_gangs("b", "c", cpu=9), queue("a"), things)
    plane.settle()
    assert plane.running() == {"je": 5}


def test_of_a_queue_the_first_gang_that_finds_room_starts() -> None:
    lost = gang("lost", 6, queue="a", created=0, cpu=1, selector={"zone": "none"})
    plane = Plane(FIRST, half_gangs("x", "a", "b"), lost)
    last = plane.settle()
    assert plane.running() == {"jx": 6, "ja": 6}
    assert last.verdicts["ns/lost"].cause is not Cause.OVER_SHARE


def test_queues_take_turns_by_how_long_their_gangs_have_waited() -> None:
    """A backlog of one queue does not pass by the gang of another."""
    plane = Plane(FIRST, half_gangs("a", "b", "c"), gang("later", 6, queue="a", created=7, cpu=1))
    plane.settle()
    assert plane.running() == {"ja": 6, "jb": 6}
    for one in [p for p in plane.pods() if p.metadata.name.startswith("ja")]:
        plane.drop(one.key)
    plane.settle()
    assert plane.running() == {"jb": 6, "jc": 6}


def test_a_gang_that_loses_a_member_gets_it_back() -> None:
    plane = Plane(FIRST, half_gangs("a", "b", "c"))
    plane.settle()
    lost = next(p for p in plane.pods() if p.metadata.name.startswith("ja"))
    plane.drop(lost.key)
    plane.put(pod("ja-again", "ja", cpu=1))
    plane.settle()
    assert plane.running() == {"ja": 6, "jb": 6}


BELOW = {
    # Of the 4 cpus of org each of two queues has a part of 2: what their gangs need, and which start.
    "each larger than its part": ({"a": [3], "b": [3]}, {"ja0": 3}),
    "beside what its queue holds": ({"a": [1, 2], "b": [4]}, {"ja0": 1, "ja1": 2}),
    "within its part comes first": ({"a": [3], "b": [2]}, {"jb0": 2}),
    "never beyond the capability": ({"a": [5], "b": [1]}, {"jb0": 1}),
}


@pytest.mark.parametrize("first", [True, False], ids=["first gangs may", "first gangs may not"])
@pytest.mark.parametrize("name", BELOW)
def test_below_a_capability_a_gang_may_use_what_nobody_else_can(name: str, first: bool) -> None:
    wanted, expected = BELOW[name]
    things: list[Any] = [nodes(6, cpu=2), queue("org", capability={"cpu": 4})]
    for at, (of, sizes) in enumerate(wanted.items()):
        things.append(queue(of, parent="org"))
        for number, size in enumerate(sizes):
            things.append(gang(f"j{of}{number}", size, queue=of, created=10 * at + number, cpu=1))
    plane = Plane(FIRST if first else settings(ALLOCATE), things)
    plane.settle()
    assert plane.running() == expected


def test_what_goes_beyond_a_share_protects_nobody() -> None:
    """A queue within its share takes back what the gang holds beyond its own, and the gang takes nothing back."""
    plane = Plane(CONFIGS["reclaim"], half_gangs("a", "b", "c"))
    plane.settle()
    assert plane.evicted == [[]] * len(plane.evicted)
    plane.put(queue("d"))
    for one in flatten([gang("jd", 3, queue="d", cpu=1)]):
        plane.put(one)
    plane.settle()
    assert plane.running()["jd"] == 3
    assert sum(map(len, plane.evicted)) == 3


# ---- random clusters

job_lists = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 8), st.integers(0, 2), st.sampled_from([1, 1, 2]), st.integers(0, 3)),
    min_size=1,
    max_size=7,
)
clusters = st.tuples(
    st.lists(st.integers(1, 4), min_size=1, max_size=4), st.lists(st.integers(1, 3), min_size=4, max_size=4)
)


def build(sizes: tuple[list[int], list[int]], jobs: list[Any]) -> list[Object]:
    things: list[Any] = [node(f"n{i}", cpu=cpu) for i, cpu in enumerate(sizes[0])]
    things += [queue(f"q{i}", weight) for i, weight in enumerate(sizes[1][:3])]
    things.append(queue("q3", sizes[1][3], capability={"cpu": 3}))
    for number, (at, minimum, more, cpu, created) in enumerate(jobs):
        name = f"j{number}"
        things.append(group(name, minimum, queue=f"q{at}", created=created))
        things += [pod(f"{name}-{i}", name, created=created, cpu=cpu) for i in range(minimum + more)]
    return flatten(things)


slow = hypothesis_settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])


@slow
@given(clusters, job_lists, st.sampled_from(sorted(CONFIGS)))
def test_nothing_flaps_and_an_idle_cluster_is_used(sizes: Any, jobs: list[Any], name: str) -> None:
    plane = Plane(CONFIGS[name], build(sizes, jobs))
    total = len(plane.pods())
    plane.settle(12 + 8 * total)
    assert sum(map(len, plane.evicted)) <= 2 * total, plane.evicted
    held = plane.running()
    assert sum(held.get(f"j{i}", 0) * job[3] for i, job in enumerate(jobs) if job[0] == 3) <= 3
    for number, (_, minimum, *_) in enumerate(jobs):
        assert held.get(f"j{number}", 0) == 0 or held[f"j{number}"] >= minimum
    if not held:  # whoever would start with the cluster for itself would have started
        for number in range(len(jobs)):
            alone = Plane(CONFIGS[name], build(sizes, [job for i, job in enumerate(jobs) if i == number]))
            alone.settle()
            assert alone.running() == {}
    for _ in range(2):
        assert plane.cycle().evictions == []
    assert plane.running() == held


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_jobs_that_end_make_room_for_all_others(name: str) -> None:
    """Each gang of a backlog that is larger than every share runs once, and none of them is evicted."""
    plane = Plane(CONFIGS[name], half_gangs("a", "b", "c"), [gang(f"{q}2", 5, queue=q, cpu=1) for q in "abc"])
    seen: set[str] = set()
    for _ in range(12):
        plane.cycle()
        seen |= set(plane.running())
        for one in plane.pods():
            if one.spec.node_name:
                plane.drop(one.key)
    assert seen == {"ja", "jb", "jc", "a2", "b2", "c2"}
    assert sum(map(len, plane.evicted)) == 0
