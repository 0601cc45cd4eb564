"""Tiers of HyperNodes as topology keys, and annotations that say where gangs stand in relation to others."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import msgspec
import pytest
from company_oracle import HOST, KEYS, RACK, ZONE, Part, Place, World, member
from hypothesis import given, settings
from hypothesis import strategies as st
from topology_world import INSTANCE, TOPOLOGY, hyper, job, policy, racks, spine, used_racks, wish, world

from support.build import cluster, config, confirm, flatten, group, node, placed, schedule, unadvised
from support.examples import examples
from unisono.api import kinds
from unisono.api.annotations import APART, NEAR, SPREAD, TIER
from unisono.api.base import LabelSelector, ObjectMeta
from unisono.api.groups.topology import HyperNode, HyperNodeSpec, MemberSelector, MemberSpec
from unisono.cluster.state import ClusterState

PLAIN = config(("priority", "gang"), ("predicates", "nodeorder"))
PREFERRING = config(("priority", "gang"), ("predicates", "nodeorder", "network-topology-aware"))
TIER_OF = {RACK: f"{TIER}tier-1", ZONE: f"{TIER}tier-2", HOST: HOST}


# ---- topology keys, against brute force


def on_tiers(drawn: World) -> ClusterState:
    """The same world, where racks and zones are HyperNodes and no node has a label of them."""
    held: dict[str, dict[str, list[str]]] = {RACK: {}, ZONE: {}}
    for place in drawn.places:
        for key, inside in held.items():
            if (value := place.of(key)) is not None:
                inside.setdefault(value, []).append(place.name)
    things: list[Any] = [node(place.name, cpu=place.cpu, labels={HOST: place.name}) for place in drawn.places]
    things += [hyper(f"{name}-x", 1, inside) for name, inside in held[RACK].items()]
    things += [hyper(f"{name}-y", 2, inside) for name, inside in held[ZONE].items()]
    things.append(group("g", drawn.minimum))
    for number, part in enumerate(drawn.parts):
        moved = replace(
            part,
            near=part.near and (TIER_OF[part.near[0]], part.near[1]),
            away=part.away and (TIER_OF[part.away[0]], part.away[1]),
            spread=part.spread and (TIER_OF[part.spread[0]], *part.spread[1:]),
        )
        things += [member(f"g-{number}-{at}", "g", moved) for at in range(part.number)]
    made: ClusterState = cluster(*things)
    return made


@st.composite
def worlds(draw: st.DrawFn) -> World:
    zones = st.integers(0, draw(st.integers(0, 2)))

    def place(at: int) -> Place:
        zone, rack = draw(zones), draw(st.integers(0, 1))
        labels = [(HOST, f"n{at}"), (ZONE, f"z{zone}"), (RACK, f"z{zone}-{rack}")]
        return Place(f"n{at}", draw(st.integers(1, 4)), tuple(labels[: draw(st.sampled_from([3, 3, 3, 2, 1]))]))

    keys, apps = st.sampled_from(KEYS), st.sampled_from("ab")
    terms = st.one_of(st.none(), st.tuples(keys, apps))
    spreads = st.one_of(st.none(), st.tuples(keys, apps, st.integers(1, 2), st.integers(0, 3)))
    # Pods that look for others are of one size: a large one may have to come first and find its company later.
    alike = draw(st.booleans())
    size = st.just(draw(st.integers(1, 2))) if alike else st.integers(1, 2)
    parts = st.builds(Part, st.integers(1, 3), size, apps, terms if alike else st.none(), terms, spreads)
    made = tuple(place(at) for at in range(draw(st.integers(2, 5))))
    chosen = draw(st.lists(parts, min_size=1, max_size=3).filter(lambda each: sum(one.number for one in each) <= 5))
    return World(made, (), tuple(chosen), sum(one.number for one in chosen))


@settings(max_examples=examples(100), deadline=None, derandomize=True)
@given(worlds())
def test_a_gang_starts_exactly_where_brute_force_over_tiers_finds_places(drawn: World) -> None:
    decisions = unadvised(on_tiers(drawn), PLAIN)
    assert not decisions.violations
    assert bool(decisions.binds) == drawn.starts()


# ---- gangs


def stated(name: str, size: int, tier: int | None = 1, *, app: str = "", **more: Any) -> list[Any]:
    """A gang of pods that take a node each; ``said`` are annotations of its PodGroup, ``by_pods`` of its pods."""
    said, by_pods = more.pop("said", {}), more.pop("by_pods", {})
    head, *pods = job(name, size, None if tier is None else wish(tier), **more)
    head.metadata.annotations = {**(head.metadata.annotations or {}), **said}
    for one in pods:
        one.metadata.labels = {**(one.metadata.labels or {}), "app": app or name}
        one.metadata.annotations = {**(one.metadata.annotations or {}), **by_pods}
    return [head, *pods]


def run_all(state: ClusterState, rounds: int = 3) -> Any:
    """Cycles until nothing more starts; the last one's decisions."""
    for _ in range(rounds):
        decisions = unadvised(state, TOPOLOGY)
        assert not decisions.violations
        confirm(state, decisions)
    return decisions


