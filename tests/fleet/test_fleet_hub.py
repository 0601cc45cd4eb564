"""A hub over in-memory members: joining, dispatch, status, queues, loss and return."""

from __future__ import annotations

import asyncio

import yaml
from click.testing import CliRunner
from fleet_world import fleet, inline, node, template
from prometheus_client import CollectorRegistry

from support.memory import MemoryClient
from unisono.api.annotations import CLUSTER, DISPATCH, DRAINED, HUB, PRICES, VERDICT
from unisono.api.kind_families import ATTACHED_CLUSTERS, PYTORCH_JOBS
from unisono.api.kinds import JOBS, QUEUES, SECRETS
from unisono.cli.commands.fleet import command
from unisono.fleet.members import joining
from unisono.scheduler.settings import FixedConfig
from unisono.standalone.component_processes import controllers_part, scheduler_part


async def test_members_tell_what_they_have():
    async with fleet("a") as world:
        world.join("a", [node("n1", 8, nvidia_com__gpu_product="H100"), node("n2", 4, nvidia_com__gpu_product="T4")])
        world.start()
        await world.run(15)
        status = world.cluster("a").status
        assert (world.condition("a", "Ready")[0], world.condition("a", "Reachable")[0]) == ("True", "True")
        assert (status.kubernetes_version, status.node_summary.ready_num) == ("v1.33.0", 2)


async def test_a_gang_goes_whole_to_a_cluster_that_has_room():
    async with fleet("a", "b") as world:
        world.join("a", [node("n1", 4)])
        world.join("b", [node("n1", 4), node("n2", 4)])
        world.start()
        await world.job("train", 8)
        await world.run(15)
        assert world.where() == {"train": "b"}
        assert world.copies() == {"a": [], "b": ["train"]}
        copied = world.members["b"].find(JOBS, "default/train")
        assert copied.metadata.labels[HUB] == "the-hub"
        assert copied.metadata.labels[DISPATCH] == "1"


async def test_a_gang_is_never_split_over_clusters():
    async with fleet("a", "b") as world:
        world.join("a", [node("n1", 4)])
        world.join("b", [node("n1", 4)])
        world.start()
        await world.job("large", 6)
        await world.job("small", 2)
        await world.run(20)
        assert world.where()["large"] == ""
        assert world.where()["small"] in ("a", "b")
        assert world.group("large").metadata.annotations[VERDICT]


async def test_jobs_in_flight_are_not_promised_the_same_place():
    async with fleet("a", "b") as world:
        world.join("a", [node("n1", 8)])
        world.join("b", [node("n1", 8)])
        world.start()
        for number in range(4):
            await world.job(f"j{number}", 4)
        await world.job("one-too-many", 4)
        await world.run(30)
        places = world.where()
        assert sorted(places.values()) == ["", "a", "a", "b", "b"]


async def test_a_queue_has_its_limit_over_all_members():
    async with fleet("a", "b") as world:
        world.queue("q", capability={"nvidia.com/gpu": "6", "cpu": "100"})
        world.join("a", [node("n1", 8)])
        world.join("b", [node("n1", 8)])
        world.start()
        for number in range(3):
            await world.job(f"j{number}", 3, queue="q")
        await world.run(30)
        assert sorted(bool(place) for place in world.where().values()) == [False, True, True]
        assert {q.metadata.name for q in world.members["a"].objects(QUEUES)} == {"q"}
        done = next(name for name, place in world.where().items() if place)
        await world.hub_client.patch(
            JOBS, done, {"status": {"state": {"phase": "Completed"}}}, namespace="default", subresource="status"
        )
        member = world.members[world.where()[done]]
        await member.patch(
            JOBS, done, {"status": {"state": {"phase": "Completed"}}}, namespace="default", subresource="status"
        )
        await world.run(40)
        assert all(world.where().values())


async def test_status_comes_back_and_deletion_goes_out():
    async with fleet("a") as world:
        world.join("a", [node("n1")])
        world.start()
        await world.job("train", 2)
        await world.run(10)
        status = {"state": {"phase": "Running"}, "running": 2}
        await world.members["a"].patch(JOBS, "train", {"status": status}, namespace="default", subresource="status")
        await world.run(5)
        found = world.hub_client.find(JOBS, "default/train").status
        assert (found.state.phase, found.running) == ("Running", 2)
        await world.hub_client.delete(JOBS, "train", "default")
        await world.run(5)
        assert world.copies() == {"a": []}


