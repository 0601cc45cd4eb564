"""Training jobs of Kubeflow from submission to their end: gangs, restarts, suspension, clean-up, deadlines."""

from __future__ import annotations

import pytest
from training_world import TrainingWorld, manifest, pytorch, roles

from unisono.api.kinds import POD_GROUPS, PODS


async def test_pods_wait_for_the_gang_and_the_job_runs_to_its_end():
    async with TrainingWorld() as world:
        await world.submit(pytorch(), admit=False)
        assert world.state() == "Created"
        assert world.names() == []
        assert world.job.status.start_time is None
        group = world.group()
        assert (group.spec.min_member, group.spec.queue) == (3, "default")
        await world.admit()
        assert world.names() == ["j-master-0", "j-worker-0", "j-worker-1"]
        assert world.services() == world.names()
        await world.all_pods("Running")
        assert world.state() == "Running"
        assert world.condition("Running").message == "PyTorchJob j is running."
        assert world.job.status.replica_statuses["Worker"].active == 2
        await world.advance(100)
        await world.pod("j-master-0", "Succeeded")
        status = world.job.status
        assert world.state() == "Succeeded"
        assert world.condition("Succeeded").message == "PyTorchJob j is successfully completed."
        assert world.condition("Succeeded").reason == "PyTorchJobSucceeded"
        assert world.condition("Running").status == "False"
        assert status.completion_time
        assert status.replica_statuses["Worker"].succeeded == 2
        assert world.group() is None
        assert world.names() == ["j-master-0", "j-worker-0", "j-worker-1"]


@pytest.mark.parametrize(
    ("job", "outcomes", "state", "message"),
    [
        (pytorch(), {"j-master-0": "Succeeded"}, "Succeeded", "PyTorchJob j is successfully completed."),
        (pytorch(), {"j-worker-0": "Succeeded"}, "Running", "PyTorchJob j is running."),
        (
            pytorch((2, "Never")),
            {"j-worker-0": "Failed"},
            "Failed",
            "PyTorchJob j is failed because 1 Worker replica(s) failed.",
        ),
        (
            pytorch((2, "Never"), master=None),
            {"j-worker-0": "Failed", "j-worker-1": "Failed"},
            "Failed",
            "PyTorchJob j is failed because 1 Worker replica(s) failed.",
        ),
        (
            pytorch(master=None),
            {"j-worker-0": "Succeeded", "j-worker-1": "Succeeded"},
            "Succeeded",
            "PyTorchJob ns/j successfully completed.",
        ),
        (pytorch(master=None), {"j-worker-0": "Succeeded"}, "Running", "PyTorchJob ns/j is running."),
        (
            pytorch(master=None, elasticPolicy={"minReplicas": 1, "maxReplicas": 3}),
            {"j-worker-0": "Succeeded"},
            "Succeeded",
            "PyTorchJob ns/j successfully completed.",
        ),
        (
            manifest("TFJob", tfReplicaSpecs=roles("tensorflow", PS=1, Worker=2)),
            {"j-worker-0": "Succeeded"},
            "Succeeded",
            "TFJob ns/j successfully completed.",
        ),
        (
            manifest("TFJob", successPolicy="AllWorkers", tfReplicaSpecs=roles("tensorflow", PS=1, Worker=2)),
            {"j-worker-0": "Succeeded"},
            "Running",
            "TFJob ns/j is running.",
        ),
        (
            manifest("TFJob", tfReplicaSpecs=roles("tensorflow", Chief=1, Worker=2)),
            {"j-worker-0": "Succeeded", "j-worker-1": "Succeeded"},
            "Running",
            "TFJob ns/j is running.",
        ),
        (
            manifest("TFJob", tfReplicaSpecs=roles("tensorflow", Chief=1, Worker=2)),
            {"j-chief-0": "Succeeded"},
            "Succeeded",
            "TFJob ns/j successfully completed.",
        ),
        (
            manifest("TFJob", tfReplicaSpecs=roles("tensorflow", PS=1, Worker=2)),
            {"j-ps-0": "Failed"},
            "Failed",
            "TFJob ns/j has failed because 1 PS replica(s) failed.",
        ),
        (
            manifest("TFJob", enableDynamicWorker=True, tfReplicaSpecs=roles("tensorflow", PS=1, Worker=2)),
            {"j-worker-1": "Failed"},
            "Running",
            "TFJob ns/j is running.",
        ),
        (
            manifest("XGBoostJob", xgbReplicaSpecs=roles("xgboost", Master=1, Worker=(2, "OnFailure"))),
            {"j-worker-0": "Failed"},
            "Failed",
            "XGBoostJob j is failed because 1 Worker replica(s) failed.",
        ),
        (
            manifest("XGBoostJob", xgbReplicaSpecs=roles("xgboost", Master=1, Worker=2)),
            {"j-master-0": "Succeeded"},
            "Succeeded",
            "XGBoostJob j is successfully completed.",
        ),
        (
            manifest("PaddleJob", paddleReplicaSpecs=roles("paddle", Worker=2)),
            {"j-worker-0": "Succeeded", "j-worker-1": "Succeeded"},
            "Succeeded",
            "PaddleJob ns/j successfully completed.",
        ),
        (
            manifest("JAXJob", jaxReplicaSpecs=roles("jax", Worker=2)),
            {"j-worker-1": "Failed"},
            "Failed",
            "JAXJob j is failed because 1 Worker replica(s) failed.",
        ),
        (
            manifest("MPIJob", mpiReplicaSpecs=roles("mpi", Launcher=1, Worker=2)),
            {"j-launcher": "Succeeded"},
            "Succeeded",
            "MPIJob j is successfully completed.",
        ),
        (
            manifest("MPIJob", mpiReplicaSpecs=roles("mpi", Launcher=1, Worker=2)),
            {"j-worker-1": "Failed"},
            "Failed",
            "MPIJob j is failed because 1 Worker replica(s) failed.",
        ),
        (
            manifest("MPIJob", api_version="kubeflow.org/v2beta1", mpiImplementation="OpenMPI")
            | {"spec": {"mpiImplementation": "OpenMPI", "mpiReplicaSpecs": roles("mpi", Launcher=1, Worker=2)}},
            {"j-launcher": "Succeeded"},
            "Succeeded",
            "MPIJob ns/j successfully completed.",
        ),
    ],
)
async def test_how_jobs_end(job, outcomes, state, message):
    async with TrainingWorld() as world:
        await world.submit(job)
        await world.all_pods("Running")
        assert world.state() == "Running"
        for name, phase in outcomes.items():
            if world.state() == "Running":
                await world.pod(name, phase)
        assert world.state() == state
        assert world.condition(state).message == message


