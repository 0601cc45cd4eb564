"""Ray clusters and jobs from submission to their end: the gang, its size, suspension, retries, deadlines."""

from __future__ import annotations

from typing import Any

import pytest
from training_world import TrainingWorld, template

from unisono.api.core import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
)
from unisono.api.kind_families import RAY_CLUSTERS
from unisono.api.kinds import PODS, SERVICES


def ray_spec(*groups: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"headGroupSpec": {"template": template("ray-head")}, "workerGroupSpecs": list(groups), **spec}


def workers(replicas: int | None = 2, name: str = "w", **fields: Any) -> dict[str, Any]:
    return {"groupName": name, "replicas": replicas, "template": template("ray-worker")} | fields


def cluster(*groups: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return ray_object("RayCluster", ray_spec(*(groups or (workers(),)), **spec))


def ray_job(**spec: Any) -> dict[str, Any]:
    return ray_object("RayJob", {"entrypoint": "python main.py", "rayClusterSpec": ray_spec(workers(1)), **spec})


def ray_object(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "ray.io/v1", "kind": kind, "metadata": {"name": "rc", "namespace": "ns"}, "spec": spec}


def groups(world: TrainingWorld) -> list[str]:
    marks = [pod.metadata.labels["ray.io/group"] for pod in world.pods() if not pod.metadata.deletion_timestamp]
    return sorted(marks)


async def test_a_cluster_starts_as_one_gang_and_becomes_ready():
    async with TrainingWorld() as world:
        await world.submit(cluster(), admit=False)
        assert world.pods() == []
        assert world.group("ray-rc-pg").spec.min_member == 3
        await world.admit("ray-rc-pg")
        assert groups(world) == ["headgroup", "w", "w"]
        service = world.client.find(SERVICES, "ns/rc-head-svc")
        assert {port.name: port.port for port in service.spec.ports} == {
            "client": 10001,
            "dashboard": 8265,
            "gcs-server": 6379,
            "metrics": 8080,
            "serve": 8000,
        }
        assert not world.job.status.state
        await world.all_pods("Running")
        status = world.job.status
        assert (status.state, status.desired_worker_replicas, status.available_worker_replicas) == ("ready", 2, 2)
        assert world.holding() == {"HeadPodReady", "RayClusterProvisioned"}


async def test_ports_that_the_head_names_take_the_place_of_rays_own():
    own = [(6379, "gcs"), (9265, "dashboard"), (9000, "")]
    given = cluster()
    head = given["spec"]["headGroupSpec"]
    head["template"]["spec"]["containers"][0]["ports"] = [
        {"containerPort": number, **({"name": name} if name else {})} for number, name in own
    ]
    head["headService"] = {
        "spec": {"type": "ClusterIP", "selector": {"mine": "x"}, "ports": [{"name": "client", "port": 10002}]}
    }
    async with TrainingWorld() as world:
        await world.submit(given, admit=False)
        await world.admit("ray-rc-pg")
        service = world.client.find(SERVICES, "ns/rc-head-svc")
        ports = {"gcs": 6379, "dashboard": 9265, "9000-port": 9000, "metrics": 8080, "serve": 8000}
        assert {port.name: port.port for port in service.spec.ports} == {**ports, "client": 10002}
        assert "mine" not in service.spec.selector
        [container] = next(pod for pod in world.pods() if "head" in pod.metadata.name).spec.containers
        numbers = [port.container_port for port in container.ports]
        assert sorted(numbers) == sorted({*ports.values(), 10001})
        assert len({port.name for port in container.ports if port.name}) == len(numbers) - 1


@pytest.mark.parametrize(
    ("group", "autoscaling", "pods", "gang"),
    [
        (workers(3), False, 3, 4),
        (workers(9, maxReplicas=4), False, 4, 5),
        (workers(1, minReplicas=2), False, 2, 3),
        (workers(2, numOfHosts=3), False, 6, 7),
        (workers(3, minReplicas=1), True, 3, 2),
        (workers(3, suspend=True), False, 0, 1),
        (workers(None, minReplicas=2), False, 2, 3),
    ],
)
async def test_how_many_workers_and_how_large_a_gang(group, autoscaling, pods, gang):
    async with TrainingWorld() as world:
        await world.submit(cluster(group, enableInTreeAutoscaling=autoscaling))
        await world.admit("ray-rc-pg")
        assert groups(world).count("w") == pods
        assert world.group("ray-rc-pg").spec.min_member == gang


async def test_a_cluster_is_scaled_and_heals():
    async with TrainingWorld() as world:
        await world.submit(cluster())
        await world.admit("ray-rc-pg")
        await world.all_pods("Running")
        await world.change(workerGroupSpecs=[workers(3)])
        assert groups(world).count("w") == 3
        await world.change(workerGroupSpecs=[workers(1)])
        await world.finish_deletions()
        assert groups(world).count("w") == 1
        head = next(pod for pod in world.pods() if pod.metadata.labels["ray.io/node-type"] == "head")
        await world.pod(head.metadata.name, "Failed")
        assert groups(world) == ["headgroup", "w"]
        assert world.find_pod(head.metadata.name).metadata.uid != head.metadata.uid
        assert "RayClusterProvisioned" in world.holding()
        assert "HeadPodReady" not in world.holding()


def names_of(world: TrainingWorld, group: str = "w") -> set[str]:
    living = [pod for pod in world.pods() if not pod.metadata.deletion_timestamp]
    return {pod.metadata.name for pod in living if pod.metadata.labels["ray.io/group"] == group}


@pytest.mark.parametrize(("replicas", "stay", "come"), [(2, 2, 0), (3, 2, 1), (1, 1, 0)])
async def test_workers_to_delete_are_those_that_go(replicas, stay, come):
    """The list stays in the spec until its author clears it: nothing is made and deleted again and again."""
    async with TrainingWorld() as world:
        await world.submit(cluster(workers(3)))
        await world.admit("ray-rc-pg")
        await world.all_pods("Running")
        before, created = names_of(world), world.created_pods()
        first = next(p.metadata.name for p in world.pods() if p.metadata.annotations["volcano.sh/task-index"] == "0"
                     and p.metadata.name in before)  # fmt: skip
        await world.change(workerGroupSpecs=[workers(replicas, scaleStrategy={"workersToDelete": [first]})])
        for _ in range(3):
            await world.finish_deletions()
            await world.all_pods("Running")
        after = names_of(world)
        assert first not in after
        assert (len(after & before), len(after - before)) == (stay, come)
        assert world.created_pods() == created + come
        assert world.job.status.state == "ready"
        kept = names_of(world)
        await world.change(workerGroupSpecs=[workers(replicas, scaleStrategy={"workersToDelete": []})])
        await world.finish_deletions()
        assert names_of(world) == kept, "clearing the list moves nobody"


async def test_the_hosts_of_a_replica_go_together():
    async with TrainingWorld() as world:
        await world.submit(cluster(workers(2, numOfHosts=2)))
        await world.admit("ray-rc-pg")
        await world.all_pods("Running")
        one = sorted(names_of(world))[0]
        await world.change(workerGroupSpecs=[workers(1, numOfHosts=2, scaleStrategy={"workersToDelete": [one]})])
        await world.finish_deletions()
        numbers = {world.find_pod(name).metadata.annotations["volcano.sh/task-index"] for name in names_of(world)}
        assert numbers in ({"0", "1"}, {"2", "3"})
        assert one not in names_of(world)


async def test_a_cluster_is_suspended_and_resumed():
    async with TrainingWorld() as world:
        await world.submit(cluster())
        await world.admit("ray-rc-pg")
        await world.all_pods("Running")
        await world.change(suspend=True)
        assert "RayClusterSuspending" in world.holding()
        await world.finish_deletions()
        assert world.job.status.state == "suspended"
        assert world.holding() == {"RayClusterSuspended"}
        assert world.group("ray-rc-pg") is None
        await world.change(suspend=False)
        await world.admit("ray-rc-pg")
        await world.all_pods("Running")
        assert world.job.status.state == "ready"


# --- RayJob -----------------------------------------------------------------------------------------------------


async def start(world: TrainingWorld, value: dict[str, Any]) -> None:
    """Submit a job and bring its cluster up."""
    await world.submit(value, admit=False)
    await bring_up(world)


async def bring_up(world: TrainingWorld) -> None:
    await world.admit("ray-rc-pg")
    for pod in world.pods():
        if "ray.io/group" in pod.metadata.labels and pod.status.phase != "Running":
            world.set_pod(pod, "Running")
    await world.settle()


def submitter(world: TrainingWorld) -> str:
    (name,) = [p.metadata.name for p in world.pods() if "ray.io/group" not in p.metadata.labels]
    return name


def phase(world: TrainingWorld) -> tuple[str | None, str | None]:
    return world.job.status.job_deployment_status, world.job.status.job_status


async def test_a_ray_job_runs_to_its_end():
    async with TrainingWorld() as world:
        await world.submit(ray_job(shutdownAfterJobFinishes=True, ttlSecondsAfterFinished=10), admit=False)
        assert phase(world) == ("Initializing", None)
        assert world.job.status.ray_cluster_name == world.client.objects(RAY_CLUSTERS)[0].metadata.name
        await bring_up(world)
        assert phase(world) == ("Running", "PENDING")
        pod = world.find_pod(submitter(world))
        command = pod.spec.containers[0].command[-1]
        address = f"http://{world.job.status.ray_cluster_name}-head-svc.ns.svc.cluster.local:8265"
        line = f"ray job submit --address={address} --submission-id={world.job.status.job_id} -- python main.py"
        assert line in command.splitlines()
        assert pod.metadata.annotations["scheduling.k8s.io/group-name"] == "ray-rc-pg"
        await world.pod(pod.metadata.name, "Running")
        assert phase(world) == ("Running", "RUNNING")
        await world.pod(pod.metadata.name, "Succeeded")
        assert phase(world) == ("Complete", "SUCCEEDED")
        assert world.job.status.end_time
        assert len(world.client.objects(RAY_CLUSTERS)) == 1
        await world.advance(11)
        assert world.client.objects(RAY_CLUSTERS) == []


async def test_a_failed_ray_job_is_tried_on_a_new_cluster():
    async with TrainingWorld() as world:
        await start(world, ray_job(backoffLimit=1))
        first = world.job.status.ray_cluster_name
        await world.pod(submitter(world), "Failed")
        world.client.collect_garbage()
        await world.settle()
        await world.finish_deletions()
        await world.advance(5)
        await bring_up(world)
        assert world.job.status.ray_cluster_name != first
        assert phase(world) == ("Running", "PENDING")
        await world.pod(submitter(world), "Failed")
        assert phase(world) == ("Failed", "FAILED")
        assert (world.job.status.reason, world.job.status.failed) == ("AppFailed", 2)


async def test_deadlines_of_a_ray_job():
    async with TrainingWorld() as world:
        await world.submit(ray_job(preRunningDeadlineSeconds=20), admit=False)
        await world.advance(21)
        assert world.job.status.reason == "PreRunningDeadlineExceeded"
        assert world.client.objects(RAY_CLUSTERS) == []


async def test_a_ray_job_is_suspended_and_resumed():
    async with TrainingWorld() as world:
        await start(world, ray_job())
        await world.change(suspend=True)
        world.client.collect_garbage()
        await world.settle()
        await world.finish_deletions()
        assert phase(world) == ("Suspended", None)
        assert world.client.objects(RAY_CLUSTERS) == world.client.objects(PODS) == []
        await world.change(suspend=False)
        await bring_up(world)
        assert phase(world) == ("Running", "PENDING")


async def test_a_ray_job_on_a_cluster_that_is_there():
    async with TrainingWorld() as world:
        value = cluster()
        value["metadata"]["name"] = "shared"
        await world.submit(value)
        await world.admit("ray-shared-pg")
        await world.all_pods("Running")
        await world.submit(ray_job(rayClusterSpec=None, clusterSelector={"ray.io/cluster": "shared"}), admit=False)
        assert phase(world) == ("Running", "PENDING")
        await world.pod(submitter(world), "Succeeded")
        assert phase(world) == ("Complete", "SUCCEEDED")
        assert len(world.client.objects(RAY_CLUSTERS)) == 1


async def test_http_mode_submits_from_a_standard_pod():
    async with TrainingWorld() as world:
        own = {"spec": {"containers": [{"name": "mine", "image": "x", "command": ["mine"]}]}}
        await start(world, ray_job(submissionMode="HTTPMode", submitterPodTemplate=own))
        (container,) = world.find_pod(submitter(world)).spec.containers
        assert "ray job submit" in container.command[-1]
        await world.pod(submitter(world), "Succeeded")
        assert phase(world) == ("Complete", "SUCCEEDED")


def head(world: TrainingWorld) -> Pod:
    (pod,) = [p for p in world.pods() if p.metadata.labels.get("ray.io/group") == "headgroup"]
    return pod


async def beside(world: TrainingWorld, state: ContainerState) -> None:
    """The submitter beside the head is in this state; the head itself runs."""
    pod = head(world)
    world.set_pod(pod, "Running")
    statuses = [*(pod.status.container_statuses or ()), ContainerStatus(name="ray-job-submitter", state=state)]
    pod.status.container_statuses = statuses
    world.client.put(PODS, pod)
    await world.settle()


@pytest.mark.parametrize(("code", "told"), [(0, ("Complete", "SUCCEEDED")), (3, ("Failed", "FAILED"))])
async def test_sidecar_mode_submits_from_beside_the_head(code, told):
    async with TrainingWorld() as world:
        await start(world, ray_job(submissionMode="SidecarMode"))
        assert [name for name in groups(world) if name] == ["headgroup", "w"], "no pod but those of the cluster"
        pod = head(world)
        assert pod.spec.restart_policy == "Never"
        command = pod.spec.containers[-1].command[-1]
        submission = world.job.status.job_id
        assert (
            f"ray job submit --address=http://127.0.0.1:8265 --submission-id={submission} -- python main.py" in command
        )
        await beside(world, ContainerState(running=ContainerStateRunning(started_at="2026-01-01T00:00:00Z")))
        assert phase(world) == ("Running", "RUNNING")
        await beside(world, ContainerState(terminated=ContainerStateTerminated(exit_code=code)))
        assert phase(world) == told
        if code:
            assert world.job.status.message == "the submitted job ended with code 3"


async def test_a_sidecar_that_ends_before_the_workers_are_there_counts():
    async with TrainingWorld() as world:
        await world.submit(ray_job(submissionMode="SidecarMode"), admit=False)
        await world.admit("ray-rc-pg")
        await beside(world, ContainerState(terminated=ContainerStateTerminated(exit_code=0)))
        await world.advance(5)
        assert phase(world) == ("Complete", "SUCCEEDED")


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (
            {"clusterSelector": {"ray.io/cluster": "x"}},
            "spec.clusterSelector: Forbidden: must not be set in SidecarMode",
        ),
        ({"submitterConfig": {"backoffLimit": 2}}, "spec.submitterConfig: Forbidden"),
        (
            {"rayClusterSpec": {"headGroupSpec": {"template": template("ray-head", restartPolicy="Always")}}},
            "restartPolicy: Invalid value",
        ),
    ],
)
async def test_what_does_not_go_with_a_sidecar_is_told(spec, told):
    async with TrainingWorld() as world:
        await world.submit(ray_job(submissionMode="SidecarMode", **spec), admit=False)
        assert world.job.status.job_deployment_status == "ValidationFailed"
        assert told in world.job.status.message
        assert world.client.objects(RAY_CLUSTERS) == []


