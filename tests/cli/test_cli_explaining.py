"""What explain says of objects of every kind that has pods, and of those that have none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.plane import wait_until
from unisono.api.kind_families import BATCH_CRON_JOBS
from unisono.cli.explaining import explain, explanation_json, explanation_lines
from unisono.errors import UnisonoError
from unisono.sdk import Client
from unisono.sdk.reasons.explaining import Explanation

pytestmark = [pytest.mark.processes]

PATIENCE = 600
LARGE = {"requests": {"cpu": "40"}}
CONTAINER = {"name": "main", "image": "busybox", "command": ["true"], "resources": LARGE}


def pod_spec(container: str = "main", **fields: Any) -> dict[str, Any]:
    return {
        "restartPolicy": "Never",
        "schedulerName": "volcano",
        "containers": [{**CONTAINER, "name": container}],
        **fields,
    }


def manifest(api_version: str, kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def batch(**fields: Any) -> dict[str, Any]:
    return {"parallelism": 2, "completions": 2, "template": {"spec": pod_spec()}, **fields}


def ray_cluster() -> dict[str, Any]:
    worker = {"groupName": "w", "replicas": 2, "minReplicas": 2, "maxReplicas": 4, "rayStartParams": {}}
    return {
        "headGroupSpec": {"rayStartParams": {}, "template": {"spec": pod_spec("ray-head")}},
        "workerGroupSpecs": [{**worker, "template": {"spec": pod_spec("ray-worker")}}],
    }


def roles(container: str, **counts: int) -> dict[str, Any]:
    return {name: {"replicas": count, "template": {"spec": pod_spec(container)}} for name, count in counts.items()}


LABELS = {"app": "web"}
WORKLOADS = {
    "job/volcano": manifest(
        "batch.volcano.sh/v1alpha1",
        "Job",
        "volcano",
        {"minAvailable": 2, "tasks": [{"name": "t", "replicas": 2, "template": {"spec": pod_spec()}}]},
    ),
    "pytorchjob/torch": manifest(
        "kubeflow.org/v1", "PyTorchJob", "torch", {"pytorchReplicaSpecs": roles("pytorch", Master=1, Worker=1)}
    ),
    "mpijob/mpi": manifest(
        "kubeflow.org/v2beta1", "MPIJob", "mpi", {"mpiReplicaSpecs": roles("mpi", Launcher=1, Worker=2)}
    ),
    "jobset/set": manifest(
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        "set",
        {"replicatedJobs": [{"name": "w", "replicas": 1, "template": {"spec": batch()}}]},
    ),
    "rayjob/ray": manifest("ray.io/v1", "RayJob", "ray", {"entrypoint": "true", "rayClusterSpec": ray_cluster()}),
    "rayservice/serving": manifest("ray.io/v1", "RayService", "serving", {"rayClusterConfig": ray_cluster()}),
    "job.batch/plain": manifest("batch/v1", "Job", "plain", batch()),
    "deployment/web": manifest(
        "apps/v1",
        "Deployment",
        "web",
        {
            "replicas": 2,
            "selector": {"matchLabels": LABELS},
            "template": {"metadata": {"labels": LABELS}, "spec": pod_spec(restartPolicy="Always")},
        },
    ),
}
FLOW = [
    manifest("flow.volcano.sh/v1alpha1", "JobTemplate", "step", WORKLOADS["job/volcano"]["spec"]),
    manifest("flow.volcano.sh/v1alpha1", "JobFlow", "flow", {"flows": [{"name": "step"}], "jobRetainPolicy": "delete"}),
]
# Room for all in sum, so that nobody waits for the admission of others, and too small a node for each.
NODES = ({"name": "sim", "count": 100, "capacity": {"cpu": 8, "memory": "16Gi"}},)


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNISONO_DATA_DIR", str(tmp_path_factory.mktemp("none")))
        with Client(nodes=NODES, local_node=False) as client:
            for each in (*WORKLOADS.values(), *FLOW):
                client.run(client.aio.apply(each))
            yield client


def explained(plane: Client, what: str) -> Explanation:
    async def ask() -> Explanation:
        return await explain(await plane.aio._connected(), [what], "default")

    return plane.run(ask())


@pytest.mark.parametrize("what", [*WORKLOADS, "jobflow/flow"])
def test_every_kind_leads_to_the_verdict_of_its_pods(plane: Client, what: str) -> None:
    def told() -> Explanation | None:
        found = explained(plane, what)
        return found if found.verdicts and found.verdicts[0].cause != "NoPods" else None

    found = wait_until(f"{what} has a verdict", told, PATIENCE)
    assert sum(found.verdicts[0].need.values()) >= 40_000
    text = "\n".join(explanation_lines(found))
    assert "cause:" in text
    assert "try:" in text
    assert explanation_json(found)["kind"].lower() == what.split("/", maxsplit=1)[0].split(".", maxsplit=1)[0]


def test_a_suspended_job_says_which_field_holds_it(plane: Client) -> None:
    spec = {**WORKLOADS["pytorchjob/torch"]["spec"], "runPolicy": {"suspend": True}}
    plane.run(plane.aio.apply(manifest("kubeflow.org/v1", "PyTorchJob", "asleep", spec)))
    text = "\n".join(explanation_lines(explained(plane, "pytorchjob/asleep")))
    assert text.startswith("pytorchjob/asleep is suspended")
    assert "goes on when spec.runPolicy.suspend is false" in text


def test_a_cron_job_speaks_for_its_active_jobs(plane: Client) -> None:
    spec = {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": batch()}}
    plane.run(plane.aio.apply(manifest("batch/v1", "CronJob", "nightly", spec)))
    assert "it has no pods" in explained(plane, "cronjob.batch/nightly").state
    plane.run(own_job(plane, "nightly"))
    wait_until(
        "the cron job's pods wait",
        lambda: "2 pending" in explained(plane, "cronjob.batch/nightly").state,
        PATIENCE,
    )


async def own_job(plane: Client, name: str) -> None:
    http = await plane.aio._connected()
    cron = await http.get(BATCH_CRON_JOBS, name, "default")
    made = manifest("batch/v1", "Job", f"{name}-1", batch())
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": name, "uid": cron.metadata.uid, "controller": True}
    made["metadata"]["ownerReferences"] = [owner]
    await plane.aio.apply(made)


@pytest.mark.parametrize(
    ("what", "told"),
    [("configmap/plain", "neither pods nor PodGroups"), ("spark/x", "The server has no kind 'spark'")],
)
def test_what_has_no_pods_is_refused_with_the_kinds_that_have(plane: Client, what: str, told: str) -> None:
    plane.run(plane.aio.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "plain"}}))
    with pytest.raises(UnisonoError, match=told) as refused:
        explained(plane, what)
    for kind in ("pytorchjob", "jobflow", "rayjob", "deployment", "job.batch", "podgroup", "queue"):
        assert kind in str(refused.value)
