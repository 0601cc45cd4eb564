"""JobSets and TrainJobs from submission to their end: order, restarts, success, suspension, runtimes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from training_world import TrainingWorld, template

from unisono.api.groups.job_set import JobSetDependsOn, JobTemplateSpec, ReplicatedJob
from unisono.api.kind_families import CLUSTER_TRAINING_RUNTIMES, JOB_SETS, TRAINING_RUNTIMES
from unisono.api.kinds import PODS, SERVICES


def jobs(name: str, replicas: int = 1, pods: int = 1, limit: int = 0, **fields: Any) -> dict[str, Any]:
    spec = {
        "parallelism": pods,
        "completions": pods,
        "backoffLimit": limit,
        "template": template(restartPolicy="Never"),
    }
    return {"name": name, "replicas": replicas, "template": {"spec": spec}} | fields


def job_set(*replicated: dict[str, Any], name: str = "js", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"replicatedJobs": list(replicated), **spec},
    }


def hosts(world: TrainingWorld) -> list[str]:
    """Host names of the pods that have not ended."""
    return sorted(
        pod.spec.hostname
        for pod in world.pods()
        if not pod.metadata.deletion_timestamp and pod.status.phase not in ("Succeeded", "Failed")
    )


async def end(world: TrainingWorld, host: str, phase: str, **fields: Any) -> None:
    found = [p for p in world.pods() if p.spec.hostname == host and p.status.phase not in ("Succeeded", "Failed")]
    assert len(found) == 1, (host, hosts(world))
    await world.pod(found[0].metadata.name, phase, **fields)


async def test_a_job_set_runs_as_one_gang_to_its_end():
    async with TrainingWorld() as world:
        await world.submit(job_set(jobs("a"), jobs("b", 2, 2)), admit=False)
        assert world.pods() == []
        assert world.group().spec.min_member == 5
        await world.admit()
        assert hosts(world) == ["js-a-0-0", "js-b-0-0", "js-b-0-1", "js-b-1-0", "js-b-1-1"]
        assert world.services() == ["js"]
        await world.all_pods("Running")
        status = {each.name: each for each in world.job.status.replicated_jobs_status}
        assert (status["b"].ready, status["b"].active, status["a"].ready) == (2, 2, 1)
        await world.all_pods("Succeeded")
        assert world.job.status.terminal_state == "Completed"
        assert world.condition("Completed").message == "jobset completed successfully"
        assert world.group() is None


@pytest.mark.parametrize(
    ("policy", "failures", "reason", "restarts"),
    [
        (None, 1, "FailedJobs", 0),
        ({"maxRestarts": 0}, 1, "ReachedMaxRestarts", 0),
        ({"maxRestarts": 2}, 2, None, 2),
        ({"maxRestarts": 2}, 3, "ReachedMaxRestarts", 2),
        ({"maxRestarts": 2, "rules": [{"action": "FailJobSet"}]}, 1, "FailJobSetFailurePolicyAction", 0),
        ({"maxRestarts": 0, "rules": [{"action": "RestartJobSetAndIgnoreMaxRestarts"}]}, 3, None, 3),
        (
            {
                "maxRestarts": 0,
                "rules": [{"action": "RestartJobSetAndIgnoreMaxRestarts", "targetReplicatedJobs": ["b"]}],
            },
            1,
            "ReachedMaxRestarts",
            0,
        ),
        (
            {
                "maxRestarts": 1,
                "rules": [{"action": "FailJobSet", "onJobFailureReasons": ["DeadlineExceeded"]}],
            },
            1,
            None,
            1,
        ),
        (
            {"maxRestarts": 1, "rules": [{"action": "FailJobSet", "onJobFailureMessagePatterns": ["back.ff"]}]},
            1,
            "FailJobSetFailurePolicyAction",
            0,
        ),
    ],
)
async def test_failure_policies(policy, failures, reason, restarts):
    async with TrainingWorld() as world:
        await world.submit(job_set(jobs("a"), jobs("b"), **({"failurePolicy": policy} if policy else {})))
        for _ in range(failures):
            await world.all_pods("Running")
            await end(world, "js-a-0-0", "Failed")
            await world.finish_deletions()
        assert (world.job.status.restarts or 0) == restarts
        if reason is None:
            assert not world.job.status.terminal_state
            assert hosts(world) == ["js-a-0-0", "js-b-0-0"]
            marks = {pod.metadata.labels["jobset.sigs.k8s.io/restart-attempt"] for pod in world.pods()}
            assert marks == {str(restarts)}
        else:
            assert world.job.status.terminal_state == "Failed"
            assert world.condition("Failed").reason == reason
            assert hosts(world) == []


async def test_one_job_restarts_and_the_others_go_on():
    async with TrainingWorld() as world:
        policy = {"maxRestarts": 1, "rules": [{"action": "RestartJob"}]}
        await world.submit(job_set(jobs("a", 2), failurePolicy=policy))
        await world.all_pods("Running")
        kept = [pod.metadata.uid for pod in world.pods() if pod.spec.hostname == "js-a-1-0"]
        await end(world, "js-a-0-0", "Failed")
        assert hosts(world) == ["js-a-0-0", "js-a-1-0"]
        assert [pod.metadata.uid for pod in world.pods() if pod.spec.hostname == "js-a-1-0"] == kept
        assert world.job.status.replicated_jobs_status[0].job_restarts == [1, 0]
        await end(world, "js-a-0-0", "Failed")
        assert world.condition("Failed").reason == "ReachedMaxRestarts"


async def test_failed_pods_are_tried_again_up_to_the_backoff_limit():
    async with TrainingWorld() as world:
        await world.submit(job_set(jobs("a", limit=2)))
        for _ in range(2):
            await world.all_pods("Running")
            await end(world, "js-a-0-0", "Failed")
            assert hosts(world) == ["js-a-0-0"]
        await end(world, "js-a-0-0", "Failed")
        assert world.condition("Failed").reason == "FailedJobs"


async def test_evictions_do_not_count():
    async with TrainingWorld() as world:
        await world.submit(job_set(jobs("a")))
        await world.all_pods("Running")
        await end(world, "js-a-0-0", "Failed", disrupted=True)
        assert hosts(world) == ["js-a-0-0"]
        assert not world.job.status.terminal_state


async def test_jobs_wait_for_those_they_depend_on_and_the_gang_grows():
    async with TrainingWorld() as world:
        first, second = jobs("a", 2), jobs("b", 2, dependsOn=[{"name": "a", "status": "Complete"}])
        await world.submit(job_set(first, second))
        assert world.group().spec.min_member == 2
        assert hosts(world) == ["js-a-0-0", "js-a-1-0"]
        await world.all_pods("Succeeded")
        assert world.group().spec.min_member == 4
        assert hosts(world) == ["js-b-0-0", "js-b-1-0"]


async def test_startup_in_order():
    async with TrainingWorld() as world:
        await world.submit(job_set(jobs("a"), jobs("b"), startupPolicy={"startupPolicyOrder": "InOrder"}))
        assert hosts(world) == ["js-a-0-0"]
        assert world.holding() == {"StartupPolicyInProgress"}
        await world.all_pods("Running")
        assert hosts(world) == ["js-a-0-0", "js-b-0-0"]
        await world.all_pods("Running")
        assert world.holding() == {"StartupPolicyCompleted"}


async def test_success_of_any_target_ends_the_job_set_and_its_other_pods():
    async with TrainingWorld() as world:
        policy = {"operator": "Any", "targetReplicatedJobs": ["b"]}
        await world.submit(job_set(jobs("a"), jobs("b", 2), successPolicy=policy))
        await world.all_pods("Running")
        await end(world, "js-a-0-0", "Succeeded")
        assert not world.job.status.terminal_state
        await end(world, "js-b-1-0", "Succeeded")
        await world.finish_deletions()
        assert world.job.status.terminal_state == "Completed"
        assert hosts(world) == []


async def test_fewer_pods_at_once_than_completions():
    async with TrainingWorld() as world:
        wide = jobs("a", pods=2)
        wide["template"]["spec"]["completions"] = 3
        await world.submit(job_set(wide))
        assert hosts(world) == ["js-a-0-0", "js-a-0-1"]
        await end(world, "js-a-0-1", "Succeeded")
        assert hosts(world) == ["js-a-0-0", "js-a-0-2"]


async def test_suspension_and_time_to_live_of_a_job_set():
    async with TrainingWorld() as world:
        await world.submit(job_set(jobs("a", 2), suspend=True, ttlSecondsAfterFinished=5))
        assert world.condition("Suspended").reason == "SuspendedJobs"
        assert world.job.status.replicated_jobs_status[0].suspended == 2
        assert world.pods() == []
        await world.change(suspend=False)
        await world.admit()
        assert world.condition("Suspended").reason == "ResumeJobs"
        await world.all_pods("Succeeded")
        await world.advance(6)
        assert world.client.objects(JOB_SETS) == []


# --- TrainJob ---------------------------------------------------------------------------------------------------


def train_job(runtime: str = "torch-distributed", **spec: Any) -> dict[str, Any]:
    kind = spec.pop("runtime_kind", None)
    reference = {"name": runtime} | ({"kind": kind} if kind else {})
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "tj", "namespace": "ns"},
        "spec": {"runtimeRef": reference, **spec},
    }


def node_env(world: TrainingWorld) -> dict[str, Any]:
    pod = world.pods()[0]
    return {each.name: each.value for each in pod.spec.containers[0].env or ()}


async def test_built_in_runtimes_are_there():
    async with TrainingWorld() as world:
        names = [each.metadata.name for each in world.client.objects(CLUSTER_TRAINING_RUNTIMES)]
        assert names == ["deepspeed-distributed", "jax-distributed", "torch-distributed", "xgboost-distributed"]
        changed = world.client.objects(CLUSTER_TRAINING_RUNTIMES)[0]
        changed.spec.ml_policy.num_nodes = 7
        world.client.put(CLUSTER_TRAINING_RUNTIMES, changed)
        await world.restart()
        assert world.client.objects(CLUSTER_TRAINING_RUNTIMES)[0].spec.ml_policy.num_nodes == 7


async def test_a_train_job_runs_to_its_end():
    async with TrainingWorld() as world:
        await world.submit(train_job(trainer={"numNodes": 2}))
        assert hosts(world) == ["tj-node-0-0", "tj-node-0-1"]
        assert world.group().spec.min_member == 2
        assert world.client.find(SERVICES, "ns/tj") is not None
        await world.all_pods("Running")
        (status,) = world.job.status.jobs_status
        assert (status.name, status.ready, status.active) == ("node", 1, 1)
        await world.all_pods("Succeeded")
        complete = world.condition("Complete")
        assert (complete.reason, complete.message) == ("AllJobsCompleted", "jobset completed successfully")


async def test_a_train_job_fails_with_its_job_set():
    async with TrainingWorld() as world:
        await world.submit(train_job())
        for _ in range(7):
            await world.all_pods("Running")
            await end(world, "tj-node-0-0", "Failed")
        assert world.condition("Failed").reason == "FailedJobs"


@pytest.mark.parametrize(
    ("trainer", "expected"),
    [
        ({}, {"PET_NNODES": "1", "PET_NPROC_PER_NODE": "1"}),
        ({"numNodes": 4}, {"PET_NNODES": "4", "PET_MASTER_ADDR": "tj-node-0-0.tj", "PET_MASTER_PORT": "29500"}),
        ({"resourcesPerNode": {"limits": {"cpu": "2500m"}}}, {"PET_NPROC_PER_NODE": "3"}),
        ({"resourcesPerNode": {"limits": {"nvidia.com/gpu": 2}}}, {"PET_NPROC_PER_NODE": "auto"}),
        ({"numProcPerNode": 5}, {"PET_NPROC_PER_NODE": "5"}),
    ],
)
async def test_variables_of_torchrun(trainer, expected):
    async with TrainingWorld() as world:
        await world.submit(train_job(trainer=trainer))
        assert expected.items() <= node_env(world).items()


async def test_suspending_and_resuming_a_train_job():
    async with TrainingWorld() as world:
        await world.submit(train_job())
        await world.all_pods("Running")
        await world.change(suspend=True)
        await world.finish_deletions()
        assert world.client.objects(PODS) == []
        assert world.condition("Suspended").message == "TrainJob is suspended"
        await world.change(suspend=False)
        await world.admit()
        assert hosts(world) == ["tj-node-0-0"]
        assert world.condition("Suspended").reason == "Resumed"


async def test_the_deadline_of_a_train_job():
    async with TrainingWorld() as world:
        await world.submit(train_job(activeDeadlineSeconds=30))
        await world.all_pods("Running")
        await world.advance(31)
        assert world.condition("Failed").reason == "DeadlineExceeded"
        world.client.collect_garbage()
        await world.settle()
        await world.finish_deletions()
        assert world.client.objects(JOB_SETS) == world.client.objects(PODS) == []


async def test_a_runtime_may_come_later():
    async with TrainingWorld() as world:
        await world.submit(train_job("mine", runtime_kind="TrainingRuntime"))
        assert "TrainingRuntime mine does not exist" in world.recorder.of("TrainingRuntimeNotFound")[0]
        shared = world.client.find(CLUSTER_TRAINING_RUNTIMES, "jax-distributed")
        own = TRAINING_RUNTIMES.struct(spec=shared.spec)
        own.metadata.name, own.metadata.namespace = "mine", "ns"
        world.client.put(TRAINING_RUNTIMES, own)
        await world.advance(11)
        await world.admit()
        assert node_env(world)["JAX_COORDINATOR_ADDRESS"] == "tj-node-0-0.tj:29500"


async def test_a_runtime_without_jobs_is_told_and_read_again():
    async with TrainingWorld() as world:
        shared = world.client.find(CLUSTER_TRAINING_RUNTIMES, "torch-distributed")
        hollow = msgspec.convert(msgspec.to_builtins(shared), CLUSTER_TRAINING_RUNTIMES.struct)
        hollow.metadata.name, hollow.spec.template.spec.replicated_jobs = "hollow", None
        world.client.put(CLUSTER_TRAINING_RUNTIMES, hollow)
        await world.settle()
        await world.submit(train_job("hollow"), admit=False)
        assert "ClusterTrainingRuntime hollow has no job" in world.recorder.of("NoJobInRuntime")[0]
        hollow.spec = shared.spec
        world.client.put(CLUSTER_TRAINING_RUNTIMES, hollow)
        await world.advance(11)
        await world.admit()
        assert hosts(world)


async def test_a_trainer_that_no_job_of_the_runtime_takes_is_told():
    async with TrainingWorld() as world:
        shared = world.client.find(CLUSTER_TRAINING_RUNTIMES, "torch-distributed")
        plain = msgspec.convert(msgspec.to_builtins(shared), CLUSTER_TRAINING_RUNTIMES.struct)
        plain.metadata.name = "plain"
        for step in plain.spec.template.spec.replicated_jobs:
            step.template.metadata.labels = None
        world.client.put(CLUSTER_TRAINING_RUNTIMES, plain)
        await world.settle()
        await world.submit(train_job("plain", trainer={"numNodes": 2, "command": ["train"]}))
        [told] = world.recorder.of("TrainerNotRun")
        assert told.startswith("spec.trainer has no effect but for numNodes: no job of the runtime has the label")
        assert len(hosts(world)) == 2


async def test_the_dataset_is_fetched_first():
    async with TrainingWorld() as world:
        runtime = world.client.find(CLUSTER_TRAINING_RUNTIMES, "torch-distributed")
        steps = runtime.spec.template.spec.replicated_jobs
        node = ReplicatedJob(
            name="node", template=steps[0].template, depends_on=[JobSetDependsOn(name="dataset", status="Complete")]
        )
        fetching = msgspec.convert(msgspec.to_builtins(steps[0].template), JobTemplateSpec)
        fetching.metadata.labels = {"trainer.kubeflow.org/trainjob-ancestor-step": "dataset-initializer"}
        decoded = TRAINING_RUNTIMES.struct(spec=runtime.spec)
        decoded.metadata.name, decoded.metadata.namespace = "mine", "ns"
        decoded.spec.template.spec.replicated_jobs = [ReplicatedJob(name="dataset", template=fetching), node]
        world.client.put(TRAINING_RUNTIMES, decoded)
        await world.settle()
        source = {"dataset": {"storageUri": "hf://org/data", "secretRef": {"name": "token"}}}
        await world.submit(train_job("mine", runtime_kind="TrainingRuntime", initializer=source))
        assert hosts(world) == ["tj-dataset-0-0"]
        assert node_env(world)["STORAGE_URI"] == "hf://org/data"
        await world.all_pods("Succeeded")
        assert hosts(world) == ["tj-node-0-0"]
