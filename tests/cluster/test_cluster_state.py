"""The cluster state is what the last event per object says, whatever came before and in which order."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from support.build import cluster, gang, group, kind_of, node, nodes, pod, priority_class, queue
from support.examples import examples
from unisono.api import kinds
from unisono.api.annotations import APART, NEAR, SPREAD, USER
from unisono.api.base import Object
from unisono.cluster.state import ClusterState
from unisono.cluster.status import TaskStatus


def dump(state: ClusterState) -> dict[str, Any]:
    """Everything that decisions can see, by content."""
    snapshot = state.snapshot()
    names = snapshot.registry.names

    def named(vector: Any) -> dict[str, int]:
        return {names[row]: int(amount) for row, amount in enumerate(vector) if amount}

    table = snapshot.nodes
    return {
        "nodes": {
            name: (
                named(table.allocatable[:, i]),
                named(table.used[:, i]),
                named(table.releasing[:, i]),
                named(table.outside[:, i]),
                table.nonzero[:, i].tolist(),
                bool(table.unschedulable[i]),
                bool(table.ready[i]),
                [t.key for t in table.taint_sets[table.taint_codes[i]]],
                sorted(snapshot.tasks_on.get(name, {})),
                sorted(snapshot.port_holders.get(name, {})),
            )
            for i, name in enumerate(table.names)
        },
        "jobs": {
            key: (
                job.known,
                job.queue,
                job.min_member,
                job.phase,
                job.min_amounts,
                job.counts,
                dict(sorted(job.role_counts.items())),
                sorted(job.tasks),
                sorted(job.pending),
                job.pending_best_effort,
                job.releasing_on_node,
                named(job.allocated),
                named(job.request),
                named(job.gated_request),
            )
            for key, job in sorted(snapshot.jobs.items())
        },
        "queues": {
            name: (q.known, q.state, q.weight, q.capability, sorted(q.jobs), [named(row) for row in q.sums])
            for name, q in sorted(snapshot.queues.items())
        },
        "tasks": {key: (t.status, t.node, t.job, t.role, t.pod_class.requests) for key, t in snapshot.tasks.items()},
        "active": sorted(snapshot.active),
        "priorities": dict(snapshot.priorities),
        "default": snapshot.default_priority,
    }


def rebuilt(objects: dict[tuple[str, str], Object]) -> ClusterState:
    state = ClusterState()
    for (_, _), obj in sorted(objects.items()):
        state.apply("ADDED", kind_of(obj), obj)
    return state


NODES = st.builds(
    lambda i, cpu, gpu, cordoned, ready, taint: node(
        f"n{i}",
        cpu=cpu,
        **({"gpu": gpu} if gpu else {}),
        unschedulable=cordoned,
        ready=ready,
        taints=[("t", "", "NoSchedule")] if taint else [],
    ),
    st.integers(0, 3),
    st.integers(1, 8),
    st.integers(0, 2),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
PODS = st.builds(
    lambda i, job, where, phase, cpu, gpu, deleting, gated, port, role, mine: pod(
        f"p{i}",
        f"g{job}" if job else "",
        node=f"n{where}" if where >= 0 else "",
        phase=phase,
        deleting=deleting,
        gates=["wait"] if gated else [],
        ports=[port] if port else [],
        role=role,
        scheduler="volcano" if mine else "other",
        **({"cpu": cpu} if cpu else {}),
        **({"gpu": gpu} if gpu else {}),
    ),
    st.integers(0, 7),
    st.integers(0, 3),
    st.integers(-1, 3),
    st.sampled_from(["", "Pending", "Running", "Succeeded", "Failed", "Unknown"]),
    st.integers(0, 3),
    st.integers(0, 1),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0, 0, 80, 90]),
    st.sampled_from(["", "master", "worker"]),
    st.booleans(),
)
GROUPS = st.builds(
    lambda i, minimum, q, phase, resources: group(f"g{i}", minimum, queue=f"q{q}", phase=phase, resources=resources),
    st.integers(1, 3),
    st.integers(0, 3),
    st.integers(0, 2),
    st.sampled_from(["", "Pending", "Inqueue", "Running", "Completed"]),
    st.sampled_from([None, {"cpu": 2}, {"cpu": 1, "gpu": 1}]),
)
QUEUES = st.builds(
    lambda i, weight, state, cap: queue(f"q{i}", weight, state=state, capability={"cpu": cap} if cap else None),
    st.integers(0, 2),
    st.integers(1, 3),
    st.sampled_from(["", "Open", "Closed"]),
    st.integers(0, 4),
)
PRIORITIES = st.builds(
    lambda i, value, default: priority_class(f"c{i}", value, default=default),
    st.integers(0, 2),
    st.integers(0, 9),
    st.booleans(),
)
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["ADDED", "MODIFIED", "MODIFIED", "DELETED", "look"]),
        st.one_of(NODES, PODS, PODS, PODS, GROUPS, QUEUES, PRIORITIES),
    ),
    max_size=40,
)


def remembers(state: ClusterState) -> bool:
    """Whether pods hold nodes whose PodGroup has gone: they count as before, of which the objects know nothing."""
    return any(job.gone for job in state.snapshot().jobs.values())


@settings(max_examples=examples(150), deadline=None)
@given(EVENTS)
def test_any_order_of_events_equals_a_rebuild(events: list[tuple[str, Object]]) -> None:
    state = ClusterState()
    present: dict[tuple[str, str], Object] = {}
    for event, obj in events:
        kind = kind_of(obj)
        if event == "look":  # views in between must not disturb anything
            state.snapshot()
        elif event == "DELETED":
            state.apply(event, kind, obj)
            present.pop((kind.kind, obj.key), None)
        else:
            state.apply(event, kind, obj)
            present[(kind.kind, obj.key)] = obj
    assume(not remembers(state))
    assert dump(state) == dump(rebuilt(present))


@settings(max_examples=examples(60), deadline=None)
@given(EVENTS, EVENTS)
def test_a_list_replaces_what_was_there(before: list[tuple[str, Object]], after: list[tuple[str, Object]]) -> None:
    state = ClusterState()
    for _, obj in before:
        state.apply("ADDED", kind_of(obj), obj)
    present = {(kind_of(obj).kind, obj.key): obj for _, obj in after}
    for kind in (kinds.NODES, kinds.PODS, kinds.POD_GROUPS, kinds.QUEUES, kinds.PRIORITY_CLASSES):
        state.replace(kind, [obj for (name, _), obj in present.items() if name == kind.kind])
    assume(not remembers(state))
    assert dump(state) == dump(rebuilt(present))


def test_the_same_event_twice_changes_no_version() -> None:
    state = cluster(nodes(2), gang("j", 2), priority_class("c", 5))
    version = state.version
    for obj in [*nodes(2), *gang("j", 2), priority_class("c", 5), queue("default")]:
        state.apply("MODIFIED", kind_of(obj), obj)
    assert state.version == version


def test_an_assumed_bind_holds_its_resources_until_it_is_confirmed() -> None:
    state = cluster(nodes(1), gang("j", 1, cpu=2))
    state.assume("ns/j-w-0", "n000")
    snapshot = state.snapshot()
    assert snapshot.tasks["ns/j-w-0"].status is TaskStatus.BINDING
    assert snapshot.nodes.used[0, 0] == 2000
    state.apply("MODIFIED", kinds.PODS, pod("j-w-0", "j", cpu=2, annotations={"seen": "again"}))
    assert state.tasks["ns/j-w-0"].status is TaskStatus.BINDING, "an event without a node does not undo it"
    state.apply("MODIFIED", kinds.PODS, pod("j-w-0", "j", cpu=2, node="n000", phase="Pending"))
    state.forget("ns/j-w-0")
    assert state.tasks["ns/j-w-0"].status is TaskStatus.BOUND, "too late to forget"


def test_a_forgotten_bind_gives_its_resources_back() -> None:
    state = cluster(nodes(1), gang("j", 1, cpu=2))
    state.assume("ns/j-w-0", "n000")
    state.forget("ns/j-w-0")
    assert dump(state) == dump(cluster(nodes(1), gang("j", 1, cpu=2)))


@pytest.mark.parametrize("event", ["MODIFIED", "DELETED"])
def test_another_pod_of_the_same_name_ends_an_assumption(event: str) -> None:
    state = cluster(nodes(1), gang("j", 1, cpu=2))
    state.assume("ns/j-w-0", "n000")
    other = pod("j-w-0", "j", cpu=2)
    other.metadata.uid = "another"
    state.apply(event, kinds.PODS, other)
    assert state.snapshot().nodes.used[0, 0] == 0


def test_a_pod_that_cannot_be_read_stops_nobody_else() -> None:
    state = cluster(nodes(1), gang("j", 1))
    state.apply("ADDED", kinds.PODS, pod("bad", "j", cpu="many"))
    assert "Pod ns/bad" in state.rejected
    assert sorted(state.tasks) == ["ns/j-w-0"]
    state.apply("MODIFIED", kinds.PODS, pod("bad", "j", cpu=1))
    assert not state.rejected


def test_both_spellings_of_the_group_annotation_are_read() -> None:
    state = cluster(pod("p", annotations={"scheduling.volcano.sh/group-name": "g"}))
    assert state.tasks["ns/p"].job == "ns/g"


def test_a_job_is_foreign_while_all_its_pods_name_another_scheduler() -> None:
    state = cluster(nodes(1), group("g", 2))
    assert not state.is_foreign("ns/g")
    state.apply("ADDED", kinds.PODS, pod("p", "g", scheduler="other"))
    state.apply("ADDED", kinds.PODS, pod("q", "g", scheduler="other", node="n0"))
    assert state.is_foreign("ns/g")
    state.apply("ADDED", kinds.PODS, pod("r", "g"))
    assert not state.is_foreign("ns/g")
    state.replace(kinds.PODS, [pod("p", "g", scheduler="other")])
    assert state.is_foreign("ns/g")
    state.replace(kinds.PODS, [])
    assert not state.is_foreign("ns/g")


def test_equal_specs_share_a_class_and_different_ones_do_not() -> None:
    state = cluster(gang("a", 2), gang("b", 1), pod("c", cpu=2), pod("d", selector={"zone": "x"}))
    classes = {key: task.pod_class.id for key, task in state.tasks.items()}
    assert len({classes["ns/a-w-0"], classes["ns/a-w-1"], classes["ns/b-w-0"]}) == 1
    assert len({classes["ns/a-w-0"], classes["ns/c"], classes["ns/d"]}) == 3


def test_quota_names_are_no_resources() -> None:
    state = cluster(group("g", resources={"cpu": 1, "count/pods": 3, "requests.cpu": 1}))
    assert state.snapshot().jobs["ns/g"].min_amounts == {"cpu": 1000}


def test_label_columns_follow_a_changed_node() -> None:
    state = cluster(node("a", labels={"zone": "x"}), node("b"))
    table = state.snapshot().nodes
    assert table.label_column("zone").tolist() == [table.label_code("zone", "x"), -1]
    generation = table.generation
    state.apply("MODIFIED", kinds.NODES, node("b", labels={"zone": "y"}))
    assert table.label_column("zone").tolist() == [table.label_code("zone", "x"), table.label_code("zone", "y")]
    assert table.changed.tolist() == [generation, generation + 1]


def test_sums_of_a_queue() -> None:
    held = [pod(f"h{i}", "h", node="n000", cpu=2) for i in range(3)]
    state = cluster(
        nodes(2),
        group("h", 2, phase="Running", resources={"cpu": 4}),
        held,
        gang("w", 2, cpu=1, min_resources=True),
    )
    record = state.snapshot().queues["default"]
    assert record.allocated[0] == 6000
    assert record.request[0] == 8000
    assert record.elastic[0] == 2000
    assert record.inqueue[0] == 2000
    assert record.promised[0] == 2000


# ---- what users spoil later does not take their pods out of the count


@pytest.mark.parametrize("word", [NEAR, APART, SPREAD])
def test_a_pod_that_has_a_node_counts_whatever_is_written_about_where_its_gang_stands(word: str) -> None:
    state = cluster(node("n", cpu=8), group("g", 1), pod("a", "g", node="n", cpu=6))
    state.apply("MODIFIED", kinds.PODS, pod("a", "g", node="n", cpu=6, annotations={word: "garbage"}))
    assert state.snapshot().queues["default"].allocated[0] == 6000
    state.apply("MODIFIED", kinds.POD_GROUPS, group("g", 1, annotations={APART: "app=x@tier-1"}))
    task = state.snapshot().tasks["ns/a"]
    assert task.owned
    assert not task.pod_class.terms.away
    assert not len(state.rejected)
    state.apply("ADDED", kinds.PODS, pod("b", "g", cpu=1, annotations={word: "garbage"}))
    assert [one.key for one in state.rejected.all()] == ["ns/b"]


@pytest.mark.parametrize("first", ["group", "pod"])
def test_pods_of_a_group_that_cannot_be_read_count_also_for_a_scheduler_that_begins(first: str) -> None:
    unreadable = group("g", 1, queue="q", annotations={APART: "garbage", USER: "ann"})
    things = [(kinds.POD_GROUPS, unreadable), (kinds.PODS, pod("a", "g", node="n", cpu=6))]
    state = cluster(node("n", cpu=8), queue("q"))
    for kind, thing in things if first == "group" else things[::-1]:
        state.apply("ADDED", kind, thing)
    snapshot = state.snapshot()
    assert snapshot.queues["q"].allocated[0] == 6000
    assert snapshot.jobs["ns/g"].annotations == {USER: "ann"}
    assert "ns/g" not in snapshot.active
    state.apply("MODIFIED", kinds.POD_GROUPS, group("g", 1, queue="q"))
    assert not state.snapshot().jobs["ns/g"].gone
    state.apply("MODIFIED", kinds.POD_GROUPS, unreadable)
    state.apply("DELETED", kinds.PODS, pod("a", "g", node="n", cpu=6))
    assert state.snapshot().queues["q"].allocated[0] == 0