async def test_training_jobs_are_dispatched_too():
    async with fleet("a") as world:
        world.join("a", [node("n1")])
        world.start()
        torch = template(1)
        torch["spec"]["containers"][0]["name"] = "pytorch"
        roles = {"Master": {"replicas": 1, "template": torch}, "Worker": {"replicas": 2, "template": torch}}
        meta = {"name": "torch", "namespace": "default"}
        await world.create(PYTORCH_JOBS, {"metadata": meta, "spec": {"pytorchReplicaSpecs": roles}})
        await world.run(15)
        assert world.where(PYTORCH_JOBS) == {"torch": "a"}
        assert world.copies(PYTORCH_JOBS) == {"a": ["torch"]}


async def test_a_lost_member_keeps_its_jobs_for_a_while_and_an_old_copy_goes_on_its_return():
    async with fleet("a", "b", "c") as world:
        for name in world.members:
            world.join(name, [node("n1", 4)])
        world.start()
        await world.job("train", 4, annotations={"unisono.io/worker-lost-timeout": "2m"})
        await world.run(15)
        first = world.where()["train"]
        world.lose(first)
        await world.run(60)
        assert world.where()["train"] == first
        assert world.condition(first, "Ready")[0] == "False"
        await world.job("other", 4)
        await world.run(10)
        assert world.where()["other"] not in ("", first)
        await world.run(120)
        second = world.where()["train"]
        assert second not in ("", first)
        assert world.copies()[second] == ["train"]
        assert world.copies()[first] == ["train"]
        world.find(first)
        await world.run(60)
        assert world.copies()[first] == []
        assert world.copies()[second] == ["train"]
        assert world.condition(first, "Ready")[0] == "True"


async def test_nothing_moves_while_most_members_are_lost():
    async with fleet("a", "b") as world:
        world.join("a", [node("n1", 4)])
        world.join("b", [node("n1", 4)])
        world.start()
        await world.job("one", 4, annotations={"unisono.io/worker-lost-timeout": "1m"})
        await world.job("two", 4, annotations={"unisono.io/worker-lost-timeout": "1m"})
        await world.run(15)
        before = world.where()
        for name in ("a", "b"):
            world.lose(name)
        await world.run(600)
        assert world.where() == before
        assert all(before.values())


async def test_a_hub_that_starts_again_sends_nothing_twice():
    async with fleet("a", "b") as world:
        world.join("a", [node("n1", 4)])
        world.join("b", [node("n1", 4)])
        world.start()
        await world.job("one", 4)
        await world.job("two", 4)
        await world.run(15)
        before, copies = world.where(), world.copies()
        await world.stop()
        world.start()
        await world.job("three", 4)
        await world.run(30)
        assert world.where() == {**before, "three": ""}
        assert world.copies() == copies


async def test_a_member_without_its_secret_takes_no_work_and_says_why():
    async with fleet("a") as world:
        world.join("a", [node("n1", 4)])
        await world.hub_client.delete(SECRETS, "a", "fleets")
        world.start()
        await world.job("one", 1)
        await world.run(15)
        status, message = world.condition("a", "Ready")
        assert status == "False"
        assert "there is no Secret fleets/a" in message
        assert world.where() == {"one": ""}


async def test_a_job_that_its_user_takes_back_waits_and_goes_elsewhere():
    async with fleet("a", "b") as world:
        world.join("a", [node("n1", 4)])
        world.join("b", [node("n1", 4)])
        world.start()
        await world.job("train", 4)
        await world.run(15)
        first = world.where()["train"]
        status = {"state": {"phase": "Running"}, "running": 4}
        await world.members[first].patch(JOBS, "train", {"status": status}, namespace="default", subresource="status")
        await world.hub_client.patch(
            ATTACHED_CLUSTERS, first, {"metadata": {"annotations": {DRAINED: "true"}}}, namespace="fleets"
        )
        await world.run(5)
        marks = {CLUSTER: None, DISPATCH: "2"}
        await world.hub_client.patch(JOBS, "train", {"metadata": {"annotations": marks}}, namespace="default")
        await world.run(2)
        assert world.hub_client.find(JOBS, "default/train").status.running is None
        await world.run(20)
        second = world.where()["train"]
        assert second not in ("", first)
        assert world.copies()[first] == []
        assert world.copies()[second] == ["train"]
        assert world.members[second].find(JOBS, "default/train").metadata.labels[DISPATCH] == "3"


