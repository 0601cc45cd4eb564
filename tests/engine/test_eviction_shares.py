"""Reclaim leaves queues their shares, over several cycles while victims end."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from eviction_world import OFF, Plane, settings
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from support.build import group, node, pod, queue
from support.examples import examples
from unisono.engine.config_file.reader import load_config

QUEUES = ("a", "b", "c")


def gang_reclaim() -> Any:
    first, second = ("priority", "gang", "conformance"), ("predicates", "capacity", "network-topology-aware")
    tiers = ["".join(f"\n  - name: {name}" for name in names) for names in (first, second)]
    return load_config(
        f'actions: "enqueue, allocate, gangreclaim"\ntiers:\n- plugins:{tiers[0]}\n- plugins:{tiers[1]}\n'
    )


CONFIGS = {
    "proportion": settings("enqueue, allocate, reclaim, backfill", gang=OFF, drf=OFF),
    "capacity": settings("enqueue, allocate, reclaim, backfill", gang=OFF, drf=OFF, quota="capacity"),
    "both": settings("enqueue, allocate, preempt, reclaim, backfill", gang=OFF, drf=OFF, quota="capacity"),
    "whole gangs": gang_reclaim(),
}


@pytest.mark.parametrize("name", ["proportion", "capacity", "whole gangs"])
@pytest.mark.parametrize(("gpus", "goes"), [(2, False), (6, True)])
def test_a_queue_with_much_of_one_resource_keeps_its_share_of_another(name: str, gpus: int, goes: bool) -> None:
    """Queue a holds more processors than its share; GPUs are what is missing, and of those it may hold less."""
    things: list[Any] = [queue(each, 1, deserved={"cpu": 16, "gpu": 4}) for each in ("a", "b")]
    things += [node("n0", cpu=32, gpu=8)]
    for number in range(gpus):
        things.append(group(f"a{number}", queue="a", phase="Running"))
        things.append(pod(f"a{number}-w-0", f"a{number}", node="n0", cpu=20 // gpus, gpu=1))
    for number in range(8 - gpus):
        things.append(group(f"c{number}", queue="other", phase="Running"))
        things.append(pod(f"c{number}-w-0", f"c{number}", node="n0", cpu=0, gpu=1))
    things.append(queue("other", 1, deserved={"cpu": 1, "gpu": 8}, reclaimable=False))
    things += [group("b", 1, queue="b"), pod("b-w-0", "b", cpu=1, gpu=1)]
    things += [group("more", 2, queue="a"), *(pod(f"more-w-{at}", "more", cpu=8, gpu=4) for at in range(2))]
    plane = Plane(CONFIGS[name], *things)
    assert bool(plane.cycle().evictions) is goes


def held(plane: Plane) -> Counter[str]:
    """GPUs that run and do not end, by queue."""
    found: Counter[str] = Counter()
    for job, number in plane.running().items():
        found[job[0]] += number
    return found


worlds = st.lists(st.tuples(st.sampled_from(QUEUES), st.integers(1, 3)), min_size=2, max_size=8)


@hypothesis_settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(worlds, st.lists(worlds, min_size=1, max_size=4), st.sampled_from(sorted(CONFIGS)), st.integers(1, 4))
def test_no_queue_comes_below_its_share_by_reclaim(
    running: list[tuple[str, int]], waiting: list[list[tuple[str, int]]], name: str, grace: int
) -> None:
    """Pods of one GPU each, so that shares are met exactly; jobs come cycle by cycle."""
    deserved = {"a": 4, "b": 2, "c": 2}
    things: list[Any] = [queue(each, 1, deserved={"gpu": deserved[each]}) for each in QUEUES]
    things += [node(f"n{at}", cpu=64, gpu=4) for at in range(2)]
    free = [f"n{at % 2}" for at in range(8)]
    for number, (q, size) in enumerate(running):
        nodes, free = free[:size], free[size:]
        if nodes:
            things.append(group(f"{q}r{number}", len(nodes) - 1, queue=q, phase="Running"))
            things += [pod(f"{q}r{number}-w-{at}", f"{q}r{number}", node=n, gpu=1) for at, n in enumerate(nodes)]
    plane = Plane(CONFIGS[name], *things, grace=grace)
    for cycle in range(10):
        before = held(plane)
        decisions = plane.cycle()
        lost: Counter[str] = Counter()
        promised = Counter(p.job[3] for p in decisions.pipelined)
        for eviction in decisions.evictions:
            if eviction.reason in ("reclaim", "gangreclaim"):
                lost[eviction.pod[0]] += 1
        if name != "proportion":  # where shares follow what is asked for
            for q, number in lost.items():
                assert before[q] + promised[q] - number >= min(deserved[q], before[q]), (q, before, promised, lost)
        for number, (q, size) in enumerate(waiting[cycle] if cycle < len(waiting) else ()):
            job = f"{q}w{cycle}{number}"
            plane.put(group(job, size, queue=q, created=cycle + 1))
            for at in range(size):
                plane.put(pod(f"{job}-w-{at}", job, gpu=1, created=cycle + 1))
    plane.settle(60)
