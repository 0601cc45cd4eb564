"""Components do all their work with the rights that an installation gives them, and with no others."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from installed import VARIABLE, eventually, send, servers

from support.accounts import Accounts, Asked, Requests, place
from support.memory import MemoryClient
from unisono.agent.simulated.specs import parse_specs
from unisono.api import kinds
from unisono.api.groups.autoscaling import MACHINE_DEPLOYMENTS, MACHINES, PROVISIONING_REQUESTS
from unisono.api.kind_families import CLUSTER_TRAINING_RUNTIMES, RUN_KINDS
from unisono.api.kinds import ALL_KINDS, LEASES, find
from unisono.api.yaml import load_all
from unisono.controllers.registry import all_controllers
from unisono.engine.config_file.reader import DEFAULT_TEXT, load_config
from unisono.history.database import Bounds
from unisono.history.reading import Reader
from unisono.history.sqlite import SqliteFile
from unisono.install.rights import COMPONENTS, NODE_LEASE_RIGHTS, own_rights, rules
from unisono.install.workloads import InstallOptions
from unisono.jobkinds.registry import FOREIGN
from unisono.kube.controller import Context, Informers
from unisono.kube.http import HttpClient
from unisono.scheduler import feed
from unisono.scheduler.settings import FixedConfig
from unisono.standalone.component import Component, ComponentOptions, MakePart
from unisono.standalone.component_processes import (
    Recording,
    controllers_part,
    scheduler_part,
    simulated_part,
    webhook_part,
)

OPTIONS = InstallOptions(namespace=f"rights-test-{secrets.token_hex(3)}")
PATIENCE = 900.0
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
    informers = Informers(MemoryClient())
    for controller in all_controllers(recorder=None):
        controller.attach(Context(informers, queue=SimpleNamespace(add=None)))
    watched = informers.statistics()
    by_resource = {kind.resource: kind for kind in (*ALL_KINDS, MACHINE_DEPLOYMENTS, MACHINES, PROVISIONING_REQUESTS)}
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


def granted(component: str) -> set[Asked]:
    """Everything that the component's roles allow."""
    leases = NODE_LEASE_RIGHTS if component == "agent" else ()
    rights = (*COMPONENTS[component], *own_rights(component), *leases)
    return {Asked(verb, right.group, right.resource) for right in rights for verb in right.verbs}


