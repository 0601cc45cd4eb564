"""The last release fills a store, this version goes on with it under load, and the last release takes it back.

Components of two versions beside each other are in ``tests/integration/test_integration_processes.py``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from support import previous
from support.plane import RunningPlane, wait_until
from unisono.api.kinds import JOBS, find

pytestmark = [pytest.mark.more, pytest.mark.processes]

Start = Callable[..., RunningPlane]
Object = dict[str, Any]
# So many jobs of the load end under each version before the other one comes.
EACH = 3


def job(name: str, *command: str, pods: int = 1, cpu: str = "1m") -> Object:
    container = {"name": "c", "image": "i", "command": list(command), "resources": {"requests": {"cpu": cpu}}}
    pod = {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 0}
    tasks = [{"name": "t", "replicas": pods, "template": {"spec": pod}}]
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default", "labels": {"a": "b"}},
        "spec": {"minAvailable": pods, "schedulerName": "volcano", "tasks": tasks},
    }


def named(api_version: str, kind: str, name: str, **parts: Any) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **parts}


STORED = [
    named("scheduling.volcano.sh/v1beta1", "Queue", "team", spec={"weight": 3, "capability": {"cpu": "4"}}),
    named("v1", "ConfigMap", "settings", data={"a": "1"}),
    named("v1", "Secret", "password", stringData={"a": "hidden"}),
    named("scheduling.k8s.io/v1", "PriorityClass", "urgent", value=1000),
    named("topology.volcano.sh/v1alpha1", "HyperNode", "rack", spec={
        "tier": 1, "members": [{"type": "Node", "selector": {"exactMatch": {"name": "none"}}}]
    }),
    named("flow.volcano.sh/v1alpha1", "JobTemplate", "step", spec=job("x", "true")["spec"]),
    named("batch.volcano.sh/v1alpha1", "CronJob", "nightly", spec={
        "schedule": "0 3 * * *", "suspend": True, "jobTemplate": {"spec": job("x", "true")["spec"]}
    }),
    named("kubeflow.org/v1", "PyTorchJob", "waits-too", spec={"pytorchReplicaSpecs": {"Worker": {
        "replicas": 2,
        "template": {"spec": {"schedulerName": "volcano", "containers": [
            {"name": "pytorch", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "64"}}}
        ]}},
    }}}),
    named("rbac.authorization.k8s.io/v1", "Role", "reader", rules=[
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    ]),
    job("ended", "true", pods=2),
    job("runs", "sleep", "3000", pods=2),
    job("waits", "true", pods=2, cpu="100000"),
]  # fmt: skip


class Load:
    """Jobs that come all the time, whichever version is up, and while none is."""

    def __init__(self, plane: RunningPlane) -> None:
        self._plane, self._end = plane, Event()
        self.acknowledged: dict[str, str] = {}
        self._thread = Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._end.wait(0.5):
            status, body = self._plane.send("POST", JOBS.path("default"), job(f"load-{number}", "true"))
            # A name that is taken was stored before its answer was lost.
            if status in (201, 409):
                number += 1
            if status == 201:
                made = json.loads(body)["metadata"]
                self.acknowledged[made["name"]] = made["uid"]

    def end(self) -> None:
        self._end.set()
        self._thread.join()


def path(value: Object) -> str:
    kind = find(value["apiVersion"], value["kind"])
    assert kind is not None
    return kind.path("default" if kind.namespaced else None, value["metadata"]["name"])


def read(plane: RunningPlane, value: Object) -> Object:
    status, body = plane.get(path(value))
    assert status == 200, body.decode()
    found: Object = json.loads(body)
    return found


def kept(value: Object) -> Object:
    """What no version may change: everything but what controllers write."""
    meta = {key: value["metadata"].get(key) for key in ("name", "namespace", "uid", "labels", "creationTimestamp")}
    return {**{key: each for key, each in value.items() if key != "status"}, "metadata": meta}


def phases(plane: RunningPlane) -> dict[str, str]:
    return {
        one["metadata"]["name"]: one.get("status", {}).get("state", {}).get("phase", "")
        for one in plane.objects("vcjob")
    }


def lives(plane: RunningPlane) -> dict[str, Any]:
    """The processes of the job that runs all the time, as their pods tell of them."""
    pods = plane.pods(**{"volcano.sh/job-name": "runs"})
    return {
        pod["metadata"]["uid"]: (
            pod["status"]["phase"],
            pod["status"]["startTime"],
            one["restartCount"],
            one["containerID"],
        )
        for pod in pods
        for one in pod["status"]["containerStatuses"]
    }


SETTLED = {"ended": "Completed", "runs": "Running", "waits": "Pending"}


def is_settled(plane: RunningPlane) -> bool:
    found = phases(plane)
    return all(found.get(name) == phase for name, phase in SETTLED.items())


def test_an_upgrade_under_load_and_the_way_back(start_plane: Start, tmp_path: Path) -> None:
    older = previous.program(tmp_path)
    plane = start_plane("--no-dashboard", program=older)
    for value in STORED:
        status, body = plane.send("POST", path(value).rpartition("/")[0], value)
        assert status == 201, body.decode()
    wait_until("one job ended, one runs and one waits", lambda: is_settled(plane))
    before, running = [kept(read(plane, value)) for value in STORED], lives(plane)
    assert len(running) == 2
    load = Load(plane)
    try:
        for program in ((), older, ()):
            done = sum(phase == "Completed" for phase in phases(plane).values())
            wait_until(
                "jobs of the load end",
                lambda done=done: sum(phase == "Completed" for phase in phases(plane).values()) >= done + EACH,
            )
            plane.stop()
            plane.program = program
            plane.start()
            assert [kept(read(plane, value)) for value in STORED] == before
            wait_until("jobs are as they were", lambda: is_settled(plane))
            assert lives(plane) == running, "no process was started again"
    finally:
        load.end()
    wait_until(
        "every job of the load ends",
        lambda: (
            not set(phases(plane).values()) - {"Completed", "Running", "Pending"}
            and all(phases(plane)[name] == "Completed" for name in load.acknowledged)
        ),
    )
    found = {one["metadata"]["name"]: one for one in plane.objects("vcjob")}
    assert {name: found[name]["metadata"]["uid"] for name in load.acknowledged} == load.acknowledged
    assert {name for name in found if found[name]["status"].get("retryCount")} == set()
    status, _ = plane.send("DELETE", path(job("runs")))
    assert status == 200
