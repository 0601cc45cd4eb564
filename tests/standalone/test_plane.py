"""A whole control plane in the test's process: parts come up, work together, and stop."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from support.watching import seen
from unisono.api.annotations import CYCLES_LEASE
from unisono.api.base import ObjectMeta
from unisono.api.core import Container, Pod, PodSpec, PodTemplateSpec
from unisono.api.groups.batch import Job, JobSpec, TaskSpec
from unisono.api.kinds import JOBS, LEASES, PODS
from unisono.api.pod_states import has_ended
from unisono.errors import ConfigError
from unisono.kube.http import HttpClient
from unisono.kube.kubeconfig import load
from unisono.standalone import plane as plane_module
from unisono.standalone.paths import AlreadyRunning, DataDir
from unisono.standalone.plane import Plane, PlaneOptions

NODES = ({"name": "sim", "count": 2, "capacity": {"cpu": 4, "memory": "8Gi"}},)
RUN_SECONDS = {"unisono.io/run-seconds": "0"}


def job(name: str) -> Job:
    template = PodTemplateSpec(
        metadata=ObjectMeta(annotations=RUN_SECONDS),
        spec=PodSpec(restart_policy="Never", containers=[Container(name="c", image="i", command=["true"])]),
    )
    return Job(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=JobSpec(min_available=2, tasks=[TaskSpec(name="t", replicas=2, template=template)]),
    )


async def ready(client: HttpClient) -> None:
    while (await client.request("GET", "/readyz"))[0] != 200:
        await asyncio.sleep(0.01)


async def completed(client: HttpClient, name: str) -> Job:
    return await seen(client, JOBS, name, "default", lambda job: job.status.state.phase == "Completed")


async def test_a_job_goes_from_submission_to_its_end_and_survives_a_restart(tmp_path: Path) -> None:
    data = DataDir(tmp_path)
    options = PlaneOptions(local_node=False, simulated_nodes=NODES)
    urls = []
    for name in ("first", "second"):
        plane = Plane(data, options)
        await plane.start()
        urls.append(plane.url)
        client = HttpClient(load(data.kubeconfig))
        try:
            async with asyncio.timeout(300):
                await ready(client)
                await client.create(JOBS, job(name))
                assert (await completed(client, name)).status.succeeded == 2
                assert (await client.get(JOBS, "first", "default")).status.state.phase == "Completed"
                nodes = {pod.spec.node_name for pod in (await client.list(PODS)).items}
                assert nodes <= {"sim-0", "sim-1"}
                metrics = (await client.request("GET", "/metrics"))[2]
                assert b"volcano_e2e_scheduling_latency_milliseconds" in metrics
        finally:
            await client.close()
            await plane.stop()
    assert urls[0] == urls[1], "clients find the API where it was"
    assert data.running_pid() is None


async def test_a_plain_pod_of_kubernetes_own_scheduler_runs_too(tmp_path: Path) -> None:
    plane = Plane(DataDir(tmp_path), PlaneOptions(local_node=False, simulated_nodes=NODES))
    await plane.start()
    client = HttpClient(load(DataDir(tmp_path).kubeconfig))
    try:
        async with asyncio.timeout(300):
            meta = ObjectMeta(name="plain", namespace="default", annotations=RUN_SECONDS)
            spec = PodSpec(restart_policy="Never", containers=[Container(name="c", image="i")])
            created = await client.create(PODS, Pod(metadata=meta, spec=spec))
            assert created.spec.scheduler_name == "default-scheduler"
            await seen(client, PODS, "plain", "default", has_ended)
    finally:
        await client.close()
        await plane.stop()


async def test_a_directory_in_use_is_refused_and_left_alone(tmp_path: Path) -> None:
    data = DataDir(tmp_path)
    plane = Plane(data, PlaneOptions(local_node=False))
    await plane.start()
    try:
        with pytest.raises(AlreadyRunning):
            await Plane(data, PlaneOptions(local_node=False)).start()
        assert data.running_pid() is not None
    finally:
        await plane.stop()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (PlaneOptions(simulated_nodes=({"name": "x", "capacity": {"cpu": "many"}},)), "cpu"),
        (PlaneOptions(scheduler_config=Path("/nowhere/scheduler.conf")), "cannot be read"),
    ],
)
async def test_wrong_options_are_told_before_anything_starts(
    tmp_path: Path, options: PlaneOptions, message: str
) -> None:
    data = DataDir(tmp_path)
    with pytest.raises(ConfigError, match=message):
        await Plane(data, options).start()
    assert data.running_pid() is None


async def test_readiness_tells_of_a_scheduler_that_ends_no_cycles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plane_module, "_CYCLES_SECONDS", 0.01)
    plane = Plane(DataDir(tmp_path), PlaneOptions(local_node=False))
    await plane.start()
    try:
        async with asyncio.timeout(60):
            await plane.wait_ready()
            assert plane._cycles is not None
            # As if the process of the scheduler were stopped: its Lease grows old.
            old = {"spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}}
            while not plane._reasons():
                await plane._cycles.patch(LEASES, CYCLES_LEASE, old, namespace="kube-system")
                await asyncio.sleep(0.01)
            assert plane._reasons()[0].startswith("no running scheduler answers: no cycle has ended for")
    finally:
        await plane.stop()