def where(state: ClusterState, name: str) -> list[str]:
    """Racks in which pods of a gang stand."""
    found = {task.node.rpartition("-")[0] for task in state.tasks.values() if task.job == f"ns/{name}" and task.node}
    return sorted(found)


THREE = [racks({"a": 2, "b": 2, "c": 2}), spine("s", "a", "b"), spine("t", "c")]
BIG = [racks({"a": 4, "b": 4, "c": 4})]
CASES: dict[str, tuple[list[Any], dict[str, list[str]]]] = {
    "beside the prefill gang": (
        [BIG, stated("pre", 2), stated("dec", 2, said={NEAR: "app=pre@tier-1"}, created=1)],
        {"pre": ["a"], "dec": ["a"]},
    ),
    "by the pods' own annotation": (
        [BIG, stated("pre", 2, running={0: "b-0", 1: "b-1"}), stated("dec", 2, by_pods={NEAR: "app=pre@tier-1"})],
        {"dec": ["b"]},
    ),
    "which goes before the PodGroup's": (
        [
            BIG,
            stated("pre", 2, running={0: "b-0", 1: "b-1"}),
            stated("x", 1, running={0: "c-0"}),
            stated("dec", 2, said={NEAR: "app=x@tier-1"}, by_pods={NEAR: "app=pre@tier-1"}),
        ],
        {"dec": ["b"]},
    ),
    "its rack is full": (
        [
            [racks({"a": 3, "b": 4})],
            stated("pre", 2, running={0: "a-0", 1: "a-1"}),
            stated("dec", 2, said={NEAR: "app=pre@tier-1"}),
        ],
        {"dec": []},
    ),
    "preferred, it goes elsewhere": (
        [
            [racks({"a": 3, "b": 4})],
            stated("pre", 2, running={0: "a-0", 1: "a-1"}),
            stated("dec", 2, said={NEAR: "app=pre@tier-1:preferred"}),
        ],
        {"dec": ["b"]},
    ),
    "in the same spine": (
        [THREE, stated("pre", 2, running={0: "b-0", 1: "b-1"}), stated("dec", 2, said={NEAR: "app=pre@tier-2"})],
        {"dec": ["a"]},
    ),
    "replicas apart, each packed": (
        [BIG, *(stated(f"r{at}", 2, app="r", said={APART: "app=r@tier-1"}, created=at) for at in range(4))],
        {"r0": ["a"], "r1": ["b"], "r2": ["c"], "r3": []},
    ),
    "replicas in different spines": (
        [THREE, *(stated(f"r{at}", 1, app="r", said={APART: "app=r@tier-2"}, created=at) for at in range(3))],
        {"r0": ["a"], "r1": ["c"], "r2": []},
    ),
    "others keep away from who wants it": (
        [BIG, stated("r0", 2, app="r", running={0: "a-0", 1: "a-1"}, said={APART: "app=r@tier-1"}), stated("r", 2)],
        {"r": ["b"]},
    ),
    "pods of the gang itself do not count": (
        [BIG, stated("r", 4, None, said={APART: "app=r@tier-1"})],
        {"r": ["a"]},
    ),
    "spread over the tier": (
        [BIG, stated("r", 3, None, said={SPREAD: "@tier-1"})],
        {"r": ["a", "b", "c"]},
    ),
    "spread over at least four": (
        [BIG, stated("r", 4, None, said={SPREAD: "@tier-1:min=4"})],
        {"r": []},
    ),
    "over labels of nodes": (
        [
            [node(f"{rack}-{at}", cpu=4, labels={"rack": rack}) for rack in "ab" for at in range(2)],
            stated("r", 2, None, said={SPREAD: "@example.com/rack"}),
        ],
        {"r": []},
    ),
}


