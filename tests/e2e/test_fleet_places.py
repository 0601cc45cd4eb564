"""Where jobs and replicas go by price, place of data and policy, over members that are processes of their own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from fleet_planes import explain, gang, phase, two_members

from support.plane import RunningPlane, wait_until

pytestmark = [pytest.mark.processes, pytest.mark.kubectl, pytest.mark.xdist_group("fleet")]

CONFIGURATION = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}, {name: cost}]
"""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, RunningPlane]]:
    yield from two_members(tmp_path_factory)


def where(hub: RunningPlane, name: str) -> str:
    return str(json.loads(explain(hub, name))["cluster"])


def text(*objects: dict[str, Any]) -> str:
    return yaml.safe_dump_all(objects)


def test_a_job_goes_to_the_cheaper_member_and_to_the_other_when_that_is_full(fleet: dict[str, RunningPlane]) -> None:
    hub = fleet["hub"]
    config = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"volcano-scheduler.conf": CONFIGURATION}}
    config["metadata"] = {"name": "volcano-scheduler-config", "namespace": "volcano-system"}
    hub.try_kubectl("create", "namespace", "volcano-system")
    hub.apply(text(config))
    for name, price in (("gpu1", "4.5"), ("gpu2", "1.5")):
        mark = f"unisono.io/prices=nvidia.com/gpu={price}"
        hub.kubectl("annotate", "attachedcluster", name, mark, "-n", "kurator-fleet-system")
    names = ["cheap-0", "cheap-1", "cheap-2"]
    for name in names:
        hub.apply(gang(name, "default", 8, 600))
        wait_until(f"{name} runs", lambda name=name: phase(hub, name) == "Running")
    # The cheaper member has 16 cards.
    assert [where(hub, name) for name in names] == ["gpu2", "gpu2", "gpu1"]
    for name in names:
        hub.kubectl("delete", "vcjob", name)
    hub.kubectl("delete", "configmap", "volcano-scheduler-config", "-n", "volcano-system")


def test_a_job_goes_where_its_data_are_and_waits_until_they_are_known(fleet: dict[str, RunningPlane]) -> None:
    hub = fleet["hub"]
    group = "datadependency.volcano.sh/v1alpha1"
    about = {"system": "hive", "dataSourceType": "table", "dataSourceName": "sales"}
    job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "needs-data"}
    meta = {"name": "needs", "namespace": "default"}
    hub.apply(
        text({"apiVersion": group, "kind": "DataSourceClaim", "metadata": meta, "spec": {**about, "workload": job}})
    )
    hub.apply(gang("needs-data", "default", 4, 600))
    told = "no DataSource is bound to claim needs"
    wait_until(
        "both members are told not to have the data",
        lambda: [told in why for why in json.loads(explain(hub, "needs-data"))["members"].values()] == [True, True],
    )
    spec = {"system": "hive", "type": "table", "name": "sales", "locality": {"clusterNames": ["gpu2"]}}
    hub.apply(text({"apiVersion": group, "kind": "DataSource", "metadata": {"name": "sales"}, "spec": spec}))
    wait_until("it runs", lambda: phase(hub, "needs-data") == "Running")
    assert where(hub, "needs-data") == "gpu2"
    assert hub.kubectl("get", "datasourceclaim", "needs", "-o", "jsonpath={.status.phase}") == "Bound"
    hub.kubectl("delete", "vcjob", "needs-data")
    hub.kubectl("delete", "datasourceclaim", "needs")
    hub.kubectl("delete", "datasource", "sales")


def test_a_deployment_is_divided_by_weights_scaled_and_read_with_kubectl(fleet: dict[str, RunningPlane]) -> None:
    hub = fleet["hub"]
    weights = [
        {"targetCluster": {"clusterNames": ["gpu1"]}, "weight": 1},
        {"targetCluster": {"clusterNames": ["gpu2"]}, "weight": 2},
    ]
    policy = {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}],
            "placement": {
                "replicaScheduling": {
                    "replicaSchedulingType": "Divided",
                    "replicaDivisionPreference": "Weighted",
                    "weightPreference": {"staticWeightList": weights},
                }
            },
        },
    }
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": 6,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}},
        },
    }
    hub.apply(text(policy, deployment))
    assert "successfully rolled out" in hub.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    assert (len(fleet["gpu1"].pods("Running", app="web")), len(fleet["gpu2"].pods("Running", app="web"))) == (2, 4)
    hub.kubectl("scale", "deployment", "web", "--replicas=3")
    wait_until("one third is left", lambda: len(fleet["gpu1"].pods(app="web")) == 1)
    wait_until("and two", lambda: len(fleet["gpu2"].pods(app="web")) == 2)
    wait_until(
        "the hub says so",
        lambda: hub.kubectl("get", "deployment", "web", "-o", "jsonpath={.status.readyReplicas}") == "3",
    )
    hub.kubectl("delete", "deployment", "web")
    wait_until("no pod is left", lambda: not fleet["gpu1"].pods(app="web") and not fleet["gpu2"].pods(app="web"))
    hub.kubectl("delete", "propagationpolicy", "web")
