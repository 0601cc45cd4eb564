from __future__ import annotations

from typing import Any

import pytest

from unisono.apiserver.tables.render import PODS, status_word

NOW = 1_800_000_000.0  # 2027-01-15T08:00:00Z


def container(name: str = "c", **state: Any) -> dict[str, Any]:
    return {"name": name, "ready": False, "restartCount": 0, "state": state}


def ready(name: str = "c") -> dict[str, Any]:
    return {**container(name, running={}), "ready": True}


def pod(
    phase: str = "Running",
    statuses: list[dict[str, Any]] | None = None,
    *,
    inits: list[dict[str, Any]] | None = None,
    init_statuses: list[dict[str, Any]] | None = None,
    containers: int = 1,
    deleting: bool = False,
    **status: Any,
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "p", "creationTimestamp": "2027-01-15T07:58:00Z"}
    if deleting:
        metadata["deletionTimestamp"] = "2027-01-15T08:00:00Z"
    return {
        "metadata": metadata,
        "spec": {
            "containers": [{"name": f"c{index}"} for index in range(containers)],
            "initContainers": inits or [],
        },
        "status": {
            "phase": phase,
            "containerStatuses": statuses or [],
            "initContainerStatuses": init_statuses or [],
            **status,
        },
    }


WAIT = {"waiting": {"reason": "PodInitializing"}}
SCENARIOS = [
    ("no status yet", pod("Pending"), "Pending"),
    ("gated", pod("Pending", conditions=[{"type": "PodScheduled", "reason": "SchedulingGated"}]), "SchedulingGated"),
    ("reason of the pod wins over the phase", pod("Failed", reason="Evicted"), "Evicted"),
    ("creating", pod("Pending", [container(waiting={"reason": "ContainerCreating"})]), "ContainerCreating"),
    ("running", pod("Running", [ready()]), "Running"),
    ("crash loop", pod("Running", [container(waiting={"reason": "CrashLoopBackOff"})]), "CrashLoopBackOff"),
    ("completed", pod("Succeeded", [container(terminated={"reason": "Completed"})]), "Completed"),
    ("error", pod("Failed", [container(terminated={"reason": "Error", "exitCode": 1})]), "Error"),
    ("exit code without reason", pod("Failed", [container(terminated={"exitCode": 3})]), "ExitCode:3"),
    ("signal without reason", pod("Failed", [container(terminated={"exitCode": 137, "signal": 9})]), "Signal:9"),
    (
        "one container ended, one runs, pod not ready",
        pod("Running", [container(terminated={"reason": "Completed"}), ready()], containers=2),
        "NotReady",
    ),
    (
        "one container ended, one runs, pod ready",
        pod(
            "Running",
            [container(terminated={"reason": "Completed"}), ready()],
            containers=2,
            conditions=[{"type": "Ready", "status": "True"}],
        ),
        "Running",
    ),
    ("terminating", pod("Running", [ready()], deleting=True), "Terminating"),
    ("ended pods do not terminate", pod("Succeeded", [], deleting=True), "Succeeded"),
    ("lost node", pod("Running", [ready()], deleting=True, reason="NodeLost"), "Unknown"),
    (
        "first init container runs",
        pod("Pending", inits=[{"name": "i"}], init_statuses=[container("i", running={})]),
        "Init:0/1",
    ),
    (
        "second init container waits",
        pod(
            "Pending",
            inits=[{"name": "i"}, {"name": "j"}],
            init_statuses=[container("i", terminated={"exitCode": 0}), container("j", **WAIT)],
        ),
        "Init:1/2",
    ),
    (
        "init container failed",
        pod(
            "Pending",
            inits=[{"name": "i"}],
            init_statuses=[container("i", terminated={"exitCode": 2, "reason": "Error"})],
        ),
        "Init:Error",
    ),
    (
        "init container failed without reason",
        pod("Pending", inits=[{"name": "i"}], init_statuses=[container("i", terminated={"exitCode": 2})]),
        "Init:ExitCode:2",
    ),
    (
        "init container crashes",
        pod(
            "Pending",
            inits=[{"name": "i"}],
            init_statuses=[container("i", waiting={"reason": "CrashLoopBackOff"})],
        ),
        "Init:CrashLoopBackOff",
    ),
    (
        "sidecar is up",
        pod(
            "Running",
            [ready()],
            inits=[{"name": "s", "restartPolicy": "Always"}],
            init_statuses=[{**ready("s"), "started": True}],
        ),
        "Running",
    ),
]


@pytest.mark.parametrize(("obj", "word"), [case[1:] for case in SCENARIOS], ids=[case[0] for case in SCENARIOS])
def test_status_word(obj: dict[str, Any], word: str) -> None:
    assert status_word(obj) == word


def cells(obj: dict[str, Any]) -> dict[str, Any]:
    return dict(zip((column.name for column in PODS.columns), PODS.cells(obj, NOW), strict=True))


def test_every_column_of_a_placed_pod() -> None:
    obj = pod("Running", [ready(), container("d", running={})], containers=2)
    obj["spec"].update(nodeName="n1", readinessGates=[{"conditionType": "a"}, {"conditionType": "b"}])
    obj["status"].update(podIP="127.0.0.9", conditions=[{"type": "a", "status": "True"}])
    assert cells(obj) == {
        "Name": "p",
        "Ready": "1/2",
        "Status": "Running",
        "Restarts": "0",
        "Age": "2m",
        "IP": "127.0.0.9",
        "Node": "n1",
        "Nominated Node": "<none>",
        "Readiness Gates": "1/2",
    }


def test_restarts_say_when_the_last_one_was() -> None:
    status = container(waiting={"reason": "CrashLoopBackOff"})
    status.update(restartCount=4, lastState={"terminated": {"finishedAt": "2027-01-15T07:59:30Z"}})
    assert cells(pod("Running", [status]))["Restarts"] == "4 (30s ago)"


def test_sidecars_count_as_containers() -> None:
    obj = pod(
        "Running",
        [ready()],
        inits=[{"name": "s", "restartPolicy": "Always"}, {"name": "i"}],
        init_statuses=[
            {**ready("s"), "started": True, "restartCount": 2},
            {**container("i", terminated={"exitCode": 0}), "restartCount": 5},
        ],
    )
    found = cells(obj)
    assert (found["Ready"], found["Restarts"]) == ("2/2", "2")