@pytest.mark.parametrize(("things", "expected"), CASES.values(), ids=CASES)
def test_gangs_stand_where_annotations_say(things: list[Any], expected: dict[str, list[str]]) -> None:
    state = world(*things)
    run_all(state)
    assert {name: where(state, name) for name in expected} == expected


def test_sub_groups_of_a_gang_each_in_a_rack_of_its_own() -> None:
    parts = stated("g", 8, None, parts=2, policies=[policy(2, 1, minimum=4)], said={APART: f"@tier-1:by={INSTANCE}"})
    state = world(racks(dict.fromkeys("abcd", 4)), parts)
    decisions = run_all(state, 1)
    assert used_racks(decisions) == {"a": 2, "b": 2, "c": 2, "d": 2}
    state = world(racks(dict.fromkeys("abc", 4)), parts)
    assert not run_all(state, 1).binds


def test_a_name_of_a_tier_is_as_good_as_its_number() -> None:
    tree = [hyper(name, 1, [f"{name}-{at}" for at in range(2)], tier_name="rack") for name in "ab"]
    nodes = [node(f"{name}-{at}", cpu=4) for name in "ab" for at in range(2)]
    state = world(nodes, tree, *(stated(f"r{at}", 1, app="r", said={APART: "app=r@rack"}) for at in range(2)))
    run_all(state)
    assert sorted((*where(state, "r0"), *where(state, "r1"))) == ["a", "b"]


def test_the_words_of_a_pod_group_hold_whenever_they_come() -> None:
    head, *pods = stated("dec", 2, said={NEAR: "app=pre@tier-1"})
    state = world(BIG, stated("pre", 2, running={0: "b-0", 1: "b-1"}))
    for one in pods:
        state.apply("ADDED", kinds.PODS, one)
    state.apply("ADDED", kinds.POD_GROUPS, head)
    assert set(placed(unadvised(state, TOPOLOGY)).values()) <= {"b-2", "b-3"}
    head.metadata.annotations = {APART: "app=pre@tier-1"}
    state.apply("MODIFIED", kinds.POD_GROUPS, head)
    assert used_racks(unadvised(state, TOPOLOGY)) == {"a": 2}
    head.metadata.annotations = {}
    state.apply("MODIFIED", kinds.POD_GROUPS, head)
    assert used_racks(unadvised(state, TOPOLOGY)) == {"b": 2}, "the rack that is in use comes first"


def test_hyper_nodes_that_come_and_go_count_at_once() -> None:
    state = world(
        [node(f"{name}-0", cpu=4) for name in "ab"],
        hyper("a", 1, ["a-0"]),
        stated("r0", 1, None, app="r", running={0: "a-0"}),
        stated("r1", 1, None, app="r", said={APART: "app=r@tier-1", SPREAD: "@tier-1"}),
    )
    decisions = schedule(state, PLAIN)
    assert not decisions.binds
    state.apply("ADDED", kinds.HYPER_NODES, hyper("b", 1, ["b-0"]))
    assert placed(unadvised(state, PLAIN)) == {"r1-w-0": "b-0"}
    state.apply("DELETED", kinds.HYPER_NODES, hyper("b", 1, ["b-0"]))
    assert not schedule(state, PLAIN).binds


def test_of_hyper_nodes_of_one_tier_that_hold_a_node_the_first_by_name_counts() -> None:
    state = world(
        [node(f"n-{at}", cpu=4) for at in range(3)],
        hyper("a", 1, ["n-0", "n-1"]),
        hyper("b", 1, ["n-1", "n-2"]),
        stated("r0", 1, None, app="r", running={0: "n-0"}),
        stated("r1", 2, None, app="s", said={APART: "app=r@tier-1"}),
    )
    assert not schedule(state, PLAIN).binds
    snapshot = state.snapshot()
    names = snapshot.domain_names(f"{TIER}tier-1")
    assert [names[at] for at in snapshot.domains_of(f"{TIER}tier-1").tolist()] == ["a", "a", "b"]