@pytest.mark.parametrize(
    ("policy", "code", "restarts"),
    [
        ("OnFailure", 1, True),
        ("Always", 1, True),
        ("ExitCode", 137, True),
        ("ExitCode", 128, True),
        ("ExitCode", 127, False),
        ("Never", 137, False),
    ],
)
async def test_restart_policies(policy, code, restarts):
    async with TrainingWorld() as world:
        await world.submit(pytorch((1, policy)))
        assert world.find_pod("j-worker-0").spec.restart_policy == ("Never" if policy == "ExitCode" else policy)
        await world.all_pods("Running")
        first = world.find_pod("j-worker-0").metadata.uid
        await world.pod("j-worker-0", "Failed", code)
        if not restarts:
            assert world.state() == "Failed"
            assert world.job.status.completion_time
            return
        assert world.find_pod("j-worker-0").metadata.uid != first
        # The master still runs, so the job runs again as soon as the failed pod is gone.
        assert world.state() == "Running"
        assert world.condition("Restarting") is None
        messages = world.recorder.of("PyTorchJobRestarting")
        assert messages == ["job j is restarting because Worker replica(s) failed."]
        assert world.job.metadata.annotations["unisono.io/restarts"] == "1"


async def test_a_permanent_exit_code_fails_the_job_and_says_so():
    async with TrainingWorld() as world:
        await world.submit(pytorch((1, "ExitCode")))
        await world.all_pods("Running")
        await world.pod("j-worker-0", "Failed", 2)
        assert world.condition("Failed").message == 'job "j" is failing because "Worker" replica(s) failed.'
        assert world.recorder.of("ExitedWithCode") == ["Pod: ns.j-worker-0 exited with code 2"]


@pytest.mark.parametrize(("limit", "failures"), [(0, 1), (1, 1), (3, 3)])
async def test_backoff_limit_bounds_restarts_of_pods(limit, failures):
    async with TrainingWorld() as world:
        await world.submit(pytorch((1, "ExitCode"), runPolicy={"backoffLimit": limit}))
        for _ in range(failures):
            # Longer than any restart waits.
            await world.advance(400)
            assert world.state() != "Failed"
            await world.all_pods("Running")
            await world.pod("j-worker-0", "Failed", 137)
        text = "PyTorchJob j has failed because it has reached the specified backoff limit"
        assert world.condition("Failed").message == text


