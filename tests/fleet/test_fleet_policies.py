"""Where jobs of a hub may go, and had better go: policies, groups in order, fleets, data, regions, failures."""

from __future__ import annotations

import msgspec
import pytest
from fleet_world import NAMESPACE, fleet, node

from unisono.api.annotations import (
    BANDWIDTH,
    FLEET,
    GIGABYTES,
    MEMBER_REASONS,
    START_TIMEOUT,
)
from unisono.api.groups.propagation import ClusterPropagationPolicy, PropagationPolicy
from unisono.api.kind_families import (
    ATTACHED_CLUSTERS,
    CLUSTER_PROPAGATION_POLICIES,
    DATA_SOURCE_CLAIMS,
    DATA_SOURCES,
    FLEETS,
    PROPAGATION_POLICIES,
)
from unisono.fleet.policies.rules import Asked, Cluster, Subject, policy_of, rules_of

REGION = "topology.kubernetes.io/region"
JOB = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}
SUBJECT = Subject("Job", ("batch.volcano.sh/v1alpha1",), "default", "j", {"team": "a"})
CLUSTERS = (
    Cluster("home", {"tier": "own", REGION: "eu"}),
    Cluster("lab", {"tier": "own", REGION: "us"}),
    Cluster("cloud", {"tier": "rented", REGION: "us", "provider": "acme"}),
)


def policy(name="p", namespace="default", priority=None, selectors=(JOB,), struct=PropagationPolicy, **placement):
    spec = {"resourceSelectors": list(selectors), "placement": placement, "priority": priority}
    return msgspec.convert({"metadata": {"name": name, "namespace": namespace}, "spec": spec}, struct)


def affinity(**fields):
    return {"clusterAffinity": fields}


def groups(*names, burst=None):
    terms = [{"affinityName": name, "clusterNames": [name]} for name in names]
    for term in terms[1:]:
        term["burstAfter"] = burst
    return {"clusterAffinities": terms}


@pytest.mark.parametrize(
    ("placement", "inside"),
    [
        ({}, ["home", "lab", "cloud"]),
        (affinity(), ["home", "lab", "cloud"]),
        (affinity(clusterNames=["lab", "none"]), ["lab"]),
        (affinity(exclude=["lab"]), ["home", "cloud"]),
        (affinity(labelSelector={"matchLabels": {"tier": "own"}}), ["home", "lab"]),
        (
            affinity(fieldSelector={"matchExpressions": [{"key": "region", "operator": "In", "values": ["us"]}]}),
            ["lab", "cloud"],
        ),
        (affinity(fieldSelector={"matchExpressions": [{"key": "provider", "operator": "Exists"}]}), ["cloud"]),
        (affinity(clusterNames=["home"], exclude=["home"]), []),
    ],
)
def test_clusters_that_a_policy_means(placement, inside):
    outside = rules_of(Asked(SUBJECT, CLUSTERS, policy(**placement))).outside
    assert [each.name for each in CLUSTERS if each.name not in outside] == inside
    assert all("PropagationPolicy p" in why for why in outside.values())


@pytest.mark.parametrize(
    ("waited", "gone", "inside", "again"),
    [
        (0.0, (), ["home"], 600.0),
        (599.0, (), ["home"], 1.0),
        (600.0, (), ["home", "lab"], 600.0),
        (1200.0, (), ["home", "lab", "cloud"], None),
        (0.0, ("home",), ["home", "lab"], 600.0),
        (0.0, ("home", "lab"), ["home", "lab", "cloud"], None),
    ],
)
def test_groups_open_in_order(waited, gone, inside, again):
    clusters = [Cluster(each.name, each.labels, each.name in gone) for each in CLUSTERS]
    rules = rules_of(Asked(SUBJECT, clusters, policy(**groups("home", "lab", "cloud", burst="10m")), waited=waited))
    assert [each.name for each in CLUSTERS if each.name not in rules.outside] == inside
    assert rules.again == again
    assert rules.points["tier"] == {"home": 100.0, "lab": 50.0, "cloud": 0.0}


def named(selector, name="p", **more):
    return policy(name, selectors=(selector,), **more)


