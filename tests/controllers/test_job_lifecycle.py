from __future__ import annotations

import msgspec
import pytest
import yaml
from job_world import World, job, policy, task

from unisono.api.annotations import GANG_PARTS
from unisono.api.groups.batch import Job
from unisono.api.kinds import COMMANDS, CONFIG_MAPS, JOBS, POD_GROUPS, PODS, SERVICES

HELLO = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: hello-volcano-job, namespace: default}
spec:
  schedulerName: volcano
  minAvailable: 1
  tasks:
    - name: mytask
      replicas: 1
      template:
        spec:
          containers:
            - name: hello-container
              image: busybox
              command: ["sh", "-c", "echo 'Hello Volcano!' && sleep 300"]
              imagePullPolicy: IfNotPresent
          restartPolicy: Never
"""


async def test_hello_runs_to_completion():
    async with World() as world:
        await world.submit(msgspec.convert(yaml.safe_load(HELLO), Job))
        name = "hello-volcano-job"
        assert world.phase(name) == "Pending"
        assert world.names() == []
        assert world.group(name).status.phase == "Pending"
        await world.admit(name)
        assert world.names() == ["hello-volcano-job-mytask-0"]
        await world.pod("hello-volcano-job-mytask-0", "Running")
        assert world.phase(name) == "Running"
        await world.advance(300)
        await world.pod("hello-volcano-job-mytask-0", "Succeeded")
        status = world.job(name).status
        assert status.state.phase == "Completed"
        assert status.succeeded == 1
        assert status.task_status_count["mytask"].phase == {"Succeeded": 1}
        assert status.running_duration == "5m0s"
        assert [c.status for c in status.conditions] == ["Pending", "Running", "Completed"]
        assert world.group(name) is None
        assert world.names() == ["hello-volcano-job-mytask-0"]


async def test_no_pod_before_the_gang_is_admitted_and_all_after():
    async with World() as world:
        await world.submit(job(task("a", 2), task("b", 3)))
        assert world.pods() == []
        await world.admit()
        assert world.names() == ["job-a-0", "job-a-1", "job-b-0", "job-b-1", "job-b-2"]
        assert world.phase() == "Pending"
        await world.all_pods("Running")
        assert world.phase() == "Running"
        assert world.job().status.running == 5


async def test_creation_asks_once_per_pod():
    async with World() as world:
        await world.submit(job(task("a", 40)))
        await world.admit()
        creates = [w.key for w in world.client.writes if (w.operation, w.resource) == ("create", "pods")]
        assert len(creates) == len(set(creates)) == 40


@pytest.mark.parametrize(
    ("spec", "outcomes", "end"),
    [
        ({}, {"job-a-0": "Succeeded", "job-a-1": "Succeeded"}, "Completed"),
        ({}, {"job-a-0": "Succeeded", "job-a-1": "Failed"}, "Failed"),
        ({"minAvailable": 1}, {"job-a-0": "Succeeded", "job-a-1": "Failed"}, "Completed"),
        ({"minAvailable": 1}, {"job-a-0": "Failed", "job-a-1": "Failed"}, "Failed"),
        ({"minSuccess": 1}, {"job-a-0": "Succeeded", "job-a-1": "Running"}, "Completed"),
        ({"minSuccess": 2, "minAvailable": 1}, {"job-a-0": "Succeeded", "job-a-1": "Failed"}, "Failed"),
        ({}, {"job-a-0": "Failed", "job-a-1": "Running"}, "Running"),
        ({}, {"job-a-0": "Running", "job-a-1": "Pending"}, "Pending"),
        ({"minAvailable": 1}, {"job-a-0": "Running", "job-a-1": "Pending"}, "Running"),
    ],
)
async def test_how_a_job_ends_without_policies(spec, outcomes, end):
    async with World() as world:
        await world.submit(job(task("a", 2), **spec))
        await world.admit()
        for name, phase in outcomes.items():
            await world.pod(name, phase)
        assert world.phase() == end


async def test_min_success_kills_the_rest_and_keeps_the_winners():
    async with World() as world:
        await world.submit(job(task("a", 3), minAvailable=1, minSuccess=2))
        await world.admit()
        await world.all_pods("Running")
        await world.pod("job-a-0", "Succeeded")
        await world.pod("job-a-1", "Succeeded")
        assert world.phase() == "Completed"
        assert world.names() == ["job-a-0", "job-a-1"]
        await world.finish_deletions()
        status = world.job().status
        assert (status.succeeded, status.terminating, status.running) == (2, None, None)


ACTIONS = [
    ("RestartJob", ["Pending", "Running", "Restarting", "Pending", "Running"]),
    ("RestartTask", ["Pending", "Running", "Restarting", "Pending", "Running"]),
    ("RestartPod", ["Pending", "Running", "Restarting", "Pending", "Running"]),
    ("AbortJob", ["Pending", "Running", "Aborting", "Aborted"]),
    ("TerminateJob", ["Pending", "Running", "Terminating", "Terminated"]),
    ("CompleteJob", ["Pending", "Running", "Completing", "Completed"]),
]


@pytest.mark.parametrize("event", ["PodFailed", "PodEvicted", "*", "exit", "lost"])
@pytest.mark.parametrize("level", ["job", "task"])
@pytest.mark.parametrize(("action", "history"), ACTIONS)
async def test_policies(event, level, action, history):
    rule = policy(action, exitCode=3) if event == "exit" else policy(action, "PodEvicted" if event == "lost" else event)
    policies = {"policies": [rule]}
    async with World() as world:
        tasks = [task("a", 1), task("b", 2, **(policies if level == "task" else {}))]
        await world.submit(job(*tasks, **(policies if level == "job" else {})))
        await world.admit()
        await world.all_pods("Running")
        if event == "PodEvicted":
            await world.client.delete(PODS, "job-b-1", "default")
        elif event == "lost":
            await world.client.delete(PODS, "job-b-1", "default", grace_seconds=0)
        else:
            await world.pod("job-b-1", "Failed", 3)
        await world.settle()
        await world.finish_deletions()
        if action.startswith("Restart"):
            if world.group().status.phase == "Pending":
                await world.admit()
            assert world.names() == ["job-a-0", "job-b-0", "job-b-1"]
            await world.all_pods("Running")
            assert world.job().status.retry_count == 1
            assert world.job().status.version == (1 if action == "RestartJob" else None)
        elif event in ("PodEvicted", "lost"):
            assert world.names() == []
        else:
            assert world.names() == ["job-b-1"]
            assert world.job().status.failed == 1
        assert world.history() == history
        assert [m for m in world.recorder.of("ExecuteAction") if action in m]


async def test_task_policy_comes_before_the_jobs():
    async with World() as world:
        await world.submit(
            job(
                task("a", 1, policies=[policy("RestartJob", "PodFailed")]),
                task("b", 1),
                policies=[policy("AbortJob", "PodFailed")],
            )
        )
        await world.admit()
        await world.all_pods("Running")
        await world.pod("job-a-0", "Failed")
        assert "Restarting" in world.history()
        await world.finish_deletions()
        await world.admit()
        await world.all_pods("Running")
        await world.pod("job-b-0", "Failed")
        assert world.history()[-1] == "Aborting"


async def test_restart_task_takes_the_whole_task_and_nothing_else():
    async with World() as world:
        await world.submit(job(task("a", 2), task("b", 2, policies=[policy("RestartTask", "PodFailed")])))
        await world.admit()
        await world.all_pods("Running")
        kept = {pod.metadata.name: pod.metadata.uid for pod in world.pods()}
        await world.pod("job-b-0", "Failed")
        await world.finish_deletions()
        now = {pod.metadata.name: pod.metadata.uid for pod in world.pods()}
        assert {n for n in kept if kept[n] == now.get(n)} == {"job-a-0", "job-a-1"}
        assert set(now) == set(kept)


async def test_pod_killed_by_a_restart_is_no_eviction():
    rules = [policy("RestartPod", "PodFailed"), policy("TerminateJob", "PodEvicted", timeout="5m")]
    async with World() as world:
        await world.submit(job(task("a", 2), policies=rules))
        await world.admit()
        await world.all_pods("Running")
        await world.pod("job-a-0", "Failed")
        await world.finish_deletions()
        await world.all_pods("Running")
        await world.advance(600)
        assert world.history() == ["Pending", "Running", "Restarting", "Pending", "Running"]


async def test_task_completed_completes_the_job():
    async with World() as world:
        tasks = [task("master", 1, policies=[policy("CompleteJob", "TaskCompleted")]), task("worker", 2)]
        await world.submit(job(*tasks))
        await world.admit()
        await world.all_pods("Running")
        await world.pod("job-master-0", "Succeeded")
        assert world.phase() == "Completing"
        await world.finish_deletions()
        assert world.history() == ["Pending", "Running", "Completing", "Completed"]
        assert world.names() == ["job-master-0"]
        assert world.job().status.succeeded == 1
        assert world.job().status.retry_count is None


async def test_task_failed_counts_container_restarts():
    async with World() as world:
        await world.submit(job(task("a", 2, maxRetry=3), policies=[policy("TerminateJob", "TaskFailed")]))
        await world.admit()
        await world.all_pods("Running")
        await world.pod("job-a-0", "Running", restarts=2)
        assert world.phase() == "Running"
        await world.pod("job-a-1", "Running", restarts=1)
        await world.finish_deletions()
        assert world.phase() == "Terminated"


async def test_unknown_policy_works_after_a_restart_too():
    async with World() as world:
        await world.submit(job(task("a", 1), policies=[policy("RestartJob", "Unknown")], maxRetry=5))
        for round_ in (1, 2):
            await world.advance(60)
            await world.admit()
            await world.all_pods("Running")
            await world.group_phase("Unknown")
            await world.finish_deletions()
            assert world.job().status.retry_count == round_


async def test_max_retry_ends_failed_and_keeps_the_failed_pod():
    async with World() as world:
        await world.submit(job(task("a", 1), task("b", 1), policies=[policy("RestartJob", "PodFailed")], maxRetry=2))
        for _ in range(2):
            await world.admit()
            await world.pod("job-a-0", "Running")
            await world.pod("job-b-0", "Running")
            await world.pod("job-a-0", "Failed", 7)
            await world.finish_deletions()
        status = world.job().status
        assert (status.state.phase, status.retry_count) == ("Failed", 2)
        assert "exit code 7" in status.state.message
        assert world.names() == ["job-a-0"]
        assert (status.failed, status.terminating) == (1, None)


async def test_partial_restarts_share_the_retry_budget():
    async with World() as world:
        await world.submit(job(task("a", 2), policies=[policy("RestartPod", "PodFailed")], maxRetry=3))
        await world.admit()
        for _ in range(3):
            await world.all_pods("Running")
            await world.pod("job-a-1", "Failed")
            await world.finish_deletions()
            await world.advance(60)
        assert world.phase() == "Failed"
        assert world.job().status.retry_count == 3


async def test_pending_too_long_restarts_the_pod():
    async with World() as world:
        await world.submit(job(task("a", 2), policies=[policy("RestartPod", "PodPending", timeout="60s")]))
        await world.admit()
        first = {pod.metadata.name: pod.metadata.uid for pod in world.pods()}
        await world.pod("job-a-0", "Running")
        await world.advance(59)
        assert world.recorder.of("ExecuteAction") == ["Execute action RestartPod after 1m0s"] * 2
        assert world.job().status.retry_count is None
        await world.advance(2)
        await world.finish_deletions()
        now = {pod.metadata.name: pod.metadata.uid for pod in world.pods()}
        assert now["job-a-0"] == first["job-a-0"]
        assert now["job-a-1"] != first["job-a-1"]
        assert world.job().status.retry_count == 1


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("replaced", [False, True])
async def test_an_eviction_waits_for_its_successor(restarted, replaced):
    async with World() as world:
        await world.submit(job(task("a", 2), policies=[policy("TerminateJob", "PodEvicted", timeout="5m")]))
        await world.admit()
        await world.all_pods("Running")
        await world.client.delete(PODS, "job-a-0", "default")
        await world.settle()
        await world.finish_deletions()
        assert world.names() == ["job-a-0", "job-a-1"]
        if restarted:
            await world.restart()
        if replaced:
            await world.pod("job-a-0", "Running")
        await world.advance(301)
        await world.finish_deletions()
        assert world.phase() == ("Running" if replaced else "Terminated")


async def test_abort_and_resume_keep_success_and_redo_failure():
    async with World() as world:
        await world.submit(job(task("a", 3), policies=[policy("AbortJob", "PodFailed")], minAvailable=3))
        await world.admit()
        await world.all_pods("Running")
        await world.pod("job-a-0", "Succeeded")
        done = world.client.find(PODS, "default/job-a-0").metadata.uid
        await world.pod("job-a-1", "Failed")
        await world.finish_deletions()
        assert world.phase() == "Aborted"
        await world.command("ResumeJob")
        await world.finish_deletions()
        await world.admit()
        assert world.names() == ["job-a-0", "job-a-1", "job-a-2"]
        assert world.client.find(PODS, "default/job-a-0").metadata.uid == done
        await world.pod("job-a-1", "Succeeded")
        await world.pod("job-a-2", "Succeeded")
        assert world.phase() == "Completed"
        assert world.job().status.retry_count is None


async def test_commands_are_carried_out_once_and_taken_away():
    async with World() as world:
        await world.submit(job(task("a", 1)))
        await world.admit()
        await world.all_pods("Running")
        await world.command("RestartJob")
        assert world.client.objects(COMMANDS) == []
        await world.finish_deletions()
        await world.admit()
        await world.restart()
        assert world.job().status.retry_count == 1
        await world.command("Bogus")
        assert world.client.objects(COMMANDS) == []
        assert world.phase() == "Pending"


async def test_suspend_of_a_pending_job_leaves_nothing():
    async with World() as world:
        await world.submit(job(task("a", 2)))
        await world.command("AbortJob")
        assert world.phase() == "Aborted"
        assert world.group() is None
        await world.command("ResumeJob")
        await world.admit()
        await world.all_pods("Running")
        assert world.phase() == "Running"


async def test_scale_up_and_down():
    async with World() as world:
        await world.submit(job(task("a", 2), minAvailable=1, plugins={"svc": []}))
        await world.admit()
        await world.all_pods("Running")
        for replicas in (4, 1, 0, 2):
            await world.change("job", tasks=[task("a", replicas)])
            await world.finish_deletions()
            assert world.names() == [f"job-a-{i}" for i in range(replicas)]
            data = world.client.find(CONFIG_MAPS, "default/job-svc").data
            assert data["VC_A_NUM"] == str(replicas)
            assert world.group().spec.min_task_member == {"a": replicas}
            await world.all_pods("Running")
        assert "Restarting" not in world.history()


async def test_the_pod_group_follows_labels_and_annotations_of_the_job():
    async with World() as world:
        await world.submit(job(task("a", 2)))
        group = world.group()
        group.metadata.annotations["others"] = "stay"
        world.client.put(POD_GROUPS, group)
        notes = {"labels": {"team": "x"}, "annotations": {"volcano.sh/sla-waiting-time": "1h"}}
        await world.client.patch(JOBS, "job", {"metadata": notes}, namespace="default")
        await world.settle()
        after = world.group().metadata
        assert (after.uid, after.labels) == (group.metadata.uid, {"team": "x"})
        assert after.annotations is not None
        assert GANG_PARTS in after.annotations
        assert {key: text for key, text in after.annotations.items() if key != GANG_PARTS} == {
            "volcano.sh/job-version": "0",
            "volcano.sh/sla-waiting-time": "1h",
            "others": "stay",
        }


async def test_scale_down_is_no_eviction():
    async with World() as world:
        await world.submit(job(task("a", 3), minAvailable=1, policies=[policy("TerminateJob", "PodEvicted")]))
        await world.admit()
        await world.all_pods("Running")
        await world.change("job", tasks=[task("a", 1)])
        await world.finish_deletions()
        assert world.phase() == "Running"


async def test_depends_on_waits_until_ready():
    async with World() as world:
        tasks = [task("a", 1), task("b", 1, dependsOn={"name": ["a"]})]
        await world.submit(job(*tasks, minAvailable=1))
        await world.admit()
        assert world.names() == ["job-a-0"]
        await world.pod("job-a-0", "Running")
        assert world.names() == ["job-a-0", "job-b-0"]
        await world.pod("job-a-0", "Succeeded")
        await world.pod("job-b-0", "Succeeded")
        assert world.phase() == "Completed"


async def test_failed_dependency_fails_the_job():
    async with World() as world:
        tasks = [task("a"), task("b", dependsOn={"name": ["a"]}), task("c", dependsOn={"name": ["b"]})]
        await world.submit(job(*tasks, minAvailable=1))
        await world.admit()
        await world.pod("job-a-0", "Failed")
        assert world.phase() == "Failed"
        assert world.job().status.state.message == "task b, c can never start: a task that it depends on failed"


async def test_ttl_deletes_the_finished_job_and_everything_with_it():
    async with World() as world:
        await world.submit(job(task("a", 1), ttlSecondsAfterFinished=100, plugins={"svc": [], "env": []}))
        await world.admit()
        await world.all_pods("Succeeded")
        assert world.phase() == "Completed"
        await world.advance(99)
        assert world.client.objects(JOBS)
        await world.advance(2)
        assert world.client.objects(JOBS) == []
        world.client.collect_garbage()
        for kind in (PODS, POD_GROUPS, SERVICES, CONFIG_MAPS):
            assert world.client.objects(kind) == []


async def test_service_lives_as_long_as_the_job_is_active():
    async with World() as world:
        await world.submit(job(task("a", 1), plugins={"svc": []}, policies=[policy("RestartJob", "PodFailed")]))
        made = world.client.find(SERVICES, "default/job").metadata.uid
        await world.admit()
        await world.all_pods("Running")
        await world.pod("job-a-0", "Failed")
        await world.finish_deletions()
        assert world.client.find(SERVICES, "default/job").metadata.uid == made
        await world.admit()
        await world.all_pods("Succeeded")
        assert world.phase() == "Completed"
        assert world.client.objects(SERVICES) == []
        assert world.job().status.controlled_resources is None