async def test_backoff_limit_bounds_restarts_in_place():
    async with TrainingWorld() as world:
        await world.submit(pytorch(1, runPolicy={"backoffLimit": 2}))
        await world.all_pods("Running")
        await world.pod("j-worker-0", "Running", restarts=1)
        assert world.state() == "Running"
        await world.pod("j-worker-0", "Running", restarts=2)
        assert world.state() == "Failed"


async def test_losing_a_node_does_not_count_against_the_limit():
    async with TrainingWorld() as world:
        await world.submit(pytorch((1, "ExitCode"), runPolicy={"backoffLimit": 1}))
        await world.all_pods("Running")
        await world.pod("j-worker-0", "Failed", 137, disrupted=True)
        assert world.state() == "Running"
        assert "j-worker-0" in world.names()


@pytest.mark.parametrize("policy", ["Never", "OnFailure", "ExitCode"])
async def test_an_evicted_pod_restarts_the_job_and_does_not_fail_it(policy):
    async with TrainingWorld() as world:
        await world.submit(pytorch((2, policy)))
        await world.all_pods("Running")
        await world.evict("j-worker-1")
        assert world.state() == "Restarting"
        await world.finish_deletions()
        assert world.state() == "Running"
        assert world.names() == ["j-master-0", "j-worker-0", "j-worker-1"]


async def test_suspend_takes_everything_away_and_resume_brings_it_back():
    async with TrainingWorld() as world:
        await world.submit(pytorch())
        await world.all_pods("Running")
        started = world.job.status.start_time
        await world.advance(50)
        await world.change(runPolicy={"suspend": True})
        await world.finish_deletions()
        assert world.names() == []
        assert world.services() == []
        assert world.group() is None
        assert world.state() == "Suspended"
        assert world.condition("Suspended").message == "PyTorchJob j is suspended."
        running = world.condition("Running")
        assert (running.status, running.reason) == ("False", "PyTorchJobSuspended")
        await world.change(runPolicy={"suspend": False})
        assert world.condition("Suspended").status == "False"
        assert world.condition("Suspended").reason == "PyTorchJobResumed"
        assert world.job.status.start_time > started
        await world.admit()
        await world.all_pods("Running")
        assert world.state() == "Running"


async def test_a_job_that_starts_suspended_makes_nothing():
    async with TrainingWorld() as world:
        await world.submit(pytorch(suspend=True))
        assert [each.type for each in world.job.status.conditions] == ["Created", "Suspended"]
        assert world.client.objects(PODS) == world.client.objects(POD_GROUPS) == []


@pytest.mark.parametrize("place", ["runPolicy", "spec"])
@pytest.mark.parametrize(
    ("policy", "left"),
    [
        ("None", ["j-master-0", "j-worker-0", "j-worker-1"]),
        ("Running", ["j-master-0", "j-worker-0"]),
        ("All", []),
    ],
)
async def test_clean_pod_policy(policy, left, place):
    fields = {"cleanPodPolicy": policy}
    async with TrainingWorld() as world:
        await world.submit(pytorch(**({"runPolicy": fields} if place == "runPolicy" else fields)))
        await world.all_pods("Running")
        await world.pod("j-worker-0", "Succeeded")
        await world.pod("j-master-0", "Succeeded")
        await world.finish_deletions()
        assert world.names() == left
        assert world.services() == left
        assert world.created_pods() == 3


async def test_the_job_is_deleted_after_its_time_to_live():
    async with TrainingWorld() as world:
        await world.submit(pytorch(runPolicy={"ttlSecondsAfterFinished": 30}))
        await world.pod("j-master-0", "Succeeded")
        await world.advance(29)
        assert world.state() == "Succeeded"
        await world.advance(2)
        assert world.client.objects(world.kind) == []


async def test_the_deadline_needs_no_event():
    async with TrainingWorld() as world:
        await world.submit(pytorch(activeDeadlineSeconds=60), admit=False)
        await world.advance(100)
        assert world.state() == "Created", "waiting in the queue is not being active"
        await world.admit()
        await world.all_pods("Running")
        await world.advance(59)
        assert world.state() == "Running"
        await world.advance(2)
        assert world.state() == "Failed"
        text = "PyTorchJob j has failed because it was active longer than specified deadline"
        assert world.condition("Failed").message == text


