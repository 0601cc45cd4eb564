"""RayServices: a cluster as a gang, applications handed over, Services that lead to the serving pods."""

from __future__ import annotations

import json
from typing import Any

import pytest
from test_training_ray import ray_object, ray_spec, workers
from training_world import TrainingWorld, template

from unisono.api.core import ContainerState, ContainerStateTerminated, ContainerStatus, Pod
from unisono.api.kind_families import RAY_CLUSTERS
from unisono.api.kinds import PODS, SERVICES

APPS = "applications: [{name: hello, import_path: 'hello:app'}]"
OTHER = "applications: [{name: hello, import_path: 'hello:app', args: {greeting: hi}}]"


def ray_service(config: str = APPS, **spec: Any) -> dict[str, Any]:
    return ray_object("RayService", {"serveConfigV2": config, "rayClusterConfig": ray_spec(workers(1)), **spec})


def clusters(world: TrainingWorld) -> list[str]:
    return sorted(each.metadata.name for each in world.client.objects(RAY_CLUSTERS))


def deployers(world: TrainingWorld) -> list[Pod]:
    return [pod for pod in world.pods() if "ray.io/group" not in (pod.metadata.labels or {})]


async def bring_up(world: TrainingWorld, name: str) -> None:
    """The cluster's pods run and are ready."""
    await world.admit(f"ray-{name}-pg")
    for pod in world.pods():
        if pod.metadata.labels.get("ray.io/cluster") == name and pod.status.phase != "Running":
            world.set_pod(pod, "Running")
    await world.settle()


async def deployed(world: TrainingWorld, told: dict[str, Any] | None = None, code: int = 0) -> None:
    """The newest deployer comes to its end, or has to try again."""
    (pod,) = [each for each in deployers(world) if each.status.phase not in ("Succeeded", "Failed")]
    message = json.dumps(told or {"hello": {"status": "RUNNING"}})
    world.set_pod(pod, "Running" if code else "Succeeded")
    state = ContainerState(terminated=ContainerStateTerminated(exit_code=code, message=message))
    status = ContainerStatus(name="ray-serve-deployer")
    pod.status.container_statuses = [status]
    if code:
        status.last_state = state
    else:
        status.state = state
    world.client.put(PODS, pod)
    await world.settle()


async def serve(world: TrainingWorld, value: dict[str, Any]) -> str:
    """Submit a service and bring it to serve; the name of its cluster."""
    await world.submit(value, admit=False)
    (name,) = clusters(world)
    await bring_up(world, name)
    await deployed(world)
    return name


def selector(world: TrainingWorld) -> dict[str, str]:
    service = world.client.find(SERVICES, "ns/rc-serve-svc")
    return dict(service.spec.selector)


async def test_a_service_serves_once_its_applications_run():
    async with TrainingWorld() as world:
        await world.submit(ray_service(), admit=False)
        (name,) = clusters(world)
        assert world.group(f"ray-{name}-pg").spec.min_member == 2
        assert world.pods() == deployers(world) == [], "the gang waits for its queue"
        assert world.job.status.pending_service_status.ray_cluster_name == name
        await bring_up(world, name)
        (pod,) = deployers(world)
        variables = {each.name: each.value for each in pod.spec.containers[0].env}
        assert variables["SERVE_CONFIG"] == APPS
        assert variables["RAY_DASHBOARD_ADDRESS"] == f"http://{name}-head-svc.ns.svc.cluster.local:8265"
        assert world.job.status.pending_service_status.application_statuses["hello"].status == "DEPLOYING"
        assert world.client.find(SERVICES, "ns/rc-serve-svc") is None
        assert "Ready" not in world.holding()
        await deployed(world)
        status = world.job.status
        assert (status.service_status, status.num_serve_endpoints) == ("Running", 2)
        assert status.active_service_status.ray_cluster_name == name
        assert status.active_service_status.application_statuses["hello"].status == "RUNNING"
        assert status.pending_service_status is None
        assert world.holding() == {"Ready"}
        assert selector(world) == {"ray.io/cluster": name, "ray.io/serve": "true"}
        assert [port.port for port in world.client.find(SERVICES, "ns/rc-serve-svc").spec.ports] == [8000]
        assert world.client.find(SERVICES, "ns/rc-head-svc").spec.selector["ray.io/cluster"] == name


async def test_a_failed_deployment_is_told_and_tried_again():
    async with TrainingWorld() as world:
        await world.submit(ray_service(), admit=False)
        (name,) = clusters(world)
        await bring_up(world, name)
        assert deployers(world)[0].spec.restart_policy == "OnFailure"
        await deployed(world, {"hello": {"status": "DEPLOY_FAILED", "message": "no module hello"}}, code=1)
        told = world.job.status.pending_service_status.application_statuses["hello"]
        assert (told.status, told.message) == ("DEPLOY_FAILED", "no module hello")
        assert world.job.status.active_service_status is None


async def test_a_changed_configuration_reaches_the_cluster_that_serves():
    async with TrainingWorld() as world:
        name = await serve(world, ray_service())
        await world.change(serveConfigV2=OTHER)
        assert clusters(world) == [name]
        assert world.job.status.service_status == "Running", "requests are answered meanwhile"
        (new,) = [pod for pod in deployers(world) if not pod.metadata.deletion_timestamp]
        assert {each.name: each.value for each in new.spec.containers[0].env}["SERVE_CONFIG"] == OTHER
        await world.finish_deletions()
        await deployed(world)
        assert world.job.status.active_service_status.application_statuses["hello"].status == "RUNNING"


