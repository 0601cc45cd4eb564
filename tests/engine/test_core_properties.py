"""What holds of every set of decisions, over random clusters."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.build import GANG, cluster, config, flatten, group, node, pod, queue, schedule
from support.examples import examples
from unisono.api.base import Object
from unisono.cluster.state import ClusterState
from unisono.engine.candidates.table import CandidateTable
from unisono.engine.decisions import Decisions

SHARES = config(
    ("priority", "gang", "conformance"),
    ("overcommit", "drf", "predicates", "proportion", "nodeorder", "binpack"),
)
BINPACK = config(("gang",), ("predicates", "binpack"))
BARE: Any = config(())
CONFIGS = {"gang": GANG, "shares": SHARES, "binpack": BINPACK, "bare": BARE}

node_lists = st.lists(
    st.builds(
        lambda cpu, gpu, zone, cordoned, soft, pods: dict(
            cpu=cpu,
            **({"gpu": gpu} if gpu else {}),
            labels={"zone": zone},
            unschedulable=cordoned,
            pods=pods,
            taints=[("soft", "", "PreferNoSchedule")] if soft else [],
        ),
        st.integers(1, 6),
        st.integers(0, 2),
        st.sampled_from("ab"),
        st.sampled_from([False, False, False, True]),
        st.booleans(),
        st.sampled_from([3, 110]),
    ),
    min_size=0,
    max_size=6,
)
task_lists = st.lists(
    st.builds(
        lambda cpu, gpu, zone, role, port, where, phase: (
            dict(
                **({"cpu": cpu} if cpu else {}),
                **({"gpu": gpu} if gpu else {}),
                selector={"zone": zone} if zone else None,
                role=role,
                ports=[port] if port else [],
            ),
            where,
            phase,
        ),
        st.sampled_from([0, 1, 1, 1, 2, 3]),
        st.integers(0, 1),
        st.sampled_from(["", "", "a"]),
        st.sampled_from(["", "m", "w"]),
        st.sampled_from([0, 0, 0, 80]),
        st.sampled_from([-1, -1, -1, -1, 0, 1, 2]),
        st.sampled_from(["Running", "Running", "deleting"]),
    ),
    max_size=7,
)
job_lists = st.lists(
    st.tuples(
        task_lists,
        st.integers(0, 6),
        st.integers(0, 1),
        st.sampled_from(["Pending", "Inqueue", "Inqueue", "Running"]),
        st.sampled_from([None, {"cpu": 2}]),
        st.sampled_from([None, None, {"m": 1, "w": 2}]),
        st.integers(0, 3),
    ),
    max_size=6,
)


def build(nodes_: list[Any], jobs: list[Any]) -> list[Object]:
    objects: list[Any] = [queue("q0", 1), queue("q1", 2, capability={"cpu": 8})]
    objects += [node(f"n{i}", **given) for i, given in enumerate(nodes_)]
    room = {f"n{i}": given["cpu"] for i, given in enumerate(nodes_)}
    for number, (tasks, minimum, q, phase, resources, roles, created) in enumerate(jobs):
        name = f"j{number}"
        objects.append(
            group(name, minimum, queue=f"q{q}", phase=phase, resources=resources, roles=roles, created=created)
        )
        for index, (options, where, state) in enumerate(tasks):
            cpu = options.get("cpu", 0)
            fits = f"n{where}" in room and room[f"n{where}"] >= cpu and not options.get("gpu") and not options["ports"]
            at = f"n{where}" if fits else ""
            if at:
                room[at] -= cpu
            objects.append(
                pod(f"{name}-t-{index}", name, node=at, deleting=bool(at) and state == "deleting", **options)
            )
    return flatten(objects)


clusters = st.builds(build, node_lists, job_lists)
slow = settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def outcome(decisions: Decisions) -> Any:
    return (
        sorted((b.pod, b.node) for b in decisions.binds),
        sorted((p.pod, p.node) for p in decisions.pipelined),
        decisions.pod_groups,
        decisions.pod_conditions,
        decisions.queues,
        decisions.verdicts,
    )


def decide(objects: list[Object], name: str) -> tuple[ClusterState, Decisions]:
    state = cluster(objects)
    decisions = schedule(state, CONFIGS[name])
    assert not decisions.violations
    return state, decisions


@slow
@given(clusters, st.sampled_from(sorted(CONFIGS)))
def test_nothing_goes_over_allocatable_and_no_gang_is_partial(objects: list[Object], name: str) -> None:
    state, decisions = decide(objects, name)
    before = {name: int(state.nodes.used[0, i]) for name, i in state.nodes.index.items()}
    jobs = state.book.jobs
    for bind in decisions.binds:
        state.assume(f"{bind.namespace}/{bind.pod}", bind.node)
    table = state.snapshot().nodes
    resources = [row for row, name in enumerate(state.registry.names) if name != "pods"]
    assert (table.used[resources] <= table.allocatable[resources]).all() or not before
    if name == "bare":
        return
    for key, number in Counter(bind.job for bind in decisions.binds).items():
        job = jobs[key]
        held = sum(job.counts[status] for status in (3, 4, 5, 7))
        assert held + job.pending_best_effort >= job.min_member, (key, number)


@slow
@given(clusters, st.just("shares"))
def test_no_queue_goes_over_its_capability(objects: list[Object], name: str) -> None:
    state, decisions = decide(objects, name)
    held = int(state.snapshot().queues["q1"].allocated[0])
    for bind in decisions.binds:
        state.assume(f"{bind.namespace}/{bind.pod}", bind.node)
    assert int(state.snapshot().queues["q1"].allocated[0]) <= max(8000, held)


def take_one_by_one(self: CandidateTable, wanted: int) -> list[int]:
    """The slow way: every placement looks at every node afresh, and no memo is used."""
    if wanted < 1:
        return []
    self._build()
    if not len(self.total):
        return []
    column = int(self.total.argmax())
    if self.total[column] == float("-inf"):
        return []
    self.session.matrix[:, column] += self.change
    self.session.touched.append(column)
    return [column]


@slow
@given(clusters, st.sampled_from(sorted(CONFIGS)))
def test_batched_placement_equals_one_by_one(objects: list[Object], name: str) -> None:
    fast = outcome(schedule(cluster(objects), CONFIGS[name]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CandidateTable, "take", take_one_by_one)
        assert outcome(schedule(cluster(objects), CONFIGS[name])) == fast


@slow
@given(clusters, st.sampled_from(sorted(CONFIGS)), st.randoms(use_true_random=False))
def test_the_order_of_input_does_not_matter(objects: list[Object], name: str, random: Any) -> None:
    shuffled = list(objects)
    random.shuffle(shuffled)
    assert outcome(schedule(cluster(shuffled), CONFIGS[name])) == outcome(schedule(cluster(objects), CONFIGS[name]))


@slow
@given(clusters, st.sampled_from(sorted(CONFIGS)))
def test_the_same_snapshot_gives_the_same_decisions_and_stays_as_it_is(objects: list[Object], name: str) -> None:
    state = cluster(objects)
    first = outcome(schedule(state, CONFIGS[name]))
    version = state.version
    assert outcome(schedule(state, CONFIGS[name])) == first
    assert state.version == version


@slow
@given(clusters, st.sampled_from(sorted(CONFIGS)))
def test_every_job_that_waits_gets_a_verdict(objects: list[Object], name: str) -> None:
    state, decisions = decide(objects, name)
    bound = {bind.pod for bind in decisions.binds}
    pipelined = {item.pod for item in decisions.pipelined}
    for key, job in state.book.jobs.items():
        waiting = [t for t in job.pending.values() if t.name not in bound]
        if waiting and not any(t.name in pipelined for t in waiting):
            assert key in decisions.verdicts
            assert decisions.verdicts[key].message


@slow
@given(clusters)
def test_a_second_cycle_after_the_binds_binds_nothing_that_was_bound(objects: list[Object]) -> None:
    state, decisions = decide(objects, "shares")
    for bind in decisions.binds:
        state.assume(f"{bind.namespace}/{bind.pod}", bind.node)
    again = schedule(state, SHARES)
    assert not again.violations
    assert not {b.pod for b in again.binds} & {b.pod for b in decisions.binds}
