"""Which of many selectors select a pod is what asking each of them would answer, at a bounded price."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.build import kind_of, pod
from support.examples import examples
from unisono.api.base import LabelSelector, LabelSelectorRequirement, Object
from unisono.api.core import Affinity, PodAffinityTerm, PodAntiAffinity, WeightedPodAffinityTerm
from unisono.api.keys import NAMESPACE_NAME
from unisono.api.selecting import selects
from unisono.cluster import label_index, selectors
from unisono.cluster.selectors import SelectorBook
from unisono.cluster.state import ClusterState

WORDS = st.sampled_from("abcd")
REQUIREMENTS = st.builds(
    lambda key, operator, values: LabelSelectorRequirement(
        key=key, operator=operator, values=values if operator.endswith("In") else None
    ),
    WORDS,
    st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist")),
    st.lists(WORDS, max_size=4),
)
LABELS = st.dictionaries(WORDS, WORDS, max_size=3)
SELECTORS = st.none() | st.builds(
    lambda labels, some: LabelSelector(match_labels=labels, match_expressions=some),
    LABELS,
    st.lists(REQUIREMENTS, max_size=3),
)
TERMS = st.tuples(SELECTORS, st.lists(WORDS, max_size=4), SELECTORS)
STEPS = st.lists(
    st.tuples(st.just("intern"), st.lists(TERMS, min_size=1, max_size=2))
    | st.tuples(st.just("label"), st.tuples(WORDS, st.none() | LABELS))
    | st.tuples(st.just("sweep"), st.none())
    | st.tuples(st.just("match"), st.tuples(WORDS, LABELS)),
    max_size=30,
)


@settings(max_examples=examples(300))
@given(STEPS)
def test_the_index_answers_what_each_selector_would(steps: list[tuple[str, tuple[object, ...]]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selectors, "KEPT", 2)
        patch.setattr(label_index, "WIDE", 2)
        patch.setattr(selectors, "WIDE", 2)
        book, terms, names = SelectorBook(), dict[int, list[object]](), dict[str, dict[str, str]]()
        for kind, given_ in steps:
            if kind == "intern":
                parts = [book.intern(*one) for one in given_]
                terms |= {part.id: [one] for part, one in zip(parts, given_, strict=True)}
                both = book.intern_all(parts)
                terms.setdefault(both.id, list(given_))
            elif kind == "label":
                name, labels = given_
                book.label_namespace(name, labels)
                names[name] = labels or {}
            elif kind == "sweep":
                book.sweep()
            else:
                namespace, labels = given_
                there = {NAMESPACE_NAME: namespace, **names.get(namespace, {})}
                expected = {
                    number
                    for number in book.all
                    if all(
                        selects(own, labels) and (namespace in spaces or selects(other, there))
                        for own, spaces, other in terms[number]
                    )
                }
                assert book.matching(namespace, labels) == expected


def disliking(number: int, **labels: str) -> Object:
    """A pod that would rather not stand beside any other pod of any namespace, and says so in its own way."""
    own = [LabelSelectorRequirement(key=f"k{number}", operator="NotIn", values=["x"])]
    term = PodAffinityTerm(
        label_selector=LabelSelector(match_expressions=own), namespace_selector=LabelSelector(), topology_key="host"
    )
    wish = [WeightedPodAffinityTerm(weight=100, pod_affinity_term=term)]
    affinity = Affinity(pod_anti_affinity=PodAntiAffinity(preferred_during_scheduling_ignored_during_execution=wish))
    return pod(f"p{number}", labels=labels, affinity=affinity)


def test_pods_with_selectors_of_their_own_are_not_held_against_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0

    def counted(selector: LabelSelector | None, labels: dict[str, str]) -> bool:
        nonlocal asked
        asked += 1
        return selects(selector, labels)

    monkeypatch.setattr(selectors, "selects", counted)
    state = ClusterState()
    for number in range(200):
        state.apply("ADDED", kind_of(disliking(0)), disliking(number, own=f"l{number}"))
        if number % 20 == 0:
            state.snapshot()
    snapshot = state.snapshot()
    assert all(len(task.pod_class.matched) == 200 for task in snapshot.tasks.values())
    assert len({id(task.pod_class.matched) for task in snapshot.tasks.values()}) == 1
    assert asked <= 2 * 200


def test_a_selector_of_many_values_is_no_entry_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    book = SelectorBook()
    values = [f"v{number}" for number in range(10_000)]
    for operator in ("In", "NotIn"):
        one = LabelSelectorRequirement(key="k", operator=operator, values=values)
        book.intern(LabelSelector(match_expressions=[one]), values)
    assert [len(book.matching("v1", {"k": value})) for value in ("v9", "other")] == [1, 1]
    assert not book.matching("elsewhere", {"k": "v9"})
    index = book._labels
    assert sum(len(each.by_pair) for each in (index._one, index._several, index._against)) == 0
    assert not book._by_name
