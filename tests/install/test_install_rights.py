"""Components do all their work with the rights that an installation gives them, and with no others."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from installed import VARIABLE, cluster, eventually, send

from unisono.agent.simulated import SimulatedNodes
from unisono.agent.simulated_specs import parse_specs
from unisono.api import kinds
from unisono.api.kinds import ALL_KINDS, LEASES, find
from unisono.api.machine import MACHINE_DEPLOYMENTS
from unisono.api.provisioning import PROVISIONING_REQUESTS
from unisono.api.yaml import load_all
from unisono.apiserver.backend import Backend
from unisono.apiserver.server import ApiServer
from unisono.controllers.registry import all_controllers
from unisono.engine.config import DEFAULT_TEXT, load_config
from unisono.install.options import InstallOptions
from unisono.install.rights import COMPONENTS, access, own_rights, rules
from unisono.kube import kubeconfig
from unisono.kube.controller import Context, Informers
from unisono.kube.http import HttpClient
from unisono.kube.kubeconfig import ClusterConfig
from unisono.scheduler import feed
from unisono.scheduler.settings import FixedConfig
from unisono.standalone.component import Component, ComponentOptions, MakePart
from unisono.standalone.parts import controllers_part, scheduler_part

OPTIONS = InstallOptions(namespace=f"rights-test-{secrets.token_hex(3)}")
PATIENCE = 240.0
EVICTING = FixedConfig(load_config(DEFAULT_TEXT.replace("allocate, backfill", "allocate, preempt, reclaim, backfill")))


def allowed(component: str, verb: str, resource: str, group: str) -> bool:
    rights = (*COMPONENTS[component], *own_rights(component))
    return any(verb in r.verbs and r.resource == resource and r.group == group for r in rights)


def test_the_scheduler_may_read_everything_that_scheduling_reads() -> None:
    missing = [
        kind.resource
        for kind in feed.KINDS
        for verb in ("list", "watch")
        if not allowed("scheduler", verb, kind.plural, kind.group)
    ]
    assert not missing


def test_controllers_may_read_everything_that_they_watch() -> None:
    informers = Informers(client=None)
    for controller in all_controllers(recorder=None):
        controller.setup(Context(informers, queue=None))
    watched = informers.statistics()
    by_resource = {kind.resource: kind for kind in (*ALL_KINDS, MACHINE_DEPLOYMENTS, PROVISIONING_REQUESTS)}
    missing = [
        name
        for name in watched
        for verb in ("list", "watch")
        if not allowed("controllers", verb, by_resource[name].plural, by_resource[name].group)
    ]
    assert watched
    assert not missing


def test_no_component_may_read_all_secrets_or_write_what_it_does_not_make() -> None:
    for component in COMPONENTS:
        assert not allowed(component, "list", "secrets", "")
        assert not allowed(component, "watch", "secrets", "")
        for right in (*COMPONENTS[component], *own_rights(component)):
            assert "*" not in (*right.verbs, right.resource, right.group)
            assert right.group != "rbac.authorization.k8s.io"
    assert not allowed("scheduler", "create", "pods", "")
    assert not allowed("controllers", "create", "pods/binding", "")


def test_rules_of_a_role_say_the_rights_and_no_more() -> None:
    for component, rights in COMPONENTS.items():
        said = {
            (group, resource, tuple(rule.get("resourceNames", ())), verb)
            for rule in rules(rights)
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }
        assert said == {(r.group, r.resource, r.names, verb) for r in rights for verb in r.verbs}, component


# ---- components under their service accounts


@contextlib.asynccontextmanager
async def embedded(directory: Path) -> AsyncIterator[HttpClient]:
    backend = await Backend.open(directory / "state.db")
    server = ApiServer(backend.service, data_dir=directory)
    await server.start()
    client = HttpClient(kubeconfig.load(server.kubeconfig_path))
    try:
        yield client
    finally:
        await client.close()
        await server.stop()
        await backend.close()


@pytest.fixture(params=["embedded", "cluster"])
async def admin(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[HttpClient]:
    if request.param == "cluster":
        if VARIABLE not in os.environ:
            pytest.skip(f"{VARIABLE} names no cluster")
        async with cluster() as client:
            yield client
    else:
        async with embedded(tmp_path) as client:
            yield client


def path_of(manifest: Mapping[str, Any]) -> str:
    kind = find(manifest["apiVersion"], manifest["kind"])
    assert kind is not None
    # The version in which it is written: some kinds have several.
    return replace(kind, version=manifest["apiVersion"].rpartition("/")[2]).path(manifest["metadata"].get("namespace"))


async def ensure(client: HttpClient, manifest: dict[str, Any]) -> None:
    path = f"{path_of(manifest)}/{manifest['metadata']['name']}"
    status, answer = await send(client, "PATCH", path, manifest)
    assert status in (200, 201), answer


@dataclass
class Running:
    """A component under its service account, with a Lease, as a Deployment runs it."""

    component: Component
    task: asyncio.Task[None]

    def refusals(self) -> dict[tuple[str, str], float]:
        return {
            (sample.labels["method"], sample.labels["resource"]): sample.value
            for metric in self.component.registry.collect()
            for sample in metric.samples
            if sample.name == "rest_client_requests_total" and sample.labels["code"] == "403"
        }

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


async def account(client: HttpClient, component: str) -> ClusterConfig:
    """The cluster as the component's service account sees it."""
    for manifest in access(component, OPTIONS):
        await ensure(client, manifest)
    path = f"/api/v1/namespaces/{OPTIONS.namespace}/serviceaccounts/unisono-{component}/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    status, answer = await send(client, "POST", path, body)
    assert status == 201, answer
    return replace(
        client.config, token=answer["status"]["token"], client_certificate=None, client_key=None, token_file=None
    )


