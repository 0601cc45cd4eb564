"""A number in a specification costs its author nothing: controllers refuse what is too large and work in slices."""

from __future__ import annotations

import copy
import tracemalloc
from random import Random
from typing import Any

import pytest
from controller_world import ControllerWorld, at_once
from job_world import World, job, task
from workload_world import template

from unisono.api.core import Affinity, NodeAffinity
from unisono.api.decode import decode
from unisono.api.kind import Kind
from unisono.api.kind_families import (
    BATCH_CRON_JOBS,
    BATCH_JOBS,
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    HYPER_JOBS,
    JOB_SETS,
    JOB_TEMPLATES,
    MPI_JOBS,
    PYTORCH_JOBS,
    RAY_CLUSTERS,
    RAY_JOBS,
    RAY_SERVICES,
    REPLICA_SETS,
    RUN_KINDS,
    STATEFUL_SETS,
    TF_JOBS,
    TRAIN_JOBS,
    TRAINING_RUNTIMES,
    XGBOOST_JOBS,
)
from unisono.api.kinds import JOBS, POD_GROUPS, PODS
from unisono.controllers.builtin import builtin_controllers
from unisono.controllers.nodes import NodeLifecycleController
from unisono.controllers.registry import all_controllers
from unisono.controllers.training.controller import Seen
from unisono.controllers.training.jobset import decide as jobset_decide
from unisono.controllers.training.kubeflow import decide as kubeflow_decide
from unisono.controllers.training.kubeflow.framework import TrainingView, build_pod
from unisono.controllers.training.kubeflow.frameworks import TensorFlow
from unisono.controllers.training.ray import cluster as ray_cluster
from unisono.controllers.workloads import job as batch_job
from unisono.controllers.workloads import stateful_set
from unisono.controllers.workloads.daemon_set import daemon_spec
from unisono.controllers.workloads.job_decide import Slot
from unisono.controllers.workloads.templates import pod_from
from unisono.errors import ApiError
from unisono.jobkinds.kind import no_pods
from unisono.jobkinds.registry import job_kind, pods_of
from unisono.kube.controller import Controller

HUGE = 2**31 - 1
POD = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
VC_JOB = {"tasks": [{"name": "t", "replicas": HUGE, "template": POD}]}
APPS = {"replicas": HUGE, "selector": {"matchLabels": {"app": "web"}}, "template": template()}
BATCH = {"parallelism": HUGE, "completions": HUGE, "template": POD}
RAY = {"headGroupSpec": {"template": POD}, "workerGroupSpecs": [{"groupName": "g", "replicas": HUGE, "template": POD}]}
ROLE = {"replicas": HUGE, "template": POD}

HUGE_OBJECTS: list[tuple[Kind[Any], dict[str, Any]]] = [
    (JOBS, VC_JOB),
    (JOB_TEMPLATES, VC_JOB),
    (CRON_JOBS, {"schedule": "* * * * *", "jobTemplate": {"spec": VC_JOB}}),
    (HYPER_JOBS, {"replicatedJobs": [{"name": "r", "replicas": HUGE, "templateSpec": {"tasks": []}}]}),
    (DEPLOYMENTS, APPS),
    (REPLICA_SETS, APPS),
    (STATEFUL_SETS, {**APPS, "podManagementPolicy": "Parallel"}),
    (BATCH_JOBS, BATCH),
    (BATCH_JOBS, {**BATCH, "completionMode": "Indexed"}),
    (BATCH_CRON_JOBS, {"schedule": "* * * * *", "jobTemplate": {"spec": BATCH}}),
    (JOB_SETS, {"replicatedJobs": [{"name": "r", "replicas": HUGE, "template": {"spec": {"parallelism": 0}}}]}),
    (JOB_SETS, {"replicatedJobs": [{"name": "r", "template": {"spec": BATCH}}]}),
    (RAY_CLUSTERS, RAY),
    (RAY_JOBS, {"entrypoint": "x", "rayClusterSpec": RAY}),
    (RAY_SERVICES, {"rayClusterConfig": RAY}),
    (PYTORCH_JOBS, {"pytorchReplicaSpecs": {"Worker": ROLE}}),
    (TF_JOBS, {"tfReplicaSpecs": {"Worker": ROLE}}),
    (MPI_JOBS, {"mpiReplicaSpecs": {"Launcher": {"replicas": 1, "template": POD}, "Worker": ROLE}}),
    (TRAIN_JOBS, {"runtimeRef": {"name": "torch-distributed"}, "trainer": {"numNodes": HUGE}}),
]
IDS = [f"{kind.resource}-{number}" for number, (kind, _) in enumerate(HUGE_OBJECTS)]
# They make no pods; the scheduler and node scaling count with them.
HUGE_GROUPS: list[tuple[Kind[Any], dict[str, Any]]] = [
    (POD_GROUPS, {"minMember": HUGE}),
    (POD_GROUPS, {"minMember": 1, "minTaskMember": {"a": 1, "b": HUGE}}),
    (POD_GROUPS, {"minMember": 1, "subGroupPolicy": [{"name": "s", "subGroupSize": 8, "minSubGroups": HUGE}]}),
]


