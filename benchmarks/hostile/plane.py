"""The control plane under attack, its kinds, and the job of a user who has nothing to do with the attack."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.api.load import checked
from benchmarks.hostile.forge import Offered
from unisono.errors import UnisonoError
from unisono.kube.http import HttpClient
from unisono.kube.kubeconfig import load

_MEMORY_KIB = 6_000_000
_START_SECONDS = 120.0
# The bystander's nodes are beyond what hostile pods can fill: a full cluster is no fault of the scheduler.
_NODES = """
- {name: node, count: 20, capacity: {cpu: 64, memory: 256Gi, nvidia.com/gpu: 8}}
- name: quiet
  count: 2
  capacity: {cpu: 64, memory: 256Gi}
  labels: {for: bystander}
  taints: [{key: for, value: bystander, effect: NoSchedule}]
"""
_ACCOUNT = "mallory"


@dataclass
class Plane:
    """A control plane in its own process."""

    client: HttpClient
    pid: int
    log: Path


@asynccontextmanager
async def running(
    folder: Path, config: str = "", *, agent: bool = False, nodes_file: str = _NODES
) -> AsyncIterator[Plane]:
    """``unisono up`` with simulated nodes and bounded memory; ``config`` is a configuration of the scheduler.

    With ``agent`` this machine is a node too, and its pods are processes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    nodes, log, data = folder / "nodes.yaml", folder / "up.log", folder / "data"
    nodes.write_text(nodes_file)
    command = [sys.executable, "-m", "unisono", "up", "--data-dir", str(data), "--nodes", str(nodes)]
    command += [] if agent else ["--no-agent"]
    if config:
        (folder / "scheduler.yaml").write_text(config)
        command += ["--scheduler-config", str(folder / "scheduler.yaml")]
    limited = ["sh", "-c", f'ulimit -v {_MEMORY_KIB}; exec "$@"', "sh", *command]
    with log.open("ab") as output:
        child = subprocess.Popen(limited, stdout=output, stderr=output, start_new_session=True)
    try:
        client = await _ready(data / "kubeconfig", child)
        try:
            yield Plane(client, child.pid, data / "unisono.log" if (data / "unisono.log").exists() else log)
        finally:
            await client.close()
    finally:
        child.send_signal(signal.SIGTERM)
        try:
            await asyncio.to_thread(child.wait, 60)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


async def _ready(kubeconfig: Path, child: subprocess.Popen[bytes]) -> HttpClient:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if child.poll() is not None:
            raise RuntimeError(
                f"the control plane ended with {child.returncode}: see {kubeconfig.parent.parent / 'up.log'}"
            )
        if kubeconfig.exists():
            client = HttpClient(load(kubeconfig))
            try:
                if (await client.request("GET", "/readyz"))[0] == 200:
                    return client
            except UnisonoError:
                pass
            await client.close()
        await asyncio.sleep(0.1)
    raise RuntimeError(f"the control plane did not answer in {_START_SECONDS:g} s")


async def offered(client: HttpClient) -> list[Offered]:
    """Every kind that can be created, with its schema, in a fixed order."""
    found: dict[tuple[str, str], Offered] = {}
    paths = json.loads(await checked(client, "GET", "/openapi/v3"))["paths"]
    for place in sorted(paths):
        parts = place.split("/")
        if parts[0] not in ("api", "apis") or len(parts) != (2 if parts[0] == "api" else 3):
            continue
        group, version = ("", parts[1]) if parts[0] == "api" else (parts[1], parts[2])
        resources = json.loads(await checked(client, "GET", f"/{place}"))["resources"]
        schemas = json.loads(await checked(client, "GET", f"/openapi/v3/{place}"))["components"]["schemas"]
        by_kind = {
            known["kind"]: schema
            for schema in schemas.values()
            for known in schema.get("x-kubernetes-group-version-kind", ())
            if known["group"] == group and known["version"] == version
        }
        for one in resources:
            if "/" not in one["name"] and {"create", "get"} <= set(one["verbs"]) and one["kind"] in by_kind:
                subs = frozenset(
                    other["name"].partition("/")[2]
                    for other in resources
                    if other["name"].startswith(one["name"] + "/")
                )
                known = Offered(group, version, one["name"], one["kind"], one["namespaced"], by_kind[one["kind"]], subs)
                found[group, version + one["name"]] = known
    return [found[key] for key in sorted(found)]


