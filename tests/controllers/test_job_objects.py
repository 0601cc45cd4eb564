"""Pods, services, config maps, claims and pod groups of a job, as golden objects."""

from __future__ import annotations

from typing import Any

import pytest
from job_pods import OWNER, built, env, view_of
from job_world import World, job, task

from unisono.api.annotations import GANG_PARTS, RUN_SECONDS
from unisono.api.base import ObjectMeta, OwnerReference
from unisono.api.core import ConfigMap, PersistentVolumeClaim, Pod, PriorityClass, Service
from unisono.api.gang_parts import decode_parts
from unisono.api.kinds import CONFIG_MAPS, JOBS, PERSISTENT_VOLUME_CLAIMS, PODS, PRIORITY_CLASSES, SERVICES
from unisono.controllers.job.plugins import PluginError, load
from unisono.controllers.job.pods import min_resources, pod_group_for
from unisono.controllers.job.view import JobView
from unisono.controllers.objects import to_json
from unisono.controllers.owners import owned_by
from unisono.errors import ApiError


def test_golden_pod():
    view = view_of(
        task("my-task", 2, topologyPolicy="restricted"),
        queue="research",
        priorityClassName="high",
        annotations={"volcano.sh/preemptable": "true", "volcano.sh/jdb-min-available": "1", "other": "x"},
    )
    view.job.status.version, view.job.status.retry_count = 3, 4
    assert built(view, index=1) == {
        "metadata": {
            "name": "job-my-task-1",
            "namespace": "default",
            "labels": {
                "volcano.sh/task-spec": "my-task",
                "volcano.sh/task-index": "1",
                "volcano.sh/job-name": "job",
                "volcano.sh/job-namespace": "default",
                "volcano.sh/queue-name": "research",
            },
            "annotations": {
                "volcano.sh/task-spec": "my-task",
                "volcano.sh/task-index": "1",
                "volcano.sh/job-name": "job",
                "volcano.sh/queue-name": "research",
                "volcano.sh/job-version": "3",
                "volcano.sh/job-retry-count": "4",
                "volcano.sh/template-uid": "job-my-task",
                "volcano.sh/numa-topology-policy": "restricted",
                "volcano.sh/preemptable": "true",
                "volcano.sh/jdb-min-available": "1",
                "scheduling.k8s.io/group-name": "job-u1",
            },
            "ownerReferences": [OWNER],
        },
        "spec": {
            "containers": [{"name": "main", "image": "busybox", "command": ["true"], "resources": {}}],
            "restartPolicy": "Never",
            "schedulerName": "volcano",
            "priorityClassName": "high",
        },
        "status": {},
    }


def test_the_template_decides_where_it_speaks():
    own = task("a", 1)
    own["template"]["spec"] |= {"schedulerName": "other", "priorityClassName": "low"}
    own["template"]["metadata"] = {"labels": {"app": "x"}, "annotations": {"note": "y"}}
    pod = built(view_of(own, schedulerName="unisono", priorityClassName="high"))
    assert (pod["spec"]["schedulerName"], pod["spec"]["priorityClassName"]) == ("other", "low")
    assert pod["metadata"]["labels"]["app"] == "x"
    assert pod["metadata"]["annotations"]["note"] == "y"


def test_building_never_changes_the_job():
    view = view_of(task("a", 2), plugins={"svc": [], "env": [], "pytorch": ["--master=a"]})
    before = to_json(view.job)
    built(view)
    built(view, index=1)
    assert to_json(view.job) == before


def test_env_plugin_reaches_init_containers():
    given = task("a", 3)
    given["template"]["spec"]["initContainers"] = [{"name": "first"}]
    pod = built(view_of(given, plugins={"env": []}), index=2)
    assert env(pod) == env(pod, where="initContainers") == {"VK_TASK_INDEX": "2", "VC_TASK_INDEX": "2"}