def made(kind: Kind[Any], spec: dict[str, Any], name: str = "huge") -> Any:
    meta = {"name": name, "namespace": "default"}
    value = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, "spec": copy.deepcopy(spec)}
    return decode(kind, value).obj


class Everything(ControllerWorld):
    """All controllers there are, as on one machine."""

    def make_controllers(self) -> list[Controller]:
        builtin = builtin_controllers(self.recorder)
        return [
            *all_controllers(self.recorder, offload=at_once, count_seconds=0.0),
            *(each for each in builtin if not isinstance(each, NodeLifecycleController)),
        ]


@pytest.mark.parametrize(("kind", "spec"), [*HUGE_OBJECTS, *HUGE_GROUPS])
def test_what_an_object_asks_for_is_known_of_every_kind(kind: Kind[Any], spec: dict[str, Any]) -> None:
    assert pods_of(made(kind, spec)) >= HUGE


def test_every_training_job_has_a_size() -> None:
    sized = [kind.kind for kind in RUN_KINDS if (found := job_kind(kind)) and (found.size or found.pods is not no_pods)]
    assert sized == [kind.kind for kind in RUN_KINDS]


@pytest.mark.parametrize(("kind", "spec"), HUGE_OBJECTS, ids=IDS)
async def test_a_huge_object_is_set_aside_and_others_go_on(kind: Kind[Any], spec: dict[str, Any]) -> None:
    """As it may be found on a real cluster, or in the store of an older version: no admission has looked at it."""
    async with Everything() as world:
        tracemalloc.start()
        try:
            huge = await world.client.create(kind, made(kind, spec))
            await world.settle()
            await world.client.create(JOBS, job(task("work", 2), name="bystander"))
            await world.settle()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 64 * 1024 * 1024
        told = world.recorder.of("TooManyPods")
        assert len(told) == 1, world.recorder.events
        assert "more than the limit of 50000" in told[0]
        assert not world.pods()
        now = world.client.find(kind, huge.key)
        if kind is JOBS:
            assert (now.status.state.phase, now.status.state.reason) == ("Pending", "TooManyPods")
        elif hasattr(getattr(now, "status", None), "conditions"):
            assert [(each.type, each.reason) for each in now.status.conditions or ()] == [
                ("ReconcileFailed", "TooManyPods")
            ]
        bystander = world.client.find(JOBS, "default/bystander")
        assert bystander is not None
        assert bystander.status.state.phase == "Pending"
        assert not bystander.status.state.reason


async def test_a_job_that_shrinks_is_taken_up_again() -> None:
    async with Everything() as world:
        await world.client.create(REPLICA_SETS, made(REPLICA_SETS, APPS))
        await world.settle()
        assert not world.pods()
        await world.client.patch(REPLICA_SETS, "huge", {"spec": {"replicas": 3}}, namespace="default")
        await world.settle()
        assert len(world.pods()) == 3
        await world.settle()
        found = world.client.find(REPLICA_SETS, "default/huge")
        assert found is not None
        assert not found.status.conditions


async def test_pods_of_a_large_job_come_in_slices_and_all_of_them_come() -> None:
    async with World() as world:
        await world.submit(job(task("work", 2500)))
        await world.admit()
        assert len(world.pods()) == 2500


