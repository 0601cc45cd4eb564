"""A hub and two members, each a control plane of its own process and data: from joining to the end of jobs.

Where jobs and replicas go by price, place of data and policy stands at the end: all share these three planes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from fleet_planes import explain, gang, listed, phase, ready_members, two_members

from support.plane import RunningPlane, asked, unisono, wait_until

pytestmark = [pytest.mark.processes, pytest.mark.kubectl, pytest.mark.xdist_group("fleet")]

QUEUES = ("ai-training-queue", "inference-queue", "high-priority-queue")
CONFIGURATION = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}, {name: cost}]
"""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, RunningPlane]]:
    yield from two_members(tmp_path_factory)


def models(hub: RunningPlane) -> dict[str, list[str]]:
    return {name: [one["type"] for one in each["accelerators"]] for name, each in listed(hub).items()}


def application(name: str, *objects: dict[str, Any]) -> str:
    spec = {
        "source": {"manifests": list(objects)},
        "destination": {"fleet": "ai-fleet"},
        "syncPolicies": [
            {"kustomization": {"interval": "1m", "prune": True, "commonMetadata": {"labels": {"by": "us"}}}}
        ],
    }
    meta = {"name": name, "namespace": "kurator-fleet-system"}
    value = {"apiVersion": "apps.kurator.dev/v1alpha1", "kind": "Application", "metadata": meta, "spec": spec}
    return yaml.safe_dump(value)


def synced(hub: RunningPlane, name: str) -> dict[str, tuple[bool, int, str]]:
    told = hub.kubectl("get", "application.apps.kurator.dev", name, "-n", "kurator-fleet-system", "-o", "json")
    rows = json.loads(told).get("status", {}).get("clusters") or ()
    return {row["cluster"]: (row["synced"], row.get("objects", 0), row.get("message", "")) for row in rows}


def test_an_application_brings_objects_to_every_cluster(fleet: dict[str, RunningPlane]) -> None:
    hub, members = fleet["hub"], [fleet["gpu1"], fleet["gpu2"]]
    built_in = (True, 0, "this cluster is a control plane of Unisono, which has it built in")
    wait_until(
        "the article's Application is in step",
        lambda: synced(hub, "volcano-install") == {"gpu1": built_in, "gpu2": built_in},
    )
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "brought"}}
    priority = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "brought"},
        "value": 100,
    }
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "brought", "namespace": "team"}}
    settings["data"] = {"lr": "0.1"}
    hub.apply(application("policies", queue, priority, settings))
    wait_until("both have three objects", lambda: set(synced(hub, "policies").values()) == {(True, 3, "")})
    for member in members:
        assert member.kubectl("get", "cm", "brought", "-n", "team", "-o", "jsonpath={.data.lr}") == "0.1"
        assert member.kubectl("get", "queue", "brought", "-o", "jsonpath={.metadata.labels.by}") == "us"

    # What somebody deletes in a member comes back; what the Application drops goes; what is refused is told.
    members[0].kubectl("delete", "queue", "brought")
    bad = {**priority, "metadata": {"name": "bad"}, "value": "much"}
    hub.apply(application("policies", queue, settings, bad))
    wait_until(
        "the refusal is told for both",
        lambda: all("PriorityClass bad: " in row[2] and row[1] == 2 for row in synced(hub, "policies").values()),
    )
    for member in members:
        assert member.kubectl("get", "queue", "brought", "-o", "name")
        wait_until("the class is gone", lambda at=member: "brought" not in at.kubectl("get", "priorityclass"))
    hub.kubectl("delete", "application.apps.kurator.dev", "policies", "-n", "kurator-fleet-system")
    for member in members:
        assert "brought" not in member.kubectl("get", "queue,cm", "-A", "-o", "name")


def test_three_queues_over_two_clusters(fleet: dict[str, RunningPlane]) -> None:
    hub = fleet["hub"]
    ready = hub.kubectl("get", "fleet", "ai-fleet", "-n", "kurator-fleet-system", "-o", "jsonpath={.status.phase}")
    assert ready in ("Ready", "Running")
    # A member takes work before its simulated nodes have all come.
    wait_until("the cards are counted", lambda: models(hub) == {"gpu1": ["nvidia-t4"], "gpu2": ["nvidia-a100"]})

    for queue in QUEUES:
        hub.apply(gang(f"train-{queue}", queue, 9, 600))
    names = [f"train-{queue}" for queue in QUEUES]

    def placed() -> dict[str, str]:
        told = {name: json.loads(explain(hub, name)) for name in names}
        return {name: each["cluster"] for name, each in told.items() if each["cluster"]}

    wait_until("two of the three are sent, for there is room for no more", lambda: len(placed()) == 2)
    here = placed()
    assert sorted(here.values()) == ["gpu1", "gpu2"]
    for name, cluster in here.items():
        wait_until(f"{name} runs", lambda name=name: phase(hub, name) == "Running")
        own = fleet[cluster].pods("Running", **{"volcano.sh/job-name": name})
        other = fleet["gpu2" if cluster == "gpu1" else "gpu1"].pods(**{"volcano.sh/job-name": name})
        assert (len(own), len(other)) == (9, 0)

    waiting = next(name for name in names if name not in here)
    full = "is full: it has room for 7 of 9 pods"
    wait_until("each member is told to be full", lambda: _members(hub, waiting, full) == {"gpu1", "gpu2"})
    used = asked("fleet", "top", "--data-dir", str(hub.data_dir))
    assert "nvidia.com/gpu" in used.stdout

    # The end of one makes room for the one that waits.
    done = next(iter(here))
    hub.kubectl("delete", "vcjob", done)
    wait_until("the last one runs", lambda: phase(hub, waiting) == "Running")
    assert json.loads(explain(hub, waiting))["cluster"] == here[done]
    for name in names:
        hub.try_kubectl("delete", "vcjob", name)
    wait_until("nothing is left", lambda: not fleet["gpu1"].objects("vcjob") and not fleet["gpu2"].objects("vcjob"))