async def _put(client: HttpClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(await checked(client, "POST", path, body=json.dumps(body).encode()))
    return answer


async def namespace(client: HttpClient, name: str, labels: dict[str, str]) -> None:
    await _put(client, "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})


async def token(client: HttpClient) -> str:
    """Of an account that has no rights yet."""
    await _put(client, "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": _ACCOUNT}})
    path = f"/api/v1/namespaces/default/serviceaccounts/{_ACCOUNT}/token"
    answer = await _put(client, path, {"spec": {"expirationSeconds": 86_400}})
    return str(answer["status"]["token"])


async def grant(client: HttpClient, into: str) -> None:
    """The attacking account gets ``edit`` in a namespace, with at most so many pods that some room is left."""
    api = "rbac.authorization.k8s.io"
    await _put(
        client,
        f"/apis/{api}/v1/namespaces/{into}/rolebindings",
        {
            "metadata": {"name": "hostile"},
            "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": "edit"},
            "subjects": [{"kind": "ServiceAccount", "name": _ACCOUNT, "namespace": "default"}],
        },
    )
    await _put(
        client,
        f"/api/v1/namespaces/{into}/resourcequotas",
        {"metadata": {"name": "room"}, "spec": {"hard": {"pods": "300"}}},
    )


def _jobs(namespace: str, name: str = "") -> str:
    return f"/apis/batch.volcano.sh/v1alpha1/namespaces/{namespace}/jobs" + (f"/{name}" if name else "")


async def start_job(client: HttpClient, namespace: str, name: str) -> None:
    """A gang of two on the bystander's nodes."""
    wanted = {"requests": {"cpu": "1", "memory": "1Gi"}}
    pod = {
        "nodeSelector": {"for": "bystander"},
        "tolerations": [{"key": "for", "value": "bystander", "effect": "NoSchedule"}],
        "containers": [{"name": "main", "image": "busybox", "resources": wanted}],
    }
    spec = {
        "minAvailable": 2,
        "schedulerName": "volcano",
        "tasks": [{"name": "a", "replicas": 2, "template": {"spec": pod}}],
    }
    body = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
    await _put(client, _jobs(namespace), body)


async def runs(client: HttpClient, namespace: str, name: str) -> bool:
    job = json.loads(await checked(client, "GET", _jobs(namespace, name)))
    return bool(job.get("status", {}).get("state", {}).get("phase") == "Running")


async def history(client: HttpClient) -> int:
    """Bytes of the changes that the server keeps for watches."""
    text = (await checked(client, "GET", "/metrics")).decode()
    found = re.search(r"^apiserver_watch_history_bytes (\S+)$", text, re.MULTILINE)
    return int(float(found[1])) if found else 0


async def told(client: HttpClient, namespace: str, name: str) -> str:
    """What the control plane says of a job that does not run, and of its pods."""
    groups = json.loads(
        await checked(client, "GET", f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{namespace}/podgroups")
    )
    job = json.loads(await checked(client, "GET", _jobs(namespace, name)))
    pods = json.loads(await checked(client, "GET", f"/api/v1/namespaces/{namespace}/pods"))["items"]
    where = [
        f"{one['metadata']['name']}: {one.get('status', {}).get('phase')} on {one['spec'].get('nodeName')}"
        for one in pods
        if one["metadata"]["name"].startswith(f"{name}-")
    ]
    said = [json.dumps(one.get("status", {}))[:1500] for one in (job, *groups["items"])]
    return f"{name}: " + "; ".join([*where, *said])


async def remove_job(client: HttpClient, namespace: str, name: str) -> None:
    await checked(client, "DELETE", _jobs(namespace, name))
