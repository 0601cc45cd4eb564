"""What a job asks of its cluster is met in the chosen member, whose nodes do not have the cluster's labels."""

from __future__ import annotations

import pytest
from fleet_world import fleet, node

from unisono.api.annotations import CLUSTER
from unisono.api.kinds import JOBS
from unisono.fleet.jobs.copies import without_labels

REGION = "topology.kubernetes.io/region"
LABELS = {REGION: "eu", CLUSTER: "a"}


def expression(key, *values, operator="In"):
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def template(selector=None, *terms):
    spec = {"containers": [{"name": "c"}]}
    if selector is not None:
        spec["nodeSelector"] = selector
    if terms:
        required = {"nodeSelectorTerms": [{"matchExpressions": list(term)} for term in terms]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return {"tasks": [{"template": {"spec": spec}}]}


def asked(value):
    spec = value["tasks"][0]["template"]["spec"]
    nodes = spec.get("affinity", {}).get("nodeAffinity", {})
    terms = nodes.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms")
    return spec.get("nodeSelector"), terms and [term["matchExpressions"] for term in terms]


@pytest.mark.parametrize(
    ("given", "left"),
    [
        (template({REGION: "eu", "gpu": "t4"}), ({"gpu": "t4"}, None)),
        (template({CLUSTER: "a"}), ({}, None)),
        (template({REGION: "us"}), ({REGION: "us"}, None)),
        (template(None, [expression(REGION, "eu", "us")]), (None, None)),
        (template(None, [expression(REGION, "eu"), expression("gpu", "t4")]), (None, [[expression("gpu", "t4")]])),
        (template(None, [expression(REGION, "us")], [expression("gpu", "t4")]), (None, [[expression("gpu", "t4")]])),
        (template(None, [expression(REGION, "us", operator="NotIn")], [expression("gpu", "t4")]), (None, None)),
        (template(None, [expression(REGION, "us")]), (None, [[expression(REGION, "us")]])),
        (
            template(None, [expression(REGION, operator="DoesNotExist")]),
            (None, [[expression(REGION, operator="DoesNotExist")]]),
        ),
        (template(None, [expression("gpu", "t4")]), (None, [[expression("gpu", "t4")]])),
        (template(None, []), (None, [[]])),
    ],
)
def test_what_the_cluster_meets_is_not_asked_of_its_nodes(given, left):
    assert asked(without_labels(given, LABELS)) == left


async def test_a_job_for_a_region_runs_on_nodes_that_do_not_name_it():
    async with fleet("a", "b") as world:
        world.join("a", [node("n1", 4)], **{REGION: "eu"})
        world.join("b", [node("n1", 4)], **{REGION: "us"})
        world.start()
        await world.job("j", 2, pod={"nodeSelector": {REGION: "us"}})
        await world.run(15)
        assert world.where() == {"j": "b"}
        copied = world.members["b"].find(JOBS, "default/j")
        assert not copied.spec.tasks[0].template.spec.node_selector


async def test_a_region_that_nodes_name_themselves_stays_asked_of_them():
    async with fleet("a") as world:
        world.join("a", [node("n1", 4, topology_kubernetes_io__region="us"), node("n2", 4)], **{REGION: "eu"})
        world.start()
        await world.job("j", 2, pod={"nodeSelector": {REGION: "us"}})
        await world.run(15)
        copied = world.members["a"].find(JOBS, "default/j")
        assert copied.spec.tasks[0].template.spec.node_selector == {REGION: "us"}
