"""A HyperJob whose parts run in two members, control planes with agents of their own, and compute one sum together."""

from __future__ import annotations

import base64
import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from support.plane import RunningPlane, asked, wait_until

pytestmark = [pytest.mark.more, pytest.mark.processes, pytest.mark.kubectl, pytest.mark.xdist_group("fleet-gang")]

# Rank 0 adds up what all ranks send, and sends them the sum. On one machine the networks are joined by loopback.
ALL_REDUCE = """
import os, socket, time
import numpy as np
rank = int(os.environ["HYPERJOB_RANK_OFFSET"]) + int(os.environ["VC_TASK_INDEX"])
size, port = int(os.environ["HYPERJOB_WORLD_SIZE"]), int(os.environ["PORT"])
own = np.arange(4, dtype=np.float64) + rank

def read(link):
    data = b""
    while len(data) < own.nbytes:
        more = link.recv(own.nbytes - len(data))
        assert more, "the other end has gone"
        data += more
    return np.frombuffer(data)

if rank == 0:
    server = socket.create_server(("0.0.0.0", port))
    links = [server.accept()[0] for _ in range(size - 1)]
    total = own + sum(read(link) for link in links)
    for link in links:
        link.sendall(total.tobytes())
else:
    for attempt in range(600):
        try:
            link = socket.create_connection(("127.0.0.1", port))
            break
        except OSError:
            time.sleep(0.1)
    link.sendall(own.tobytes())
    total = read(link)
assert (total == size * np.arange(4) + size * (size - 1) / 2).all(), total
print("rank", rank, "of", size, "in", os.environ["HYPERJOB_CLUSTERS"], "has", total.tolist())
"""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, RunningPlane]]:
    planes: dict[str, RunningPlane] = {}
    try:
        for name, arguments in (("left", ()), ("right", ()), ("hub", ("--fleet",))):
            folder = tmp_path_factory.mktemp(name) / "plane"
            (folder / "data").mkdir(parents=True, mode=0o700)
            planes[name] = RunningPlane(folder / "data", arguments)
            planes[name].start()
        hub = planes["hub"]
        hub.kubectl("create", "namespace", "kurator-fleet-system")
        for name in ("left", "right"):
            hub.apply(member(name, planes[name]))
        yield planes
    finally:
        for each in planes.values():
            each.stop()


def member(name: str, plane: RunningPlane) -> str:
    meta = {"name": name, "namespace": "kurator-fleet-system"}
    data = {"value": base64.b64encode(plane.kubeconfig.read_bytes()).decode()}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data}
    cluster = {
        "apiVersion": "cluster.kurator.dev/v1alpha1",
        "kind": "AttachedCluster",
        "metadata": meta,
        "spec": {"kubeconfigSecretRef": name},
    }
    return yaml.safe_dump_all([secret, cluster])


def hyper_job(name: str, right_cpu: str) -> str:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    def part(where: str, cpu: str, pods: int) -> dict[str, object]:
        container = {
            "name": "c",
            "image": "python",
            "command": [sys.executable, "-c", ALL_REDUCE],
            "env": [{"name": "PORT", "value": str(port)}],
            "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}},
        }
        template = {"spec": {"restartPolicy": "Never", "hostNetwork": True, "containers": [container]}}
        tasks = [{"name": "w", "replicas": pods, "template": template}]
        job = {"schedulerName": "volcano", "minAvailable": pods, "plugins": {"env": []}, "tasks": tasks}
        return {"name": where, "replicas": 1, "clusterNames": [where], "templateSpec": job}

    parts = [part("left", "100m", 2), part("right", right_cpu, 1)]
    value = {
        "apiVersion": "training.volcano.sh/v1alpha1",
        "kind": "HyperJob",
        "metadata": {"name": name},
        "spec": {"replicatedJobs": parts},
    }
    return yaml.safe_dump(value)


def ready(hub: RunningPlane) -> set[str]:
    told = asked("fleet", "list", "--data-dir", str(hub.data_dir), "-o", "json")
    return {each["name"] for each in json.loads(told.stdout) if each["ready"]}


