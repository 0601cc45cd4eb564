"""Evictions terminate: over random clusters, with decisions carried out, the state becomes stable and stays so."""

from __future__ import annotations

from typing import Any

from eviction_world import BOTH, OFF, PREEMPT, RECLAIM, Plane, job_of, settings
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from support.build import flatten, group, node, pod, priority_class, queue
from support.examples import examples
from unisono.api.base import Object
from unisono.engine.decisions import Decisions

CONFIGS = {
    "preempt": PREEMPT,
    "reclaim": RECLAIM,
    "both": BOTH,
    "no gang, no drf": settings("enqueue, allocate, preempt, reclaim, backfill", gang=OFF, drf=OFF),
    "drf decides": settings("allocate, preempt, reclaim, backfill", gang=OFF),
    "evict first": settings("enqueue, preempt, reclaim, allocate, backfill"),
    "capacity": settings("enqueue, allocate, preempt, reclaim, backfill", quota="capacity"),
    "capacity, evict first": settings("enqueue, reclaim, allocate", gang=OFF, drf=OFF, quota="capacity"),
    "topology-aware": settings(
        "enqueue, allocate, preempt, backfill",
        gang=OFF,
        drf=OFF,
        more="configurations:\n- name: preempt\n  arguments: {enableTopologyAwarePreemption: true}\n",
    ),
}

node_lists = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2)), min_size=1, max_size=4)
job_lists = st.lists(
    st.tuples(
        st.integers(0, 3),  # queue
        st.sampled_from(["", "low", "high"]),
        st.integers(0, 4),  # minimum
        st.lists(st.tuples(st.sampled_from([0, 1, 1, 2]), st.sampled_from([0, 0, 1]), st.integers(-1, 3)), max_size=5),
        st.sampled_from(["", "", "", "false"]),
        st.integers(0, 2),  # created
    ),
    max_size=7,
)


def build(nodes: list[tuple[int, int]], jobs: list[Any]) -> list[Object]:
    objects: list[Any] = [
        queue("q0", 1, deserved={"cpu": 2}),
        queue("q1", 2, deserved={"cpu": 3, "gpu": 1}),
        queue("q2", 1, deserved={"cpu": 1, "gpu": 2}, reclaimable=False),
        queue("q3", 1, deserved={"gpu": 2}),
    ]
    objects += [priority_class("low", 10), priority_class("high", 100)]
    objects += [node(f"n{i}", cpu=cpu, gpu=gpu) for i, (cpu, gpu) in enumerate(nodes)]
    free = {f"n{i}": [cpu, gpu] for i, (cpu, gpu) in enumerate(nodes)}
    for number, (q, rank, minimum, tasks, preemptable, created) in enumerate(jobs):
        name = f"j{number}"
        placed = []
        for index, (cpu, gpu, where) in enumerate(tasks):
            room = free.get(f"n{where}", [-1, -1])
            at = f"n{where}" if room[0] >= cpu and room[1] >= gpu else ""
            if at:
                free[at] = [room[0] - cpu, room[1] - gpu]
            amounts = {**({"cpu": cpu} if cpu else {}), **({"gpu": gpu} if gpu else {})}
            notes = {"volcano.sh/preemptable": preemptable} if preemptable else {}
            placed.append(pod(f"{name}-t-{index}", name, node=at, annotations=notes, created=created, **amounts))
        held = sum(1 for p in placed if p.spec.node_name)
        phase = "Running" if held and held >= minimum else "Inqueue"
        objects.append(group(name, minimum, queue=f"q{q}", priority_class=rank, phase=phase, created=created))
        objects += placed
    return flatten(objects)


clusters = st.builds(build, node_lists, job_lists)
slow = hypothesis_settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])


@slow
@given(clusters, st.sampled_from(sorted(CONFIGS)), st.integers(0, 2))
def test_evictions_end_and_nobody_is_evicted_for_ever(objects: list[Object], name: str, grace: int) -> None:
    plane = Plane(CONFIGS[name], *objects, grace=grace)
    total = len(plane.pods())
    plane.settle(12 + 8 * total)
    assert sum(len(jobs) for jobs in plane.evicted) <= 2 * total, plane.evicted
    held = plane.running()
    for _ in range(2):
        assert plane.cycle().evictions == []
    assert plane.running() == held


def check(plane: Plane, decisions: Decisions) -> None:
    beneficiaries = {p.job for p in decisions.pipelined} | {b.job for b in decisions.binds}
    victims = [f"{e.namespace}/{e.pod}" for e in decisions.evictions]
    assert len(victims) == len(set(victims))
    for eviction in decisions.evictions:
        assert eviction.beneficiary in beneficiaries
        victim = plane.objects["Pod", f"{eviction.namespace}/{eviction.pod}"]
        assert (victim.metadata.annotations or {}).get("volcano.sh/preemptable") != "false"
        if eviction.reason == "reclaim":
            assert plane.state.book.jobs[f"ns/{job_of(victim)}"].queue != "q2"  # type: ignore[arg-type]


@slow
@given(clusters, st.sampled_from(sorted(CONFIGS)))
def test_each_eviction_has_a_use(objects: list[Object], name: str) -> None:
    plane = Plane(CONFIGS[name], *objects)
    check(plane, plane.cycle())


@slow
@given(clusters, st.sampled_from(sorted(CONFIGS)), st.randoms(use_true_random=False))
def test_evictions_do_not_depend_on_the_order_of_input(objects: list[Object], name: str, random: Any) -> None:
    shuffled = list(objects)
    random.shuffle(shuffled)
    one, other = Plane(CONFIGS[name], *objects).cycle(), Plane(CONFIGS[name], *shuffled).cycle()
    assert (one.evictions, sorted(one.pipelined, key=str)) == (other.evictions, sorted(other.pipelined, key=str))
