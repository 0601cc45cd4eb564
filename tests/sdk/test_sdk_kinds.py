"""Jobs of other kinds than Volcano's by the SDK, on a control plane with simulated nodes."""

from __future__ import annotations

from typing import Any

import pytest

from support.plane import wait_until
from unisono.api.kind_families import BATCH_JOBS, PYTORCH_JOBS
from unisono.sdk import AsyncClient, BadWork, Client, JobHandle, NotFound

pytestmark = [pytest.mark.processes, pytest.mark.xdist_group("sdk")]

PATIENCE = 600


def template(container: str, seconds: int | None = 0, cpu: str = "1") -> dict[str, Any]:
    annotations = {} if seconds is None else {"unisono.io/run-seconds": str(seconds)}
    resources = {"requests": {"cpu": cpu}}
    main = {"name": container, "image": "busybox", "command": ["true"], "resources": resources}
    spec = {"schedulerName": "volcano", "restartPolicy": "Never", "containers": [main]}
    return {"metadata": {"annotations": annotations}, "spec": spec}


def job(api_version: str, kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def torch(name: str, workers: int = 1, **pod: Any) -> dict[str, Any]:
    made = {"template": template("pytorch", **pod)}
    specs = {"Master": {"replicas": 1, **made}, "Worker": {"replicas": workers, **made}}
    return job("kubeflow.org/v1", "PyTorchJob", name, {"pytorchReplicaSpecs": specs})


def batch(name: str, **pod: Any) -> dict[str, Any]:
    spec = {"parallelism": 2, "completions": 2, "template": template("main", **pod)}
    return job("batch/v1", "Job", name, spec)


def job_set(name: str) -> dict[str, Any]:
    replicated = {"name": "w", "replicas": 1, "template": {"spec": batch("x")["spec"]}}
    return job("jobset.x-k8s.io/v1alpha2", "JobSet", name, {"replicatedJobs": [replicated]})


def flow(name: str, **pod: Any) -> list[dict[str, Any]]:
    task = {"name": "t", "replicas": 1, "template": template("main", **pod)}
    policies = [{"event": "TaskCompleted", "action": "CompleteJob"}]
    spec = {"minAvailable": 1, "tasks": [task], "policies": policies}
    made = job("flow.volcano.sh/v1alpha1", "JobTemplate", f"{name}-step", spec)
    steps = {"flows": [{"name": f"{name}-step"}], "jobRetainPolicy": "retain"}
    return [made, job("flow.volcano.sh/v1alpha1", "JobFlow", name, steps)]


def manifest(objects: list[dict[str, Any]]) -> str:
    import yaml

    return yaml.safe_dump_all(objects)


@pytest.mark.parametrize("value", [torch("kinds-torch"), batch("kinds-batch"), job_set("kinds-set")])
def test_every_kind_is_submitted_and_watched_to_its_end(simulated: Client, value: dict[str, Any]) -> None:
    submitted = simulated.submit(value)
    assert (submitted.kind, submitted.api_version) == (value["kind"], value["apiVersion"])
    last = list(simulated.watch(submitted))[-1]
    assert last.phase == "Completed"
    assert last.succeeded
    assert simulated.wait(simulated.handle(_name(value), submitted.name), timeout=PATIENCE).succeeded
    assert submitted.name in [view.name for view in simulated.list(kind=_name(value))]
    simulated.delete(submitted)
    with pytest.raises(NotFound):
        simulated.get(submitted)


def _name(value: dict[str, Any]) -> str:
    return "job.batch" if value["apiVersion"] == "batch/v1" else str(value["kind"])


def test_a_flow_brings_its_templates_and_is_cancelled_by_its_jobs(simulated: Client) -> None:
    done = simulated.submit(manifest(flow("kinds-flow")))
    assert simulated.wait(done, timeout=PATIENCE, check=True).kind == "JobFlow"
    running = simulated.submit(manifest(flow("kinds-endless", seconds=None)))
    simulated.wait(running, phase="Running", timeout=PATIENCE)
    with pytest.raises(BadWork, match="suspend the jobs"):
        simulated.suspend(running)
    simulated.cancel(running)
    assert wait_until(
        "the flow's job is terminated",
        lambda: simulated.get("kinds-endless-kinds-endless-step").phase == "Terminated",
        PATIENCE,
    )


def test_a_training_job_is_scaled_suspended_and_resumed(simulated: Client) -> None:
    submitted = simulated.submit(torch("kinds-elastic", seconds=None))
    simulated.wait(submitted, phase="Running", timeout=PATIENCE)
    handle: JobHandle[Any] = simulated.handle(PYTORCH_JOBS, "kinds-elastic")
    assert str(handle) == "pytorchjob/kinds-elastic"
    simulated.scale(handle, "worker", 2)
    assert simulated.object(handle).spec.pytorch_replica_specs["Worker"].replicas == 2
    wait_until("three pods are placed", lambda: simulated.get(handle).placed == 3, PATIENCE)
    simulated.suspend(handle)
    assert simulated.wait(handle, timeout=PATIENCE).phase == "Suspended"
    wait_until("its pods are gone", lambda: simulated.get(handle).placed == 0, PATIENCE)
    simulated.resume(handle)
    wait_until("it runs again", lambda: simulated.get(handle).phase == "Running", PATIENCE)
    simulated.cancel(handle)
    assert simulated.wait(handle, timeout=PATIENCE).phase == "Suspended"
    simulated.delete(handle)


def test_a_gang_of_any_kind_explains_why_it_waits(simulated: Client) -> None:
    submitted = simulated.submit(torch("kinds-large", cpu="40"))
    view = next(view for view in simulated.watch(submitted) if view.waiting)
    verdict = simulated.explain(submitted)
    assert verdict is not None
    assert verdict.message in view.waiting
    assert verdict.need["cpu"] >= 40_000
    simulated.delete(submitted)


async def test_the_asynchronous_client_takes_handles(simulated: Client) -> None:
    async def play(client: AsyncClient) -> str:
        submitted = await client.submit(batch("kinds-async", seconds=None))
        handle = client.handle(BATCH_JOBS, submitted.name)
        assert (await client.scale(handle, "pod", 1)).tasks[0].wanted == 2
        live = await client.object(handle)
        await client.delete(handle)
        return str(live.spec.parallelism)

    assert simulated.run(play(simulated.aio)) == "1"


def test_what_is_no_kind_of_job(simulated: Client) -> None:
    with pytest.raises(BadWork, match="'deployment' is no kind of job"):
        simulated.handle("deployment", "x")
