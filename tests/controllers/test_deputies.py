"""Controllers act for users with rights of their own: nothing that a user writes has them act where the user could not.

The table in ``docs/access.md`` lists who acts on what; what the API server checks is in ``test_access_deputies.py``.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from controller_world import ControllerWorld, at_once
from job_world import World, job, task
from test_jobflow_controller import TCP, flow, jobs, run, start, template
from test_volume_claims import VolumeWorld, claim, volume
from workload_world import WorkloadWorld, workload

from unisono.api.base import Object
from unisono.api.core import Pod
from unisono.api.decode import decode
from unisono.api.defaulting import apply_defaults
from unisono.api.kind import Kind
from unisono.api.kind_families import JOB_TEMPLATES, STATEFUL_SETS
from unisono.api.kinds import (
    ALL_KINDS,
    CONFIG_MAPS,
    JOBS,
    NETWORK_POLICIES,
    PERSISTENT_VOLUME_CLAIMS,
    POD_GROUPS,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    SECRETS,
    SERVICES,
    find,
)
from unisono.api.yaml import load_all
from unisono.controllers.builtin import builtin_controllers
from unisono.controllers.nodes import NodeLifecycleController
from unisono.controllers.owners import owned_by
from unisono.controllers.registry import all_controllers
from unisono.kube.controller import Controller

# --- created in the owner's namespace only --------------------------------------------------------------------------

TEAM, ELSEWHERE = "team", "elsewhere"
WORKLOADS = Path(__file__).parents[1] / "install" / "workloads.yaml"
CONTAINERS = [{"name": "main", "image": "i"}]
POD = {"spec": {"containers": CONTAINERS, "restartPolicy": "Always"}, "metadata": {"labels": {"a": "b"}}}
ONCE = {"spec": {"containers": CONTAINERS, "restartPolicy": "Never"}}
SELECTOR = {"matchLabels": {"a": "b"}}
DISK = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
CLAIM = {"metadata": {"name": "data"}, "spec": DISK}
MORE = [
    ("apps/v1", "Deployment", {"replicas": 1, "selector": SELECTOR, "template": POD}),
    ("apps/v1", "DaemonSet", {"selector": SELECTOR, "template": POD}),
    (
        "apps/v1",
        "StatefulSet",
        {"replicas": 1, "serviceName": "s", "selector": SELECTOR, "template": POD, "volumeClaimTemplates": [CLAIM]},
    ),
    (
        "batch/v1",
        "CronJob",
        {
            "schedule": "* * * * *",
            "jobTemplate": {"spec": {"template": ONCE}},
        },
    ),
    (
        "v1",
        "Pod",
        {
            "schedulerName": "volcano",
            "containers": CONTAINERS,
            "volumes": [{"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": DISK}}}],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpus"}],
        },
    ),
]


class Everything(ControllerWorld):
    """All controllers on one API server."""

    def make_controllers(self) -> list[Controller]:
        builtin = [each for each in builtin_controllers(self.recorder) if not isinstance(each, NodeLifecycleController)]
        return [*all_controllers(self.recorder, offload=at_once), *builtin]


def astray(value: Any) -> Any:
    """The value with every template within it placed in another namespace."""
    if isinstance(value, list):
        return [astray(each) for each in value]
    if not isinstance(value, dict):
        return value
    found = {key: astray(each) for key, each in value.items()}
    for key, each in found.items():
        if key.lower().endswith("template") and isinstance(each, dict):
            each["metadata"] = {**each.get("metadata", {}), "namespace": ELSEWHERE}
        elif key == "volumeClaimTemplates":
            found[key] = [{**one, "metadata": {**one["metadata"], "namespace": ELSEWHERE}} for one in each]
    return found


def manifests() -> Iterator[tuple[Kind[Any], Object]]:
    """An object of each kind for which controllers make others."""
    values = [copy.deepcopy(document.value) for document in load_all(WORKLOADS.read_text())]
    values += [
        {"apiVersion": version, "kind": kind, "metadata": {"name": kind.lower()}, "spec": copy.deepcopy(spec)}
        for version, kind, spec in MORE
    ]
    for value in values:
        kind = find(value["apiVersion"], value["kind"])
        assert kind is not None
        if value["kind"] == "Command" or not kind.namespaced:
            continue
        value["metadata"] = {**value["metadata"], "namespace": TEAM}
        value["spec"] = astray(value["spec"])
        obj = decode(kind, value).obj
        apply_defaults(kind, obj)
        yield kind, obj


async def test_everything_is_made_in_the_namespace_of_its_owner_wherever_templates_point() -> None:
    async with Everything() as world:
        template_of_claims = {
            "metadata": {"name": "gpus", "namespace": TEAM},
            "spec": {"metadata": {"namespace": ELSEWHERE}, "spec": {}},
        }
        world.client.put(RESOURCE_CLAIM_TEMPLATES, msgspec.convert(template_of_claims, RESOURCE_CLAIM_TEMPLATES.struct))
        given = list(manifests())
        for kind, obj in given:
            with world.client.hands():
                await world.client.create(kind, obj)
        for _ in range(4):
            await world.advance(31.0)
            for group in world.client.objects(POD_GROUPS):
                if group.status.phase == "Pending":
                    await world.set_group_phase(group, "Inqueue")
        made = [write for write, _ in world.client.applied if write.operation == "create"]
        kinds = {write.resource for write in made}
        assert kinds >= {
            *(
                "jobs",
                "pods",
                "podgroups",
                "services",
                "secrets",
                "configmaps",
                "persistentvolumeclaims",
                "replicasets",
            ),
            *("jobsets", "rayclusters", "resourceclaims", "controllerrevisions"),
        }, kinds
        cluster = {kind.plural for kind in ALL_KINDS if not kind.namespaced}
        assert {write.key.partition("/")[0] for write in made if write.resource not in cluster} == {TEAM}
        assert len({pod.metadata.name for pod in world.pods()}) > len(given)


# --- objects that belong to something else --------------------------------------------------------------------------

PLUGINS = {"svc": [], "ssh": []}


def strangers(name: str) -> list[tuple[Kind[Any], str]]:
    """What the plug-ins of a job of that name would make."""
    return [
        (CONFIG_MAPS, f"{name}-svc"),
        (SERVICES, name),
        (NETWORK_POLICIES, name),
        (SECRETS, f"{name}-ssh"),
    ]


@pytest.mark.parametrize(("kind", "name"), strangers("job"), ids=lambda each: getattr(each, "plural", None))
@pytest.mark.parametrize("owned", [False, True], ids=["without an owner", "of another job"])
async def test_plug_ins_of_a_job_leave_objects_of_others_alone(kind: Kind[Any], name: str, owned: bool) -> None:
    async with World() as world:
        await world.submit(job(task("work", 1), name="other"))
        obj = kind.struct()
        obj.metadata.name, obj.metadata.namespace = name, "default"
        if owned:
            obj.metadata.owner_references = [owned_by(JOBS, world.job("other"))]
        world.client.put(kind, obj)
        before = copy.deepcopy(world.client.raw(kind, f"default/{name}"))
        await world.submit(job(task("work", 1), plugins=PLUGINS))
        await world.advance(60.0)
        assert world.client.raw(kind, f"default/{name}") == before
        assert world.group() is None and not world.names()
        (told,) = set(world.recorder.of("PluginError"))
        assert f"default/{name} exists and belongs to something else" in told
        with world.client.hands():
            await world.client.delete(JOBS, "job", "default")
        await world.settle()
        world.client.collect_garbage()
        assert world.client.raw(kind, f"default/{name}") == before


# --- probes of flows ------------------------------------------------------------------------------------------------


async def test_a_flow_asks_only_running_pods_of_its_own_jobs() -> None:
    """A probe is a connection from the controllers' place in the network: its address must not be the user's choice."""
    async with World() as world:
        await start(world, flow("a"), flow("b", "a", probe=TCP), templates=(template("a", task("t", 2)),))
        made = world.job("f-a")
        lures = {"elsewhere/lure": "10.9.0.1", "default/no-owner": "10.9.0.2"}
        for key, address in lures.items():
            namespace, name = key.split("/")
            value = {
                "metadata": {
                    "name": name,
                    "namespace": namespace,
                    "labels": {"volcano.sh/task-spec": "t"},
                    "annotations": {"volcano.sh/task-spec": "t", "volcano.sh/job-name": "f-a"},
                },
                "spec": {"containers": [{"name": "c"}]},
                "status": {"phase": "Running", "podIP": address},
            }
            lure = msgspec.convert(value, Pod)
            if namespace == "elsewhere":
                lure.metadata.owner_references = [owned_by(JOBS, made)]
            world.client.put(PODS, lure)
        await run(world, "a")
        own = {pod.status.pod_ip for pod in world.pods() if pod.metadata.name.startswith("f-a-")}
        assert {probe.host for probe in world.prober.asked} == own - set(lures.values())
        # A pod that is being deleted, or has ended, may have given its address away.
        world.prober.asked.clear()
        await world.pod("f-a-t-0", "Failed")
        await world.advance(12.0)
        ended = world.find_pod("f-a-t-0").status.pod_ip
        assert ended not in {probe.host for probe in world.prober.asked}
        assert jobs(world) == ["a"]


# --- volumes --------------------------------------------------------------------------------------------------------

KEPT = {"namespace": "elsewhere", "name": "c"}


@pytest.mark.parametrize(
    "reference",
    [KEPT, {**KEPT, "uid": "x"}, {"namespace": "default", "name": "c", "uid": "of a claim that was there before"}],
    ids=["by name in another namespace", "bound in another namespace", "bound to a former claim of the name"],
)
@pytest.mark.parametrize("asks", [True, False], ids=["asked for by name", "looked for"])
async def test_a_claim_never_gets_a_volume_that_is_kept_for_another(reference: dict[str, str], asks: bool) -> None:
    async with VolumeWorld() as world:
        await world.put(volume("v", claimRef=reference), claim(volumeName="v" if asks else None))
        await world.advance(120.0)
        assert world.bound() == {}
        kept = world.volume("v").spec.claim_ref
        assert kept is not None and (kept.namespace, kept.uid) == (reference["namespace"], reference.get("uid"))


async def test_a_stateful_set_deletes_no_claim_that_belongs_to_something_else() -> None:
    async with WorkloadWorld() as world:
        kept = claim("data-web-3")
        kept.metadata.owner_references = [owned_by(PODS, msgspec.convert({"metadata": {"name": "p", "uid": "u"}}, Pod))]
        other = claim("data-web-4")
        other.metadata.namespace = "elsewhere"
        for each in (kept, other):
            world.client.put(PERSISTENT_VOLUME_CLAIMS, each)
        policy = {"whenScaled": "Delete", "whenDeleted": "Delete"}
        spec = {"replicas": 2, "serviceName": "web", "volumeClaimTemplates": [CLAIM]}
        made = workload(STATEFUL_SETS, persistentVolumeClaimRetentionPolicy=policy, **spec)
        await world.make(STATEFUL_SETS, made)
        await world.roll()
        await world.edit(STATEFUL_SETS, "web", replicas=0)
        await world.roll()
        left = [each.key for each in world.client.objects(PERSISTENT_VOLUME_CLAIMS)]
        assert left == ["default/data-web-3", "elsewhere/data-web-4"]


# --- job templates --------------------------------------------------------------------------------------------------


async def test_a_flow_reads_templates_of_its_own_namespace_only() -> None:
    async with World() as world:
        secret = template("a", task("secret"))
        secret.metadata.namespace = "elsewhere"
        world.client.put(JOB_TEMPLATES, secret)
        for name in ("a", "elsewhere/a", "elsewhere.a"):
            value = flow(name)
            made = msgspec.convert(
                {"metadata": {"name": name.replace("/", "-"), "namespace": "default"}, "spec": {"flows": [value]}},
                find("flow.volcano.sh/v1alpha1", "JobFlow").struct,  # type: ignore[union-attr]
            )
            await world.client.create(find("flow.volcano.sh/v1alpha1", "JobFlow"), made)  # type: ignore[arg-type]
            await world.advance(30.0)
        assert world.client.objects(JOBS) == []


async def test_a_job_counts_for_templates_of_its_own_namespace_only() -> None:
    async with World() as world:
        for namespace in ("elsewhere", "default"):
            mine = template("a")
            mine.metadata.namespace = namespace
            world.client.put(JOB_TEMPLATES, mine)
        for name, value in (("x", "elsewhere.a"), ("y", "default.a")):
            made = job(task("t"), name=name)
            made.metadata.annotations = {"volcano.sh/createdByJobTemplate": value}
            await world.submit(made)

        def listed(namespace: str) -> list[str] | None:
            found = world.client.find(JOB_TEMPLATES, f"{namespace}/a")
            assert found is not None
            names: list[str] | None = found.status.job_depends_on_list
            return names

        assert (listed("default"), listed("elsewhere")) == (["y"], None)
