"""``unisono install --uninstall`` keeps what is not the installation's, and says why."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from installed import send, servers

from unisono.api.kind import Kind
from unisono.api.kinds import JOBS, NUMATOPOLOGIES, QUEUES
from unisono.cli.commands.install import command
from unisono.cli.installing import install, uninstall
from unisono.install.manifests import manifests
from unisono.install.workloads import InstallOptions
from unisono.kube.http import HttpClient

SPACE = "batch"
# The embedded API brings its own definitions and policies.
OPTIONS = InstallOptions(namespace=SPACE, crds=False, policies=False, webhook=False)
NAMESPACE = f"namespace/{SPACE}"


@pytest.fixture
async def admin(tmp_path: Path) -> AsyncIterator[HttpClient]:
    async with servers("embedded", tmp_path) as (client, _):
        yield client


async def put(client: HttpClient) -> None:
    async for _ in install(client, manifests(OPTIONS), dry_run=False):
        pass


async def taken(client: HttpClient, **how: Any) -> dict[str, str]:
    """What was said of each object."""
    how = {"with_data": False, "dry_run": False, **how}
    steps = [step async for step in uninstall(client, manifests(OPTIONS), SPACE, **how)]
    return {step.title: f"{step.action} {step.note}".strip() for step in steps}


async def test_a_namespace_of_its_own_goes_along(admin: HttpClient) -> None:
    await put(admin)
    assert (await taken(admin))[NAMESPACE] == "deleted"


async def test_a_namespace_that_was_there_before_is_kept(admin: HttpClient) -> None:
    path, body = "/api/v1/namespaces", {"metadata": {"name": SPACE, "labels": {"team": "a"}}}
    status, _, answer = await admin.request(
        "POST", path, body=json.dumps(body).encode(), params={"fieldManager": "somebody"}
    )
    assert status == 201, answer
    await put(admin)
    said = await taken(admin)
    assert said[NAMESPACE] == "kept made or changed by somebody"
    assert said["deployment.apps/unisono-scheduler"] == "deleted"
    assert (await send(admin, "GET", f"/api/v1/namespaces/{SPACE}"))[0] == 200


async def test_a_namespace_with_objects_of_users_is_kept(admin: HttpClient) -> None:
    await put(admin)
    body = {"metadata": {"name": "settings"}, "data": {"a": "b"}}
    await send(admin, "POST", f"/api/v1/namespaces/{SPACE}/configmaps", body)
    assert (await taken(admin))[NAMESPACE] == "kept holds configmap/settings"


async def test_queues_stay(admin: HttpClient) -> None:
    await put(admin)
    path = QUEUES.path(None, "mine")
    meta = {"apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": {"name": "mine"}}
    assert (await send(admin, "POST", QUEUES.path(), meta))[0] == 201
    assert not any(title.startswith("queue") and said == "deleted" for title, said in (await taken(admin)).items())
    assert (await send(admin, "GET", path))[0] == 200


async def test_descriptions_of_nodes_that_nobody_keeps_true_go_along(admin: HttpClient) -> None:
    made = [one for one in manifests(replace(OPTIONS, numa_exporter=True)) if "AdmissionPolicy" not in one["kind"]]
    async for _ in install(admin, made, dry_run=False):
        pass
    for name, labels in (("ours", {"app.kubernetes.io/part-of": "unisono"}), ("anothers", {})):
        body = {"metadata": {"name": name, "labels": labels}, "spec": {}}
        full = {"apiVersion": NUMATOPOLOGIES.api_version, "kind": NUMATOPOLOGIES.kind, **body}
        assert (await send(admin, "POST", NUMATOPOLOGIES.path(), full))[0] == 201
    steps = [step async for step in uninstall(admin, made, SPACE, with_data=False, dry_run=False)]
    said = {step.title: step.action for step in steps}
    assert said["daemonset.apps/unisono-numa-exporter"] == said[f"namespace/{SPACE}-nodes"] == "deleted"
    assert (await send(admin, "GET", NUMATOPOLOGIES.path(None, "ours")))[0] == 404
    assert (await send(admin, "GET", NUMATOPOLOGIES.path(None, "anothers")))[0] == 200


async def test_the_server_can_be_asked_first(admin: HttpClient) -> None:
    await put(admin)
    said = await taken(admin, dry_run=True)
    assert said["deployment.apps/unisono-scheduler"] == "deleted (server dry run)"
    status, _ = await send(admin, "GET", f"/apis/apps/v1/namespaces/{SPACE}/deployments/unisono-scheduler")
    assert status == 200
    assert (await taken(admin))["deployment.apps/unisono-scheduler"] == "deleted"


class Strict(HttpClient):
    """As Kubernetes does, with options in the body it does not read those in the query."""

    async def request(self, method: str, path: str, **options: Any) -> Any:
        if method == "DELETE" and options.get("body"):
            options["params"] = {}
        return await super().request(method, path, **options)


async def test_a_question_deletes_nothing_where_options_in_the_body_win(admin: HttpClient) -> None:
    await put(admin)
    strict = Strict(admin.config)
    try:
        await taken(strict, dry_run=True)
    finally:
        await strict.close()
    said = await taken(admin)
    assert said["deployment.apps/unisono-scheduler"] == said[NAMESPACE] == "deleted"


def test_what_would_be_deleted_can_be_printed() -> None:
    done = CliRunner().invoke(command, ["--uninstall", "--dry-run", "-n", SPACE])
    kinds = [one["kind"] for one in yaml.load_all(done.output, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))]
    assert kinds.index("MutatingWebhookConfiguration") < kinds.index("Deployment") < kinds.index("Namespace")
    assert not {"Queue", "CustomResourceDefinition"} & set(kinds)


def test_data_is_deleted_only_by_a_removal() -> None:
    done = CliRunner().invoke(command, ["--with-data"])
    assert done.exit_code == 2
    assert "--uninstall" in done.output


class Silent(HttpClient):
    """No queue is there, and none can be written, since the webhook of an earlier installation is not there."""

    async def request(self, method: str, path: str, **options: Any) -> Any:
        if method == "GET" and "/queues/" in path:
            body = {"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound", "message": "not found"}
            return 404, {}, json.dumps(body).encode()
        if method == "PATCH" and "/queues/" in path:
            message = 'Internal error occurred: failed calling webhook "queues.webhook.unisono": connection refused'
            body = {"kind": "Status", "status": "Failure", "code": 500, "reason": "InternalError", "message": message}
            return 500, {}, json.dumps(body).encode()
        return await super().request(method, path, **options)


async def test_an_installation_whose_webhook_is_gone_can_be_mended(admin: HttpClient) -> None:
    client = Silent(admin.config)
    try:
        steps = [step async for step in install(client, manifests(OPTIONS), dry_run=False)]
    finally:
        await client.close()
    said = {step.title: step.action for step in steps}
    assert said["queue.scheduling.volcano.sh/default"] == "not applied"
    assert said["deployment.apps/unisono-controllers"] == "applied"


@pytest.mark.parametrize("dry_run", [False, True])
async def test_queues_that_are_there_keep_what_users_gave_them(admin: HttpClient, dry_run: bool) -> None:
    """Volcano's ``default`` has users' weights and limits when a cluster moves over, and so it has at each upgrade."""
    path = QUEUES.path(None, "default")
    spec = {"weight": 3, "reclaimable": False, "capability": {"cpu": "300"}}
    body = {"apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": {"name": "default"}, "spec": spec}
    assert (await send(admin, "PATCH", path, body))[0] == 200
    before = (await send(admin, "GET", path))[1]
    said = {step.title: step.action async for step in install(admin, manifests(OPTIONS), dry_run=dry_run)}
    assert said["queue.scheduling.volcano.sh/default"] == "kept"
    assert (await send(admin, "GET", path))[1] == before


async def test_jobs_go_before_their_definitions_and_take_their_pods_along(admin: HttpClient) -> None:
    """A garbage collector that meets an owner of a kind that is gone leaves the pods for ever."""
    await put(admin)
    await send(admin, "POST", "/api/v1/namespaces", {"metadata": {"name": "users"}})
    container = {"name": "c", "image": "i"}
    task = {"replicas": 1, "template": {"spec": {"containers": [container]}}}
    status, job = await send(admin, "POST", JOBS.path("users"), {**typed(JOBS, "mine"), "spec": {"tasks": [task]}})
    assert status == 201, job
    owner = {"apiVersion": JOBS.api_version, "kind": "Job", "name": "mine", "uid": job["metadata"]["uid"]}
    meta = {"name": "mine-0", "ownerReferences": [owner | {"controller": True, "blockOwnerDeletion": True}]}
    pods = "/api/v1/namespaces/users/pods"
    status, pod = await send(admin, "POST", pods, {"metadata": meta, "spec": {"containers": [container]}})
    assert status == 201, pod
    with_definitions = manifests(replace(OPTIONS, crds=True))
    async for step in uninstall(admin, with_definitions, SPACE, with_data=True, dry_run=False):
        if step.title == "1 objects of jobs.batch.volcano.sh":
            assert (step.action, step.note) == ("deleted", "")
            assert (await send(admin, "GET", pods))[1]["items"] == []
            break
    else:
        raise AssertionError("nobody said what became of the job")


def typed(kind: Kind[Any], name: str) -> dict[str, Any]:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}}