async def started(client: HttpClient, component: str, make: MakePart) -> Running:
    config = await account(client, component)
    options = ComponentOptions(lease=f"{OPTIONS.namespace}/unisono-{component}")
    made = Component(f"unisono-{component}", config, make, options)
    return Running(made, asyncio.create_task(made.run()))


WORKLOADS = (Path(__file__).parent / "workloads.yaml").read_text()


@pytest.mark.parametrize("end", ["Succeeded"])
async def test_all_kinds_of_work_are_done_with_these_rights(admin: HttpClient, end: str) -> None:
    name = OPTIONS.namespace
    await ensure(admin, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    specs = parse_specs([{"name": name, "count": 4, "capacity": {"cpu": 8, "memory": "64Gi"}}])
    nodes = asyncio.create_task(SimulatedNodes(admin, specs).run())
    running = [
        await started(admin, "scheduler", scheduler_part(EVICTING, ("volcano", "unisono"), "default")),
        await started(admin, "controllers", controllers_part(("volcano", "unisono"), "default")),
    ]
    expected: dict[str, set[str]] = {}
    try:
        async with asyncio.timeout(PATIENCE):
            await eventually(lambda: _open(admin))
            for document in load_all(WORKLOADS, file="workloads.yaml"):
                value = dict(document.value)
                kind = find(value["apiVersion"], value["kind"])
                assert kind is not None
                if kind.namespaced:
                    value["metadata"] = value["metadata"] | {"namespace": name}
                if value["kind"] == "Command":
                    _, target = await send(admin, "GET", kinds.JOBS.path(name, value["target"]["name"]))
                    value["target"] = value["target"] | {"uid": target["metadata"]["uid"]}
                status, answer = await send(admin, "POST", path_of(value), value)
                assert status == 201, (value, answer["message"])
                wanted = (value["metadata"].get("annotations") or {}).get("test/until")
                if wanted:
                    expected[f"{path_of(value)}/{value['metadata']['name']}"] = set(wanted.split(","))
            for path, phases in expected.items():
                await eventually(lambda path=path, phases=phases: _reached(admin, path, phases))
        assert {running[0].component.name: running[0].refusals()} == {"unisono-scheduler": {}}
        assert {running[1].component.name: running[1].refusals()} == {"unisono-controllers": {}}
    except TimeoutError:
        states = {path: (await send(admin, "GET", path))[1].get("status") for path in expected}
        raise AssertionError({"refused": [one.refusals() for one in running], "states": states}) from None
    finally:
        for one in running:
            await one.end()
        nodes.cancel()
        await asyncio.gather(nodes, return_exceptions=True)
        await _clean(admin, [node for spec in specs for node in spec.node_names()])


async def _open(client: HttpClient) -> bool:
    status, queue = await send(client, "GET", kinds.QUEUES.path(None, "default"))
    return status == 200 and queue.get("status", {}).get("state") == "Open"


async def _reached(client: HttpClient, path: str, wanted: set[str]) -> bool:
    status, value = await send(client, "GET", path)
    if status == 404:
        return "gone" in wanted
    if status != 200:
        return False
    state = value.get("status") or {}
    told = state.get("phase") or state.get("state") or ""
    names = {told.get("phase", "") if isinstance(told, dict) else str(told), str(state.get("jobStatus", ""))}
    conditions = state.get("conditions")
    if isinstance(conditions, list):
        names |= {one["type"] for one in conditions if one.get("status") == "True" and "type" in one}
    names |= {"made"} if state.get("jobsStatus") else set()
    names |= {"active"} if state.get("active") or state.get("lastScheduleTime") else set()
    return bool(names & wanted)


async def _clean(client: HttpClient, nodes: list[str]) -> None:
    space = OPTIONS.namespace
    for kind in (kinds.PODS, LEASES):
        await send(client, "DELETE", kind.path(space), {"gracePeriodSeconds": 0})
    await send(client, "DELETE", f"/api/v1/namespaces/{space}")
    for node in nodes:
        await send(client, "DELETE", kinds.NODES.path(None, node))
    for component in ("scheduler", "controllers"):
        for manifest in access(component, OPTIONS):
            if "namespace" not in manifest["metadata"]:
                await send(client, "DELETE", f"{path_of(manifest)}/{manifest['metadata']['name']}")
    await send(client, "DELETE", kinds.PRIORITY_CLASSES.path(None, "rights-test-high"))