def test_svc_plugin():
    view = view_of(task("ps", 1), task("my-worker", 2), plugins={"svc": ["--publish-not-ready-addresses=true"]})
    config_map, service, policy = [to_json(resource.obj) for resource in load(view)[0].resources()]
    assert config_map["metadata"] == {"name": "job-svc", "namespace": "default", "ownerReferences": [OWNER]}
    assert config_map["data"] == {
        "ps.host": "job-ps-0.job",
        "VC_PS_HOSTS": "job-ps-0.job",
        "VC_PS_NUM": "1",
        "my_worker.host": "job-my-worker-0.job\njob-my-worker-1.job",
        "VC_MY_WORKER_HOSTS": "job-my-worker-0.job,job-my-worker-1.job",
        "VC_MY_WORKER_NUM": "2",
    }
    assert service["metadata"]["name"] == "job"
    assert service["spec"] == {
        "clusterIP": "None",
        "selector": {"volcano.sh/job-name": "job", "volcano.sh/job-namespace": "default"},
        "publishNotReadyAddresses": True,
    }
    members = {"matchLabels": service["spec"]["selector"]}
    assert policy["metadata"] == service["metadata"]
    assert policy["spec"] == {
        "podSelector": members,
        "ingress": [{"from": [{"podSelector": members}]}],
        "policyTypes": ["Ingress"],
    }
    pod = built(view, "my-worker", 1)
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("job-my-worker-1", "job")
    assert pod["spec"]["volumes"] == [{"name": "job-svc", "configMap": {"name": "job-svc"}}]
    assert pod["spec"]["containers"][0]["volumeMounts"] == [{"name": "job-svc", "mountPath": "/etc/volcano"}]
    assert env(pod) == {
        name: {"configMapKeyRef": {"name": "job-svc", "key": name}}
        for name in ("VC_PS_HOSTS", "VC_PS_NUM", "VC_MY_WORKER_HOSTS", "VC_MY_WORKER_NUM")
    }


def test_svc_plugin_without_environment_and_with_own_host_names():
    given = task("a", 3)
    given["template"]["spec"] |= {"hostname": "fixed", "subdomain": "sub"}
    view = view_of(given, plugins={"svc": ["--inject-hosts-env=false"]})
    pod = built(view)
    assert env(pod) == {}
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("fixed", "sub")
    config_map = next(iter(load(view)[0].resources())).obj
    assert config_map.data == {"a.host": "fixed.sub", "VC_A_HOSTS": "fixed.sub", "VC_A_NUM": "1"}


@pytest.mark.parametrize(
    ("name", "index", "rank"), [("master", 0, "0"), ("worker", 0, "1"), ("worker", 2, "3"), ("other", 0, None)]
)
def test_pytorch_plugin(name, index, rank):
    view = view_of(task("master"), task("worker", 3), task("other"), plugins={"pytorch": ["--port=29500"]})
    pod = built(view, name, index)
    wanted = {"MASTER_ADDR": "job-master-0.job", "MASTER_PORT": "29500", "WORLD_SIZE": "4"}
    got = {key: value for key, value in env(pod).items() if not key.startswith("VC_")}
    assert got == (wanted | {"RANK": rank} if rank else wanted)
    assert pod["spec"]["containers"][0]["ports"] == [
        {"name": "pytorchjob-port", "containerPort": 29500, "protocol": "TCP"}
    ]
    # The plug-in is of no use without names, so svc comes with it.
    assert pod["spec"]["subdomain"] == "job"


def test_pytorch_plugin_with_other_task_names_and_an_own_port():
    given = task("chief")
    given["template"]["spec"]["containers"][0]["ports"] = [{"containerPort": 23456}]
    view = view_of(given, task("helper", 2), plugins={"pytorch": ["--master=chief", "--worker", "helper"]})
    pod = built(view, "chief")
    assert pod["spec"]["containers"][0]["ports"] == [{"containerPort": 23456}]
    assert env(pod)["WORLD_SIZE"] == "3"
    assert env(built(view, "helper", 1))["RANK"] == "2"


def test_pytorch_plugin_without_master_leaves_the_pods_alone():
    pod = built(view_of(task("a"), plugins={"pytorch": []}))
    assert "MASTER_ADDR" not in env(pod)


def test_workers_can_wait_for_the_master():
    flags = ["--wait-master-enabled=true", "--wait-master-timeout=7s", "--wait-master-image=img"]
    view = view_of(task("master"), task("worker"), plugins={"pytorch": flags})
    assert "initContainers" not in built(view, "master")["spec"]
    (waiter,) = built(view, "worker")["spec"]["initContainers"]
    assert (waiter["name"], waiter["image"]) == ("wait-for-master", "img")
    assert "+ 7 ))" in waiter["command"][2]
    assert "job-master-0.job 23456" in waiter["command"][2]


