"""``unisono install`` from its first line to its removal: what it applies is started and does its work."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from installed import VARIABLE, eventually, send, servers
from installed_pods import PodProcess, started

from support.accounts import Accounts
from unisono.api import kinds
from unisono.api.keys import GROUP_NAME
from unisono.kube.discovery import ResourceMap, discover
from unisono.kube.http import HttpClient

NODES = 3
PATIENCE = 900.0
MISSING = {
    # The embedded API holds our objects to the same rules by itself, and knows no routes to Services.
    "embedded": ("--no-policies", "--no-webhook"),
    "cluster": (),
}


@dataclass
class Place:
    """A server, its kubeconfig, and the namespaces for the installation and for users' jobs."""

    kind: str
    admin: HttpClient
    kubeconfig: Path
    folder: Path
    system: str
    users: str

    @property
    def options(self) -> list[str]:
        return ["-n", self.system, "--simulate", str(NODES), *MISSING[self.kind]]

    async def unisono(self, *arguments: str) -> str:
        """Output of a command that must succeed."""
        words = [sys.executable, "-m", "unisono", *arguments, "--kubeconfig", str(self.kubeconfig)]
        done = await asyncio.to_thread(subprocess.run, words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(params=["embedded", "cluster"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    if request.param == "cluster" and VARIABLE in os.environ:
        request.getfixturevalue("cluster_turn")
    async with servers(request.param, tmp_path) as (admin, kubeconfig):
        mark = secrets.token_hex(3)
        found = Place(request.param, admin, kubeconfig, tmp_path, f"install-test-{mark}", f"install-users-{mark}")
        # What a run left that was ended from outside.
        await found.unisono("install", "-n", found.system, "--uninstall")
        await send(admin, "POST", "/api/v1/namespaces", {"metadata": {"name": found.users}})
        try:
            yield found
        finally:
            await found.unisono("install", "-n", found.system, "--uninstall")
            for name in (found.system, found.users):
                await send(admin, "DELETE", f"/api/v1/namespaces/{name}")


def path_of(resources: ResourceMap, manifest: Mapping[str, Any]) -> str:
    meta = manifest["metadata"]
    return resources.of(manifest["apiVersion"], manifest["kind"]).path(meta.get("namespace"), meta["name"])


async def stored(place: Place, manifests: list[dict[str, Any]]) -> dict[str, Any]:
    """The manifests as the server has them, without what controllers write."""
    resources, found = await discover(place.admin), {}
    for manifest in manifests:
        path = path_of(resources, manifest)
        status, value = await send(place.admin, "GET", path)
        found[path] = None
        if status != 404:
            meta = {key: value["metadata"].get(key) for key in ("uid", "generation", "labels", "annotations")}
            found[path] = {**value, "metadata": meta, "status": None}
    return found


async def test_it_is_installed_works_is_installed_again_and_taken_away(place: Place) -> None:
    printed = await place.unisono("install", *place.options, "--dry-run")
    manifests = list(yaml.load_all(printed, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    applied = await place.unisono("install", *place.options)
    assert len(applied.splitlines()) == len(manifests)
    before = await stored(place, manifests)
    assert None not in before.values()

    pods = await run_deployments(place, manifests)
    try:
        async with asyncio.timeout(PATIENCE):
            for pod in pods.values():
                for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                    await pod.probe(probe)
            if place.kind == "cluster":
                await refuses_a_bad_job(place)
            await a_job_runs(place)
        assert {name: pod.forbidden() for name, pod in pods.items()} == {name: [] for name in pods}

        before = await stored(place, manifests)
        await place.unisono("install", *place.options)
        assert await stored(place, manifests) == before, "an installation of the same version changes nothing"
    finally:
        codes = {name: await asyncio.to_thread(pod.end) for name, pod in pods.items()}
    assert codes == dict.fromkeys(pods, 0), {name: pod.log.read_text()[-3000:] for name, pod in pods.items()}

    said = await place.unisono("install", "-n", place.system, "--uninstall")
    assert f"namespace/{place.system} deleted" in said
    for path, value in (await stored(place, manifests)).items():
        users = "/customresourcedefinitions/" in path or "/queues/" in path
        ending = path == f"/api/v1/namespaces/{place.system}"
        assert users or ending or value is None, f"{path} is left"
        assert not users or value == before[path], f"{path} belongs to users"
    status, job = await send(place.admin, "GET", kinds.JOBS.path(place.users, "first"))
    assert (status, job["status"]["state"]["phase"]) == (200, "Completed")
    status, nodes = await send(place.admin, "GET", "/api/v1/nodes")
    assert nodes["items"] == []
    assert await place.unisono("install", "-n", place.system, "--uninstall") != said, "there is nothing left to delete"


async def run_deployments(place: Place, manifests: list[dict[str, Any]]) -> dict[str, PodProcess]:
    accounts = Accounts(place.admin, place.system)
    deployments = [one for one in manifests if one["kind"] == "Deployment"]
    fixed = {}
    if place.kind == "cluster":
        # No network of pods leads from the API server to here: the Service gets a name that does.
        fixed["webhook"] = 443
        spec = {"type": "ExternalName", "externalName": "localhost", "clusterIP": None, "clusterIPs": None}
        path = f"/api/v1/namespaces/{place.system}/services/unisono-webhook"
        status, _, answer = await place.admin.request(
            "PATCH", path, body=json.dumps({"spec": spec}).encode(), content_type="application/merge-patch+json"
        )
        assert status == 200, answer
    pods = {}
    for one in deployments:
        pod = await started(place.admin, accounts, one, place.folder, fixed)
        pods[pod.name] = pod
    assert {"scheduler", "controllers", "agent"} <= set(pods)
    return pods


async def refuses_a_bad_job(place: Place) -> None:
    """Return when the webhook answers, which says so by refusing a job whose queue does not exist."""
    bad = job("bad")
    bad["spec"]["queue"] = "no-such-queue"
    answer: dict[str, Any] = {}

    async def told() -> bool:
        nonlocal answer
        status, answer = await send(place.admin, "POST", kinds.JOBS.path(place.users), bad)
        assert status >= 400, "a bad job got in"
        return "no-such-queue" in answer["message"]

    await eventually(told)
    assert answer["code"] == 422


async def a_job_runs(place: Place) -> None:
    status, made = await send(place.admin, "POST", kinds.JOBS.path(place.users), job("first"))
    assert status == 201, made
    assert made["spec"]["queue"] == "default", "defaults are in the object that is stored"

    async def completed() -> bool:
        _, value = await send(place.admin, "GET", kinds.JOBS.path(place.users, "first"))
        return bool(value.get("status", {}).get("state", {}).get("phase") == "Completed")

    await eventually(completed)
    _, pods = await send(place.admin, "GET", f"/api/v1/namespaces/{place.users}/pods")
    assert len(pods["items"]) == 2 * NODES
    assert all(GROUP_NAME in pod["metadata"]["annotations"] and pod["spec"]["nodeName"] for pod in pods["items"])


def job(name: str) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    template = {
        "metadata": {"annotations": {"unisono.io/run-seconds": "0.5"}},
        "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]},
    }
    return {
        "apiVersion": kinds.JOBS.api_version,
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"minAvailable": 2 * NODES, "tasks": [{"name": "work", "replicas": 2 * NODES, "template": template}]},
    }