def test_a_pod_group_that_cannot_be_read_is_set_aside_and_no_other() -> None:
    state = world(BIG, stated("bad", 1, said={NEAR: "tier-1"}), stated("good", 1))
    assert placed(unadvised(state, TOPOLOGY)) == {"good-w-0": "a-0"}
    state.apply("MODIFIED", kinds.POD_GROUPS, stated("bad", 1)[0])
    assert len(schedule(state, TOPOLOGY).binds) == 2


def test_a_node_selector_does_not_know_tiers() -> None:
    """Nodes do not have the label, and the kubelet of a real cluster would refuse the pod."""
    things = job("j", 1)
    things[1].spec.node_selector = {f"{TIER}tier-1": "a"}
    assert not schedule(world(BIG, things), TOPOLOGY).binds


# ---- what is said, and what would help

FULL = [racks({"a": 3, "b": 4}), stated("pre", 2, running={0: "a-0", 1: "a-1"})]
APART_R = [
    stated(f"r{at}", 2, None, app="r", running={0: f"{name}-0", 1: f"{name}-1"}) for at, name in enumerate("abc")
]
TOLD: dict[str, tuple[list[Any], str, str, str]] = {
    "no room beside them": (
        [FULL, stated("x", 2, said={NEAR: "app=pre@tier-1"})],
        f"nnotation {NEAR} asks for the same HyperNode of tier-1 as pods with app=pre, which are in a.",
        f'annotate its pods with {NEAR}: "app=pre@tier-1:preferred"',
        "b",
    ),
    "nobody to be near to": (
        [BIG, stated("x", 2, said={NEAR: "app=pre@tier-1"})],
        f"nnotation {NEAR} asks for a pod with app=pre, and no pod on a node has it.",
        f'annotate its pods with {NEAR}: "app=pre@tier-1:preferred"',
        "a",
    ),
    "no domain without them": (
        [BIG, APART_R, stated("x", 2, said={APART: "app=r@tier-1"})],
        f"nnotation {APART} allows no pods with app=r of other gangs in the same HyperNode of tier-1.",
        f'annotate its pods with {APART}: "app=r@tier-1:preferred"',
        "a",
    ),
    "too few domains": (
        [BIG, stated("x", 4, None, said={SPREAD: "@tier-1:min=4"})],
        f"nnotation {SPREAD} allows a skew of 1 over HyperNodes of tier-1 and wants at least 4 domains (minDomains), "
        "and there are 3 such domains.",
        f'annotate its pods with {SPREAD}: "@tier-1:preferred"',
        "a",
    ),
    "a tier that does not exist": (
        [BIG, spine("s", "a", "b"), stated("x", 2, None, said={SPREAD: "@tier-7"})],
        f"nnotation {SPREAD} asks for a HyperNode of tier-7, a tier of no HyperNode; there are tier-1 and tier-2.",
        f'annotate its pods with {SPREAD}: "@tier-7:preferred"',
        "c",
    ),
    "no HyperNodes at all": (
        [[node("a-0", cpu=4)], stated("y", 1, None, running={0: "a-0"}), [node("b-0", cpu=4)],
         stated("x", 1, None, said={NEAR: "app=y@tier-1"})],
        f"nnotation {NEAR} asks for a HyperNode of tier-1, a tier of no HyperNode; there are no HyperNodes.",
        f'annotate its pods with {NEAR}: "app=y@tier-1:preferred"',
        "b",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("things", "text", "fix", "then"), TOLD.values(), ids=TOLD)
def test_the_verdict_names_the_annotation_and_the_fix_that_works(
    things: list[Any], text: str, fix: str, then: str
) -> None:
    state = world(*things)
    verdict = schedule(state, TOPOLOGY).verdicts["ns/x"]
    assert text in verdict.message
    assert fix in verdict.suggestion
    for key in [key for key, task in state.tasks.items() if task.job == "ns/x"]:
        one = next(each for each in flatten(things) if each.metadata.name == key.partition("/")[2])
        word, _, value = fix.removeprefix("annotate its pods with ").partition(": ")
        one = msgspec.convert(msgspec.to_builtins(one), type(one))
        one.metadata.annotations = {**(one.metadata.annotations or {}), word: value.strip('"')}
        state.apply("MODIFIED", kinds.PODS, one)
    assert set(used_racks(unadvised(state, TOPOLOGY), "x")) == set(then)


def rack_by_label(name: str) -> list[Any]:
    chosen = MemberSelector(label_match=LabelSelector(match_labels={"rack": name}))
    members = [MemberSpec(type="Node", selector=chosen)]
    rack = HyperNode(metadata=ObjectMeta(name=name), spec=HyperNodeSpec(tier=1, members=members))
    return [*(node(f"{name}-{at}", cpu=4, mem="64Gi", labels={"rack": name}) for at in range(2)), rack]


@pytest.mark.parametrize("by_label", [False, True])
def test_new_nodes_are_in_the_hyper_nodes_that_choose_them_by_their_labels(by_label: bool) -> None:
    """Others' annotations keep all racks: more nodes would do where they are in none of these."""
    running = [
        stated(f"r{at}", 1, None, app="r", running={0: f"{name}-0"}, said={APART: "app=r@tier-1"})
        for at, name in enumerate("abc")
    ]
    nodes = [rack_by_label(name) for name in "abc"] if by_label else BIG
    verdict = schedule(world(nodes, running, stated("x", 1, None, app="r")), TOPOLOGY).verdicts["ns/x"]
    assert "allows no pods with app=r of other gangs in the same HyperNode of tier-1" in verdict.message
    assert ("add 1 node like a-0" in verdict.suggestion) is not by_label


def test_terms_of_the_spec_are_told_as_such() -> None:
    part = Part(1, 4, "x", near=(f"{TIER}tier-3", "pre"))
    state = world(FULL, group("x", 1), member("x-0", "x", part))
    verdict = schedule(state, TOPOLOGY).verdicts["ns/x"]
    assert "Pod affinity asks for a HyperNode of tier-3, a tier of no HyperNode; there are tier-1." in verdict.message
    assert "make the podAffinity that its pods require a preference" in verdict.suggestion


# ---- many domains


@pytest.mark.parametrize("parts", [0, 1], ids=["gang", "sub-groups"])
@pytest.mark.parametrize("word", [NEAR, APART])
def test_the_one_domain_that_will_do_is_found_among_many(word: str, parts: int) -> None:
    """More domains than a gang with sub-groups may try, of which what it wants of others leaves one."""
    many = [f"r{at:02}" for at in range(60)]
    there = {0: f"{many[50]}-0"} if word == NEAR else {at: f"{name}-0" for at, name in enumerate(many) if at != 50}
    policies = [policy(1, 1, minimum=2)] if parts else []
    state = world(
        racks(dict.fromkeys(many, 4)),
        stated("run", len(there), None, app="r", running=there),
        stated("x", 2, 1, parts=parts, policies=policies, said={word: "app=r@tier-1"}),
    )
    assert used_racks(unadvised(state, TOPOLOGY), "x") == {many[50]: 2}


# ---- preferences


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({}, {"b": 2}),
        ({NEAR: "app=pre@tier-1:preferred"}, {"c": 2}),
        ({NEAR: "app=pre@tier-1:preferred=1"}, {"c": 2}),
        ({NEAR: "app=pre@tier-2:preferred"}, {"d": 2}),
        ({APART: "app=hog@tier-1:preferred; app=pre@tier-1:preferred"}, {"d": 2}),
        ({APART: "app=hog@tier-2:preferred; app=pre@tier-1:preferred=1"}, {"d": 2}),
    ],
    ids=[
        "the fullest rack",
        "that of the other gang",
        "whatever the weight",
        "that of its spine, the fuller one of two",
        "away from both, the fuller one of two",
        "away from all in the spine",
    ],
)
def test_preferences_choose_among_domains(said: dict[str, str], expected: dict[str, int]) -> None:
    """Rack b is the fullest, then d; c and d are in one spine."""
    state = world(
        racks({"a": 4, "b": 4, "c": 4, "d": 5}),
        spine("s", "a", "b"),
        spine("t", "c", "d"),
        stated("hog", 2, None, running={0: "b-0", 1: "b-1"}),
        stated("pre", 1, None, running={0: "c-0"}),
        stated("pad", 2, None, running={0: "d-0", 1: "d-1"}),
        stated("x", 2, 1, said=said),
    )
    assert used_racks(unadvised(state, PREFERRING), "x") == expected