KINDS = "|".join(kind.plural for kind in RUN_KINDS)
_FOREIGN = "|".join(re.escape(each.kind.resource) for each in FOREIGN)
UNUSED: dict[str, dict[str, str]] = {
    "scheduler": {
        r"patch queues.*": "use that decays, with the plug-in fair-share",
        r"patch nodes/status": "nodes that the scheduler cannot read (tests/scheduler)",
        r"create pods/eviction": "evictions of pods with a disruption budget",
        r"(get|list) nodes/node_(cpu|memory)_usage_avg\.custom\.metrics\.k8s\.io": "measured load, if configured",
        r"(get|patch) persistentvolume(s|claims)": "volumes that are bound with the pod",
        r"(get|patch) resourceclaims\.resource\.k8s\.io": "devices: a conflict is read again, finalizers",
        r"patch resourceclaims/status\.resource\.k8s\.io": "devices: the allocation",
        r"(patch|update) resourceclaims/binding\.resource\.k8s\.io": "devices: what Kubernetes 1.36 asks for besides",
        r"(get|delete) pods": "a bind without an answer, and evictions; not in every run",
        r"patch events": "an event that comes again while it is remembered: whether one does depends on the pace",
        r"patch pods/status": "conditions of pods that wait for longer than a moment, which depends on the pace, too",
    },
    "controllers": {
        r"(create|delete|get|patch) hypernodes\.topology.*": "discovery of network topology, where it is configured",
        r"patch hypernodes/status\.topology.*": "the same: the count of nodes",
        r"patch floatingresources/status\.quota.*": "what is held of licences, and what their sources say",
        r"(create|get) podtemplates|(create|get) provisioningrequests.*": "machines by the cluster autoscaler",
        r"patch (machines|machinedeployments).*": "machines by Cluster API",
        r"create pods/eviction|patch nodes": "the same: machines that are given back",
        r"act-for queues.*": "the policy about users of jobs, which a cluster asks by its own authorizer",
        r"(create|get|patch) queues.*": "root and default that are missing, and states of queues",
        rf"delete ({KINDS})\..*": "jobs whose time after their end is over",
        rf"patch ({KINDS})\..*": "jobs that are suspended or resumed by their owner, and conditions of runtimes",
        r"(create|delete|get|patch) horizontalpodautoscalers.*": "elastic PyTorchJobs with metrics",
        r"patch events": "an event that comes again while it is remembered",
        r"(create|get) commands.*": "hyper jobs of which too many jobs are lost: the others are terminated",
        r"get (jobs\.batch|(daemonsets|replicasets|statefulsets)\.apps|replicationcontrollers)": (
            "annotations of pods' owners"
        ),
        r"list customresourcedefinitions\.apiextensions\.k8s\.io": "owners whose kind nobody here knows",
        rf"get (cronjobs\.batch|deployments\.apps|{_FOREIGN})": (
            "outermost owners of pods in queues that name their users"
        ),
        r"get (jobsets|rayclusters)\..*": "one that is there already: is it ours?",
        r"(get|patch) ((composite)?podgroups|jobs\.batch\.volcano).*": "conflicts, and jobs whose size changes",
        r"(get|delete|patch) pods": "pods that are there already, jobs that restart, pods taken over by their group",
        r"list pods\.metrics\.k8s\.io": "memory of pods, where a history is kept",
        r"patch jobs\.batch": "jobs with Kueue's labels, in namespaces that serve them (tests/integration)",
        r"patch pods/status": "pods whose PodGroup is refused",
        r"get persistentvolumeclaims": "claims that a job names instead of asking for one",
        r"patch networkpolicies.*|patch secrets|patch services|patch configmaps": "what a plug-in made is outdated",
        r"update [a-z]+/finalizers\..*": "clusters that check who may block an owner's deletion",
    },
    "webhook": {
        r"patch (mutating|validating)webhookconfigurations.*": "the trust in its authority (tests/integration)",
        r"patch secrets": "certificates that are renewed",
        r"create subjectaccessreviews.*": "queues that are for the users that they name (tests/webhook)",
    },
    "agent": {
        r"delete pods": "pods with a grace period",
    },
}
"""Rights that these workloads need not: a pattern of requests, and who needs them."""


def reason(component: str, request: str) -> str:
    return next((why for what, why in UNUSED[component].items() if re.fullmatch(what, request)), "")


def test_every_reason_is_about_a_right() -> None:
    for component, reasons in UNUSED.items():
        for what in reasons:
            assert any(re.fullmatch(what, str(one)) for one in granted(component)), (component, what)


