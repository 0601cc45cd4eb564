"""A hub and two members for tests, each a control plane of its own process and data."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.plane import MANIFESTS, RunningPlane, asked, wait_until
from unisono.api.kinds import JOBS

NODES = "- {name: gpu, count: 2, capacity: {cpu: 32, memory: 128Gi, nvidia.com/gpu: 8}, labels: {gpu: %s}}\n"


def two_members(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, RunningPlane]]:
    """``hub``, ``gpu1`` with T4s and ``gpu2`` with A100s, until the generator goes on."""
    planes: dict[str, RunningPlane] = {}
    try:
        for name, model in (("gpu1", "nvidia-t4"), ("gpu2", "nvidia-a100")):
            folder = tmp_path_factory.mktemp(name)
            (folder / "nodes.yaml").write_text(NODES % model)
            planes[name] = plane(folder / "plane", "--no-agent", "--nodes", str(folder / "nodes.yaml"))
        planes["hub"] = plane(tmp_path_factory.mktemp("hub"), "--fleet")
        join(planes)
        yield planes
    finally:
        for each in planes.values():
            each.stop()


def plane(folder: Path, *arguments: str) -> RunningPlane:
    (folder / "data").mkdir(parents=True, mode=0o700)
    made = RunningPlane(folder / "data", arguments)
    made.start()
    return made


def join(planes: dict[str, RunningPlane]) -> None:
    """The manifests of the fleet, of what it installs and of its queues, as their author wrote them."""
    hub = planes["hub"]
    hub.kubectl("create", "namespace", "kurator-fleet-system")
    for name in ("gpu1", "gpu2"):
        hub.apply(secret(name, planes[name]))
    hub.apply(*(MANIFESTS / name for name in ("01-fleet.yaml", "02-fleet-install.yaml", "03-queues.yaml")))
    wait_until("both members take work", lambda: ready_members(hub) == {"gpu1", "gpu2"})


def gang(name: str, queue: str, workers: int, seconds: int, **spec: Any) -> str:
    limits = {"nvidia.com/gpu": "1"}
    template = {
        "metadata": {"annotations": {"unisono.io/run-seconds": str(seconds)}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}, "limits": limits}}],
            **spec,
        },
    }
    tasks = [{"name": "worker", "replicas": workers, "template": template}]
    value = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"queue": queue, "schedulerName": "volcano", "minAvailable": workers, "tasks": tasks},
    }
    return yaml.safe_dump(value)


def secret(name: str, member: RunningPlane) -> str:
    data = {"value": base64.b64encode(member.kubeconfig.read_bytes()).decode()}
    meta = {"name": f"{name}-config", "namespace": "kurator-fleet-system"}
    return yaml.safe_dump({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data})


def listed(hub: RunningPlane) -> dict[str, Any]:
    told = asked("fleet", "list", "--data-dir", str(hub.data_dir), "-o", "json")
    return {each["name"]: each for each in json.loads(told.stdout)}


def ready_members(hub: RunningPlane) -> set[str]:
    return {name for name, each in listed(hub).items() if each["ready"]}


def explain(hub: RunningPlane, name: str) -> str:
    return asked("fleet", "explain", name, "--data-dir", str(hub.data_dir), "-o", "json").stdout


def phase(hub: RunningPlane, name: str) -> str:
    status, body = hub.get(JOBS.path("default", name))
    assert status == 200, body
    return str(json.loads(body).get("status", {}).get("state", {}).get("phase", ""))