@pytest.mark.parametrize(
    ("own", "everywhere", "chosen"),
    [
        ([named(JOB, "a"), named({**JOB, "name": "j"}, "z")], [], "z"),
        ([named(JOB, "a"), named({**JOB, "labelSelector": {"matchLabels": {"team": "a"}}}, "z")], [], "z"),
        ([named({**JOB, "name": "j"}, "a"), named(JOB, "z", priority=1)], [], "z"),
        ([named(JOB, "b"), named(JOB, "a")], [], "a"),
        ([named({**JOB, "name": "other"}, "a")], [policy("all", None, struct=ClusterPropagationPolicy)], "all"),
        ([named({**JOB, "kind": "Deployment"}, "a")], [], None),
        ([named({**JOB, "labelSelector": {"matchLabels": {"team": "b"}}}, "a")], [], None),
    ],
)
def test_the_policy_that_counts(own, everywhere, chosen):
    found = policy_of(SUBJECT, own, everywhere)
    assert (found.metadata.name if found else None) == chosen


async def put(world, kind, value, namespace="default", **marks):
    meta = {"namespace": namespace} if kind.namespaced else {}
    value = {"metadata": {"name": "it", "annotations": marks, **meta, **value.pop("metadata", {})}, **value}
    await world.create(kind, value)


async def test_a_policy_of_the_namespace_sends_its_jobs_where_it_says():
    async with fleet("a", "b") as world:
        world.join("a", [node("n", 8)])
        world.join("b", [node("n", 8)], tier="rented")
        await put(
            world,
            PROPAGATION_POLICIES,
            {
                "spec": {
                    "resourceSelectors": [JOB],
                    "placement": affinity(labelSelector={"matchLabels": {"tier": "rented"}}),
                }
            },
        )
        world.start()
        for number in range(3):
            await world.job(f"j{number}", 4)
        await world.run(20)
        assert sorted(world.where().values()) == ["", "b", "b"]
        waiting = next(name for name, place in world.where().items() if not place)
        await world.run(20)
        told = msgspec.json.decode(world.group(waiting).metadata.annotations[MEMBER_REASONS])
        assert told["a"] == "is not meant by PropagationPolicy it"
        await world.hub_client.delete(PROPAGATION_POLICIES, "it", "default")
        await world.run(20)
        assert world.where()[waiting] == "a"


async def test_a_full_home_bursts_to_the_cloud_after_a_while_and_no_sooner():
    async with fleet("home", "cloud") as world:
        world.join("home", [node("n", 4)])
        world.join("cloud", [node("n", 8)])
        await put(
            world,
            CLUSTER_PROPAGATION_POLICIES,
            {"spec": {"resourceSelectors": [JOB], "placement": groups("home", "cloud", burst="5m")}},
        )
        world.start()
        await world.job("first", 4)
        await world.run(20)
        await world.job("second", 4)
        await world.run(240)
        assert world.where() == {"first": "home", "second": ""}
        told = msgspec.json.decode(world.group("second").metadata.annotations[MEMBER_REASONS])
        assert told["cloud"].startswith("opens in ")
        await world.run(90)
        assert world.where() == {"first": "home", "second": "cloud"}


async def test_what_bursts_could_still_goes_home_where_home_has_room():
    async with fleet("cloud", "home") as world:
        world.join("cloud", [node("n", 8)])
        world.join("home", [node("n", 8)])
        await put(
            world,
            CLUSTER_PROPAGATION_POLICIES,
            {"spec": {"resourceSelectors": [JOB], "placement": groups("home", "cloud", burst="0s")}},
        )
        world.start()
        await world.job("j", 4)
        await world.run(20)
        assert world.where() == {"j": "home"}


async def test_a_job_goes_to_the_members_of_its_fleet():
    async with fleet("a", "b") as world:
        world.join("a", [node("n", 8)])
        world.join("b", [node("n", 8)])
        await put(world, FLEETS, {"metadata": {"name": "small"}, "spec": {"clusters": [{"name": "b"}]}}, NAMESPACE)
        world.start()
        await world.job("j", 4, annotations={FLEET: "small"})
        await world.job("elsewhere", 1, annotations={FLEET: "none"})
        await world.run(20)
        assert world.where() == {"j": "b", "elsewhere": ""}