@pytest.fixture(params=["embedded", "cluster"])
async def admin(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[HttpClient]:
    if request.param == "cluster" and VARIABLE in os.environ:
        request.getfixturevalue("cluster_turn")
    async with servers(request.param, tmp_path) as (client, _):
        yield client


async def ensure(client: HttpClient, manifest: dict[str, Any]) -> None:
    status, answer = await send(client, "PATCH", place(manifest), manifest)
    assert status in (200, 201), answer


class Watched(Component):
    """A component that tells what it asked for."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.requests = Requests()

    def _client(self) -> HttpClient:
        return self.requests.client(self._config)


@dataclass
class Running:
    """A component under its service account, with a Lease, as a Deployment runs it."""

    component: Watched
    task: asyncio.Task[None]

    @property
    def refusals(self) -> list[str]:
        return list(self.component.requests.forbidden)

    @property
    def used(self) -> set[Asked]:
        """What it asked for; who watches lists where a server cannot begin a watch with all objects."""
        seen = set(self.component.requests.seen)
        return seen | {replace(one, verb="list") for one in seen if one.verb == "watch"}

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


async def started(accounts: Accounts, client: HttpClient, component: str, make: MakePart) -> Running:
    config = await accounts.config(component, client.config)
    lease = "" if component == "webhook" else f"{accounts.namespace}/unisono-{component}"
    made = Watched(f"unisono-{component}", config, make, ComponentOptions(lease=lease))
    return Running(made, asyncio.create_task(made.run()))


WORKLOADS = (Path(__file__).parent / "workloads.yaml").read_text()


async def test_all_kinds_of_work_are_done_with_these_rights_and_they_are_all_needed(
    admin: HttpClient, tmp_path: Path
) -> None:
    name = OPTIONS.namespace
    await ensure(admin, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    specs = parse_specs([{"name": name, "count": 4, "capacity": {"cpu": 8, "memory": "64Gi"}}])
    # A cluster keeps the runtimes that other controllers made; the right to make them is needed where there are none.
    assert (await send(admin, "DELETE", CLUSTER_TRAINING_RUNTIMES.path(None)))[0] == 200
    # One is there already: its labels and status are brought up to date.
    there = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": next(iter(specs[0].node_names()))}}
    assert (await send(admin, "POST", kinds.NODES.path(None), there))[0] == 201
    names = ("volcano", "unisono")
    history = SqliteFile(tmp_path / "history.db")
    parts = {
        "agent": simulated_part(specs, 300.0),
        "scheduler": scheduler_part(EVICTING, names, "default", heartbeat_lease=f"{name}/unisono-scheduler-cycles"),
        "controllers": controllers_part(names, "default", history=Recording(history, Bounds())),
        "webhook": webhook_part("127.0.0.1:0", name, "unisono"),
    }
    accounts = Accounts(admin, name)
    await accounts.make()
    running = {part: await started(accounts, admin, part, make) for part, make in parts.items()}
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
                path = place(value)
                status, answer = await send(admin, "POST", path.rpartition("/")[0], value)
                assert status == 201, (value, answer["message"])
                wanted = (value["metadata"].get("annotations") or {}).get("test/until")
                if wanted:
                    expected[path] = set(wanted.split(","))
            for path, phases in expected.items():
                await eventually(lambda path=path, phases=phases: _reached(admin, path, phases))
            # On a fast machine the work is done before any lease is due for renewal.
            await eventually(lambda: _renewed(running))
            # What a job owned is deleted after the job itself.
            with contextlib.suppress(AssertionError):
                await eventually(lambda: _needed(running))
            # The history is written in batches.
            with contextlib.suppress(AssertionError):
                await eventually(lambda: _written(history, name))
        assert not [refusal for one in running.values() for refusal in one.refusals]
        assert not any(unexplained(running).values()), f"rights that nothing needs: {unexplained(running)}"
        assert await _written(history, name)
    except TimeoutError:
        states = {path: (await send(admin, "GET", path))[1].get("status") for path in expected}
        refusals = {part: one.refusals for part, one in running.items()}
        raise AssertionError({"refused": refusals, "states": states}) from None
    finally:
        for one in running.values():
            await one.end()
        await accounts.remove()
        await _clean(admin, [node for spec in specs for node in spec.node_names()])


def unexplained(running: dict[str, Running]) -> dict[str, list[str]]:
    """By component, what its roles allow, that it has not asked for, and that no table explains."""
    idle = {part: sorted(map(str, granted(part) - one.used)) for part, one in running.items()}
    return {part: [text for text in found if not reason(part, text)] for part, found in idle.items()}


async def _needed(running: dict[str, Running]) -> bool:
    return not any(unexplained(running).values())


async def _written(history: SqliteFile, space: str) -> bool:
    written = {resource for namespace, resource in Reader(history).places() if namespace == space}
    return {"jobs.batch.volcano.sh", "jobflows.flow.volcano.sh", "rayjobs.ray.io"} <= written


async def _renewed(running: dict[str, Running]) -> bool:
    renewal = Asked("patch", LEASES.group, LEASES.plural)
    return all(renewal in one.used for part, one in running.items() if renewal in granted(part))


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
    names |= {"pending"} if state.get("pendingServiceStatus") else set()
    names |= {"active"} if state.get("active") or state.get("lastScheduleTime") else set()
    return bool(names & wanted)


async def _clean(client: HttpClient, nodes: list[str]) -> None:
    space = OPTIONS.namespace
    for kind in (kinds.PODS, LEASES):
        await send(client, "DELETE", kind.path(space), {"gracePeriodSeconds": 0})
    await send(client, "DELETE", f"/api/v1/namespaces/{space}")
    for node in nodes:
        await send(client, "DELETE", kinds.NODES.path(None, node))
    await send(client, "DELETE", kinds.PRIORITY_CLASSES.path(None, "rights-test-high"))
    await send(client, "DELETE", kinds.DEVICE_CLASSES.path(None, "rights-test-device"))
