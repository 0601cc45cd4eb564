"""The decision itself: objects and a time in, a plan out."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from job_world import job, policy, task

from unisono.api.core import Pod
from unisono.api.groups.batch import Command, Job, JobCondition, JobState, JobStatus, TaskState
from unisono.api.groups.scheduling import PodGroup
from unisono.api.times import rfc3339
from unisono.controllers.job.decide import LAST_COMMAND, decide
from unisono.controllers.job.observed import Observed
from unisono.controllers.job.view import JobView

NOW = 1_700_000_100.0
START = 1_700_000_000.0


def stored(given: Job, phase: str = "Running", **status: Any) -> Job:
    """The job as the API server holds it."""
    given.metadata.uid, given.metadata.creation_timestamp = "u1", rfc3339(START)
    given.metadata.resource_version = "7"
    given.status = JobStatus(
        state=JobState(phase=phase, last_transition_time=rfc3339(START)),
        conditions=[JobCondition(status=phase, last_transition_time=rfc3339(START))],
        **status,
    )
    return given


def pod(name: str, phase: str = "Running", version: int = 0, uid: str = "u1", **annotations: str) -> Pod:
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "job", "uid": uid, "controller": True}
    value = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "creationTimestamp": rfc3339(START),
            "ownerReferences": [owner],
            "annotations": {
                "volcano.sh/task-spec": name.split("-")[1],
                "volcano.sh/job-version": str(version),
                **annotations,
            },
        },
        "status": {"phase": phase},
    }
    return msgspec.convert(value, Pod)


def deleting(given: Pod, at: float = NOW, grace: int = 30) -> Pod:
    given.metadata.deletion_timestamp = rfc3339(at + grace)
    given.metadata.deletion_grace_period_seconds = grace
    return given


def group(phase: str = "Running", uid: str = "u1", version: int = 0, **spec: Any) -> PodGroup:
    value = {
        "metadata": {
            "name": "job-u1",
            "namespace": "default",
            "uid": "g",
            "annotations": {"volcano.sh/job-version": str(version)},
            "ownerReferences": [{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "job", "uid": uid}],
        },
        "spec": spec,
        "status": {"phase": phase},
    }
    return msgspec.convert(value, PodGroup)


def command(action: str, uid: str = "c1", target: str = "u1") -> Command:
    reference = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "job", "uid": target}
    meta = {"name": f"cmd-{uid}", "namespace": "default", "uid": uid}
    return msgspec.convert({"metadata": meta, "action": action, "target": reference}, Command)


def counted(**tasks: int) -> dict[str, TaskState]:
    return {name: TaskState(phase={"Running": number}) for name, number in tasks.items()}


def test_nothing_is_planned_for_a_job_that_is_being_deleted():
    given = stored(job(task("a", 1)))
    given.metadata.deletion_timestamp = rfc3339(NOW)
    plan = decide(Observed(given), NOW)
    assert (plan.status, plan.create_group, plan.create_pods, plan.ensure) == (None, None, [], [])


def test_a_new_job_is_first_made_pending_and_nothing_else():
    given = job(task("a", 1))
    given.metadata.uid = "u1"
    plan = decide(Observed(given), NOW)
    assert plan.status.state.phase == "Pending"
    assert plan.create_group is None
    assert not plan.ensure


def test_a_settled_job_needs_no_write():
    given = stored(job(task("a", 2)), running=2, min_available=2, replicas=2, task_status_count=counted(a=2))
    seen = Observed(given, [pod("job-a-0"), pod("job-a-1")], group())
    first = decide(seen, NOW)
    assert first.status is None
    assert (first.create_pods, first.delete_pods, first.delete_group) == ([], [], None)


def test_transition_time_moves_with_the_phase_only():
    given = stored(job(task("a", 2), minAvailable=1), running=2, min_available=1, task_status_count=counted(a=2))
    plan = decide(Observed(given, [pod("job-a-0"), pod("job-a-1", "Succeeded")], group()), NOW)
    assert (plan.status.running, plan.status.succeeded) == (1, 1)
    assert plan.status.state.last_transition_time == rfc3339(START)
    plan = decide(Observed(given, [pod("job-a-0", "Succeeded"), pod("job-a-1", "Succeeded")], group()), NOW)
    assert plan.status.state.last_transition_time == rfc3339(NOW)
    assert plan.status.running_duration == "1m40s"
    assert [c.status for c in plan.status.conditions] == ["Running", "Completed"]


@pytest.mark.parametrize(
    ("recorded", "replicas", "names", "expected", "acts"),
    [
        (2, 2, ["job-a-0"], set(), True),
        (2, 2, ["job-a-0", "job-a-1"], set(), False),
        (1, 2, ["job-a-0"], set(), False),
        (3, 1, ["job-a-0"], set(), False),
        (3, 1, [], set(), True),
        (1, 2, ["job-a-0"], {"job-a-1"}, False),
    ],
    ids=["lost", "all there", "never made", "scaled down", "scaled down and lost", "made but not visible"],
)
def test_pods_that_vanish_unseen_count_as_evicted(recorded, replicas, names, expected, acts):
    given = stored(
        job(task("a", replicas), minAvailable=1, policies=[policy("TerminateJob", "PodEvicted")]),
        task_status_count=counted(a=recorded),
    )
    plan = decide(Observed(given, [pod(name) for name in names], group(), expected=frozenset(expected)), NOW)
    assert (plan.status is not None and plan.status.state.phase == "Terminating") == acts


def test_pods_on_their_way_are_not_asked_for_again():
    given = stored(job(task("a", 3)), "Pending")
    plan = decide(Observed(given, [pod("job-a-0")], group("Inqueue"), expected=frozenset({"job-a-2"})), NOW)
    assert [slot.name for slot in plan.create_pods] == ["job-a-1"]


def test_pods_of_older_versions_trigger_nothing():
    given = stored(job(task("a", 1), policies=[policy("RestartJob", "PodFailed")]), "Restarting", version=1)
    plan = decide(Observed(given, [pod("job-a-0", "Failed", version=0)], group(version=0)), NOW)
    assert plan.status is None or plan.status.state.phase == "Restarting"
    assert [p.metadata.name for p in plan.delete_pods] == ["job-a-0"]
    assert plan.delete_group is not None


def test_restart_waits_until_every_old_pod_is_told_to_go():
    given = stored(job(task("a", 3), minAvailable=1), "Restarting", version=1)
    pods = [deleting(pod("job-a-0")), pod("job-a-1", version=0), pod("job-a-2", version=1)]
    plan = decide(Observed(given, pods, group(version=1)), NOW)
    assert [p.metadata.name for p in plan.delete_pods] == ["job-a-1"]
    assert plan.status.state.phase == "Restarting"
    pods = [deleting(pod("job-a-0")), pod("job-a-2", version=1)]
    assert decide(Observed(given, pods, group(version=1)), NOW).status.state.phase == "Pending"


def test_a_restart_marks_its_pods_before_it_is_counted():
    given = stored(job(task("a", 2), policies=[policy("RestartPod", "PodFailed")]), retry_count=1)
    plan = decide(Observed(given, [pod("job-a-0", "Failed"), pod("job-a-1")], group()), NOW)
    assert plan.marks == {
        "job-a-0": {"volcano.sh/controller-out-of-sync": "true", "unisono.io/restart-round": "2"},
    }
    assert (plan.status.state.phase, plan.status.retry_count, plan.status.terminating) == ("Restarting", 2, 1)
    assert plan.delete_pods == []


def test_a_restart_that_was_marked_but_not_counted_is_counted_now():
    marks = {"volcano.sh/controller-out-of-sync": "true", "unisono.io/restart-round": "2"}
    given = stored(job(task("a", 2)), retry_count=1, task_status_count=counted(a=2))
    plan = decide(Observed(given, [pod("job-a-0", "Failed", **marks), pod("job-a-1")], group()), NOW)
    assert (plan.status.state.phase, plan.status.retry_count) == ("Restarting", 2)
    counted_already = stored(job(task("a", 2)), "Pending", retry_count=2)
    plan = decide(Observed(counted_already, [pod("job-a-0", "Failed", **marks), pod("job-a-1")], group()), NOW)
    assert plan.status.state.phase == "Pending"
    assert [p.metadata.name for p in plan.delete_pods] == ["job-a-0"]


def test_several_failed_pods_are_one_retry():
    given = stored(job(task("a", 3), policies=[policy("RestartPod", "PodFailed")]))
    pods = [pod("job-a-0", "Failed"), pod("job-a-1", "Failed"), pod("job-a-2")]
    plan = decide(Observed(given, pods, group()), NOW)
    assert set(plan.marks) == {"job-a-0", "job-a-1"}
    assert plan.status.retry_count == 1


def test_eviction_wins_over_the_failure_that_it_caused():
    rules = [policy("RestartJob", "PodEvicted"), policy("TerminateJob", "PodFailed")]
    given = stored(job(task("a", 1), policies=rules))
    assert decide(
        Observed(given, [deleting(pod("job-a-0", "Failed"), START - 5)], group()), NOW
    ).status.state.reason == ("RestartJob")


@pytest.mark.parametrize("phase", ["Pending", "Running", "Restarting", "Aborting", "Aborted", "Failed", "Completed"])
@pytest.mark.parametrize("action", ["AbortJob", "ResumeJob", "RestartJob", "TerminateJob", "RestartTask", "", "Bogus"])
def test_commands(phase, action):
    obeyed = {
        **{name: {"AbortJob", "RestartJob", "TerminateJob"} for name in ("Pending", "Running", "Restarting")},
        **{name: {"ResumeJob"} for name in ("Aborting", "Aborted")},
    }.get(phase, set())
    given = stored(job(task("a", 1)), phase)
    plan = decide(Observed(given, commands=[command(action)]), NOW)
    assert [c.metadata.uid for c in plan.commands] == ["c1"]
    if action not in obeyed:
        assert plan.status is None or (plan.status.version or 0) == 0
        return
    assert plan.status.version == 1
    assert plan.status.controlled_resources[LAST_COMMAND] == "c1"
    again = stored(job(task("a", 1)), phase, controlled_resources={LAST_COMMAND: "c1"})
    plan = decide(Observed(again, commands=[command(action)]), NOW)
    assert plan.commands
    assert plan.status is None or plan.status.version is None


def test_a_command_for_a_former_job_of_that_name_is_only_taken_away():
    plan = decide(Observed(stored(job(task("a", 1))), commands=[command("AbortJob", target="other")]), NOW)
    assert plan.commands
    assert plan.status is None or plan.status.state.phase == "Running"


def test_a_foreign_pod_group_is_said_and_left_alone():
    plan = decide(Observed(stored(job(task("a", 1)), "Pending"), [], group(uid="someone")), NOW)
    assert plan.create_pods == []
    assert plan.patch_group is None
    assert plan.status.state.reason == "PodGroupError"
    assert plan.notices[0].message == (
        "Failed to create PodGroup, err: pod group default/job-u1 exists and belongs to something else; "
        "delete it to let this job start"
    )


def test_an_unknown_plugin_is_said_and_no_pod_is_made():
    plan = decide(Observed(stored(job(task("a", 1), plugins={"bogus": []}), "Pending"), [], group("Inqueue")), NOW)
    assert plan.create_pods == []
    assert plan.status.state.reason == "PluginError"
    assert "failed to get plugin bogus" in plan.status.state.message
    healed = stored(job(task("a", 1)), "Pending")
    healed.status.state.reason = "PluginError"
    assert decide(Observed(healed, [], group("Inqueue")), NOW).status.state.reason is None


def test_a_missing_claim_is_waited_for():
    given = stored(job(task("a", 1), volumes=[{"mountPath": "/data", "volumeClaimName": "mine"}]), "Pending")
    plan = decide(Observed(given, [], group("Inqueue"), missing_claims=["mine"]), NOW)
    assert plan.create_pods == []
    assert plan.requeue_after == 10
    assert plan.status.state.message == (
        "pvc mine is not found, the job will be in the Pending state until the PVC is created"
    )


def test_why_the_pod_group_waits_is_told():
    given = stored(job(task("a", 1)), "Pending")
    waiting = group("Pending")
    waiting.status.conditions = msgspec.convert(
        [{"type": "Unschedulable", "status": "True", "message": "queue is full"}], list[Any]
    )
    waiting = msgspec.convert(msgspec.to_builtins(waiting), PodGroup)
    plan = decide(Observed(given, [], waiting), NOW)
    assert [n.message for n in plan.notices] == ["PodGroup default:job unschedulable, reason: queue is full"]


@pytest.mark.parametrize(("later", "news"), [("3.51 of 4 are used", False), ("3.5 of 4 are reserved", True)])
def test_numbers_that_move_are_no_event_of_their_own(later: str, news: bool) -> None:
    keys = set()
    for message in ("3.5 of 4 are used", later):
        waiting = msgspec.to_builtins(group("Pending"))
        waiting["status"]["conditions"] = [{"type": "Unschedulable", "status": "True", "message": message}]
        given = stored(job(task("a", 1)), "Pending")
        (notice,) = decide(Observed(given, [], msgspec.convert(waiting, PodGroup)), NOW).notices
        assert message in notice.message
        keys.add(notice.once)
    assert (len(keys) == 2) == news


def test_the_pod_group_follows_the_job_and_keeps_defaults_of_the_server():
    given = stored(job(task("a", 2), networkTopology={"highestTierAllowed": 1}), "Pending")
    have = group(
        "Inqueue",
        minMember=5,
        minTaskMember={"a": 5, "gone": 1},
        minResources={"pods": "2", "count/pods": "2"},
        queue="default",
        networkTopology={"mode": "hard", "highestTierAllowed": 1},
    )
    plan = decide(Observed(given, [], have), NOW)
    assert plan.patch_group is not None
    assert plan.patch_group[1]["spec"] == {"minMember": 2, "minTaskMember": {"a": 2, "gone": None}}


def test_partitions():
    partition = {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1}
    given = stored(
        job(task("a", 4, partitionPolicy=partition, policies=[policy("RestartPartition", "PodFailed")])), "Running"
    )
    view = JobView(given)
    assert view.min_available == 2
    pods = [pod(f"job-a-{i}", "Failed" if i == 2 else "Running") for i in range(4)]
    for index, one in enumerate(pods):
        one.metadata.labels = {"volcano.sh/partition-id": view.tasks[0].partition_of(index)}
    plan = decide(Observed(given, pods, group()), NOW)
    assert set(plan.marks) == {"job-a-2", "job-a-3"}
    policy_ = plan.status.state.reason
    assert policy_ == "RestartPartition"


@pytest.mark.parametrize(
    ("iteration", "ready", "starts"),
    [("all", ["a"], False), ("all", ["a", "b"], True), ("any", ["b"], True), ("any", [], False), (None, ["a"], False)],
)
def test_dependencies(iteration, ready, starts):
    depends = {"name": ["a", "b"], **({"iteration": iteration} if iteration else {})}
    given = stored(job(task("a", 1), task("b", 1), task("c", 1, dependsOn=depends), minAvailable=1))
    pods = [pod(f"job-{name}-0", "Running" if name in ready else "Pending") for name in ("a", "b")]
    plan = decide(Observed(given, pods, group()), NOW)
    assert [slot.name for slot in plan.create_pods] == (["job-c-0"] if starts else [])


def test_pods_with_strange_names_or_tasks_are_deleted():
    given = stored(job(task("a", 1)))
    strangers = [pod("job-zzz-0"), pod("job-a-007"), pod("job-a-5")]
    plan = decide(Observed(given, [pod("job-a-0"), *strangers], group()), NOW)
    assert {p.metadata.name for p in plan.delete_pods} == {"job-zzz-0", "job-a-007", "job-a-5"}
