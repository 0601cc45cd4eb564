"""HyperJobs on a hub over in-memory members: one gang, reserved, opened or released together."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fleet_world import fleet, node, template

from unisono.api import gang_parts
from unisono.api.annotations import (
    BIND_TIMEOUT,
    MEMBER_REASONS,
    RESERVE_TIMEOUT,
    RESTART_POLICY,
    START_TIMEOUT,
    WORKER_LOST_TIMEOUT,
)
from unisono.api.kind_families import HYPER_JOBS
from unisono.api.kinds import CONFIG_MAPS, JOBS, NODES
from unisono.api.verdict import verdict_in
from unisono.errors import Unavailable

STAGE = {"name": "stage", "pods": 4, "replicas": 2}


def refuse_jobs(world, name):
    """From now on the member stores no job; returns what ends that."""
    client = world.members[name]
    before = client.interceptor

    def check(verb, resource, *rest):
        before(verb, resource, *rest)
        if verb == "create" and resource.startswith("jobs"):
            raise Unavailable("admission is down")

    client.interceptor = check

    def end():
        client.interceptor = before

    return end


async def test_the_parts_of_a_hyper_job_start_together_in_several_members():
    async with fleet("a", "b") as world:
        world.join("a", [node("n1", 4)])
        world.join("b", [node("n1", 4)])
        world.start()
        await world.hyper("llm", STAGE)
        await world.run(30)
        assert sorted(world.where().values()) == ["a", "b"]
        assert world.pods() == {
            cluster: {name: 4} for name, cluster in sorted(world.where().items(), key=lambda item: item[1])
        }
        assert world.record("llm").opened == world.record("llm").number == 1


async def test_one_member_too_full_starts_nothing_anywhere_and_says_which_part_lacks_what():
    async with fleet("a", "b") as world:
        world.join("a", [node("n1", 4)])
        world.join("b", [node("n1", 3)])
        world.start()
        await world.hyper("llm", {**STAGE, "name": "left", "replicas": 1}, {**STAGE, "name": "right", "replicas": 1})
        await world.run(40)
        assert set(world.where().values()) == {""}
        assert world.copies() == {"a": [], "b": []}
        told = json.loads(world.group("llm").metadata.annotations[MEMBER_REASONS])
        assert "part llm-left-0: is too small: it would have room for 3 of 4 pods" in told["b"]
        assert "part llm-right-0: has room for 4 of 4 pods" in told["a"]


async def test_room_is_counted_over_the_roles_of_a_gang_together():
    """Alone, the server and both workers have room; beside each other they want one card more than there are."""
    async with fleet("a", "b") as world:
        world.join("a", [node("n1", 4)])
        world.join("b", [node("n1", 4)])
        world.start()
        tasks = [
            {"name": "ps", "replicas": 1, "template": template(1)},
            {"name": "worker", "replicas": 2, "template": template(2)},
        ]
        spec = {"minAvailable": 3, "schedulerName": "volcano", "queue": "default", "tasks": tasks}
        await world.create(JOBS, {"metadata": {"name": "train", "namespace": "default"}, "spec": spec})
        await world.run(40)
        marks = world.group("train").metadata.annotations
        told = "is too small: it would have room for 2 of 3 pods if it were empty"
        reasons = json.loads(marks[MEMBER_REASONS])
        assert "no common network" in reasons.pop("a, b")  # in one, it would be divided over both
        assert reasons == {"a": told, "b": told}
        verdict = verdict_in(marks)
        assert "no cluster takes the 3 tasks together" in verdict.message
        assert "HyperNode" not in f"{verdict.message} {verdict.suggestion}"


async def test_cluster_names_are_a_hard_bound():
    async with fleet("a", "b", "c") as world:
        for name in ("a", "b", "c"):
            world.join(name, [node("n1", 8)])
        world.start()
        await world.hyper(
            "llm",
            {"name": "ps", "pods": 2, "clusters": ["c"]},
            {"name": "w", "pods": 4, "replicas": 2, "clusters": ["b", "c"]},
        )
        await world.hyper("none", {"name": "w", "pods": 1, "clusters": ["elsewhere"]})
        await world.run(40)
        places = world.where()
        assert places["llm-ps-0"] == "c"
        assert {places["llm-w-0"], places["llm-w-1"]} <= {"b", "c"}
        assert places["none-w-0"] == ""
        told = json.loads(world.group("none").metadata.annotations[MEMBER_REASONS])
        assert "clusterNames" in told["a"]


async def test_the_parts_stay_in_one_cluster_where_max_domains_is_one():
    async with fleet("a", "b") as world:
        world.join("a", [node("n1", 6)])
        world.join("b", [node("n1", 8)])
        world.start()
        await world.hyper("llm", STAGE, maxDomains=1)
        await world.run(30)
        assert set(world.where().values()) == {"b"}


async def test_nothing_has_pods_before_every_member_has_accepted():
    async with fleet("a", "b") as world:
        world.join("a", [node("n1", 4)])
        world.join("b", [node("n1", 4)])
        end = refuse_jobs(world, "b")
        world.start()
        await world.hyper("llm", STAGE)
        await world.run(60)
        assert sorted(world.where().values()) == ["a", "b"]
        assert list(world.pods()["a"].values()) == [0]
        assert world.pods()["b"] == {}
        end()
        await world.run(60)
        assert [list(each.values()) for each in world.pods().values()] == [[4], [4]]


async def test_reservations_are_released_after_their_time_out():
    async with fleet("a", "b") as world:
        world.join("a", [node("n1", 4)])
        world.join("b", [node("n1", 4)])
        end = refuse_jobs(world, "b")
        world.start()
        await world.hyper("llm", STAGE, marks={RESERVE_TIMEOUT: "2m"})
        await world.run(60)
        first = world.record("llm").number
        await world.run(75)
        assert world.record("llm").number > first
        assert set(world.pods()["a"].values()) <= {0}
        end()
        await world.run(200)
        assert [list(each.values()) for each in world.pods().values()] == [[4], [4]]


async def test_a_part_that_does_not_start_in_its_member_releases_the_others():
    async with fleet("a", "b", "c") as world:
        for name in ("a", "b"):
            world.join(name, [node("n1", 4)])
        world.start()
        await world.hyper("llm", STAGE, marks={START_TIMEOUT: "5m", BIND_TIMEOUT: "1h"})
        await world.run(30)
        status = {"state": {"phase": "Running"}, "running": 4}
        one = next(name for name, cluster in world.where().items() if cluster == "a")
        await world.members["a"].patch(JOBS, one, {"status": status}, namespace="default", subresource="status")
        await world.run(200)
        assert world.record("llm").number == 1
        await world.run(120)
        assert world.record("llm").number > 1


@pytest.mark.parametrize(("policy", "moved"), [("Gang", {"llm-stage-0", "llm-stage-1"}), ("Part", {"lost"})])
async def test_a_lost_part_follows_the_restart_policy(policy, moved):
    async with fleet("a", "b", "c") as world:
        for name in ("a", "b", "c"):
            world.join(name, [node("n1", 4)])
        world.start()
        await world.hyper("llm", STAGE, marks={RESTART_POLICY: policy, WORKER_LOST_TIMEOUT: "1m", BIND_TIMEOUT: "1h"})
        await world.run(30)
        await world.tell_running()
        await world.run(5)
        before = world.record("llm").parts
        lost, gone = next((name, place.cluster) for name, place in before.items())
        world.lose(gone)
        await world.run(45)
        assert world.record("llm").parts == before
        await world.run(120)
        after = world.record("llm").parts
        assert {name for name in before if after[name].generation > before[name].generation} == {
            lost if name == "lost" else name for name in moved
        }
        assert gone not in {place.cluster for place in after.values()}
        world.find(gone)
        await world.run(60)
        assert world.copies()[gone] == []


async def test_a_lost_part_that_never_restarts_has_failed():
    async with fleet("a", "b") as world:
        for name in ("a", "b"):
            world.join(name, [node("n1", 4)])
        world.start()
        await world.hyper("llm", STAGE, marks={RESTART_POLICY: "Never", WORKER_LOST_TIMEOUT: "1m"}, minAvailable=1)
        await world.run(30)
        await world.tell_running()
        await world.run(5)
        lost = next(name for name, cluster in world.where().items() if cluster == "b")
        world.lose("b")
        await world.run(150)
        jobs = {job.metadata.name: job.status.state.phase for job in world.hub_client.objects(JOBS)}
        assert jobs.pop(lost) == "Failed"
        assert set(jobs.values()) == {"Running"}
        world.find("b")
        await world.run(60)
        assert world.copies()["b"] == []


async def test_parts_find_each_other_by_their_environment():
    async with fleet("a", "b") as world:
        world.join("a", [node("n1", 4)])
        world.join("b", [node("n1", 6)])
        world.start()
        await world.hyper("llm", {"name": "ps", "pods": 3, "clusters": ["a"]}, {"name": "w", "pods": 5})
        await world.job("alone", 1)
        await world.run(30)
        copied = world.members["b"].find(JOBS, "default/llm-w-0")
        variables = {each.name: each.value for each in copied.spec.tasks[0].template.spec.containers[0].env}
        assert variables == {
            "HYPERJOB_NAME": "llm",
            "HYPERJOB_PART": "llm-w-0",
            "HYPERJOB_PART_INDEX": "1",
            "HYPERJOB_PART_COUNT": "2",
            "HYPERJOB_WORLD_SIZE": "8",
            "HYPERJOB_RANK_OFFSET": "3",
            "HYPERJOB_PARTS": "llm-ps-0,llm-w-0",
            "HYPERJOB_CLUSTERS": "a,b",
            "HYPERJOB_HOSTS": "llm-ps-0-w-0.llm-ps-0,llm-w-0-w-0.llm-w-0",
        }
        alone = world.members[world.where()["alone"]].find(JOBS, "default/alone")
        assert not alone.spec.tasks[0].template.spec.containers[0].env


async def test_a_hub_that_starts_again_goes_on_with_a_reservation():
    async with fleet("a", "b") as world:
        world.join("a", [node("n1", 4)])
        world.join("b", [node("n1", 4)])
        end = refuse_jobs(world, "b")
        world.start()
        await world.hyper("llm", STAGE)
        await world.run(20)
        await world.stop()
        end()
        world.start()
        await world.run(40)
        assert world.record("llm").number == 1
        assert [list(each.values()) for each in world.pods().values()] == [[4], [4]]


async def test_a_deleted_hyper_job_leaves_nothing():
    async with fleet("a", "b") as world:
        world.join("a", [node("n1", 4)])
        world.join("b", [node("n1", 4)])
        world.start()
        await world.hyper("llm", STAGE)
        await world.run(30)
        await world.hub_client.delete(HYPER_JOBS, "llm", "default")
        world.hub_client.collect_garbage()
        await world.run(20)
        assert world.copies() == {"a": [], "b": []}


async def test_a_split_policy_that_becomes_wrong_keeps_its_gang_waiting_and_no_one_else():
    async with fleet("a", "b") as world:
        world.join("a", [node("n1", 4)])
        world.join("b", [node("n1", 2)])
        world.start()
        await world.hyper("llm", STAGE)
        await world.run(20)
        # One card cannot be shared over two parts; then there is room for the gang.
        wrong = {"mode": "static", "accelerators": 1, "acceleratorType": "nvidia.com/gpu"}
        patch = [{"op": "add", "path": "/spec/replicatedJobs/0/splitPolicy", "value": wrong}]
        await world.hub_client.patch(HYPER_JOBS, "llm", patch, namespace="default", patch_type="json")
        world.members["b"].put(NODES, node("n2", 8))
        await world.job("other", 2)
        await world.run(60)
        places = world.where()
        assert places.pop("other")
        assert set(places.values()) == {""}


async def test_parts_in_different_queues_wait_and_other_jobs_go_on():
    async with fleet("a", "b") as world:
        world.queue("q")
        world.join("a", [node("n1", 4)])
        world.join("b", [node("n1", 4)])
        world.start()
        await world.hyper("llm", {"name": "x", "pods": 1}, {"name": "y", "pods": 1, "queue": "q"})
        await world.job("other", 2)
        await world.run(30)
        places = world.where()
        assert places.pop("other")
        assert set(places.values()) == {""}


def held(world, name: str) -> dict[str, Any]:
    """Room that a member was told to hold: pods to nodes, by the number of the dispatch."""
    found = world.members[name].find(CONFIG_MAPS, f"{gang_parts.NAMESPACE}/{gang_parts.NAME}")
    rooms = gang_parts.decode_rooms(found.data or {}) if found is not None else {}
    return {key.rpartition(".")[2]: {pod: node for pod, (node, _) in room.pods.items()} for key, room in rooms.items()}


async def test_members_are_told_to_hold_the_room_of_a_part_until_it_has_its_nodes():
    async with fleet("a", "b") as world:
        world.join("a", [node("n1"), node("n2")])
        world.join("b", [node("n1")])
        world.start()
        await world.run()
        refuse_jobs(world, "b")  # one does not accept: the other holds the room meanwhile
        await world.hyper("llm", {"name": "left", "pods": 4, "gpus": 4}, {"name": "right", "pods": 2, "gpus": 4})
        await world.run(30)
        dispatched = world.record("llm")
        assert dispatched.is_held("llm-left-0")
        number = str(dispatched.number)
        assert held(world, "a") == {
            number: {"llm-left-0-w-0": "n1", "llm-left-0-w-1": "n1", "llm-left-0-w-2": "n2", "llm-left-0-w-3": "n2"}
        }
        world.hub_client.remove(HYPER_JOBS, "default/llm")
        await world.run(400)
        assert held(world, "a") == {}


async def test_what_is_held_is_let_go_once_the_pods_have_nodes():
    async with fleet("a", "b") as world:
        world.join("a", [node("n1"), node("n2")])
        world.join("b", [node("n1")])
        world.start()
        await world.run()
        await world.hyper("llm", {"name": "left", "pods": 4, "gpus": 4}, {"name": "right", "pods": 2, "gpus": 4})
        await world.run(5)
        world.play()
        await world.tell_running()
        await world.run(30)
        assert world.record("llm").started == world.record("llm").opened > 0
        assert (held(world, "a"), held(world, "b")) == ({}, {})


async def test_a_hub_that_starts_again_takes_no_held_room_away():
    async with fleet("a", "b") as world:
        world.join("a", [node("n1"), node("n2")])
        world.join("b", [node("n1")])
        world.start()
        await world.run()
        refuse_jobs(world, "b")
        await world.hyper("llm", {"name": "left", "pods": 4, "gpus": 4}, {"name": "right", "pods": 2, "gpus": 4})
        await world.run(20)
        before = held(world, "a")
        await world.stop()
        world.start()
        await world.run(20)
        assert before and held(world, "a") == before