async def test_data_that_cannot_be_moved_bind_a_job_to_the_clusters_that_have_them():
    async with fleet("a", "b") as world:
        world.join("a", [node("n", 8)])
        world.join("b", [node("n", 8)])
        world.start()
        claim = {
            "system": "hive",
            "dataSourceType": "table",
            "dataSourceName": "sales",
            "workload": {**JOB, "name": "j"},
        }
        await put(world, DATA_SOURCE_CLAIMS, {"spec": claim})
        await world.job("j", 4)
        await world.run(20)
        assert world.where() == {"j": ""}
        source = {"system": "hive", "type": "table", "name": "sales", "locality": {"clusterNames": ["b"]}}
        await put(world, DATA_SOURCES, {"metadata": {"name": "sales"}, "spec": source})
        await world.run(20)
        assert world.where() == {"j": "b"}
        bound = world.hub_client.find(DATA_SOURCE_CLAIMS, "default/it").status
        assert (bound.phase, bound.bound_data_source) == ("Bound", "sales")
        assert world.hub_client.find(DATA_SOURCES, "sales").status.bound_claims == 1


@pytest.mark.parametrize(("gigabits", "place"), [("100", "fast"), ("0.1", "slow")])
async def test_data_that_can_be_moved_go_where_that_is_quick(gigabits, place):
    async with fleet("has", "fast", "slow") as world:
        world.join("has", [node("n", 2)])
        world.join("fast", [node("n", 8)])
        world.join("slow", [node("n", 8)])
        await world.hub_client.patch(
            ATTACHED_CLUSTERS, "fast", {"metadata": {"annotations": {BANDWIDTH: gigabits}}}, namespace=NAMESPACE
        )
        source = {"system": "s", "type": "t", "name": "n", "locality": {"clusterNames": ["has"]}}
        await put(world, DATA_SOURCES, {"spec": source}, **{GIGABYTES: "1000"})
        claim = {"system": "s", "dataSourceType": "t", "dataSourceName": "n", "workload": {**JOB, "name": "j"}}
        await put(world, DATA_SOURCE_CLAIMS, {"spec": claim})
        world.start()
        await world.job("j", 4)
        await world.run(20)
        assert world.where() == {"j": place}


async def test_a_preferred_region_is_preferred():
    preferred = [
        {"weight": 50, "preference": {"matchExpressions": [{"key": REGION, "operator": "In", "values": ["us"]}]}}
    ]
    pod = {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}
    async with fleet("a", "b") as world:
        world.join("a", [node("n", 8)], **{REGION: "eu"})
        world.join("b", [node("n", 8)], **{REGION: "us"})
        world.start()
        for number in range(3):
            await world.job(f"j{number}", 4, pod=pod)
            await world.run(15)
        assert world.where() == {"j0": "b", "j1": "b", "j2": "a"}


async def test_a_job_that_a_member_refuses_goes_elsewhere():
    async with fleet("a", "b") as world:
        world.join("a", [node("n", 8)])
        world.join("b", [node("n", 8)])
        world.refuse("a", "create", "jobs")
        world.start()
        for number in range(2):
            await world.job(f"j{number}", 4)
        await world.run(60)
        assert world.where() == {"j0": "b", "j1": "b"}


async def test_a_job_that_a_member_does_not_start_goes_elsewhere():
    async with fleet("a", "b") as world:
        world.join("a", [node("n", 8)])
        world.join("b", [node("n", 8)])
        world.start()
        await world.job("j", 4, annotations={START_TIMEOUT: "2m"})
        await world.run(20)
        first = world.where()["j"]
        await world.run(90)
        assert world.where()["j"] == first
        await world.run(40)
        other = world.where()["j"]
        assert {first, other} == {"a", "b"}
        assert world.copies() == {first: [], other: ["j"]}
        world.play()
        await world.run(300)
        assert world.where()["j"] == other