@pytest.mark.parametrize(
    ("plugins", "message"),
    [
        ({"nope": []}, "failed to get plugin nope"),
        ({"pytorch": ["--port=0"]}, "--port is '0'; write a port from 1 to 65535"),
        ({"pytorch": ["--port"]}, "--port is 'true'"),
        ({"svc": ["--inject-hosts-env=maybe"]}, "--inject-hosts-env is 'maybe'; write true or false"),
        ({"pytorch": ["--wait-master-timeout=soon"]}, "write a number of seconds"),
    ],
)
def test_wrong_arguments(plugins, message):
    with pytest.raises(PluginError, match=message):
        load(view_of(task("a"), plugins=plugins))


def test_flags_of_other_versions_are_ignored():
    assert load(view_of(task("a"), plugins={"svc": ["--no-root", "--future=1"]}))


def usage(view: JobView) -> dict[str, str]:
    return min_resources(view, lambda _name: 0)


def sized(name: str, replicas: int, cpu: str, **fields: Any) -> dict[str, Any]:
    given = task(name, replicas, **fields)
    given["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return given


def test_min_resources_count_like_a_quota():
    given = [task("a"), task("b")]
    for one in given:
        same = {"cpu": "1", "memory": "1000Mi", "nvidia.com/gpu": 1}
        one["template"]["spec"]["containers"][0]["resources"] = {"requests": same, "limits": same}
    assert usage(view_of(*given)) == {
        "count/pods": "2",
        "pods": "2",
        "cpu": "2",
        "requests.cpu": "2",
        "limits.cpu": "2",
        "memory": "2000Mi",
        "requests.memory": "2000Mi",
        "limits.memory": "2000Mi",
        "nvidia.com/gpu": "2",
        "requests.nvidia.com/gpu": "2",
    }


@pytest.mark.parametrize(
    ("tasks", "spec", "cpu", "pods"),
    [
        ([sized("a", 2, "1"), sized("b", 2, "10")], {}, "22", "4"),
        ([sized("a", 2, "1"), sized("b", 2, "10")], {"minAvailable": 3}, "12", "3"),
        ([sized("a", 4, "1", minAvailable=1), sized("b", 4, "10", minAvailable=1)], {"minAvailable": 4}, "13", "4"),
        ([sized("a", 4, "1", minAvailable=0), sized("b", 1, "10", minAvailable=0)], {"minAvailable": 1}, "1", "1"),
    ],
    ids=["all", "fill in order", "needs first, then fill", "first task only"],
)
def test_min_resources_of_the_smallest_gang(tasks, spec, cpu, pods):
    got = usage(view_of(*tasks, **spec))
    assert (got["requests.cpu"], got["pods"]) == (cpu, pods)


def test_min_resources_take_the_important_tasks_first():
    low, high = sized("a", 2, "1"), sized("b", 2, "10")
    high["template"]["spec"]["priorityClassName"] = "high"
    got = min_resources(view_of(low, high, minAvailable=2), lambda name: 5 if name == "high" else 0)
    assert got["cpu"] == "20"


async def test_pod_group_of_a_job():
    async with World() as world:
        world.client.put(PRIORITY_CLASSES, PriorityClass(metadata=ObjectMeta(name="high"), value=7))
        partition = {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1}
        given = job(
            task("a", 1),
            task("b", 4, partitionPolicy=partition),
            queue="research",
            priorityClassName="high",
            networkTopology={"mode": "soft", "highestTierAllowed": 2, "highestTierName": "x"},
        )
        given.metadata.labels = {"team": "x"}
        given.metadata.annotations = {
            "volcano.sh/sla-waiting-time": "1h",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "unisono.io/checked": "research |  |  | 1,4",
        }
        await world.submit(given)
        group, uid = world.group(), world.job().metadata.uid
        assert group.metadata.name == f"job-{uid}"
        assert group.metadata.labels == {"team": "x"}
        notes = dict(group.metadata.annotations or {})
        parts = decode_parts(notes.pop(GANG_PARTS))
        assert [(part.role, part.count, part.replicas) for part in parts] == [("a", 1, 1), ("b", 2, 4)]
        assert notes == {"volcano.sh/sla-waiting-time": "1h", "volcano.sh/job-version": "0"}
        assert to_json(group.spec) == {
            "minMember": 3,
            "minTaskMember": {"a": 1, "b": 2},
            "queue": "research",
            "priorityClassName": "high",
            "minResources": {"pods": "3", "count/pods": "3"},
            "networkTopology": {"mode": "soft", "highestTierAllowed": 2},
            "subGroupPolicy": [
                {
                    "name": "b",
                    "labelSelector": {"matchLabels": {"volcano.sh/task-spec": "b"}},
                    "matchLabelKeys": ["volcano.sh/partition-id"],
                    "subGroupSize": 2,
                    "minSubGroups": 1,
                }
            ],
        }
        await world.admit()
        assert [pod.metadata.labels.get("volcano.sh/partition-id") for pod in world.pods()] == [
            None,
            "0",
            "0",
            "1",
            "1",
        ]


async def test_volumes_are_claimed_once_and_mounted_everywhere():
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    async with World() as world:
        world.client.put(
            PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim(metadata=ObjectMeta(name="mine", namespace="default"))
        )
        volumes = [
            {"mountPath": "/new", "volumeClaim": claim},
            {"mountPath": "/old", "volumeClaimName": "mine"},
            {"mountPath": "/again", "volumeClaimName": "mine"},
        ]
        await world.submit(job(task("a", 2), volumes=volumes))
        await world.admit()
        (made,) = [c for c in world.client.objects(PERSISTENT_VOLUME_CLAIMS) if c.metadata.name != "mine"]
        assert made.metadata.name.startswith("job-pvc-")
        assert made.metadata.owner_references[0].uid == world.job().metadata.uid
        named = [volume.volume_claim_name for volume in world.job().spec.volumes]
        assert named == [made.metadata.name, "mine", "mine"], "who reads the job finds its claims"
        assert to_json(world.job().spec.volumes[0].volume_claim) == claim
        first, second = [to_json(pod.spec) for pod in world.pods()]
        assert first["volumes"] == second["volumes"]
        assert [v["persistentVolumeClaim"]["claimName"] for v in first["volumes"]] == [made.metadata.name, "mine"]
        assert [m["mountPath"] for m in first["containers"][0]["volumeMounts"]] == ["/new", "/old"]
        assert world.job().status.controlled_resources == {
            f"volume-pvc-{made.metadata.name}": made.metadata.name,
            "volume-pvc-mine": "mine",
        }
        await world.all_pods("Succeeded")
        assert world.phase() == "Completed"
        assert len(world.client.objects(PERSISTENT_VOLUME_CLAIMS)) == 2


async def test_a_job_whose_claim_was_made_and_named_by_others_keeps_it():
    claim = {"accessModes": ["ReadWriteOnce"]}
    async with World() as world:
        await world.stop()
        await world.submit(job(task("a"), volumes=[{"mountPath": "/d", "volumeClaim": claim, "volumeClaimName": "x"}]))
        owner = owned_by(JOBS, world.job())
        meta = ObjectMeta(name="x", namespace="default", owner_references=[owner])
        world.client.put(PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim(metadata=meta))
        await world.start()
        await world.admit()
        (pod,) = world.pods()
        assert to_json(pod.spec)["volumes"][0]["persistentVolumeClaim"]["claimName"] == "x"
        assert len(world.client.objects(PERSISTENT_VOLUME_CLAIMS)) == 1


async def test_a_claims_name_that_an_older_manifest_takes_away_comes_back():
    volumes = [{"mountPath": "/d", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}}]
    async with World() as world:
        await world.submit(job(task("a"), volumes=volumes))
        await world.admit()
        name = world.job().spec.volumes[0].volume_claim_name
        await world.change("job", volumes=volumes)
        assert world.job().spec.volumes[0].volume_claim_name == name
        assert [each.metadata.name for each in world.client.objects(PERSISTENT_VOLUME_CLAIMS)] == [name]


