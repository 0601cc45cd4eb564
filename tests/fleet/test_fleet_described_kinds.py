"""Kinds of which only a table says something, on a definition or in this package, are sent to members."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from fleet_world import GPU, fleet, node, template

from support.memory import MemoryClient
from support.virtual_clock import settle
from unisono.api.annotations import DISPATCH, JOB_KIND, MEMBER_REASONS, ORIGIN_UID
from unisono.api.base import ObjectMeta
from unisono.api.core import Pod, PodSpec, PodStatus
from unisono.api.decode import decode
from unisono.api.kind import Kind
from unisono.api.kind_families import JOB_SETS
from unisono.api.kinds import CUSTOM_RESOURCE_DEFINITIONS, JOBS, POD_GROUPS, PODS, ROLES, SERVICES
from unisono.fleet.dispatch import described_kinds
from unisono.fleet.jobs import described
from unisono.fleet.jobs.described import kinds_of
from unisono.jobkinds.registry import of_resource
from unisono.jobkinds.tables import ForeignObject
from unisono.kube.controller import Manager

TABLE = """
pods:
- {role: leader, template: spec.leader}
- {role: helper, template: spec.helper, count: spec.helpers}
queues: [spec.queue]
replicas: spec.helpers
suspend: {path: spec.paused}
ended: {path: status.phase, phases: {Completed: [Done], Failed: [Broken]}}
podsLabel: example.com/swarm
"""
SWARMS = Kind("example.com", "v1", "Swarm", "swarms", ForeignObject, status_subresource=True)
SPARK = of_resource("sparkapplications.sparkoperator.k8s.io").kind


def definition(kind, table=TABLE, *, status=True):
    version = {"name": kind.version, "served": True, "storage": True}
    version["subresources"] = {"status": {}} if status else {}
    value = {
        "metadata": {"name": kind.resource, "annotations": {JOB_KIND: table} if table else {}},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced",
            "names": {"kind": kind.kind, "plural": kind.plural},
            "versions": [version],
        },
    }
    return decode(CUSTOM_RESOURCE_DEFINITIONS, value).obj


def swarm(helpers=3, **spec):
    given = {"leader": template(1), "helper": template(1), "helpers": helpers, "queue": "default", **spec}
    return ForeignObject(metadata=ObjectMeta(name="bees", namespace="default"), spec=given)


@pytest.mark.parametrize("kind", [JOBS, ROLES, JOB_SETS, SERVICES])
def test_a_table_changes_nothing_about_a_kind_that_this_program_knows(kind):
    assert kinds_of([definition(kind)]) == {}


def test_a_kind_without_namespaces_is_not_sent():
    found = definition(SWARMS)
    found.spec.scope = "Cluster"
    assert kinds_of([found]) == {}


def test_an_object_of_many_large_roles_is_stood_for_by_as_many_pods_as_one_may_have(monkeypatch):
    made, pod = [], described._pod
    monkeypatch.setattr(described, "MOST_PODS", 10)
    monkeypatch.setattr(described, "_pod", lambda *given: made.append(given) or pod(*given))
    roles = "".join(f"- {{role: r{at}, template: spec.leader, default: 1000000}}\n" for at in range(64))
    known = kinds_of([definition(SWARMS, f"pods:\n{roles}")])[SWARMS.resource]
    bees = swarm()
    bees.metadata.uid = "u"
    assert len(described.work_of(known, bees).pods) == len(made) == 10


async def test_a_hub_sends_kinds_of_so_many_definitions_and_no_more(monkeypatch):
    monkeypatch.setattr(described_kinds, "MOST_KINDS", 3)
    client, found = MemoryClient(), []
    manager = Manager(client, clock=client.clock)
    for at in range(5):
        kind = Kind("example.com", "v1", f"Swarm{at}", f"swarms{at}", ForeignObject)
        client.put(CUSTOM_RESOURCE_DEFINITIONS, definition(kind))
    running = asyncio.create_task(manager.run([described_kinds.DescribedKinds(found.append)]))
    await settle(200)
    assert len(found) == 3
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def copy_in(world, name, kind=SWARMS):
    found = world.members[name].objects(kind)
    return found[0] if found else None


async def start(world, kind=SWARMS, **more):
    for name, gpus in (("small", 2), ("large", 8)):
        world.join(name, [node("n", gpus)])
        world.members[name].put(CUSTOM_RESOURCE_DEFINITIONS, definition(kind, **more))
    world.own_roles.add("example.com")
    world.hub_client.put(CUSTOM_RESOURCE_DEFINITIONS, definition(kind, **more))
    world.start()
    await world.run(10)


@pytest.mark.parametrize("status", [True, False])
async def test_an_object_goes_whole_where_it_fits_and_its_status_comes_back(status):
    async with fleet("small", "large") as world:
        kind = SWARMS if status else without_status(SWARMS)
        await start(world, status=status)
        await world.hub_client.create(kind, swarm())
        await world.run(10)
        assert world.where(kind) == {"bees": "large"}
        copied = copy_in(world, "large", kind)
        assert copied.spec["helpers"] == 3
        assert copied.spec["leader"]["metadata"]["labels"][ORIGIN_UID]
        told = {"phase": "Working", "since": -1}
        client = world.members["large"]
        sub = "status" if status else None
        await client.patch(kind, "bees", {"status": told}, namespace="default", subresource=sub)
        await world.run(5)
        assert world.hub_client.find(kind, "default/bees").status == told
        await client.patch(kind, "bees", {"status": {"phase": "Done"}}, namespace="default", subresource=sub)
        await world.run(5)
        assert not world.hub_client.objects(POD_GROUPS)
        await world.hub_client.delete(kind, "bees", "default")
        await world.run(5)
        assert world.copies(kind) == {"small": [], "large": []}


def without_status(kind):
    return Kind(kind.group, kind.version, kind.kind, kind.plural, kind.struct)


async def test_suspension_and_size_follow_and_a_kind_that_comes_later_is_sent_too():
    async with fleet("small", "large") as world:
        for name, gpus in (("small", 2), ("large", 8)):
            world.join(name, [node("n", gpus)])
        world.own_roles.add("example.com")
        world.start()
        await world.run(10)
        world.hub_client.put(CUSTOM_RESOURCE_DEFINITIONS, definition(SWARMS))
        await world.hub_client.create(SWARMS, swarm())
        await world.run(20)
        assert world.where(SWARMS) == {"bees": "large"}
        patch = {"spec": {"paused": True, "helpers": 5}}
        await world.hub_client.patch(SWARMS, "bees", patch, namespace="default")
        await world.run(5)
        copied = copy_in(world, "large")
        assert (copied.spec["paused"], copied.spec["helpers"]) == (True, 5)
        assert not world.hub_client.objects(POD_GROUPS)
        await world.hub_client.patch(SWARMS, "bees", {"spec": {"paused": False}}, namespace="default")
        await world.run(5)
        assert copy_in(world, "large").spec["paused"] is False


async def test_what_fits_nowhere_waits_and_says_why_and_a_table_that_changes_counts():
    async with fleet("small", "large") as world:
        await start(world)
        await world.hub_client.create(SWARMS, swarm(helpers=9))
        await world.run(30)
        told = msgspec.json.decode(world.group("bees").metadata.annotations[MEMBER_REASONS])
        assert "8 of 10 pods" in told["large"]
        changed = TABLE.replace("count: spec.helpers}", "count: spec.helpers, later: true}")
        world.hub_client.put(CUSTOM_RESOURCE_DEFINITIONS, definition(SWARMS, changed))
        await world.run(20)
        assert world.group("bees").spec.min_member == 1


async def test_a_member_that_does_not_let_the_hub_read_the_kind_is_told_apart_from_one_without_it():
    async with fleet("small", "large") as world:
        world.refuse_reading("large", SWARMS)
        await start(world)
        await world.hub_client.create(SWARMS, swarm())
        await world.run(30)
        told = msgspec.json.decode(world.group("bees").metadata.annotations[MEMBER_REASONS])
        assert "join it again" in told["large"]


async def test_pods_without_marks_are_known_by_their_label_and_count_once():
    """Spark's operator makes pods from fields, and not from templates."""
    async with fleet("small", "large") as world:
        await start(world, SPARK, table="")
        driver = {"cores": 1, "memory": "1g", "gpu": {"name": GPU, "quantity": 1}}
        spec = {"driver": driver, "executor": {**driver, "instances": 6}}
        await world.hub_client.create(
            SPARK, ForeignObject(metadata=ObjectMeta(name="pi", namespace="default"), spec=spec)
        )
        await world.run(10)
        assert world.where(SPARK) == {"pi": "large"}
        for at in range(7):
            pod = template(1)["spec"]["containers"]
            labels = {"sparkoperator.k8s.io/app-name": "pi"}
            meta = ObjectMeta(name=f"pi-{at}-x", namespace="default", labels=labels)
            spec = msgspec.convert({"containers": pod, "nodeName": "n"}, PodSpec)
            world.members["large"].put(PODS, Pod(metadata=meta, spec=spec, status=PodStatus(phase="Running")))
        await world.run(5)
        table = world.hub.members_state.feed.state.nodes
        column, row = table.index["large:n"], table.registry.row(GPU)
        assert int(table.used[row, column]) == 7 * 1000
        assert DISPATCH in copy_in(world, "large", SPARK).metadata.labels


