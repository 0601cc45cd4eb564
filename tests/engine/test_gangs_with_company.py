"""A gang whose pods look at each other starts wherever it can: in some order, in some domain."""

from __future__ import annotations

import pytest
from company_oracle import HOST, KEYS, RACK, ZONE, Part, Place, World, member
from hypothesis import given, settings
from hypothesis import strategies as st
from topology_world import INSTANCE, policy

from support.build import config, group, placed, schedule
from support.examples import examples
from unisono.api import kinds
from unisono.engine.config.model import SchedulerConfig

SPREAD_OUT = config(("priority", "gang"), ("predicates", "nodeorder"))
PACKED = config(("priority", "gang"), ("predicates", "binpack"))
TOPOLOGY = config(("priority", "gang"), ("predicates", "nodeorder", "network-topology-aware"))


def places(*given: tuple[int, str]) -> tuple[Place, ...]:
    """Nodes as (CPUs, rack); the letter that a rack begins with is its zone."""
    return tuple(
        Place(f"n{at}", cpu, ((HOST, f"n{at}"), (RACK, rack), (ZONE, rack[0]))) for at, (cpu, rack) in enumerate(given)
    )


SMALL_FIRST = places((8, "a1"), (8, "b1"), (8, "b1"))
"""Rack a1 has one node, b1 has two."""
SCENARIOS = {
    "pods that want each other, and the first rack is too small": World(
        SMALL_FIRST, (), (Part(2, 8, "w", near=(RACK, "w")),), 2
    ),
    "the same over zones": World(SMALL_FIRST, (), (Part(2, 8, "w", near=(ZONE, "w")),), 2),
    "one node has to hold them all": World(
        places((2, "a1"), (2, "a1"), (6, "b1")), (), (Part(3, 2, "w", near=(HOST, "w")),), 3
    ),
    "workers want to be near their master": World(
        SMALL_FIRST, (), (Part(1, 4, "m"), Part(3, 4, "w", near=(RACK, "m"))), 4
    ),
    "workers that come before the master they want": World(
        SMALL_FIRST, (), (Part(2, 4, "w", near=(RACK, "m")), Part(1, 4, "m")), 3
    ),
    "each wants the one before": World(
        places((1, "a1"), (1, "a1"), (1, "b1"), (1, "b1"), (1, "b2")),
        (),
        (Part(1, 1, "x", near=(ZONE, "y")), Part(1, 1, "y", near=(ZONE, "z")), Part(1, 1, "z")),
        3,
    ),
    "two groups, each in a rack of its own": World(
        places((1, "a1"), (2, "a2"), (2, "a3"), (1, "a4")),
        (),
        (Part(2, 1, "x", near=(RACK, "x"), away=(RACK, "y")), Part(2, 1, "y", near=(RACK, "y"))),
        4,
    ),
    "two masters, each with its own workers": World(
        places((2, "a1"), (3, "b1")), (), (Part(2, 1, "m"), Part(3, 1, "w", near=(HOST, "m"))), 5
    ),
    "one to a node, all in one rack": World(
        places((9, "a1"), (2, "b1"), (2, "b1"), (2, "b1")),
        (),
        (Part(1, 1, "m", near=(RACK, "m")), Part(2, 2, "m", near=(RACK, "m"), away=(HOST, "m"))),
        3,
    ),
    "kinds that take turns to stay even": World(
        places((8, "a1"), (2, "b1")), (), (Part(2, 4, "w", spread=(ZONE, "w", 1, 2)), Part(2, 1, "w", zone="b")), 4
    ),
    "host ports and one rack": World(
        places((9, "a1"), (1, "b1"), (1, "b1")), (), (Part(2, 1, "w", near=(RACK, "w"), port=80),), 2
    ),
    "in one HyperNode, and in one rack of it": World(
        places((1, "a1"), (2, "a2"), (2, "a2"), (2, "b1"), (2, "b1")),
        (),
        (Part(4, 1, "w", near=(RACK, "w")),),
        4,
        ((0, 1, 2), (3, 4)),
    ),
}