def test_replicas_that_prefer_to_be_apart_are_spread_as_evenly_as_they_can_be() -> None:
    said = {APART: "app=r@tier-1:preferred"}
    state = world(BIG, *(stated(f"r{at}", 1, 1, app="r", said=said, created=at) for at in range(5)))
    for _ in range(3):
        confirm(state, unadvised(state, PREFERRING))
    found = [rack for at in range(5) for rack in where(state, f"r{at}")]
    assert sorted(found.count(rack) for rack in "abc") == [1, 2, 2]


# ---- annotations, against brute force


@st.composite
def stories(draw: st.DrawFn) -> dict[str, Any]:
    """Racks of nodes with room for a pod each, pods of other gangs that run there, and a gang that comes."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    nodes = [(rack, at) for rack, size in enumerate(sizes) for at in range(size)]
    wishes = st.sampled_from(["", "app=a@tier-1", "app=b@tier-1", "app=a@tier-2", "app=b@tier-2"])
    taken = draw(st.lists(st.sampled_from(nodes), max_size=3, unique=True))
    return {
        "sizes": sizes,
        "spines": draw(st.integers(0, len(sizes))),
        "running": [(place, draw(st.sampled_from("ab")), draw(wishes)) for place in taken],
        "size": draw(st.integers(1, 3)),
        "app": draw(st.sampled_from("ab")),
        "near": draw(wishes),
        "apart": draw(wishes),
        "tier": draw(st.sampled_from([1, None])),
    }


def can_start(story: dict[str, Any]) -> bool:
    """Whether some nodes that are free take the gang, by what the annotations say in words."""
    nodes = [(rack, at) for rack, size in enumerate(story["sizes"]) for at in range(size)]
    there = {place: (app, apart) for place, app, apart in story["running"]}

    def domain(place: tuple[int, int], key: str) -> Any:
        if key == "tier-1":
            return place[0]
        return int(place[0] >= story["spines"])

    def split(text: str) -> tuple[str, str]:
        pods, _, key = text.partition("@")
        return pods.removeprefix("app="), key

    def good(chosen: tuple[tuple[int, int], ...]) -> bool:
        if story["tier"] and len({rack for rack, _ in chosen}) > 1:
            return False
        for place in chosen:
            for other, (app, apart) in there.items():
                mine, theirs = split(story["apart"]), split(apart)
                if story["apart"] and app == mine[0] and domain(place, mine[1]) == domain(other, mine[1]):
                    return False
                if apart and story["app"] == theirs[0] and domain(place, theirs[1]) == domain(other, theirs[1]):
                    return False
        if story["near"]:
            app, key = split(story["near"])
            company = {domain(other, key) for other, (name, _) in there.items() if name == app}
            mine = {domain(place, key) for place in chosen}
            return mine <= company if company else app == story["app"] and len(mine) == 1
        return True

    free = [place for place in nodes if place not in there]
    return any(good(chosen) for chosen in combinations(free, story["size"]))


@settings(max_examples=examples(150), deadline=None, derandomize=True)
@given(stories())
def test_gangs_start_exactly_where_a_plain_reading_of_annotations_finds_places(story: dict[str, Any]) -> None:
    names = [f"k{rack}" for rack in range(len(story["sizes"]))]
    things: list[Any] = [racks(dict(zip(names, story["sizes"], strict=True)))]
    spines = {"s": names[: story["spines"]], "t": names[story["spines"] :]}
    things += [spine(name, *below) for name, below in spines.items() if below]
    for number, ((rack, at), app, apart) in enumerate(story["running"]):
        note = {APART: apart} if apart else {}
        things += stated(f"r{number}", 1, None, app=app, running={0: f"k{rack}-{at}"}, said=note)
    note = {word: story[key] for word, key in ((NEAR, "near"), (APART, "apart")) if story[key]}
    things += stated("x", story["size"], story["tier"], app=story["app"], said=note)
    decisions = schedule(world(*things), TOPOLOGY)
    assert not decisions.violations
    assert bool(decisions.binds) == can_start(story)