async def test_a_job_goes_where_it_costs_least_as_long_as_there_is_room():
    config = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: proportion
  - name: cost
"""
    async with fleet("a", "b", "c", config=config) as world:
        for name, price in (("a", "nvidia.com/gpu=3"), ("b", "nvidia.com/gpu=1"), ("c", "nvidia.com/gpu=2")):
            world.join(name, [node("n1", 4)])
            marks = {"metadata": {"annotations": {PRICES: price}}}
            await world.hub_client.patch(ATTACHED_CLUSTERS, name, marks, namespace="fleets")
        world.start()
        for number in range(3):
            await world.run(15)
            await world.job(f"j{number}", 4)
        await world.run(15)
        assert world.where() == {"j0": "b", "j1": "c", "j2": "a"}


async def test_reclaim_takes_back_a_whole_job_over_clusters():
    config = """
actions: "enqueue, allocate, backfill, reclaim"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
"""
    async with fleet("a", "b", config=config) as world:
        world.queue("greedy", weight=1, reclaimable=True)
        world.queue("modest", weight=1, reclaimable=True)
        world.join("a", [node("n1", 4)])
        world.join("b", [node("n1", 4)])
        world.start()
        for number in range(4):
            await world.job(f"greedy-{number}", 1, gpus=2, queue="greedy")
        await world.run(20)
        assert all(world.where().values())
        world.play()
        await world.run(5)
        await world.job("modest-0", 1, gpus=2, queue="modest")
        for _ in range(12):
            await world.run(5)
            world.play()
        assert world.where()["modest-0"]
        dispatches = [
            int(job.metadata.annotations[DISPATCH])
            for job in world.hub_client.objects(JOBS)
            if job.metadata.name.startswith("greedy")
        ]
        # One is sent, taken back, and waits; the others go on.
        assert sorted(dispatches) == [1, 1, 1, 2]
        found = [name for client in world.members.values() for name in (job.key for job in client.objects(JOBS))]
        assert len(found) == len(set(found))


async def test_the_components_of_a_cluster_are_a_hub_with_the_option_fleet():
    """``unisono scheduler --fleet`` dispatches; ``unisono controllers --fleet`` makes no pods."""
    async with fleet("a") as world:
        world.join("a", [node("n", 8)])
        seams = {"connect": world.connect, "targets": lambda member, _: world.targets[member.name], "runner": inline}
        given = {"bind_concurrency": 64, "gang_patience": 60.0, "heartbeat_lease": "unisono-system/cycles"}
        make = scheduler_part(FixedConfig(), ("volcano",), "default", fleet=True, clock=world.clock, **given, **seams)
        world.tasks.append(asyncio.create_task(make(world.hub_client, CollectorRegistry()).run()))
        await world.run(5)
        await world.job("train", 4)
        await world.run(10)
        assert world.where() == {"train": "a"}
        assert world.copies() == {"a": ["train"]}
    beside = controllers_part(("volcano",), "default", fleet=True)(MemoryClient(), CollectorRegistry())
    names = {each.name for each in beside._controllers}
    assert "hyperjob-controller" in names
    assert "job-controller" not in names
    alone = controllers_part(("volcano",), "default")(MemoryClient(), CollectorRegistry())
    assert names < {each.name for each in alone._controllers}


def test_the_account_that_is_printed_is_the_one_that_joining_makes():
    printed = CliRunner().invoke(command, ["account"])
    assert printed.exit_code == 0
    assert list(yaml.safe_load_all(printed.output)) == joining.account()
    more = list(yaml.safe_load_all(CliRunner().invoke(command, ["account", "--applications"]).output))
    assert more == joining.account(applications=True)


async def test_many_jobs_for_one_member_are_written_as_fast_as_it_takes_them():
    """It takes 16 at a time, 50 milliseconds each; none waits longer than for the writes before it."""
    async with fleet("a") as world:
        world.join("a", [node(f"n{at}", 8) for at in range(40)])
        world.start()
        await world.run(10)
        create = world.members["a"].create

        async def slow(kind, obj):
            await world.clock.sleep(0.05)
            return await create(kind, obj)

        world.members["a"].create = slow
        for number in range(300):
            await world.job(f"j{number}", 1)
        await world.run(2)
        assert len(world.copies()["a"]) == 300