async def test_a_list_of_hosts_that_no_container_could_take_is_told_and_not_built_for_every_pod() -> None:
    name = "worker-with-a-name-that-makes-the-list-long"
    async with World() as world:
        await world.submit(
            job(task("ps", 1), task(name, 3000), plugins={"tensorflow": [f"--worker={name}"]}, minAvailable=1)
        )
        await world.admit()
        assert not world.pods()
        assert "TF_CONFIG" in world.recorder.of("FailedCreate")[0]
        assert "too long for an environment variable" in world.recorder.of("FailedCreate")[0]


def pods_of_template() -> list[tuple[Any, Any]]:
    """The template's spec and a pod made of it, of each workload."""
    spec = {"containers": [{"name": "c", "image": "i"}], "affinity": {"nodeAffinity": {}}, "hostname": "own"}
    sized = {"template": {**POD, "spec": spec}, "selector": {"matchLabels": {"app": "web"}}}
    sets, stateful = made(REPLICA_SETS, sized), made(STATEFUL_SETS, sized)
    jobs = made(BATCH_JOBS, {"template": {**POD, "spec": spec}})
    daemons = made(DAEMON_SETS, sized)
    return [
        (sets.spec.template.spec, pod_from(sets.spec.template, REPLICA_SETS, sets, "huge-0").spec),
        (stateful.spec.template.spec, stateful_set.pod_of(stateful, stateful.spec.template, 0, "r").spec),
        (daemons.spec.template.spec, daemon_spec(daemons.spec.template.spec, "node-0")),
        (jobs.spec.template.spec, batch_job.pod_of(jobs, Slot(), Random(1)).spec),
    ]


def test_a_large_template_is_not_copied_for_each_of_its_pods() -> None:
    for template_spec, pod_spec in pods_of_template():
        assert pod_spec is not template_spec
        assert pod_spec.containers is template_spec.containers


def test_making_a_pod_leaves_the_template_as_it_is() -> None:
    jobs = made(BATCH_JOBS, {"template": POD})
    pod = batch_job.pod_of(jobs, Slot(3), Random(1))
    assert [each.name for each in pod.spec.containers[0].env or ()] == ["JOB_COMPLETION_INDEX"]
    assert jobs.spec.template.spec == made(BATCH_JOBS, {"template": POD}).spec.template.spec
    for template_spec, pod_spec in pods_of_template():
        assert template_spec.hostname == "own"
        assert template_spec.affinity == Affinity(node_affinity=NodeAffinity())
        assert not template_spec.tolerations
        assert pod_spec.containers[0].env is None


def runtime(completions: int, parallelism: int) -> Any:
    """A user's own runtime of MPI."""
    node = {"name": "node", "template": {"spec": {"completions": completions, "parallelism": parallelism}}}
    launcher = {"name": "launcher", "template": {"spec": {"completions": 1}}}
    for each in (node, launcher):
        each["template"]["spec"]["template"] = POD  # type: ignore[index]
    spec = {
        "mlPolicy": {"mpi": {"mpiImplementation": "OpenMPI"}},
        "template": {"spec": {"replicatedJobs": [launcher, node]}},
    }
    return made(TRAINING_RUNTIMES, spec, "own")


@pytest.mark.parametrize("parallelism", [1, HUGE])
async def test_a_file_of_hosts_that_no_config_map_can_hold_is_told_before_it_is_built(parallelism: int) -> None:
    async with Everything() as world:
        await world.client.create(TRAINING_RUNTIMES, runtime(HUGE, parallelism))
        tracemalloc.start()
        try:
            await world.client.create(
                TRAIN_JOBS, made(TRAIN_JOBS, {"runtimeRef": {"name": "own", "kind": "TrainingRuntime"}})
            )
            await world.settle()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 64 * 1024 * 1024
        assert world.client.find(JOB_SETS, "default/huge") is None
        (told,) = world.recorder.of("TooManyHosts")
        assert f"lists of {HUGE} hosts" in told
        assert "use fewer" in told


def replicas(kind: Kind[Any], field: str, container: str, number: int) -> Any:
    role = {"template": {"spec": {"containers": [{"name": container, "image": "i"}]}}, "restartPolicy": "Never"}
    roles = {"Worker": {**role, "replicas": number}}
    if kind is XGBOOST_JOBS:
        roles["Master"] = {**role, "replicas": 1}
    if kind is MPI_JOBS:
        roles["Launcher"] = {**role, "replicas": 1}
    return made(kind, {field: roles})


