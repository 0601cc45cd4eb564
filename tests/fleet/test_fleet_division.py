"""Replicas divided over clusters: Karmada's four strategies as a table, their invariants, and a whole hub."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from fleet_world import World, fleet, node
from hypothesis import given
from hypothesis import strategies as st

from unisono.api.annotations import DIVISION, DRAINED, WORKER_LOST_TIMEOUT
from unisono.api.kind import Kind
from unisono.api.kind_families import ATTACHED_CLUSTERS, BATCH_JOBS, DEPLOYMENTS, PROPAGATION_POLICIES, STATEFUL_SETS
from unisono.api.kinds import EVENTS
from unisono.api.validation import validate
from unisono.fleet.division.plan import Demand, NotEnoughRoom, Strategy, apportion, divide
from unisono.fleet.jobs.replicas import recorded

ABC = ("a", "b", "c")
DUPLICATED, STATIC, DYNAMIC, AGGREGATED = Strategy


@pytest.mark.parametrize(
    ("replicas", "strategy", "given", "expected"),
    [
        # Every cluster gets all.
        (3, DUPLICATED, {}, {"a": 3, "b": 3, "c": 3}),
        (0, DUPLICATED, {}, {}),
        # By weights: 1:2 of nine; what is left over goes where a seat counts most; room is not asked for.
        (9, STATIC, {"weights": {"a": 1, "b": 2}}, {"a": 3, "b": 6}),
        (5, STATIC, {"weights": {"a": 2, "b": 1, "c": 1}}, {"a": 3, "b": 1, "c": 1}),
        (6, STATIC, {"weights": {}}, {"a": 2, "b": 2, "c": 2}),
        (6, STATIC, {"weights": {"b": 0}}, {"a": 2, "b": 2, "c": 2}),
        (4, STATIC, {"weights": {"c": 7}, "room": {"c": 0}}, {"c": 4}),
        # Static weights are applied from scratch.
        (4, STATIC, {"weights": {"a": 1, "b": 1}, "present": {"a": 4}}, {"a": 2, "b": 2}),
        # By room: 6, 12 and 18 of twelve.
        (12, DYNAMIC, {"room": {"a": 6, "b": 12, "c": 18}}, {"a": 2, "b": 4, "c": 6}),
        (3, DYNAMIC, {"room": {"a": 0, "b": 1, "c": 2}}, {"b": 1, "c": 2}),
        # More: only the difference is divided. Fewer: in proportion to what there is.
        (8, DYNAMIC, {"room": {"b": 10}, "present": {"a": 4}}, {"a": 4, "b": 4}),
        (3, DYNAMIC, {"room": {"c": 50}, "present": {"a": 4, "b": 2}}, {"a": 2, "b": 1}),
        (6, DYNAMIC, {"room": {}, "present": {"a": 4, "b": 2}}, {"a": 4, "b": 2}),
        # A cluster that may have none any more: its replicas are divided over the others.
        (6, DYNAMIC, {"clusters": ("b", "c"), "room": {"b": 2, "c": 4}}, {"b": 2, "c": 4}),
        # In few clusters: one where one has room for all, else the roomiest first; one in use stays in use.
        (12, AGGREGATED, {"room": {"a": 6, "b": 12, "c": 18}}, {"c": 12}),
        (12, AGGREGATED, {"room": {"a": 6, "b": 8, "c": 10}}, {"b": 5, "c": 7}),
        (6, AGGREGATED, {"room": {"a": 4, "b": 9}, "present": {"a": 4}}, {"a": 6}),
        (3, AGGREGATED, {"room": {}, "present": {"a": 4, "b": 2}}, {"a": 3}),
    ],
)
def test_the_four_strategies(replicas: int, strategy: Strategy, given: Mapping[str, Any], expected: dict[str, int]):
    clusters = given.get("clusters", ABC)
    rest = {key: value for key, value in given.items() if key != "clusters"}
    assert divide(Demand(replicas, strategy, clusters, **rest)) == expected


@pytest.mark.parametrize("strategy", [DYNAMIC, AGGREGATED])
def test_too_little_room_changes_nothing_and_says_how_much_there_is(strategy):
    with pytest.raises(NotEnoughRoom, match="room for 3 more replicas, and 4 are missing"):
        divide(Demand(6, strategy, ABC, room={"a": 3}, present={"b": 2}))


COUNTS = st.dictionaries(st.sampled_from(ABC), st.integers(0, 40))


@given(st.integers(0, 60), st.sampled_from([DYNAMIC, AGGREGATED]), COUNTS, COUNTS)
def test_no_cluster_gets_more_than_it_has_room_for(replicas, strategy, room, present):
    demand = Demand(replicas, strategy, ABC, room=room, present=present, tie="u")
    missing = replicas - sum(present.values())
    if missing > sum(room.values()):
        with pytest.raises(NotEnoughRoom):
            divide(demand)
        return
    found = divide(demand)
    assert sum(found.values()) == replicas
    for name in ABC:
        have, now = present.get(name, 0), found.get(name, 0)
        assert now <= have + room.get(name, 0)
        assert now >= have if missing >= 0 else now <= have, "what is there moves only as far as it must"


@given(st.integers(0, 500), st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 50), min_size=1))
def test_seats_follow_weights(seats, weights):
    found = apportion(seats, weights, "u")
    total = sum(weights.values())
    assert sum(found.values()) == (seats if total else 0)
    for one, mine in found.items():
        for other, theirs in found.items():
            # Webster: no seat would be better with another.
            assert weights[one] * (2 * theirs + 1) >= weights[other] * (2 * mine - 1) - 1e-9 or not mine or one == other


def test_very_many_seats_are_given_away_in_no_time():
    assert apportion(1_000_000, {"a": 1, "b": 3}) == {"a": 250_000, "b": 750_000}


# ---- a hub


def workload(name: str, replicas: int, cpu: str = "4", **more: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container], **more.pop("pod", {})}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"metadata": {"name": name, "namespace": "default", "annotations": more}, "spec": spec}


async def policy(world: World, kind: Kind[Any] = DEPLOYMENTS, **placement: Any) -> None:
    value = {
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"resourceSelectors": [{"apiVersion": kind.api_version, "kind": kind.kind}], "placement": placement},
    }
    await world.create(PROPAGATION_POLICIES, value)


def divided(preference: str, **weights: Any) -> dict[str, Any]:
    found = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": preference}
    return {**found, "weightPreference": weights} if weights else found


BY_ROOM = divided("Weighted", dynamicWeight="AvailableReplicas")


def shares(world: World, kind: Kind[Any] = DEPLOYMENTS) -> dict[str, dict[str, int]]:
    """Copies and their sizes by name and member."""
    found: dict[str, dict[str, int]] = {}
    for member, client in world.members.items():
        for copied in client.objects(kind):
            size = copied.spec.parallelism if kind is BATCH_JOBS else copied.spec.replicas
            found.setdefault(copied.metadata.name, {})[member] = size
    return found


def web(world: World) -> Any:
    return world.hub_client.find(DEPLOYMENTS, "default/web")


def told(world: World, reason: str) -> list[str]:
    return [each.message for each in world.hub_client.objects(EVENTS) if each.reason == reason]


async def say(world: World, member: str, kind: Kind[Any], name: str, status: dict[str, Any]) -> None:
    await world.members[member].patch(kind, name, {"status": status}, namespace="default", subresource="status")


@pytest.mark.parametrize(
    ("placement", "expected"),
    [
        ({}, {"a": 8, "b": 8, "c": 8}),
        ({"clusterAffinity": {"exclude": ["b"]}}, {"a": 8, "c": 8}),
        (
            {
                "replicaScheduling": divided(
                    "Weighted",
                    staticWeightList=[
                        {"targetCluster": {"clusterNames": ["a"]}, "weight": 1},
                        {"targetCluster": {"labelSelector": {"matchLabels": {"tier": "two"}}}, "weight": 2},
                    ],
                )
            },
            {"a": 3, "b": 5},
        ),
        # a has room for 16 pods of 4 CPUs, b and c for 8.
        ({"replicaScheduling": BY_ROOM}, {"a": 4, "b": 2, "c": 2}),
        ({"replicaScheduling": divided("Aggregated")}, {"a": 8}),
        (
            {"replicaScheduling": BY_ROOM, "spreadConstraints": [{"spreadByField": "cluster", "maxGroups": 2}]},
            {"a": 5, "b": 3},
        ),
    ],
)
async def test_a_deployment_is_divided(placement, expected):
    async with fleet(*ABC) as world:
        world.join("a", [node("n1"), node("n2")])
        world.join("b", [node("n1")], tier="two")
        world.join("c", [node("n1")])
        world.start()
        await world.run()
        await policy(world, **placement)
        await world.create(DEPLOYMENTS, workload("web", 8))
        await world.run()
        assert shares(world) == {"web": expected}
        assert recorded(web(world)) == expected


async def test_without_a_policy_it_runs_nowhere_and_is_told_so():
    async with fleet("a") as world:
        world.join("a", [node("n1")])
        world.start()
        await world.create(DEPLOYMENTS, workload("web", 2))
        await world.run()
        assert shares(world) == {}
        assert any("no PropagationPolicy" in text for text in told(world, "NotPropagated"))


async def test_scaling_changes_the_difference_alone_and_too_much_changes_nothing():
    async with fleet("a", "b") as world:
        world.join("a", [node("n1")])
        world.join("b", [node("n1")])
        world.start()
        await world.run()
        await policy(world, replicaScheduling=divided("Aggregated"))
        await world.create(DEPLOYMENTS, workload("web", 4))
        await world.run()
        assert shares(world)["web"] == {"a": 4}
        for replicas, expected in ((6, {"a": 6}), (99, {"a": 6}), (12, {"a": 8, "b": 4}), (3, {"a": 3})):
            await world.hub_client.patch(DEPLOYMENTS, "web", {"spec": {"replicas": replicas}}, namespace="default")
            # Members have no pods here that would take room: what was sent is waited for.
            await world.run(40)
            if replicas == 12:
                assert sum(shares(world)["web"].values()) == 12
                continue
            assert shares(world)["web"] == expected, replicas
            if replicas == 99:
                conditions = {each.type: each for each in web(world).status.conditions}
                assert conditions["Divided"].status == "False"
                assert "are missing" in conditions["Divided"].message
                assert told(world, "NotDivided")


async def test_two_workloads_at_once_are_not_promised_the_same_room():
    async with fleet("a", "b") as world:
        world.join("a", [node("n1")])
        world.join("b", [node("n1")])
        world.start()
        await world.run()
        await policy(world, replicaScheduling=divided("Aggregated"))
        await world.create(DEPLOYMENTS, workload("one", 8))
        await world.create(DEPLOYMENTS, workload("two", 8))
        await world.run()
        found = shares(world)
        assert sorted(map(tuple, found.values())) == [("a",), ("b",)]


async def test_a_change_of_the_template_reaches_every_copy_and_statuses_add_up():
    async with fleet("a", "b") as world:
        for name in ("a", "b"):
            world.join(name, [node("n1")])
        world.start()
        await world.run()
        await policy(world, replicaScheduling=BY_ROOM)
        await world.create(DEPLOYMENTS, workload("web", 4))
        await world.run()
        for name in ("a", "b"):
            counts = {"replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 2}
            await say(world, name, DEPLOYMENTS, "web", {**counts, "observedGeneration": 99})
        await world.run()
        status = web(world).status
        assert (status.replicas, status.ready_replicas, status.available_replicas) == (4, 4, 4)
        assert status.observed_generation == web(world).metadata.generation
        assert {each.type: each.status for each in status.conditions} == {"Available": "True", "Divided": "True"}
        changed = workload("web", 4, cpu="1")["spec"]["template"]
        await world.hub_client.patch(DEPLOYMENTS, "web", {"spec": {"template": changed}}, namespace="default")
        await world.run()
        for client in world.members.values():
            copied = client.find(DEPLOYMENTS, "default/web")
            assert copied.spec.template.spec.containers[0].resources.requests == {"cpu": "1"}
            assert copied.spec.replicas == 2


async def test_a_member_that_scales_its_copy_is_brought_back_and_a_deleted_copy_is_made_again():
    async with fleet("a", "b") as world:
        for name in ("a", "b"):
            world.join(name, [node("n1")])
        world.start()
        await world.run()
        await policy(world)
        await world.create(DEPLOYMENTS, workload("web", 3))
        await world.run()
        await world.members["a"].patch(DEPLOYMENTS, "web", {"spec": {"replicas": 50}}, namespace="default")
        world.members["b"].remove(DEPLOYMENTS, "default/web")
        await world.run()
        assert shares(world)["web"] == {"a": 3, "b": 3}
        await world.hub_client.delete(DEPLOYMENTS, "web", "default")
        await world.run()
        assert shares(world) == {}


async def test_replicas_of_a_lost_member_go_elsewhere_and_not_twice_when_it_returns():
    async with fleet(*ABC) as world:
        for name in ABC:
            world.join(name, [node("n1")])
        world.start()
        await world.run()
        await policy(world, replicaScheduling=BY_ROOM)
        await world.create(DEPLOYMENTS, workload("web", 6, **{WORKER_LOST_TIMEOUT: "1m"}))
        await world.run()
        assert shares(world)["web"] == {"a": 2, "b": 2, "c": 2}
        world.lose("b")
        await world.run(45)
        assert recorded(web(world)) == {"a": 2, "b": 2, "c": 2}, "it is lost for less than its time"
        await world.run(60)
        assert recorded(web(world)) == {"a": 3, "c": 3}
        world.find("b")
        await world.run(30)
        assert shares(world)["web"] == {"a": 3, "c": 3}


async def test_a_drained_member_keeps_what_it_has_and_gets_no_more():
    async with fleet("a", "b") as world:
        for name in ("a", "b"):
            world.join(name, [node("n1")])
        world.start()
        await world.run()
        await policy(world, replicaScheduling=BY_ROOM)
        await world.create(DEPLOYMENTS, workload("web", 2))
        await world.run()
        marks = {"metadata": {"annotations": {DRAINED: "true"}}}
        await world.hub_client.patch(ATTACHED_CLUSTERS, "a", marks, namespace="fleets")
        await world.run(15)
        await world.hub_client.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 6}}, namespace="default")
        await world.run(30)
        assert shares(world)["web"] == {"a": 1, "b": 5}
        # Without the record, the replicas are divided again.
        await world.hub_client.patch(
            DEPLOYMENTS, "web", {"metadata": {"annotations": {DIVISION: None}}}, namespace="default"
        )
        await world.run(30)
        assert shares(world)["web"] == {"b": 6}


async def test_a_member_that_keeps_an_old_copy_does_not_hold_up_the_others():
    async with fleet("a", "b") as world:
        for name in ("a", "b"):
            world.join(name, [node("n1")])
        world.start()
        await world.run()
        await policy(world, replicaScheduling=BY_ROOM)
        await world.create(DEPLOYMENTS, workload("web", 2))
        await world.run()
        assert shares(world)["web"] == {"a": 1, "b": 1}
        world.refuse("a", "delete", "deployments")
        marks = {"metadata": {"annotations": {DRAINED: "true"}}}
        await world.hub_client.patch(ATTACHED_CLUSTERS, "a", marks, namespace="fleets")
        await world.run(15)
        await world.hub_client.patch(
            DEPLOYMENTS, "web", {"metadata": {"annotations": {DIVISION: None}}}, namespace="default"
        )
        await world.run(60)
        assert shares(world)["web"] == {"a": 1, "b": 2}


async def test_a_stateful_set_and_the_completions_of_a_job_are_divided_along():
    async with fleet("a", "b") as world:
        for name in ("a", "b"):
            world.join(name, [node("n1")])
        world.start()
        await world.run()
        half = divided("Weighted")
        await policy(world, STATEFUL_SETS, replicaScheduling=half)
        await world.create(STATEFUL_SETS, workload("db", 4))
        value = workload("sum", 0)
        spec = {"parallelism": 4, "completions": 10, "template": value["spec"]["template"]}
        spec["template"]["spec"]["restartPolicy"] = "Never"
        both = {"apiVersion": "batch/v1", "kind": "Job"}
        await world.create(
            PROPAGATION_POLICIES,
            {
                "metadata": {"name": "jobs", "namespace": "default"},
                "spec": {"resourceSelectors": [both], "placement": {"replicaScheduling": half}},
            },
        )
        await world.create(BATCH_JOBS, {"metadata": value["metadata"], "spec": spec})
        await world.run()
        assert shares(world, STATEFUL_SETS) == {"db": {"a": 2, "b": 2}}
        assert shares(world, BATCH_JOBS) == {"sum": {"a": 2, "b": 2}}
        assert [client.find(BATCH_JOBS, "default/sum").spec.completions for client in world.members.values()] == [5, 5]
        done = {"type": "Complete", "status": "True", "lastTransitionTime": "2030-01-01T00:00:00Z"}
        await say(world, "a", BATCH_JOBS, "sum", {"succeeded": 5, "conditions": [done]})
        await world.run()
        status = world.hub_client.find(BATCH_JOBS, "default/sum").status
        assert (status.succeeded, status.conditions) == (5, None)
        await say(world, "b", BATCH_JOBS, "sum", {"succeeded": 5, "conditions": [done]})
        await world.run()
        status = world.hub_client.find(BATCH_JOBS, "default/sum").status
        assert (status.succeeded, status.conditions[0].type) == (10, "Complete")


@pytest.mark.parametrize(
    ("placement", "field"),
    [
        ({"replicaScheduling": {"replicaSchedulingType": "Split"}}, "replicaSchedulingType"),
        ({"replicaScheduling": divided("Evenly")}, "replicaDivisionPreference"),
        ({"replicaScheduling": divided("Weighted", dynamicWeight="Load")}, "dynamicWeight"),
        ({"replicaScheduling": divided("Weighted", staticWeightList=[{"weight": -1}])}, "staticWeightList[0].weight"),
        ({"spreadConstraints": [{"minGroups": 3, "maxGroups": 2}]}, "spreadConstraints[0].maxGroups"),
    ],
)
def test_what_a_policy_cannot_mean_is_refused_by_name(placement, field):
    from unisono.api.decode import decode

    spec = {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}], "placement": placement}
    value = {"metadata": {"name": "p", "namespace": "default"}, "spec": spec}
    errors = validate(PROPAGATION_POLICIES, decode(PROPAGATION_POLICIES, value).obj)
    assert any(field in str(each) for each in errors), errors