@pytest.mark.parametrize(
    ("policy", "own", "told"),
    [
        ({"minReplicas": 1, "maxReplicas": 4}, [], "1"),
        ({"minReplicas": 1, "maxReplicas": 4}, [{"name": "TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "value": "0"}], "0"),
        (None, [], None),
    ],
)
async def test_workers_may_join_an_elastic_job_late(policy: object, own: list[object], told: str | None):
    """torchrun hides its shared store from those who come later; the author of the job has the last word."""
    workers = roles("pytorch", Worker=2)
    workers["Worker"]["template"]["spec"]["containers"][0]["env"] = own
    spec = {"pytorchReplicaSpecs": workers, **({"elasticPolicy": policy} if policy else {})}
    async with TrainingWorld() as world:
        await world.submit(manifest("PyTorchJob", **spec))
        for pod in world.client.objects(PODS):
            found = [each.value for each in pod.spec.containers[0].env if each.name.startswith("TORCH_")]
            assert found == ([told] if told else [])


async def test_a_running_job_is_scaled():
    elastic = {"minReplicas": 1, "maxReplicas": 4}
    async with TrainingWorld() as world:
        await world.submit(pytorch(2, master=None, elasticPolicy=elastic))
        await world.all_pods("Running")
        assert world.group().spec.min_member == 1
        specs = roles("pytorch", Worker=4)
        await world.change(pytorchReplicaSpecs=specs)
        assert world.names() == [f"j-worker-{i}" for i in range(4)]
        await world.all_pods("Running")
        specs["Worker"]["replicas"] = 1
        await world.change(pytorchReplicaSpecs=specs)
        await world.finish_deletions()
        assert world.names() == world.services() == ["j-worker-0"]
        assert world.state() == "Running"
        assert world.job.status.replica_statuses["Worker"].active == 1
        selector = world.job.status.replica_statuses["Worker"].selector
        assert selector == (
            "training.kubeflow.org/job-name=j,training.kubeflow.org/operator-name=pytorchjob-controller,"
            "training.kubeflow.org/replica-type=worker"
        )


async def test_the_scheduling_policy_makes_the_pod_group():
    policy = {"minAvailable": 2, "queue": "q", "priorityClass": "high", "minResources": {"cpu": "3"}}
    async with TrainingWorld() as world:
        await world.submit(pytorch(runPolicy={"schedulingPolicy": policy}), admit=False)
        spec = world.group().spec
        assert (spec.min_member, spec.queue, spec.priority_class_name) == (2, "q", "high")
        assert spec.min_resources == {"cpu": "3"}
        await world.client.patch(POD_GROUPS, "j", {"spec": {"minMember": 1, "subGroupPolicy": []}}, namespace="ns")
        await world.settle()
        assert world.group().spec.min_member == 2


async def test_a_foreign_pod_group_is_left_alone():
    async with TrainingWorld() as world:
        await world.submit(pytorch(), admit=False)
        assert world.group() is not None
        other = pytorch() | {"kind": "TFJob", "spec": {"tfReplicaSpecs": roles("tensorflow", Worker=1)}}
        await world.submit(other, admit=False)
        assert world.group().metadata.owner_references[0].kind == "PyTorchJob"
        assert "belongs to something else" in world.recorder.of("FailedCreatePodGroup")[0]


async def test_jobs_of_other_managers_are_left_alone():
    async with TrainingWorld() as world:
        await world.submit(pytorch(runPolicy={"managedBy": "kueue.x-k8s.io/multikueue"}))
        assert world.job.status.conditions is None
        assert world.client.objects(POD_GROUPS) == []


async def test_an_invalid_job_on_a_server_without_admission_is_told_so():
    async with TrainingWorld() as world:
        await world.submit(manifest("XGBoostJob", xgbReplicaSpecs=roles("xgboost", Worker=1)))
        assert world.client.objects(POD_GROUPS) == []
        message = "XGBoostJob failed validation because spec.xgbReplicaSpecs[Master]: Required value: must be present"
        assert world.recorder.of("XGBoostJobFailedValidation") == [message]


async def test_a_deleted_service_comes_back():
    async with TrainingWorld() as world:
        await world.submit(pytorch())
        from unisono.api.kinds import SERVICES

        await world.client.delete(SERVICES, "j-master-0", "ns")
        await world.settle()
        assert "j-master-0" in world.services()


async def test_creation_asks_once_per_pod_and_service():
    async with TrainingWorld() as world:
        await world.submit(pytorch(40))
        for resource in ("pods", "services"):
            creates = [w.key for w in world.client.writes if (w.operation, w.resource) == ("create", resource)]
            assert len(creates) == len(set(creates)) == 41