@pytest.mark.parametrize(
    ("kind", "field", "container", "told"),
    [
        (TF_JOBS, "tfReplicaSpecs", "tensorflow", "TF_CONFIG of"),
        (XGBOOST_JOBS, "xgbReplicaSpecs", "xgboost", "WORKER_ADDRS of"),
        (MPI_JOBS, "mpiReplicaSpecs", "mpi", "the host files: lists of 40001 hosts"),
    ],
    ids=["tensorflow", "xgboost", "mpi"],
)
async def test_a_training_job_whose_list_of_hosts_is_too_long_is_told_and_gets_no_pods(
    kind: Kind[Any], field: str, container: str, told: str
) -> None:
    async with Everything() as world:
        await world.client.create(kind, replicas(kind, field, container, 40_000))
        await world.settle()
        group = world.client.find(POD_GROUPS, "default/huge")
        assert group is not None
        await world.client.patch(
            POD_GROUPS, "huge", {"status": {"phase": "Inqueue"}}, namespace="default", subresource="status"
        )
        await world.settle()
        assert not world.pods()
        assert told in world.recorder.of("TooManyHosts")[0]


async def test_addresses_are_listed_once_for_all_pods_of_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0
    whole = TensorFlow.address

    def counting(self: TensorFlow, view: Any, role: Any, index: int) -> str:
        nonlocal asked
        asked += 1
        return whole(self, view, role, index)

    monkeypatch.setattr(TensorFlow, "address", counting)
    seen = Seen(replicas(TF_JOBS, "tfReplicaSpecs", "tensorflow", 200))
    view, role = TrainingView(seen.job), TrainingView(seen.job).roles[0]
    pods = [build_pod(TensorFlow(), view, role, index) for index in range(200)]
    assert asked == 200
    assert len({pod.spec.containers[0].env[-1].value for pod in pods}) == 200


async def test_hosts_of_the_svc_plug_in_that_no_config_map_holds_are_told_with_the_way_out() -> None:
    async with World() as world:
        await world.submit(job(task("work", 50_000), plugins={"svc": []}, minAvailable=1))
        await world.admit()
        assert not world.pods()
        state = world.job().status.state
        assert (state.phase, state.reason) == ("Pending", "PluginError")
        assert "plug-in svc: lists of 50000 hosts take" in (state.message or "")
        assert "use fewer, or shorter names" in (state.message or "")
        assert len(world.recorder.of("PluginError")) == 1


async def test_pods_of_training_jobs_are_built_when_their_turn_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan of a thousand pods that each have a copy of a large template would hold up all other objects."""
    built = 0
    for module in (kubeflow_decide, ray_cluster, jobset_decide):

        def counting(*args: Any, whole: Any = module.build_pod) -> Any:
            nonlocal built
            built += 1
            return whole(*args)

        monkeypatch.setattr(module, "build_pod", counting)
    workers = {"groupName": "g", "replicas": 900, "template": POD}
    many = {"parallelism": 900, "completions": 900, "template": POD}
    async with Everything() as world:
        create = world.client.create

        async def refusing(kind: Kind[Any], obj: Any, **more: Any) -> Any:
            if kind is PODS:
                raise ApiError("exceeded quota", code=403, reason="Forbidden")
            return await create(kind, obj, **more)

        monkeypatch.setattr(world.client, "create", refusing)
        await world.client.create(PYTORCH_JOBS, replicas(PYTORCH_JOBS, "pytorchReplicaSpecs", "pytorch", 900))
        await world.client.create(RAY_CLUSTERS, made(RAY_CLUSTERS, RAY | {"workerGroupSpecs": [workers]}, "ray"))
        jobs = {"replicatedJobs": [{"name": "r", "replicas": 1, "template": {"spec": many}}]}
        await world.client.create(JOB_SETS, made(JOB_SETS, jobs, "set"))
        await world.settle()
        groups = world.client.objects(POD_GROUPS)
        assert len(groups) == 3
        for group in groups:
            await world.set_group_phase(group, "Inqueue")
        await world.settle()
    assert 3 < built < 100