def test_parts_in_two_members_compute_one_sum(fleet: dict[str, RunningPlane], tmp_path: Path) -> None:
    hub = fleet["hub"]
    wait_until("both members take work", lambda: ready(hub) == {"left", "right"})
    hub.apply(hyper_job("sum", "100m"))

    def condition() -> str:
        found = json.loads(hub.kubectl("get", "hyperjob", "sum", "-o", "json"))
        return next((each["type"] for each in found.get("status", {}).get("conditions", [])), "")

    assert wait_until("it ends", condition) == "Completed"
    for where, pods in (("left", 2), ("right", 1)):
        logs = fleet[where].kubectl("logs", f"sum-{where}-0-w-{pods - 1}")
        assert f"rank {1 if where == 'left' else 2} of 3 in left,right has [3.0, 6.0, 9.0, 12.0]" in logs


def test_one_member_too_small_starts_nothing_anywhere(fleet: dict[str, RunningPlane]) -> None:
    hub = fleet["hub"]
    wait_until("both members take work", lambda: ready(hub) == {"left", "right"})
    hub.apply(hyper_job("large", "1000"))

    def reasons() -> dict[str, str]:
        told = asked("fleet", "explain", "large-right-0", "--data-dir", str(hub.data_dir), "-o", "json")
        members: dict[str, str] = json.loads(told.stdout)["members"]
        return members

    small = "part large-right-0: is too small"
    wait_until("the member that is too small is named", lambda: small in reasons().get("right", ""))
    for where in ("left", "right"):
        assert not [job for job in fleet[where].objects("vcjob") if job["metadata"]["name"].startswith("large")]
    hub.kubectl("delete", "hyperjob", "large")


def job(name: str, *command: str) -> str:
    container = {"name": "c", "image": "python", "command": list(command), "resources": {"requests": {"cpu": "100m"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {
        "schedulerName": "volcano",
        "minAvailable": 1,
        "tasks": [{"name": "w", "replicas": 1, "template": template}],
    }
    meta = {"name": name, "namespace": "default"}
    return yaml.safe_dump({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": meta, "spec": spec})


def test_pods_of_members_are_listed_and_entered_through_the_hub(fleet: dict[str, RunningPlane]) -> None:
    hub = fleet["hub"]
    wait_until("both members take work", lambda: ready(hub) == {"left", "right"})
    hub.apply(job("sleeper", sys.executable, "-c", "import time; print('awake', flush=True); time.sleep(600)"))
    wait_until("it runs", lambda: "Running" in hub.kubectl("get", "pods"))
    shown = hub.kubectl("get", "pods", "-o", "wide")
    assert "sleeper-w-0" in shown
    told = asked("fleet", "pods", "sleeper", "--data-dir", str(hub.data_dir), "-o", "json")
    (row,) = json.loads(told.stdout)
    assert (row["name"], row["job"], row["phase"]) == ("sleeper-w-0", "sleeper", "Running")
    assert row["cluster"] in ("left", "right")
    wait_until("it is awake", lambda: "awake" in hub.try_kubectl("logs", "sleeper-w-0").stdout)

    # A command in the pod: output, input, exit code.
    assert hub.kubectl("exec", "sleeper-w-0", "--", "echo", "hello").strip() == "hello"
    assert hub.kubectl("exec", "-i", "sleeper-w-0", "--", "cat", text="to and fro\n") == "to and fro\n"
    failed = hub.try_kubectl("exec", "sleeper-w-0", "--", "sh", "-c", "echo broken >&2; exit 3")
    assert (failed.returncode, "broken" in failed.stderr) == (3, True)
    missing = hub.try_kubectl("exec", "sleeper-w-9", "--", "true")
    assert missing.returncode != 0
    assert "not found" in missing.stderr
    hub.kubectl("delete", "vcjob", "sleeper")


def test_what_a_member_warns_of_is_told_on_the_hub(fleet: dict[str, RunningPlane]) -> None:
    hub = fleet["hub"]
    wait_until("both members take work", lambda: ready(hub) == {"left", "right"})
    hub.apply(job("broken", "/no/such/program"))
    wait_until("the warning is there", lambda: ": job/broken: " in hub.kubectl("describe", "vcjob", "broken"))
    told = asked("explain", "vcjob/broken", "--data-dir", str(hub.data_dir))
    assert "in cluster " in told.stdout
    assert "(JobFailed)" in told.stdout
    hub.kubectl("delete", "vcjob", "broken")

    # For each member, why a job that waits is not there.
    hub.apply(job("huge", "true").replace("100m", "1000"))
    wait_until(
        "both members are named",
        lambda: all(
            f"{name}: is too small" in asked("explain", "vcjob/huge", "--data-dir", str(hub.data_dir)).stdout
            for name in ("left", "right")
        ),
    )
    hub.kubectl("delete", "vcjob", "huge")
