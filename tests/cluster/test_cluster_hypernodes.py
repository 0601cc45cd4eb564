"""The tree of HyperNodes: members of every form, parents, trouble in one tree, and changes one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.build import node
from support.examples import examples
from unisono.api import kinds
from unisono.api.base import LabelSelector, ObjectMeta
from unisono.api.groups.topology import ExactMatch, HyperNode, HyperNodeSpec, MemberSelector, MemberSpec, RegexMatch
from unisono.cluster.hypertree import ROOT, HyperNodeTree
from unisono.cluster.state import ClusterState


def exact(*names: str, kind: str = "Node") -> list[MemberSpec]:
    return [MemberSpec(type=kind, selector=MemberSelector(exact_match=ExactMatch(name=name))) for name in names]


def regex(pattern: str) -> list[MemberSpec]:
    return [MemberSpec(type="Node", selector=MemberSelector(regex_match=RegexMatch(pattern=pattern)))]


def labels(**wanted: str) -> list[MemberSpec]:
    return [MemberSpec(type="Node", selector=MemberSelector(label_match=LabelSelector(match_labels=wanted)))]


def hyper(name: str, tier: int, members: list[MemberSpec], tier_name: str = "") -> HyperNode:
    spec = HyperNodeSpec(tier=tier, tier_name=tier_name or None, members=members)
    return HyperNode(metadata=ObjectMeta(name=name), spec=spec)


def state_of(*objects: Any) -> ClusterState:
    state = ClusterState()
    for obj in objects:
        state.apply("ADDED", kinds.HYPER_NODES if isinstance(obj, HyperNode) else kinds.NODES, obj)
    return state


def shown(tree: HyperNodeTree, names: list[str]) -> dict[str, list[str]]:
    return {name: [names[c] for c in tree.columns[at]] for at, name in enumerate(tree.names) if name != ROOT}


def domains(state: ClusterState) -> dict[str, list[str]]:
    snapshot = state.snapshot()
    return shown(snapshot.hyper_nodes, snapshot.nodes.names)


TREE = (
    *(node(name, labels={"rack": name[0]}) for name in ("a1", "a2", "b1", "b2", "c1")),
    hyper("ra", 1, exact("a1", "a2"), "rack"),
    hyper("rb", 1, regex("^b")),
    hyper("top", 2, exact("ra", "rb", "later", kind="HyperNode"), "spine"),
)


def test_members_resolve_and_the_root_is_above_all() -> None:
    state = state_of(*TREE)
    assert domains(state) == {"ra": ["a1", "a2"], "rb": ["b1", "b2"], "top": ["a1", "a2", "b1", "b2"]}
    tree = state.snapshot().hyper_nodes
    assert [tree.names[at] for at in tree.ancestors(tree.index["ra"])] == ["ra", "top", ROOT]
    assert (tree.top_tier, tree.levels) == (3, [1, 2, 3])
    assert tree.tier_names == {"rack": 1, "spine": 2}
    assert [tree.names[at] for at in tree.leaf] == ["ra", "ra", "rb", "rb", ROOT]
    assert tree.sums(np.arange(5)).tolist() == [1, 5, 6, 10]


def test_relations() -> None:
    tree = state_of(*TREE).snapshot().hyper_nodes
    at = tree.index
    assert tree.common(at["ra"], at["rb"]) == at["top"]
    assert tree.common(-1, at["rb"]) == at["rb"]
    assert tree.common_of([0, 1]) == at["ra"]
    assert tree.common_of([0, 4]) == tree.root
    assert tree.common_of([]) == -1
    assert tree.highest(at["ra"], 2) == at["top"]
    assert tree.highest(at["top"], 1) == -1
    assert tree.is_above(tree.root, at["rb"])
    assert not tree.is_above(at["ra"], at["rb"])


def test_events_change_only_what_they_concern() -> None:
    state = state_of(*TREE, hyper("rl", 1, labels(rack="c")))
    before = state.snapshot().hyper_nodes
    assert state.snapshot().hyper_nodes is before
    state.apply("ADDED", kinds.NODES, node("b0", labels={"rack": "c"}))
    assert domains(state)["rb"] == ["b0", "b1", "b2"]
    assert domains(state)["rl"] == ["b0", "c1"]
    state.apply("MODIFIED", kinds.NODES, node("c1", labels={"rack": "d"}))
    assert domains(state)["rl"] == ["b0"]
    state.apply("DELETED", kinds.NODES, node("b2"))
    assert domains(state)["top"] == ["a1", "a2", "b0", "b1"]
    state.apply("ADDED", kinds.HYPER_NODES, hyper("later", 1, exact("b0")))
    assert domains(state)["later"] == ["b0"]
    state.apply("DELETED", kinds.HYPER_NODES, hyper("ra", 1, []))
    assert domains(state)["top"] == ["b0", "b1"]
    version = state.version
    state.apply("MODIFIED", kinds.HYPER_NODES, hyper("later", 1, exact("b0")))
    assert state.version == version


def test_an_empty_selector_matches_nothing() -> None:
    assert domains(state_of(node("a"), hyper("x", 1, labels()))) == {"x": []}


@pytest.mark.parametrize(
    ("broken", "text"),
    [
        (
            [hyper("p", 2, exact("ra", kind="HyperNode")), hyper("q", 2, exact("ra", kind="HyperNode"))],
            "HyperNode ra already has a parent p, and cannot set another parent q",
        ),
        (
            [hyper("p", 2, exact("q", kind="HyperNode")), hyper("q", 3, exact("p", "ra", kind="HyperNode"))],
            "is below itself",
        ),
        ([hyper("p", 2, exact("ra", kind="HyperNode") + regex("("))], "its pattern ( is invalid"),
    ],
    ids=["two parents", "circle", "pattern"],
)
def test_trouble_takes_out_its_own_tree_only(broken: list[HyperNode], text: str) -> None:
    sound = (node("a1"), node("b1"), hyper("ra", 1, exact("a1")), hyper("rb", 1, exact("b1")))
    state = state_of(*sound, *broken)
    assert domains(state) == {"rb": ["b1"]}
    assert any(text in problem for problem in state.snapshot().hyper_nodes.problems.values())
    for obj in broken:
        state.apply("DELETED", kinds.HYPER_NODES, obj)
    assert domains(state) == {"ra": ["a1"], "rb": ["b1"]}


NAMES = [f"n{number}" for number in range(6)]
RACKS = ["r0", "r1", "r2"]
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("node"), st.sampled_from(NAMES), st.sampled_from("xy")),
        st.tuples(st.just("gone"), st.sampled_from(NAMES), st.just("")),
        st.tuples(st.just("rack"), st.sampled_from(RACKS), st.sampled_from(["exact", "regex", "labels", "tree"])),
        st.tuples(st.just("unrack"), st.sampled_from(RACKS), st.just("")),
        st.tuples(st.just("look"), st.just(""), st.just("")),
    ),
    max_size=25,
)
FORMS = {
    "exact": (1, exact("n1", "n3")),
    "regex": (1, regex("[0-2]$")),
    "labels": (1, labels(side="x")),
    "tree": (2, exact("r0", "r1", kind="HyperNode")),
}


@settings(max_examples=examples(80), deadline=None)
@given(CHANGES)
def test_following_events_equals_building_anew(changes: list[tuple[str, str, str]]) -> None:
    followed, current = ClusterState(), dict[str, Any]()
    for what, name, form in changes:
        if what == "look":
            followed.snapshot()
            continue
        obj = node(name, labels={"side": form}) if what in ("node", "gone") else hyper(name, *FORMS[form or "exact"])
        kind = kinds.NODES if what in ("node", "gone") else kinds.HYPER_NODES
        if what in ("gone", "unrack"):
            current.pop(name, None)
            followed.apply("DELETED", kind, obj)
        else:
            current[name] = obj
            followed.apply("MODIFIED", kind, obj)
    fresh = state_of(*current.values()).snapshot().hyper_nodes
    tree = followed.snapshot().hyper_nodes
    assert (tree.names, tree.parents, tree.problems) == (fresh.names, fresh.parents, fresh.problems)
    assert [c.tolist() for c in tree.columns] == [c.tolist() for c in fresh.columns]
    assert tree.leaf.tolist() == fresh.leaf.tolist()
