"""Gangs of unequal pods start where they fit, in whatever order their pods come."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from topology_world import TOPOLOGY, racks, wish, world

from support.build import cluster, config, gang, group, node, placed, pod, queue, schedule
from unisono.engine.config.model import SchedulerConfig

PLAIN = config(("priority", "gang"), ("predicates", "nodeorder"))
PACKED = config(("priority", "gang"), ("predicates", "binpack"))


def job(name: str, *sizes: float, minimum: int | None = None, **more: Any) -> list[Any]:
    """A gang of one pod for each number of CPUs, in this order; equal ones are of one role."""
    roles: dict[float, int] = {}
    for size in sizes:
        roles[size] = roles.get(size, 0) + 1
    pods = [pod(f"{name}-{number}", name, cpu=size, role=f"of-{size:g}") for number, size in enumerate(sizes)]
    return [group(name, len(sizes) if minimum is None else minimum, **more), *pods]


@pytest.mark.parametrize("settings", [PLAIN, PACKED], ids=["spread", "packed"])
@pytest.mark.parametrize(
    ("capacities", "sizes"),
    [
        pytest.param((4, 4), (1, 1, 4), id="a master that needs a node of its own comes last"),
        pytest.param((8, 8, 66), (1, 1, 64), id="the small ones prefer the large node"),
        pytest.param((4, 4, 8), (1, 1, 4, 8), id="two kinds are stuck, one after the other"),
        pytest.param((2, 4, 6), (2, 4, 6), id="every node full"),
    ],
)
def test_a_gang_that_fits_starts(
    settings: SchedulerConfig, capacities: tuple[int, ...], sizes: tuple[int, ...]
) -> None:
    made = [node(f"n{number}", cpu=cpu) for number, cpu in enumerate(capacities)]
    decisions = schedule(cluster(made, job("j", *sizes)), settings)
    assert len(decisions.binds) == len(sizes)
    assert not decisions.violations


def test_pods_that_may_use_one_node_only_come_before_those_that_may_use_any() -> None:
    head = [pod("j-0", "j", cpu=2), pod("j-1", "j", cpu=2, role="gpu", selector={"zone": "a"})]
    state = cluster(node("n1", cpu=2, labels={"zone": "a"}), node("n2", cpu=2), group("j", 2), head)
    assert placed(schedule(state, PLAIN)) == {"j-0": "n2", "j-1": "n1"}


def test_the_pods_above_the_minimum_come_after_those_that_were_stuck() -> None:
    """Three small pods and a large one, of which two must run; each role needs one."""
    state = cluster(node("n1", cpu=4), job("j", 1, 1, 1, 4, minimum=2, roles={"of-1": 0, "of-4": 1}))
    assert placed(schedule(state, PLAIN)) == {}
    state = cluster(node("n1", cpu=4), node("n2", cpu=1), job("j", 1, 1, 1, 4, minimum=2, roles={"of-4": 1}))
    assert placed(schedule(state, PLAIN)) == {"j-3": "n1", "j-0": "n2"}


def test_a_gang_that_does_not_fit_says_the_same_as_before_and_leaves_its_room() -> None:
    state = cluster(node("n1", cpu=4), node("n2", cpu=4), job("j", 1, 1, 5), gang("other", 8, created=1))
    decisions = schedule(state, PLAIN)
    assert {name.split("-")[0] for name in placed(decisions)} == {"other"}
    assert "5" in decisions.verdicts["ns/j"].message


def test_limits_of_queues_hold_in_every_order() -> None:
    state = cluster(node("n1", cpu=8), queue("q", capability={"cpu": 5}), job("j", 1, 1, 4, queue="q"))
    assert placed(schedule(state, config(("gang",), ("predicates", "capacity")))) == {}


def test_within_a_domain() -> None:
    things = [*racks({"a": 2, "b": 2}), job("j", 1, 1, 4)]
    things[-1][0].spec.network_topology = wish(1)
    decisions = schedule(world(*things), TOPOLOGY)
    assert len({name.split("-")[0] for name in placed(decisions).values()}) == 1
    assert len(decisions.binds) == 3


@given(
    st.lists(st.integers(1, 8), min_size=1, max_size=4),
    st.lists(st.sampled_from([1, 2, 3, 5]), min_size=1, max_size=6),
    st.booleans(),
)
def test_no_node_holds_too_much_and_gangs_start_whole(capacities: list[int], sizes: list[int], packed: bool) -> None:
    made = [node(f"n{number}", cpu=cpu) for number, cpu in enumerate(capacities)]
    state = cluster(made, job("j", *sizes), gang("later", 2, created=5))
    decisions = schedule(state, PACKED if packed else PLAIN)
    assert not decisions.violations
    places = placed(decisions)
    mine = [name for name in places if name.startswith("j-")]
    assert len(mine) in (0, len(sizes))
    for number, cpu in enumerate(capacities):
        here = [name for name, where in places.items() if where == f"n{number}"]
        assert sum(sizes[int(name[2:])] if name in mine else 1 for name in here) <= cpu


@given(st.permutations([1, 1, 2, 2, 4]))
def test_two_kinds_that_fill_the_cluster_start_in_every_order(sizes: list[int]) -> None:
    """One kind is large: the order in which pods come decides nothing."""
    state = cluster(node("n1", cpu=4), node("n2", cpu=6), job("j", *sizes))
    assert len(schedule(state, PACKED).binds) == 5