async def test_a_claim_that_appears_later_lets_the_job_start():
    async with World() as world:
        await world.submit(job(task("a", 1), volumes=[{"mountPath": "/d", "volumeClaimName": "late"}]))
        await world.admit()
        assert world.names() == []
        world.client.put(
            PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim(metadata=ObjectMeta(name="late", namespace="default"))
        )
        await world.advance(11)
        assert world.names() == ["job-a-0"]


async def test_a_strangers_pod_is_named_and_left_alone():
    async with World() as world:
        world.client.put(PODS, Pod(metadata=ObjectMeta(name="job-a-0", namespace="default")))
        await world.submit(job(task("a", 1)))
        await world.admit()
        assert world.recorder.of("FailedCreate")[0] == (
            "Error creating pods: pod default/job-a-0 exists and belongs to something else; delete or rename it."
        )
        world.client.remove(PODS, "default/job-a-0")
        await world.advance(120)
        assert world.pods()[0].metadata.owner_references[0].uid == world.job().metadata.uid


async def test_pods_of_a_former_job_of_that_name_are_waited_for_in_silence():
    async with World() as world:
        former = OwnerReference(
            api_version="batch.volcano.sh/v1alpha1", kind="Job", name="job", uid="former", controller=True
        )
        world.client.put(PODS, Pod(metadata=ObjectMeta(name="job-a-0", namespace="default", owner_references=[former])))
        await world.submit(job(task("a", 1)))
        await world.admit()
        assert world.recorder.of("FailedCreate") == []
        world.client.remove(PODS, "default/job-a-0")
        await world.advance(2)
        assert world.pods()[0].metadata.owner_references[0].uid == world.job().metadata.uid


