"""Over how many clusters a HyperJob spreads: ``maxDomains``, and parts for ``mode: auto``."""

from __future__ import annotations

import pytest
from fleet_world import GPU, fleet, node, template
from hypothesis import given
from hypothesis import strategies as st

from unisono.api.annotations import SPLIT
from unisono.api.kind_families import HYPER_JOBS
from unisono.fleet.hyper_jobs.decide import MOST_SETS, domain_set, number_of_parts

ROOM = {"a": 4, "b": 8, "c": 2}


@pytest.mark.parametrize(
    ("most", "fixed", "bounds", "attempt", "wanted"),
    [
        (2, (), (), 0, ("a", "b")),
        (2, (), (), 1, ("b", "c")),
        (2, (), (), 2, ("a", "c")),
        (2, (), (), 3, ("a", "b")),
        (3, (), (), 0, None),
        (2, ("c",), (), 0, ("b", "c")),
        (2, ("x",), (), 0, ("b", "x")),
        (2, (), (("c",),), 0, ("b", "c")),
        (2, (), (("c",), ("a",)), 0, ("a", "c")),
        (2, (), (("c",), ("a",), ("b",)), 0, ()),
        (2, ("x", "y", "z"), (), 0, ("x", "y", "z")),
    ],
)
def test_sets_of_clusters(most, fixed, bounds, attempt, wanted):
    assert domain_set(most, fixed, ROOM, bounds, attempt) == wanted


@given(
    st.dictionaries(st.sampled_from("abcdefg"), st.integers(0, 20), max_size=7),
    st.integers(1, 4),
    st.sets(st.sampled_from("abcxy"), max_size=2),
)
def test_every_set_has_its_turn_and_none_is_too_large(room, most, fixed):
    tried = [domain_set(most, fixed, room, (), attempt) for attempt in range(MOST_SETS)]
    if tried[0] is None:
        assert len({*room, *fixed}) <= most
        return
    assert all(len(each) <= max(most, len(fixed)) and fixed <= set(each) for each in tried)
    if most > len(fixed):
        assert {name for each in tried for name in each} == {*room, *fixed}


@pytest.mark.parametrize(
    ("pods", "most", "room", "empty", "parts"),
    [
        (8, 4, {"a": 8}, {"a": 8}, 1),
        (8, 4, {"a": 4, "b": 4}, {"a": 8, "b": 8}, 2),
        (8, 4, {"a": 5, "b": 3}, {"a": 5, "b": 3}, 1),
        (8, 1, {"a": 4, "b": 4}, {"a": 8, "b": 8}, 1),
        (8, 4, {"a": 0, "b": 0}, {"a": 4, "b": 4}, 2),
        (8, 4, {}, {}, 1),
        (9, 3, {"a": 6, "b": 3}, {}, 3),
    ],
)
def test_the_fewest_parts_that_find_room(pods, most, room, empty, parts):
    assert number_of_parts(pods, most, room, empty) == parts


def test_what_a_user_asks_for_costs_little():
    assert number_of_parts(2**31, 2**31, ROOM, ROOM) == 1


async def hyper(world, name, policy, replicas=1, gang=8, **spec):
    part = {
        "name": "stage",
        "replicas": replicas,
        "splitPolicy": policy,
        "templateSpec": {
            "queue": "default",
            "minAvailable": gang,
            "schedulerName": "volcano",
            "tasks": [{"name": "w", "replicas": gang, "template": template(1)}],
        },
    }
    await world.create(
        HYPER_JOBS, {"metadata": {"name": name, "namespace": "default"}, "spec": {"replicatedJobs": [part], **spec}}
    )


def clusters(world, name):
    return sorted(place.cluster for place in world.record(name).parts.values())


async def test_auto_splits_only_where_no_cluster_takes_the_whole():
    auto = {"mode": "auto", "accelerators": 8, "acceleratorType": GPU}
    async with fleet("a", "b", "c") as world:
        world.join("a", [node("n", 8)])
        world.join("b", [node("n", 4)])
        world.join("c", [node("n", 4)])
        world.start()
        await hyper(world, "whole", auto)
        await world.run(20)
        assert clusters(world, "whole") == ["a"]
        await hyper(world, "split", auto)
        await world.run(60)
        assert clusters(world, "split") == ["b", "c"]
        assert world.hub_client.find(HYPER_JOBS, "default/split").metadata.annotations[SPLIT] == '{"stage":2}'
        await world.run(60)
        assert world.pods()["b"] == {"split-stage-0": 4} or world.pods()["b"] == {"split-stage-1": 4}


async def test_max_domains_bounds_the_clusters_of_all_parts():
    async with fleet("a", "b", "c") as world:
        for name in "abc":
            world.join(name, [node("n", 4)])
        world.start()
        await hyper(world, "three", None, replicas=3, gang=4, maxDomains=2)
        await world.run(200)
        assert clusters(world, "three") == []
        await world.hub_client.delete(HYPER_JOBS, "three", "default")
        await hyper(world, "four", None, replicas=4, gang=2, maxDomains=2)
        await world.run(120)
        assert len(clusters(world, "four")) == 4
        assert len(set(clusters(world, "four"))) == 2


async def test_another_set_is_tried_where_the_first_has_room_that_does_not_do():
    async with fleet("a", "b", "c") as world:
        world.join("a", [node("n1", 3), node("n2", 3), node("n3", 3)])  # most room, in pieces too small
        world.join("b", [node("n", 4)])
        world.join("c", [node("n", 4)])
        world.start()
        part = {"name": "p", "pods": 1, "gpus": 4, "replicas": 2}
        await world.hyper("big", part, maxDomains=2)
        await world.run(240)
        assert clusters(world, "big") == ["b", "c"]
