"""What the API shows of a pod."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from agent_node import manifest

from unisono.agent.lifecycle import ContainerView, Exit, PodView, decide
from unisono.agent.status import pod_status, qos_class, status_patch
from unisono.api.core import Pod, PodCondition, PodStatus

NOW = 1_700_000_100.0
START = "2023-11-14T22:13:20Z"


def status(pod: Pod, *containers: ContainerView, policy: str = "Never", **fields: Any) -> PodStatus:
    view = PodView("p", policy, containers, **fields)
    plan = decide(view, NOW)
    return pod_status(pod, view, plan, pod_ip="127.64.0.9", host_ip="10.0.0.1", start_time=1_700_000_000.0, now=NOW)


def conditions(found: PodStatus) -> dict[str, str]:
    return {c.type: c.status for c in found.conditions}


def test_running() -> None:
    found = status(manifest("p", ["x"]), ContainerView("main", state="running", runs=1, started_at=1_700_000_000.0))
    assert msgspec.to_builtins(found.container_statuses) == [
        {
            "name": "main", "ready": True, "restartCount": 0, "started": True, "image": "ignored", "imageID": "",
            "containerID": "process://None/main/0", "state": {"running": {"startedAt": START}}, "lastState": {},
        }
    ]  # fmt: skip
    assert (found.phase, found.pod_ip, found.host_ip, found.start_time) == ("Running", "127.64.0.9", "10.0.0.1", START)
    assert conditions(found) == {
        "PodReadyToStartContainers": "True", "Initialized": "True", "ContainersReady": "True", "Ready": "True",
        "PodScheduled": "True",
    }  # fmt: skip


@pytest.mark.parametrize(("code", "phase", "reason"), [(0, "Succeeded", "PodCompleted"), (1, "Failed", "PodFailed")])
def test_ended(code: int, phase: str, reason: str) -> None:
    view = ContainerView("main", state="exited", runs=1, last=Exit(code, 1_700_000_000.0, 1_700_000_050.0))
    found = status(manifest("p", ["x"]), view)
    assert found.phase == phase
    assert {c.reason for c in found.conditions if c.type == "Ready"} == {reason}
    ended = found.container_statuses[0].state.terminated
    assert (ended.exit_code, ended.finished_at) == (code, "2023-11-14T22:14:10Z")


def test_back_off_shows_the_last_end() -> None:
    view = ContainerView(
        "main", state="exited", runs=3, crashes=3, last=Exit(2, NOW - 9, NOW - 1), previous=Exit(1, NOW - 40, NOW - 30)
    )
    shown = status(manifest("p", ["x"]), view, policy="Always").container_statuses[0]
    assert shown.state.waiting.reason == "CrashLoopBackOff"
    assert shown.last_state.terminated.exit_code == 2
    assert (shown.restart_count, shown.ready, shown.started) == (2, False, False)


def test_waiting_for_init() -> None:
    pod = manifest("p", ["x"], initContainers=[{"name": "i", "command": ["y"]}])
    found = status(pod, ContainerView("i", "init", "running", runs=1), ContainerView("main"))
    assert found.container_statuses[0].state.waiting.reason == "PodInitializing"
    messages = {c.type: c.message for c in found.conditions}
    assert messages["Initialized"] == "containers with incomplete status: [i]"
    assert messages["Ready"] == "containers with unready status: [main]"


def test_conditions_of_others_and_times_are_kept() -> None:
    pod = manifest("p", ["x"])
    pod.status.conditions = [
        PodCondition(type="DisruptionTarget", status="True", reason="Preempted"),
        PodCondition(type="Ready", status="True", last_transition_time=START),
        PodCondition(type="PodScheduled", status="True", last_transition_time=START),
    ]
    found = status(pod, ContainerView("main", state="running", runs=1, started_at=NOW))
    by_type = {c.type: c for c in found.conditions}
    assert by_type["DisruptionTarget"].reason == "Preempted"
    assert by_type["Ready"].last_transition_time == START
    assert by_type["ContainersReady"].last_transition_time == "2023-11-14T22:15:00Z"
    assert len(by_type) == len(found.conditions)


def test_readiness_gates() -> None:
    pod = manifest("p", ["x"], readinessGates=[{"conditionType": "example.com/ready"}])
    found = status(pod, ContainerView("main", state="running", runs=1, started_at=NOW))
    assert (conditions(found)["ContainersReady"], conditions(found)["Ready"]) == ("True", "False")


def test_patches_hold_only_what_changed() -> None:
    pod = manifest("p", ["x"])
    running = ContainerView("main", state="running", runs=1, started_at=NOW)
    pod.status = status(pod, running)
    pod.status.nominated_node_name = "n"
    assert status_patch(pod, status(pod, running)) is None
    ended = ContainerView("main", state="exited", runs=1, last=Exit(0, NOW, NOW))
    assert set(status_patch(pod, status(pod, ended))) == {"phase", "conditions", "containerStatuses"}
    pod.status.reason = "Evicted"
    assert status_patch(pod, status(pod, running)) == {"reason": None}


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, "BestEffort"),
        ({"requests": {"nvidia.com/gpu": 1}}, "BestEffort"),
        ({"requests": {"cpu": 1}}, "Burstable"),
        ({"limits": {"cpu": 1}}, "Burstable"),
        ({"limits": {"cpu": 1, "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1000m", "memory": "1Gi"}, "requests": {"cpu": 1}}, "Guaranteed"),
        ({"limits": {"cpu": 2, "memory": "1Gi"}, "requests": {"cpu": 1}}, "Burstable"),
    ],
)
def test_qos(resources: dict[str, Any], expected: str) -> None:
    assert qos_class(manifest("p", ["x"], container={"resources": resources})) == expected