async def test_a_changed_cluster_takes_over_when_it_serves_and_the_old_one_goes_later():
    async with TrainingWorld() as world:
        old = await serve(world, ray_service(rayClusterDeletionDelaySeconds=30))
        await world.change(rayClusterConfig={"rayVersion": "2.60.0"})
        (new,) = set(clusters(world)) - {old}
        assert "UpgradeInProgress" in world.holding()
        assert selector(world)["ray.io/cluster"] == old
        await bring_up(world, new)
        assert selector(world)["ray.io/cluster"] == old, "nobody is sent where nothing runs yet"
        await deployed(world)
        assert selector(world)["ray.io/cluster"] == new
        assert world.job.status.active_service_status.ray_cluster_name == new
        assert world.holding() == {"Ready"}
        await world.advance(20)
        assert clusters(world) == sorted([old, new])
        await world.advance(15)
        assert clusters(world) == [new]


async def test_an_upgrade_that_is_taken_back_leaves_what_serves():
    async with TrainingWorld() as world:
        old = await serve(world, ray_service(rayClusterDeletionDelaySeconds=0))
        await world.change(rayClusterConfig={"rayVersion": "wrong"})
        assert len(clusters(world)) == 2
        await world.change(rayClusterConfig={"rayVersion": None})
        await world.advance(1)
        assert clusters(world) == [old]
        assert world.holding() == {"Ready"}


async def test_without_upgrades_the_cluster_stays():
    async with TrainingWorld() as world:
        name = await serve(world, ray_service(upgradeStrategy={"type": "None"}))
        await world.change(rayClusterConfig={"rayVersion": "2.60.0"})
        assert clusters(world) == [name]
        assert world.job.status.service_status == "Running"


async def test_sizes_change_in_place_and_are_left_to_who_scales_the_cluster():
    async with TrainingWorld() as world:
        name = await serve(world, ray_service())
        await world.change(rayClusterConfig={"workerGroupSpecs": [workers(3)]})
        assert clusters(world) == [name]

        def size() -> int:
            (found,) = world.client.objects(RAY_CLUSTERS)
            return int(found.spec.worker_group_specs[0].replicas)

        assert size() == 3
        (found,) = world.client.objects(RAY_CLUSTERS)
        found.spec.worker_group_specs[0].replicas = 2
        world.client.put(RAY_CLUSTERS, found)
        await world.settle()
        await world.restart()
        assert size() == 2


async def test_a_head_that_begins_anew_gets_the_applications_again():
    async with TrainingWorld() as world:
        await serve(world, ray_service())
        (head,) = [pod for pod in world.pods() if pod.metadata.labels.get("ray.io/node-type") == "head"]
        await world.pod(head.metadata.name, "Failed")
        before = {pod.metadata.name for pod in deployers(world)}
        await world.finish_deletions()
        await bring_up(world, world.job.status.active_service_status.ray_cluster_name)
        assert {pod.metadata.name for pod in deployers(world)} - before


async def test_requests_may_be_kept_from_the_head():
    async with TrainingWorld() as world:
        await world.submit(ray_service(excludeHeadPodFromServeSvc=True), admit=False)
        (name,) = clusters(world)
        await bring_up(world, name)
        await deployed(world)
        marks = {p.metadata.labels["ray.io/group"]: p.metadata.labels["ray.io/serve"]
                 for p in world.pods() if "ray.io/group" in p.metadata.labels}  # fmt: skip
        assert marks == {"headgroup": "false", "w": "true"}
        assert world.job.status.num_serve_endpoints == 1


async def test_everything_is_found_again_after_a_restart():
    async with TrainingWorld() as world:
        name = await serve(world, ray_service())
        writes = len(world.client.writes)
        await world.restart()
        assert not [w for w in world.client.writes[writes:] if w.operation != "create"], "what is there is right"
        assert len(deployers(world)) == 1
        assert clusters(world) == [name]


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"serveConfigV2": "applications: {"}, "spec.serveConfigV2: Invalid value: must be YAML"),
        ({"serveConfigV2": "[]"}, "must be one map with a list 'applications'"),
        ({"serveConfigV2": "applications: [{name: x}]"}, "applications[0] must have an import_path"),
        ({"rayClusterConfig": {"headGroupSpec": {"template": {"spec": {"containers": []}}}}}, "containers: Required"),
    ],
)
async def test_what_cannot_be_served_is_told(spec, told):
    async with TrainingWorld() as world:
        await world.submit(ray_service(**spec), admit=False)
        (event,) = world.recorder.of("InvalidRayServiceSpec")
        assert told in event
        assert clusters(world) == []


async def test_a_readiness_probe_of_a_users_own_is_kept():
    async with TrainingWorld() as world:
        own = template("ray-worker")
        own["spec"]["containers"][0]["readinessProbe"] = {"tcpSocket": {"port": 1234}}
        await world.submit(
            ray_service(rayClusterConfig=ray_spec(workers(1, template=own), workers(1, "x"))), admit=False
        )
        (found,) = world.client.objects(RAY_CLUSTERS)
        first, second = (each.template.spec.containers[0].readiness_probe for each in found.spec.worker_group_specs)
        assert first.tcp_socket.port == 1234
        assert "/-/healthz" in second.exec.command[-1]