@pytest.mark.more
def test_hardware_is_found_and_moved_away_from(fleet: dict[str, RunningPlane]) -> None:
    hub = fleet["hub"]
    hub.apply(gang("on-a100", "default", 4, 600, nodeSelector={"gpu": "nvidia-a100"}))
    hub.apply(gang("on-h100", "default", 1, 600, nodeSelector={"gpu": "nvidia-h100"}))
    wait_until("it runs", lambda: phase(hub, "on-a100") == "Running")
    assert json.loads(explain(hub, "on-a100"))["cluster"] == "gpu2"
    wait_until("the reasons are told", lambda: _members(hub, "on-h100", "labels") == {"gpu1", "gpu2"})

    hub.apply(gang("anywhere", "default", 4, 600))
    wait_until("it runs", lambda: phase(hub, "anywhere") == "Running")
    first = json.loads(explain(hub, "anywhere"))["cluster"]
    asked("fleet", "failover", first, "--yes", "--data-dir", str(hub.data_dir))
    second = "gpu2" if first == "gpu1" else "gpu1"
    wait_until("it is elsewhere", lambda: json.loads(explain(hub, "anywhere"))["cluster"] == second)
    wait_until("it runs", lambda: phase(hub, "anywhere") == "Running")
    assert "anywhere" not in [one["metadata"]["name"] for one in fleet[first].objects("vcjob")]
    asked("fleet", "drain", first, "--undo", "--data-dir", str(hub.data_dir))
    wait_until("both members take work", lambda: ready_members(hub) == {"gpu1", "gpu2"})
    for name in ("on-a100", "on-h100", "anywhere"):
        hub.kubectl("delete", "vcjob", name)


def test_a_short_job_ends_on_the_hub(fleet: dict[str, RunningPlane]) -> None:
    hub = fleet["hub"]
    hub.apply(gang("short", "default", 2, 1))
    wait_until("it has ended", lambda: phase(hub, "short") == "Completed")
    job = json.loads(hub.kubectl("get", "vcjob", "short", "-o", "json"))
    assert job["status"]["succeeded"] == 2


@pytest.mark.more
def test_a_policy_a_fleet_and_a_region_choose_the_member(fleet: dict[str, RunningPlane], tmp_path: Path) -> None:
    hub = fleet["hub"]
    for number, name in enumerate(("gpu1", "gpu2")):
        region = f"topology.kubernetes.io/region=region-{number}"
        hub.kubectl("label", "attachedcluster", name, region, "-n", "kurator-fleet-system")
    small = {"apiVersion": "fleet.kurator.dev/v1alpha1", "kind": "Fleet", "spec": {"clusters": [{"name": "gpu1"}]}}
    hub.apply(yaml.safe_dump({**small, "metadata": {"name": "small", "namespace": "kurator-fleet-system"}}))
    policy = {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": "named", "namespace": "default"},
        "spec": {
            "resourceSelectors": [{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "by-policy"}],
            "placement": {"clusterAffinity": {"clusterNames": ["gpu2"]}},
        },
    }
    hub.apply(yaml.safe_dump(policy))
    hub.apply(gang("by-policy", "default", 2, 600))
    hub.apply(gang("by-region", "default", 2, 600, nodeSelector={"topology.kubernetes.io/region": "region-1"}))
    (tmp_path / "by-fleet.yaml").write_text(gang("by-fleet", "default", 2, 600))
    unisono("run", "--fleet", "small", "--detach", str(tmp_path / "by-fleet.yaml"), "--data-dir", str(hub.data_dir))
    wanted = {"by-policy": "gpu2", "by-region": "gpu2", "by-fleet": "gpu1"}
    for name, cluster in wanted.items():
        wait_until(f"{name} runs", lambda name=name: phase(hub, name) == "Running")
        assert json.loads(explain(hub, name))["cluster"] == cluster

    # A pod is read through the hub, and each member is a context.
    pod = json.loads(hub.kubectl("get", "pod", "by-region-worker-0", "-o", "json"))
    assert pod["spec"]["nodeName"].startswith("gpu-")
    asked("fleet", "contexts", "--file", str(tmp_path / "contexts"), "--data-dir", str(hub.data_dir))
    contexts = yaml.safe_load((tmp_path / "contexts").read_text())
    assert [each["name"] for each in contexts["contexts"]] == ["hub", "gpu1", "gpu2"]
    at = ("--kubeconfig", str(tmp_path / "contexts"), "--context", "gpu2")
    seen = hub.kubectl(*at, "get", "vcjob", "-o", "name").split()
    assert sorted(seen) == ["job.batch.volcano.sh/by-policy", "job.batch.volcano.sh/by-region"]
    for name in wanted:
        hub.kubectl("delete", "vcjob", name)
    hub.kubectl("delete", "propagationpolicy", "named")


def _members(hub: RunningPlane, name: str, why: str) -> set[str]:
    """Members that refuse a job for this reason."""
    return {member for member, told in json.loads(explain(hub, name))["members"].items() if why in told}


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
    hub.kubectl("annotate", "attachedcluster", "gpu1", "gpu2", "unisono.io/prices-", "-n", "kurator-fleet-system")
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