@pytest.mark.parametrize("world", SCENARIOS.values(), ids=SCENARIOS)
@pytest.mark.parametrize("scores", [SPREAD_OUT, PACKED], ids=["spread", "packed"])
def test_it_starts_where_it_can(world: World, scores: SchedulerConfig) -> None:
    assert world.starts()
    decisions = schedule(world.state(), TOPOLOGY if world.domains else scores)
    assert len(placed(decisions)) >= world.minimum, decisions.verdicts["ns/g"].message
    assert not decisions.violations


def test_a_gang_that_no_rack_holds_is_told_of_the_rack_that_holds_most() -> None:
    world = World(SMALL_FIRST, (), (Part(3, 8, "w", near=(RACK, "w")),), 3)
    decisions = schedule(world.state(), SPREAD_OUT)
    verdict = decisions.verdicts["ns/g"]
    assert not decisions.binds
    assert verdict.message.startswith("2 of 3 tasks can be placed"), verdict.message
    assert verdict.tasks_placeable == 2


@st.composite
def worlds(draw: st.DrawFn) -> World:
    zones = st.integers(0, draw(st.integers(0, 2)))

    def place(at: int) -> Place:
        zone, rack = draw(zones), draw(st.integers(0, 1))
        labels = [(HOST, f"n{at}"), (ZONE, f"z{zone}"), (RACK, f"z{zone}-{rack}")]
        return Place(f"n{at}", draw(st.integers(1, 4)), tuple(labels[: draw(st.sampled_from([3, 3, 3, 2]))]))

    keys, apps = st.sampled_from(KEYS), st.sampled_from("ab")
    terms = st.one_of(st.none(), st.tuples(keys, apps))
    spreads = st.one_of(st.none(), st.none(), st.tuples(keys, apps, st.integers(1, 2), st.integers(0, 3)))
    parts = st.builds(
        Part, st.integers(1, 3), st.integers(1, 2), apps, terms, terms, spreads, st.sampled_from([0, 0, 0, 80])
    )
    made = tuple(place(at) for at in range(draw(st.integers(2, 5))))
    chosen = draw(st.lists(parts, min_size=1, max_size=3).filter(lambda each: sum(one.number for one in each) <= 5))
    cut = draw(st.sampled_from([0, 0, 0, *range(1, len(made))]))
    domains = (tuple(range(cut)), tuple(range(cut, len(made)))) if cut else ()
    return World(made, (), tuple(chosen), sum(one.number for one in chosen), domains)


@settings(max_examples=examples(100), deadline=None, derandomize=True)
@given(worlds(), st.booleans())
def test_it_starts_exactly_where_brute_force_finds_places(world: World, packed: bool) -> None:
    decisions = schedule(world.state(), TOPOLOGY if world.domains else PACKED if packed else SPREAD_OUT)
    assert not decisions.violations
    assert bool(decisions.binds) == world.starts()


def test_sub_groups_that_want_each_other_near_are_bound_to_no_zone_that_holds_only_the_first() -> None:
    """Two sub-groups of two pods in one zone: zone a has room for one of them."""
    near = World(places((1, "a1"), (1, "a2"), (2, "b1"), (2, "b2")), (), (Part(4, 1, "w", near=(ZONE, "w")),), 4)
    state = near.state()
    head = group("g", 4)
    head.spec.sub_group_policy = [policy(2, minimum=2)]
    state.apply("MODIFIED", kinds.POD_GROUPS, head)
    for number in range(4):
        one = member(f"g-0-{number}", "g", near.parts[0])
        one.metadata.labels[INSTANCE] = str(number // 2)
        state.apply("MODIFIED", kinds.PODS, one)
    decisions = schedule(state, PACKED)
    assert set(placed(decisions).values()) == {"n2", "n3"}
    assert len(decisions.binds) == 4
