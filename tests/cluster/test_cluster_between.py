"""Annotations that say where gangs stand: events in any order lead to one state, with counts as a plain reading has."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.build import group, node, pod
from support.examples import examples
from unisono.api import kinds
from unisono.api.annotations import APART, NEAR, SPREAD
from unisono.api.base import LabelSelector, ObjectMeta
from unisono.api.core import (
    Affinity,
    Namespace,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    WeightedPodAffinityTerm,
)
from unisono.api.selecting import selects
from unisono.cluster.state import ClusterState

SAID = [
    {},
    {NEAR: "app=a@tier-1"},
    {APART: "app=a@tier-1"},
    {APART: "app=b@tier-2; @tier-1:by=part:preferred"},
    {SPREAD: "@tier-1; app=a@tier-1:preferred"},
    {NEAR: ""},
]
PARTED = "@tier-1:by=part"
GROUPS, PODS = ("g", "h"), ("p0", "p1", "p2", "p3")
said = st.sampled_from(SAID)
changes = st.one_of(
    st.tuples(st.just("group"), st.sampled_from(GROUPS), said),
    st.tuples(st.just("no group"), st.sampled_from(GROUPS), st.none()),
    st.tuples(
        st.just("pod"),
        st.sampled_from(PODS),
        st.tuples(st.sampled_from(GROUPS), st.sampled_from("ab"), st.sampled_from(["", "1", "2"]), said, st.booleans()),
    ),
    st.tuples(st.just("no pod"), st.sampled_from(PODS), st.none()),
    st.tuples(st.just("look"), st.just(""), st.none()),
)


def apply(state: ClusterState, what: str, name: str, how: Any) -> None:
    if what == "look":
        state.snapshot()
    elif what == "group":
        state.apply("MODIFIED", kinds.POD_GROUPS, group(name, 1, annotations=how))
    elif what == "no group":
        state.apply("DELETED", kinds.POD_GROUPS, group(name, 1))
    elif what == "pod":
        owner, app, part, notes, placed = how
        labels = {"app": app} | ({"part": part} if part else {})
        made = pod(name, owner, labels=labels, annotations=notes, node="n" if placed else "")
        state.apply("MODIFIED", kinds.PODS, made)
    else:
        state.apply("DELETED", kinds.PODS, pod(name))


def told(state: ClusterState) -> dict[str, Any]:
    """Terms of each pod in words, and how many pods each selector and each held term finds on nodes."""
    snapshot = state.snapshot()
    index, book = snapshot.affinity_index, snapshot.affinity_index.selectors.all

    def words(selector: int) -> str:
        one = book[selector]
        return repr((sorted(one.namespaces), one.labels, [words(part.id) for part in one.parts]))

    found: dict[str, Any] = {}
    for key, task in snapshot.tasks.items():
        terms = task.pod_class.terms
        found[key] = (
            [(words(one.selector), one.key) for one in (*terms.near, *terms.away)],
            [(words(one.term.selector), one.term.key, one.weight) for one in terms.preferred],
            [(words(one.selector), *one[1:]) for one in terms.spread],
        )
        seen = task.seen
        for number, selector in book.items():
            if not selector.parts and selector.labels is not None:
                right = selects(selector.labels, seen) and task.namespace in selector.namespaces
                assert (number in task.pod_class.matched) == right, (key, selector.labels)
    on_nodes = [task for task in snapshot.tasks.values() if task.node]
    counted = Counter(number for task in on_nodes for number in task.pod_class.matched)
    assert {number: sum(per_node.values()) for number, per_node in index.selected.items()} == counted
    held = Counter(one for task in on_nodes for one in task.pod_class.terms.held)
    assert {one: sum(per_node.values()) for one, per_node in index.holders.items()} == held
    return found


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(changes, min_size=2, max_size=14))
def test_the_order_of_events_does_not_matter(history: list[tuple[str, str, Any]]) -> None:
    state = ClusterState()
    state.apply("ADDED", kinds.NODES, node("n"))
    last: dict[tuple[bool, str], tuple[str, str, Any]] = {}
    for what, name, how in history:
        apply(state, what, name, how)
        if name:
            last[what.endswith("group"), name] = what, name, how
    fresh = ClusterState()
    fresh.apply("ADDED", kinds.NODES, node("n"))
    for of_group in (True, False):
        for (kind, _), change in last.items():
            if kind is of_group and not change[0].startswith("no "):
                apply(fresh, *change)
    assert told(state) == told(fresh)


def test_pods_that_came_between_two_selectors_of_their_gang_are_found_by_the_second() -> None:
    state = ClusterState()
    for name, part, notes in (("p0", "1", {SPREAD: "@tier-1"}), ("p1", "2", {}), ("p2", "1", {APART: PARTED})):
        apply(state, "pod", name, ("g", "a", part, notes, False))
        told(state)


def test_labels_of_namespaces_change_nothing_of_gangs() -> None:
    state = ClusterState()
    apply(state, "pod", "p0", ("g", "a", "1", {SPREAD: "@tier-1"}, False))
    wanted = LabelSelector(match_labels={"team": "x"})
    term = PodAffinityTerm(topology_key="zone", label_selector=wanted, namespace_selector=wanted)
    near = PodAffinity(required_during_scheduling_ignored_during_execution=[term])
    state.apply("ADDED", kinds.PODS, pod("other", "h", affinity=Affinity(pod_affinity=near)))
    told(state)
    space = Namespace(metadata=ObjectMeta(name="ns", labels={"team": "x"}))
    state.apply("MODIFIED", kinds.NAMESPACES, space)
    (spread,) = state.tasks["ns/p0"].pod_class.terms.spread
    assert spread.selector in state.tasks["ns/p0"].pod_class.matched


def apart_from_each_other(kind: str, number: int) -> list[Any]:
    """A gang of two pods apart from all others with their label: by its annotation, or by terms of its pods."""
    name, weight = f"g{number}", 1 if kind.endswith("preferred") else 0
    mark = ":preferred" if weight else ""
    notes = {APART: f"app=a@tier-1{mark}"} if kind.startswith("annotation") else {}
    made = [pod(f"{name}-{at}", name, labels={"app": "a", "set": name}) for at in range(2)]
    if not notes:
        for one in made:
            term = PodAffinityTerm(
                label_selector=LabelSelector(match_labels={"app": "a"}),
                topology_key="rack",
                mismatch_label_keys=["set"],
            )
            one.spec.affinity = Affinity(
                pod_anti_affinity=PodAntiAffinity(
                    required_during_scheduling_ignored_during_execution=None if weight else [term],
                    preferred_during_scheduling_ignored_during_execution=[
                        WeightedPodAffinityTerm(weight=1, pod_affinity_term=term)
                    ]
                    if weight
                    else None,
                )
            )
    return [group(name, 2, annotations=notes), *made]


@pytest.mark.parametrize("kind", ["annotation", "annotation, preferred", "terms", "terms, preferred"])
def test_one_more_gang_that_keeps_apart_changes_nothing_of_a_hundred_others(kind: str) -> None:
    state = ClusterState()
    for number in range(100):
        for thing in apart_from_each_other(kind, number):
            state.apply("ADDED", kinds.PODS if isinstance(thing, Pod) else kinds.POD_GROUPS, thing)
    classes = {key: task.pod_class for key, task in state.snapshot().tasks.items()}
    assert {len(one.matched) for one in classes.values()} == {2}  # all of them, and its own gang
    for thing in apart_from_each_other(kind, 100):
        state.apply("ADDED", kinds.PODS if isinstance(thing, Pod) else kinds.POD_GROUPS, thing)
    snapshot = state.snapshot()
    assert all(snapshot.tasks[key].pod_class is one for key, one in classes.items())
    held_by = snapshot.affinity_index.held_by
    assert sum(len(held_by[selector]) for selector in snapshot.tasks["ns/g100-0"].pod_class.matched) == 2
