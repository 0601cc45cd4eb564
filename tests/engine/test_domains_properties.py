"""Affinity and spread over arrays agree with the slow description, before, during and after placements."""

from __future__ import annotations

from typing import Any

import numpy as np
from domain_reference import AWAY, NEAR, UNEVEN, UNLABELLED, UNWANTED, World
from hypothesis import given, settings
from hypothesis import strategies as st

from support.build import GANG, cluster, group, kind_of, node, pod, schedule
from support.examples import examples
from unisono.api.base import LabelSelector, LabelSelectorRequirement, ObjectMeta
from unisono.api.core import (
    Affinity,
    Namespace,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from unisono.api.kinds import NAMESPACES
from unisono.cluster.state import ClusterState
from unisono.engine.config.arguments import Flags
from unisono.engine.config.model import PluginConfig
from unisono.engine.plugins.registry import create
from unisono.engine.session.session import Session

HOSTNAME = "kubernetes.io/hostname"
KEYS = st.sampled_from(["zone", "rack", HOSTNAME])
SPACES = ["ns", "other"]
SPACE_LABELS = {"ns": {"team": "a"}, "other": {"team": "b"}}

pod_labels = st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from(["x", "y"]), max_size=2)
requirements = st.builds(
    lambda key, operator, values: LabelSelectorRequirement(
        key=key, operator=operator, values=values if operator in ("In", "NotIn") else None
    ),
    st.sampled_from(["app", "tier"]),
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
    st.lists(st.sampled_from(["x", "y"]), min_size=1, max_size=2),
)
selectors = st.one_of(
    st.none(),
    st.builds(lambda wanted: LabelSelector(match_labels=wanted or None), pod_labels),
    st.builds(lambda wanted: LabelSelector(match_expressions=wanted), st.lists(requirements, max_size=2)),
)
label_keys = st.one_of(st.none(), st.just(["tier"]))
terms = st.builds(
    PodAffinityTerm,
    label_selector=selectors,
    topology_key=KEYS,
    namespaces=st.one_of(st.none(), st.lists(st.sampled_from(SPACES), min_size=1, max_size=2, unique=True)),
    namespace_selector=st.one_of(
        st.none(), st.sampled_from([LabelSelector(), LabelSelector(match_labels={"team": "b"})])
    ),
    match_label_keys=label_keys,
    mismatch_label_keys=st.one_of(st.none(), st.just(["app"])),
)
weighted = st.builds(WeightedPodAffinityTerm, weight=st.integers(1, 100), pod_affinity_term=terms)


def side(kind: type[Any]) -> Any:
    few, fewer = st.lists(terms, max_size=2), st.lists(weighted, max_size=2)
    return st.one_of(
        st.none(),
        st.builds(
            lambda hard, soft: kind(
                required_during_scheduling_ignored_during_execution=hard or None,
                preferred_during_scheduling_ignored_during_execution=soft or None,
            ),
            few,
            fewer,
        ),
    )


affinities = st.one_of(
    st.none(), st.builds(Affinity, pod_affinity=side(PodAffinity), pod_anti_affinity=side(PodAntiAffinity))
)
spreads = st.builds(
    TopologySpreadConstraint,
    max_skew=st.integers(1, 2),
    topology_key=KEYS,
    when_unsatisfiable=st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
    label_selector=selectors,
    min_domains=st.one_of(st.none(), st.integers(1, 3)),
    node_affinity_policy=st.sampled_from([None, "Honor", "Ignore"]),
    node_taints_policy=st.sampled_from([None, "Honor", "Ignore"]),
    match_label_keys=label_keys,
)


@st.composite
def pods(draw: Any, name: str, owner: str = "", **given_options: Any) -> Pod:
    made = pod(
        name,
        owner,
        namespace=draw(st.sampled_from(SPACES)),
        labels=draw(pod_labels),
        affinity=draw(affinities),
        selector=draw(st.one_of(st.none(), st.just({"disk": "ssd"}))),
        cpu=1,
        **given_options,
    )
    made.spec.topology_spread_constraints = draw(st.lists(spreads, max_size=2)) or None
    return made


@st.composite
def worlds(draw: Any) -> tuple[World, Pod]:
    nodes = []
    for index in range(draw(st.integers(1, 5))):
        own: dict[str, str] = {}
        for key, values in (("zone", ["a", "b"]), ("rack", ["1", "2", "3"]), ("disk", ["ssd"])):
            value = draw(st.sampled_from([*values, ""]))
            if value:
                own[key] = value
        if draw(st.booleans()) or index:
            own[HOSTNAME] = f"n{index}"
        taints = [("k", "v", "NoSchedule")] if draw(st.integers(0, 4)) == 0 else []
        nodes.append(node(f"n{index}", labels=own, taints=taints, cpu=9))
    placed = []
    for index in range(draw(st.integers(0, 6))):
        where = f"n{draw(st.integers(0, len(nodes)))}"  # one of them may not exist
        placed.append((draw(pods(f"p{index}", node=where, deleting=draw(st.integers(0, 3)) == 0)), where))
    return World(nodes, placed, SPACE_LABELS), draw(pods("new", "g"))


def state_of(world: World, *more: Any) -> ClusterState:
    state = cluster(world.nodes, [made for made, _ in world.pods], *more)
    for name, own in world.namespaces.items():
        state.apply("ADDED", NAMESPACES, Namespace(metadata=ObjectMeta(name=name, labels=own)))
    return state


