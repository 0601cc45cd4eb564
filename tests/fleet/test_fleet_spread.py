"""Over how many clusters a HyperJob spreads: ``maxDomains``, and parts for ``mode: auto``."""

from __future__ import annotations

import pytest
from fleet_world import GPU, fleet, node, template
from hypothesis import given, settings
from hypothesis import strategies as st

from support.examples import examples
from unisono.api.annotations import SPLIT
from unisono.api.decode import decode
from unisono.api.groups.batch import Job
from unisono.api.kind_families import HYPER_JOBS
from unisono.api.kinds import JOBS, NODES
from unisono.cluster.state import ClusterState
from unisono.fleet.hyper_jobs.decide import domain_set, number_of_parts
from unisono.fleet.hyper_jobs.dividing import MOST_SETS, Floor, roles_of
from unisono.fleet.jobs.translation import Origin
from unisono.fleet.jobs.translation import node as translate
from unisono.jobkinds.volcano import with_defaults

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
    ("pods", "most", "room", "parts"),
    [
        (8, 4, {"a": 8}, 1),
        (8, 4, {"a": 4, "b": 4}, 2),
        (8, 4, {"a": 5, "b": 3}, 0),
        (8, 1, {"a": 4, "b": 4}, 0),
        (8, 4, {}, 0),
        (9, 3, {"a": 6, "b": 3}, 3),
    ],
)
def test_the_fewest_parts_of_equal_size_that_find_room(pods, most, room, parts):
    assert number_of_parts(pods, most, room) == parts


def test_what_a_user_asks_for_costs_little():
    assert number_of_parts(2**31, 2**31, ROOM) == 0


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


def task(name, replicas, gpus=1):
    return {"name": name, "replicas": replicas, "template": template(gpus)}


async def several(world, name, tasks, policy, gang=None, **spec):
    given = {"queue": "default", "schedulerName": "volcano", "tasks": tasks}
    given["minAvailable"] = gang or sum(each["replicas"] for each in tasks)
    part = {"name": "stage", "replicas": 1, "splitPolicy": policy, "templateSpec": given}
    await world.create(
        HYPER_JOBS, {"metadata": {"name": name, "namespace": "default"}, "spec": {"replicatedJobs": [part], **spec}}
    )


@pytest.mark.parametrize(
    ("members", "tasks", "gang", "wanted"),
    [
        # The roles are counted together: alone each would find more room.
        ({"a": [4], "b": [8]}, [task("ps", 1), task("worker", 8)], None, {"a": 1, "b": 8}),
        ({"a": [4], "b": [8]}, [task("ps", 4), task("worker", 8)], None, {"a": 4, "b": 8}),
        ({"a": [4], "b": [8]}, [task("worker", 12)], None, {"a": 4, "b": 8}),
        ({"a": [4], "b": [8]}, [task("worker", 13)], None, {"a": 0, "b": 0}),
        ({"a": [8], "b": [8]}, [task("ps", 2, 4), task("worker", 8)], None, {"a": 8, "b": 8}),
        ({"a": [3, 3], "b": [2]}, [task("ps", 2, 3), task("worker", 2)], None, {"a": 6, "b": 2}),
        ({"a": [4], "b": [4], "c": [4]}, [task("ps", 3, 2), task("worker", 6)], None, {"a": 4, "b": 4, "c": 4}),
        # What one cluster takes stays whole; of an elastic job the gang decides, and the others follow.
        ({"a": [8], "b": [8]}, [task("ps", 2), task("worker", 6)], None, {"a": 8, "b": 0}),
        ({"a": [4], "b": [4]}, [task("worker", 8)], 6, {"a": 4, "b": 4}),
    ],
)
async def test_several_tasks_are_shared_over_clusters_as_their_nodes_have_room(members, tasks, gang, wanted):
    async with fleet(*members) as world:
        for name, nodes in members.items():
            world.join(name, [node(f"n{at}", gpus) for at, gpus in enumerate(nodes)])
        world.start()
        await several(world, "job", tasks, {"mode": "auto"}, gang)
        await world.run(60)
        found = {}
        for name, client in world.members.items():
            for job in client.objects(JOBS):
                for each in job.spec.tasks:
                    size = int(each.template.spec.containers[0].resources.limits[GPU])
                    found[name] = found.get(name, 0) + each.replicas * size
        used = sum(wanted.values())
        assert sum(found.values()) == used
        if used == sum(map(sum, members.values())) or not used:
            assert {name: found.get(name, 0) for name in members} == wanted


async def test_accelerators_of_several_tasks_must_be_what_their_template_asks_for():
    async with fleet("a", "b") as world:
        world.join("a", [node("n", 4)])
        world.join("b", [node("n", 8)])
        world.start()
        tasks = [task("ps", 1), task("worker", 8)]
        await several(world, "right", tasks, {"mode": "auto", "accelerators": 9, "acceleratorType": GPU})
        await several(world, "wrong", tasks, {"mode": "auto", "accelerators": 8, "acceleratorType": GPU})
        await world.run(60)
        assert clusters(world, "right") == ["a", "b"]
        assert clusters(world, "wrong") == []


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(st.lists(st.sampled_from([1, 2, 4, 8]), min_size=1, max_size=3), min_size=2, max_size=4),
    st.lists(st.tuples(st.sampled_from([1, 2, 4, 8]), st.integers(1, 6)), min_size=1, max_size=3),
)
def test_pods_of_powers_of_two_are_shared_wherever_they_fit(members, roles):
    table = nodes_table({f"m{at}": sizes for at, sizes in enumerate(members)})
    spec = decode(JOBS, {"spec": {"tasks": [task(f"t{at}", n, size) for at, (size, n) in enumerate(roles)]}}).obj.spec
    names = [f"t{at}" for at in range(len(roles))]
    floor = Floor(
        table, roles_of(table, with_defaults(Job(spec=spec)), names), [f"m{at}" for at in range(len(members))]
    )
    shares = floor.share(floor.free, len(members))
    # Sizes of which each is a multiple of the next: largest first, first fit finds a place where there is one.
    left, fits = sorted(size for sizes in members for size in sizes), True
    for size, number in sorted(roles, reverse=True):
        for _ in range(number):
            at = next((at for at, free in enumerate(left) if free >= size), None)
            fits = fits and at is not None
            if at is not None:
                left[at] -= size
                left.sort()
    assert bool(shares) == fits
    if fits:
        for at, (_, number) in enumerate(roles):
            assert sum(share.pods[f"t{at}"] for share in shares) == number
        for share in shares:
            used = sum(share.pods[f"t{at}"] * size for at, (size, _) in enumerate(roles))
            assert used <= sum(members[int(share.cluster[1:])])


def nodes_table(members):
    state = ClusterState()
    for name, sizes in members.items():
        for at, size in enumerate(sizes):
            state.apply("ADDED", NODES, translate(Origin("hub", name, {}, open=True), node(f"n{at}", size)))
    state.nodes.settle(lambda _names: None)
    return state.nodes