async def test_a_kind_that_is_to_stay_is_sent_no_longer_and_what_is_away_is_left_alone():
    async with fleet("small", "large") as world:
        await start(world)
        await world.hub_client.create(SWARMS, swarm())
        await world.run(10)
        assert world.where(SWARMS) == {"bees": "large"}
        world.hub_client.put(CUSTOM_RESOURCE_DEFINITIONS, definition(SWARMS, TABLE + "fleet: false\n"))
        await world.run(5)
        late = swarm(1)
        late.metadata.name = "wasps"
        await world.hub_client.create(SWARMS, late)
        await world.run(20)
        assert world.copies(SWARMS) == {"small": [], "large": ["bees"]}
        assert [group.metadata.owner_references[0].name for group in world.hub_client.objects(POD_GROUPS)] == ["bees"]
        world.hub_client.put(CUSTOM_RESOURCE_DEFINITIONS, definition(SWARMS))
        await world.run(20)
        assert world.where(SWARMS)["wasps"]


async def test_a_label_of_pods_that_a_table_changes_counts_at_once():
    async with fleet("small", "large") as world:
        await start(world)
        changed = TABLE.replace("example.com/swarm", "example.com/hive")
        world.hub_client.put(CUSTOM_RESOURCE_DEFINITIONS, definition(SWARMS, changed))
        await world.run(5)
        assert world.hub.members_state.labels == {"example.com/hive": {SWARMS.resource}}