def plugin_of(name: str, session: Session, **arguments: Any) -> Any:
    plugin = create(PluginConfig(name, Flags(), arguments))
    plugin.open(session)
    return plugin


REASONS = {NEAR, AWAY, UNWANTED, UNEVEN, UNLABELLED}
ONLY = {f"{name}.weight": 0 for name in ("leastrequested", "balancedresource", "nodeaffinity", "tainttoleration")}


def check(world: World, new: Pod, session: Session, predicates: Any, scores: dict[str, Any]) -> None:
    """Compare vetoes and points for ``new`` with the slow description of ``world``."""
    pod_class = session.snapshot.tasks[new.key].pod_class
    names = session.nodes.names
    got: dict[str, set[str]] = {name: set() for name in names}
    if predicates.stamp(pod_class) is not None:
        for veto in predicates.domain_filter(pod_class, session.nodes):
            for name, hit in zip(names, veto.nodes.tolist(), strict=True):
                if hit:
                    got[name].add(veto.reason.text)
    for place in world.nodes:
        wanted = {world.affinity_verdict(new, place), world.spread_verdict(new, place)} - {""}
        assert got[place.metadata.name] == wanted, place.metadata.name
    for chosen in (range(len(names)), range(0, len(names), 2)):
        candidates = np.zeros(len(names), dtype=np.bool_)
        candidates[list(chosen)] = True
        some = [world.node(names[index]) for index in chosen]
        for key, slow in (("podaffinity", world.affinity_points), ("podtopologyspread", world.spread_points)):
            points = scores[key].batch_score(pod_class, session.nodes, candidates)
            expected = slow(new, [one for one in some if one is not None])
            assert {names[index]: int(points[index]) for index in chosen} == expected, key


def session_of(state: ClusterState) -> tuple[Session, Any, dict[str, Any]]:
    session = Session(state.snapshot(), 0.0)
    scores = {
        key: plugin_of(
            "nodeorder", session, **{**ONLY, "podaffinity.weight": 0, "podtopologyspread.weight": 0, f"{key}.weight": 1}
        )
        for key in ("podaffinity", "podtopologyspread")
    }
    return session, plugin_of("predicates", session), scores


@settings(max_examples=examples(120), deadline=None)
@given(worlds())
def test_vetoes_and_points_agree_with_the_description(drawn: tuple[World, Pod]) -> None:
    world, new = drawn
    session, predicates, scores = session_of(state_of(world, new))
    check(world, new, session, predicates, scores)


@settings(max_examples=examples(60), deadline=None)
@given(worlds(), st.data())
def test_they_follow_placements_and_their_undoing(drawn: tuple[World, Pod], data: st.DataObject) -> None:
    world, new = drawn
    others = [data.draw(pods(f"o{index}")) for index in range(3)]
    state = state_of(world, new, others)
    session, predicates, scores = session_of(state)
    check(world, new, session, predicates, scores)
    standing = list(world.pods)
    for other in others:
        column = data.draw(st.integers(0, len(world.nodes) - 1))
        session.domains.move(session.snapshot.tasks[other.key].pod_class, [column], 1)
        standing.append((other, session.nodes.names[column]))
    check(World(world.nodes, standing, SPACE_LABELS), new, session, predicates, scores)
    gone, where = standing.pop()
    column = session.snapshot.nodes.index[where]
    session.domains.move(session.snapshot.tasks[gone.key].pod_class, [column], -1)
    check(World(world.nodes, standing, SPACE_LABELS), new, session, predicates, scores)


@settings(max_examples=examples(60), deadline=None)
@given(worlds(), st.data())
def test_no_bind_breaks_a_rule_and_none_is_missed(drawn: tuple[World, Pod], data: st.DataObject) -> None:
    world, _ = drawn
    waiting = [data.draw(pods(f"w{index}", f"g{index}")) for index in range(data.draw(st.integers(1, 5)))]
    groups = [group(f"g{i}", namespace=made.metadata.namespace or "") for i, made in enumerate(waiting)]
    decisions = schedule(state_of(world, waiting, groups), GANG)
    assert not decisions.violations
    by_key = {made.key: made for made in waiting}
    standing = World(world.nodes, list(world.pods), SPACE_LABELS)
    for bind in decisions.binds:
        made = by_key.pop(f"{bind.namespace}/{bind.pod}")
        place = standing.node(bind.node)
        assert place is not None
        assert standing.affinity_verdict(made, place) == standing.spread_verdict(made, place) == ""
        standing.pods.append((made, bind.node))


@settings(max_examples=examples(40), deadline=None)
@given(worlds(), st.randoms(use_true_random=False))
def test_the_order_of_events_does_not_matter(drawn: tuple[World, Pod], random: Any) -> None:
    world, new = drawn
    first = session_of(state_of(world, new))
    shuffled = [*world.nodes, *(made for made, _ in world.pods), new]
    random.shuffle(shuffled)
    second_state = ClusterState()
    for name, own in world.namespaces.items():
        second_state.apply("ADDED", NAMESPACES, Namespace(metadata=ObjectMeta(name=name, labels=own)))
    for made in shuffled:
        second_state.apply("ADDED", kind_of(made), made)
        if random.random() < 0.3:
            second_state.snapshot()
    second = session_of(second_state)
    check(world, new, *first)
    check(world, new, *second)
