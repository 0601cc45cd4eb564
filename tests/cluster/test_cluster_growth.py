"""What users name or write differently each time does not stay in the state of the scheduler for good."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cluster.test_cluster_state import dump
from support.build import cluster, config, gang, group, kind_of, node, nodes, placed, pod, queue, schedule
from support.examples import examples
from unisono.api.base import LabelSelector, Object
from unisono.api.core import Affinity, PodAffinity, PodAffinityTerm, PodAntiAffinity
from unisono.cluster import interning, resources, selectors
from unisono.cluster.resources import MOST_LISTED, MOST_REQUESTED
from unisono.cluster.state import ClusterState
from unisono.engine.candidates.static_answers import StaticResults

MOST_ROWS = 3 + MOST_REQUESTED + 1
PLUGINS = config(("priority", "gang"), ("predicates", "proportion", "nodeorder", "interpodaffinity"))


def near(labels: Mapping[str, str]) -> Affinity:
    term = PodAffinityTerm(label_selector=LabelSelector(match_labels=dict(labels)), topology_key="zone")
    return Affinity(pod_affinity=PodAffinity(required_during_scheduling_ignored_during_execution=[term]))


def apart(labels: Mapping[str, str]) -> Affinity:
    term = PodAffinityTerm(label_selector=LabelSelector(match_labels=dict(labels)), topology_key="zone")
    return Affinity(pod_anti_affinity=PodAntiAffinity(required_during_scheduling_ignored_during_execution=[term]))


def add(state: ClusterState, *objects: Object) -> None:
    for obj in objects:
        state.apply("ADDED", kind_of(obj), obj)


def remove(state: ClusterState, *objects: Object) -> None:
    for obj in objects:
        state.apply("DELETED", kind_of(obj), obj)


# ---- resource names


def test_resource_names_of_pods_and_pod_groups_share_a_bounded_number_of_rows() -> None:
    state = cluster(nodes(2))
    for i in range(100):
        add(state, group(f"g{i}", resources={f"example.com/g{i}": 1}))
        add(state, pod(f"p{i}", f"g{i}", **{f"example.com/p{i}": 1}))
    snapshot = state.snapshot()
    assert len(snapshot.registry) <= MOST_ROWS
    assert snapshot.nodes.used.shape[0] == len(snapshot.registry)
    assert not schedule(state).binds


def test_a_pod_is_refused_by_the_name_of_its_own_resource() -> None:
    state = cluster(nodes(2), gang("good", 1))
    for i in range(60):
        add(state, *gang(f"j{i}", 1, **{f"example.com/r{i}": 1}))
    decisions = schedule(state)
    assert set(placed(decisions)) == {"good-w-0"}
    for i in range(60):
        verdict = decisions.verdicts[f"ns/j{i}"]
        assert f"Insufficient example.com/r{i}" in verdict.message
        assert f"No node offers example.com/r{i}." in verdict.message
        assert set(verdict.need) == {f"example.com/r{i}"}


@pytest.mark.parametrize(
    "bringing",
    [
        [node("n9", **{"example.com/r55": 4})],
        [node("n9", **{"example.com/r55": 4}), queue("q", capability={"example.com/r55": 2})],
        [queue("q", capability={"example.com/r55": 2}), node("n9", **{"example.com/r55": 4})],
    ],
)
def test_a_name_that_a_node_or_queue_brings_later_gets_a_row(bringing: list[Object]) -> None:
    jobs = [gang(f"j{i}", 1, queue="q", **{f"example.com/r{i}": 1}) for i in range(60)]
    sized = group("sized", 1, queue="q", resources={"example.com/r55": 3})
    running = pod("running", "j55", node="n000", **{"example.com/r55": 1})
    state = cluster(nodes(2), queue("q"), *jobs, sized, running)
    state.snapshot()
    for obj in bringing:
        add(state, obj)
        state.snapshot()
    assert set(placed(schedule(state))) == {"j55-w-0"}
    fresh = cluster(nodes(2), *([] if len(bringing) > 1 else [queue("q")]), *bringing, *jobs, sized, running)
    row = [state.registry.find("example.com/r55") for state in (state, fresh)]
    used = [state.snapshot().nodes.used[row[at]].sum() for at, state in enumerate((state, fresh))]
    assert used == [1000, 1000]
    request = [state.book.queues["q"].request[row[at]] for at, state in enumerate((state, fresh))]
    assert request == [2000, 2000]
    minimum = [state.book.jobs["ns/sized"].min_resources[row[at]] for at, state in enumerate((state, fresh))]  # type: ignore[index]
    assert minimum == [3000, 3000]


def test_nodes_and_queues_bring_a_bounded_number_of_names() -> None:
    state = cluster(node("good"), gang("j", 1))
    names = {f"example.com/r{i}": 1 for i in range(MOST_LISTED)}
    add(state, node("odd", **names), queue("odd", capability=names))
    assert {f"{one.kind} {one.key}" for one in state.rejected.all()} == {"Node odd", "Queue odd"}
    assert "more than 1024 resource names" in state.rejected.all()[0].message
    assert len(state.registry) <= MOST_ROWS
    assert set(placed(schedule(state))) == {"j-w-0"}


# ---- classes and selectors


def test_distinct_specs_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = 32
    monkeypatch.setattr(interning, "KEPT", kept)
    monkeypatch.setattr(selectors, "KEPT", kept)
    state = cluster(nodes(2, labels={"zone": "a"}))
    staying = [*gang("stay", 2, labels={"app": "x", "job": "stay"})]
    add(state, *staying)
    for i in range(500):
        labels = {"app": "x", "job": f"j{i}", f"own-{i}": "1"}
        one = pod(f"p{i}", labels=labels, affinity=apart({f"own-{i}": "1"}), selector={f"key-{i}": "v"}, cpu=1 + i % 7)
        add(state, one)
        if i % 50 == 0:
            schedule(state, PLUGINS)
        remove(state, one)
        state.snapshot()
    schedule(state, PLUGINS)
    classes = state.classes
    assert len(classes) <= 2 * kept + 8  # those that are kept, and their bases
    assert len(classes.kins) <= len(classes)
    assert len(classes.selectors) <= 3 * kept + 8
    assert (
        len(state.affinity_index.held_by)
        == len(state.affinity_index.holders)
        == len(state.affinity_index.selected)
        == 0
    )
    assert len(state.affinity_index._watched) <= len(classes.selectors)
    assert len(state.nodes._columns) <= 2
    static = state.memo.of(StaticResults, lambda: pytest.fail("no answers are kept")).kept
    assert static
    assert all(number in (classes.kins if by_kin else classes.all) for by_kin, number in static)


def test_ids_of_classes_and_selectors_are_never_used_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interning, "KEPT", 1)
    monkeypatch.setattr(selectors, "KEPT", 1)
    state = cluster(nodes(1))
    seen: dict[int, str] = {}
    for i in range(40):
        one = pod(f"p{i}", labels={"app": str(i)}, affinity=near({"app": str(i)}))
        add(state, one)
        state.snapshot()
        for number in (each.id for each in state.classes.all.values()):
            assert seen.setdefault(number, repr(state.classes.all[number])) == repr(state.classes.all[number])
        remove(state, one)
        state.snapshot()
    assert len(state.classes) <= 4
    assert max(state.classes.all) >= 79


def test_values_of_labels_of_nodes_that_are_gone_are_forgotten() -> None:
    state = cluster(node("stay", labels={"host": "stay"}))
    for i in range(50):
        passing = node(f"n{i}", labels={"host": str(i)}, taints=[(f"t{i}", "", "NoSchedule")])
        add(state, passing)
        state.snapshot().nodes.label_column("host")
        remove(state, passing)
        state.snapshot().nodes.label_column("host")
    assert state.nodes.label_values("host") == ["stay"]
    assert len(state.nodes.taint_sets) == 1


NAMES = st.integers(0, 5)
PODS = st.builds(
    lambda i, where, cpu, own, app, wish, asked, key, port: pod(
        f"p{i}",
        "g",
        node=f"n00{where}" if where >= 0 else "",
        labels={"app": f"a{app}"},
        affinity=(None, near({"app": f"a{asked}"}), apart({"app": f"a{asked}"}))[wish],
        selector={f"k{key}": "v"} if key else None,
        ports=[port] if port else [],
        cpu=cpu,
        **({f"example.com/r{own}": 1} if own else {}),
    ),
    st.integers(0, 7),
    st.integers(-1, 1),
    st.integers(1, 4),
    NAMES,
    NAMES,
    st.integers(0, 2),
    NAMES,
    st.integers(0, 2),
    st.sampled_from((0, 0, 80, 90)),
)
GROUPS = st.builds(lambda own: group("g", 1, queue="q", resources={"cpu": 1, f"example.com/r{own}": 1}), NAMES)
QUEUES = st.builds(lambda own: queue("q", capability={f"example.com/r{own}": 1} if own else None), NAMES)
HOSTS = st.builds(
    lambda i, own, labels: node(
        f"n00{i}", labels={"zone": "z", f"k{labels}": "v"}, **({f"example.com/r{own}": 2} if own else {})
    ),
    st.integers(0, 1),
    NAMES,
    st.integers(1, 2),
)
EVENTS = st.lists(
    st.tuples(st.sampled_from(("ADDED", "ADDED", "DELETED")), st.one_of(PODS, PODS, PODS, GROUPS, QUEUES, HOSTS)),
    max_size=40,
)


def affinity_index(state: ClusterState) -> dict[str, Any]:
    """Counts of pods by what their selectors say, where a selector still matters to a pod."""
    known = state.affinity_index
    text = {
        number: (sorted(one.namespaces), one.labels, [(part.labels, sorted(part.namespaces)) for part in one.parts])
        for number, one in state.classes.selectors.all.items()
    }
    used = {number for each in state.tasks.values() for number in each.pod_class.terms.selectors}
    return {
        "selected": {str(text[number]): counts for number, counts in known.selected.items() if number in used},
        "held": {str(text[number]): sorted(held.values()) for number, held in known.held_by.items()},
        "holders": sorted(str((text[held.term.selector], counts)) for held, counts in known.holders.items()),
        "matched": {
            key: sorted(str(text[number]) for number in task.pod_class.matched & used)
            for key, task in state.tasks.items()
        },
        "ports": {
            name: {key: each is state.tasks[key].pod_class for key, each in held.items()}
            for name, held in state.port_holders.items()
        },
    }


@settings(max_examples=examples(60))
@given(EVENTS)
def test_a_state_that_forgets_equals_one_made_from_lists(events: list[tuple[str, Object]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interning, "KEPT", 1)
        patch.setattr(selectors, "KEPT", 1)
        patch.setattr(resources, "MOST_REQUESTED", 2)
        state = ClusterState()
        objects: dict[tuple[str, str], Object] = {}
        for kind, obj in events:
            state.apply(kind, kind_of(obj), obj)
            if kind == "DELETED":
                objects.pop((kind_of(obj).kind, obj.key), None)
            else:
                objects[kind_of(obj).kind, obj.key] = obj
            state.snapshot()
        schedule(state, PLUGINS)
        # Pods on nodes whose PodGroup has gone count as before, of which the objects know nothing.
        assume(not any(job.gone for job in state.snapshot().jobs.values()))
        fresh = ClusterState()
        for name in ("Node", "Queue", "PodGroup", "Pod"):
            for (kind, _), obj in objects.items():
                if kind == name:
                    fresh.apply("ADDED", kind_of(obj), obj)
        lived, made = dump(state), dump(fresh)
        for side in (lived, made):  # which names share a row is not told by what there is
            side["nodes"] = {name: (*one[:1], *one[3:]) for name, one in side["nodes"].items()}
            side["jobs"] = {name: one[:-3] for name, one in side["jobs"].items()}
            side["queues"] = {name: one[:-1] for name, one in side["queues"].items()}
        assert lived == made
        assert affinity_index(state) == affinity_index(fresh)
        assert placed(schedule(state, PLUGINS)) == placed(schedule(fresh, PLUGINS))
        for name in ("used", "allocatable"):
            here, there = (getattr(one.nodes, name).sum(axis=1) for one in (state, fresh))
            for row, resource in enumerate(fresh.registry.names):
                if resource in state.registry.names and not {resource} & {resources.UNLISTED}:
                    both = state.registry.find(resource)
                    if all(resource in one.allocatable for one in state.nodes.facts):
                        assert here[both] == there[row]
        uses: dict[int, int] = {}
        for task in state.tasks.values():
            uses[task.pod_class.id] = uses.get(task.pod_class.id, 0) + 1
        for each in state.classes.all.values():
            refined = sum(other.base is each and other is not each for other in state.classes.all.values())
            assert each.uses == uses.get(each.id, 0) + refined
        live = sum(each.uses > 0 for each in state.classes.all.values())
        assert len(state.classes) <= live + 2
        assert len(state.classes.selectors) <= sum(len(each.terms.selectors) for each in state.classes.all.values()) + 2