async def test_a_cluster_that_wants_rays_autoscaler_is_told_that_there_is_none():
    async with TrainingWorld() as world:
        await world.submit(cluster(workers(3, minReplicas=1), enableInTreeAutoscaling=True))
        await world.admit("ray-rc-pg")
        (told,) = world.recorder.of("AutoscalerNotRun")
        assert "keeps the replicas" in told
        assert world.condition("AutoscalerServed").status == "False"
        assert groups(world).count("w") == 3
        await world.change(enableInTreeAutoscaling=False)
        assert world.condition("AutoscalerServed") is None


@pytest.mark.parametrize(
    ("group", "words"),
    [
        ({"rayStartParams": {"node-ip-address": "$MY_POD_IP"}}, ["--node-ip-address=$MY_POD_IP"]),
        ({"rayStartParams": {"resources": '"{\\"a\\": 1}"'}}, ['--resources="{\\"a\\": 1}"']),
        ({"rayStartParams": {"no-redirect-output": "true"}}, ["--no-redirect-output"]),
        ({"rayStartParams": {"include-log-monitor": "false"}}, ["--include-log-monitor=false"]),
        ({"resources": {"CPU": "1500m", "memory": "1Gi"}}, ["--num-cpus=2", "--memory=1073741824"]),
        (
            {"resources": {"nvidia.com/gpu": "2", "tape": "500m"}, "rayStartParams": {"num-gpus": "7"}},
            ["--num-gpus=2", "--resources='{\"tape\":0.5}'"],
        ),
        ({"labels": {"b": "2", "a": "1"}, "rayStartParams": {"labels": "c=3"}}, ["--labels=a=1,b=2"]),
    ],
)
async def test_ray_is_told_what_its_group_says(group: dict[str, Any], words: list[str]) -> None:
    async with TrainingWorld() as world:
        await world.submit(cluster(workers(1, **group)), admit=False)
        await world.admit("ray-rc-pg")
        (worker,) = (pod for pod in world.pods() if pod.metadata.labels["ray.io/node-type"] == "worker")
    command = worker.spec.containers[0].args[0]
    assert [word for word in words if word not in command] == []
    assert command.count("--num-gpus=") + command.count("--labels=") <= 1
    assert (group.get("labels") or {}).items() <= (worker.metadata.labels or {}).items()


async def test_ray_is_told_of_accelerators_of_other_makers() -> None:
    made = workers(1)
    made["template"]["spec"]["containers"][0]["resources"] = {"limits": {"google.com/tpu": "4"}}
    async with TrainingWorld() as world:
        await world.submit(cluster(made), admit=False)
        await world.admit("ray-rc-pg")
        (worker,) = (pod for pod in world.pods() if pod.metadata.labels["ray.io/node-type"] == "worker")
    assert "--resources='{\"TPU\":4.0}'" in worker.spec.containers[0].args[0]