async def test_a_strangers_service_is_named_and_no_pod_is_made():
    async with World() as world:
        world.client.put(SERVICES, Service(metadata=ObjectMeta(name="job", namespace="default")))
        await world.submit(job(task("a", 1), plugins={"svc": []}))
        assert world.recorder.of("PluginError")[0] == (
            "Execute plugin when job add failed, err: service default/job exists and belongs to something else; "
            "delete or rename it."
        )
        world.client.remove(SERVICES, "default/job")
        await world.advance(120)
        await world.admit()
        assert world.names() == ["job-a-0"]


async def test_what_others_changed_is_put_right_after_a_restart():
    async with World() as world:
        await world.submit(job(task("a", 1), plugins={"svc": []}))
        config_map: ConfigMap = world.client.find(CONFIG_MAPS, "default/job-svc")
        config_map.data = {"a.host": "wrong", "extra": "x"}
        world.client.put(CONFIG_MAPS, config_map)
        await world.restart()
        assert world.client.find(CONFIG_MAPS, "default/job-svc").data == {
            "a.host": "job-a-0.job",
            "VC_A_HOSTS": "job-a-0.job",
            "VC_A_NUM": "1",
        }


async def test_a_refused_pod_is_asked_for_once_and_not_a_thousand_times():
    async with World() as world:
        refused: list[str] = []

        def refuse(operation: str, resource: str, namespace: str, name: str) -> None:
            if (operation, resource) == ("create", "pods"):
                refused.append(name)
                raise ApiError(f'pods "{name}" is forbidden: exceeded quota', code=403, reason="Forbidden")

        await world.submit(job(task("a", 100)))
        world.client.interceptor = refuse
        await world.admit()
        assert set(refused) == {"job-a-0"}
        assert world.recorder.of("FailedCreate")[0] == (
            'Error creating pods: pods "job-a-0" is forbidden: exceeded quota'
        )
        world.client.interceptor = None
        await world.advance(120)
        assert len(world.names()) == 100


@pytest.mark.parametrize(
    ("given", "annotations", "told"),
    [
        ("1h30m", {}, "5400"),
        (None, {}, None),
        ("2h", {RUN_SECONDS: "60"}, "60"),
    ],
)
def test_the_estimate_of_a_job_is_that_of_its_pod_group(given, annotations, told):
    """Forecasts, backfill and orders by run time go by it."""
    view = view_of(task("w", 1), runningEstimate=given, annotations=annotations)
    group = pod_group_for(view, 0, lambda _: 0)
    assert (group.metadata.annotations or {}).get(RUN_SECONDS) == told
