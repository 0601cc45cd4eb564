"""Members that lie, are mistaken, answer slowly or answer garbage: no job is given up, doubled or taken from others."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import Any

import msgspec
import pytest
from fleet_world import World, fleet, node

from unisono.api import gang_parts
from unisono.api.annotations import DISPATCH, GANG, ORIGIN_UID, SEAL, START_TIMEOUT, WORKER_LOST_TIMEOUT
from unisono.api.base import ObjectMeta
from unisono.api.groups.batch import Job
from unisono.api.kind_families import JOB_SETS
from unisono.api.kinds import CONFIG_MAPS, EVENTS, JOBS, PODS, SECRETS
from unisono.errors import ConfigError, Unavailable
from unisono.fleet.hub import NAME, NAMESPACE, sealing_key
from unisono.fleet.jobs.copies import copy_of, expires_in, is_sealed, placement_of, seal, without_ttl
from unisono.fleet.jobs.work import disbelief
from unisono.fleet.members.member import MOST_OBJECTS, MemberSink
from unisono.kube.http import HttpClient
from unisono.kube.kubeconfig import ClusterConfig

KEY = b"k" * 32


async def relabel(world: World, member: str, name: str, **labels: str) -> None:
    """A member writes other labels on its copy."""
    client = world.members[member]
    found = client.find(JOBS, f"default/{name}")
    changed = {**found.metadata.labels, **{key.replace("_", "-"): value for key, value in labels.items()}}
    client.put(JOBS, msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, labels=changed)))


def told(world: World, reason: str) -> list[str]:
    return [each.message or "" for each in world.hub_client.objects(EVENTS) if each.reason == reason]


def job(world: World, name: str = "j") -> Any:
    return world.hub_client.find(JOBS, f"default/{name}")


# ---- seals


def test_a_seal_is_of_one_job_one_member_and_one_number():
    text = seal(KEY, "u", "a", 3)
    assert is_sealed(KEY, text, "u", "a", 3)
    for other in (("v", "a", 3), ("u", "b", 3), ("u", "a", 4)):
        assert not is_sealed(KEY, text, *other)
    assert not is_sealed(b"x" * 32, text, "u", "a", 3)
    assert not is_sealed(KEY, "", "u", "a", 3)
    assert not is_sealed(KEY, "ä", "u", "a", 3)


@pytest.mark.parametrize(("number", "sealed"), [("3", True), ("4", False), ("99999999999", False), ("x", False)])
def test_a_copy_knows_whether_its_number_is_the_hubs(number, sealed):
    meta = ObjectMeta(
        name="j", namespace="d", labels={ORIGIN_UID: "u", DISPATCH: number}, annotations={SEAL: seal(KEY, "u", "a", 3)}
    )
    assert copy_of("a", JOBS, Job(metadata=meta), KEY).sealed is sealed


async def test_the_key_stays_the_same_and_a_broken_one_is_told():
    async with fleet() as world:
        first = await sealing_key(world.hub_client)
        assert len(first) == 32
        assert await sealing_key(world.hub_client) == first
        found = world.hub_client.find(SECRETS, f"{NAMESPACE}/{NAME}")
        world.hub_client.put(SECRETS, msgspec.structs.replace(found, data={"key": "c2hvcnQ="}))
        with pytest.raises(ConfigError, match="holds no key"):
            await sealing_key(world.hub_client)


async def test_a_member_that_raises_its_number_loses_the_job_once_and_nothing_runs_twice():
    async with fleet("a", "b") as world:
        for name in ("a", "b"):
            world.join(name, [node("n1")])
        world.start()
        await world.run()
        await world.job("j", 2)
        await world.run()
        first = world.where()["j"]
        other = "b" if first == "a" else "a"
        for number in ("7", "999999999"):
            before = placement_of(job(world)).generation
            await relabel(world, world.where()["j"], "j", **{DISPATCH: number})
            for _ in range(40):
                await world.run(0.25)
                assert sum(len(names) for names in world.copies().values()) <= 1, "it runs twice"
            # Both may have failed the job by now, and are not asked for a while.
            await world.run(120)
            assert placement_of(job(world)).generation <= before + 2
            assert sum(len(names) for names in world.copies().values()) == 1
            if number == "7":
                assert world.where()["j"] == other
        assert any("changed the number on its copy" in text for text in told(world, "TakenBack"))


async def test_a_member_cannot_take_a_job_from_another():
    async with fleet("a", "b") as world:
        for name in ("a", "b"):
            world.join(name, [node("n1")])
        world.start()
        await world.run()
        await world.job("j", 2)
        await world.run()
        first = world.where()["j"]
        thief = "b" if first == "a" else "a"
        world.play()
        copied = world.members[first].find(JOBS, "default/j")
        labels = {**copied.metadata.labels, DISPATCH: "500"}
        meta = ObjectMeta(name="j", namespace="default", labels=labels, annotations=copied.metadata.annotations)
        world.members[thief].put(JOBS, Job(metadata=meta, spec=copied.spec))
        await world.run()
        assert world.where()["j"] == first
        assert placement_of(job(world)).generation == 1
        assert world.copies() == {first: ["j"], thief: []}


async def test_a_hub_that_was_restored_still_finds_its_jobs():
    async with fleet("a", "b") as world:
        for name in ("a", "b"):
            world.join(name, [node("n1")])
        world.start()
        await world.run()
        await world.job("j", 2)
        await world.run()
        first = world.where()["j"]
        await world.stop()
        # An older backup: the hub has forgotten the dispatch.
        old = job(world)
        meta = msgspec.structs.replace(old.metadata, annotations={})
        world.hub_client.put(JOBS, msgspec.structs.replace(old, metadata=meta))
        world.start()
        await world.run()
        assert world.where()["j"] == first
        assert world.copies()[first] == ["j"]


async def test_a_part_of_a_gang_with_a_forged_number_does_not_move_the_gang():
    async with fleet("a", "b") as world:
        for name in ("a", "b"):
            world.join(name, [node("n1")])
        world.start()
        await world.run()
        await world.hyper("llm", {"name": "p", "pods": 8, "replicas": 2})
        await world.run()
        record = world.record("llm")
        assert len(record.parts) == 2
        await relabel(world, "a", next(iter(world.copies()["a"])), **{DISPATCH: "77"})
        await world.run(30)
        assert world.record("llm").number < 10
        assert sorted(map(len, world.copies().values())) == [1, 1]


async def test_a_member_that_keeps_its_old_copy_is_waited_for_and_named():
    async with fleet("a", "b") as world:
        for name in ("a", "b"):
            world.join(name, [node("n1")])
        world.start()
        await world.run()
        await world.job("j", 2)
        await world.run()
        first = world.where()["j"]
        world.refuse(first, "delete", "jobs")
        await world.run(1)
        taken = {"metadata": {"annotations": placement_of(job(world)).back().patch("")["metadata"]["annotations"]}}
        await world.hub_client.patch(JOBS, "j", taken, namespace="default")
        await world.run(30)
        assert world.where()["j"], "it has a place again"
        assert any(f"waits until {first} has removed" in text for text in told(world, "CopyKept"))
        assert world.copies()[first] == ["j"]
        assert sum(len(names) for names in world.copies().values()) == 1, "never twice where the hub knows it"


# ---- statuses


GOOD = {"state": {"phase": "Running"}, "running": 2}


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (GOOD, ""),
        ({"state": {"phase": "Banana"}}, "'Banana' is no phase of a job"),
        ({"state": {"phase": "Running"}, "running": -3}, "-3 is no count"),
        ({"state": {"phase": "Running"}, "running": 2**40}, "is no count"),
        ({"state": {"phase": "Running", "message": "x" * 300_000}}, "bytes"),
    ],
)
def test_what_a_member_says_of_a_job(status, why):
    found = msgspec.convert({"metadata": {"name": "j"}, "status": status}, Job)
    assert (why in disbelief(found)) if why else not disbelief(found)


async def test_a_forged_status_is_told_and_not_taken_over():
    async with fleet("a") as world:
        world.join("a", [node("n1")])
        world.start()
        await world.run()
        await world.job("j", 2)
        await world.run()
        world.say("a", "j", GOOD)
        await world.run()
        assert job(world).status.running == 2
        world.say("a", "j", {"state": {"phase": "Banana"}, "running": -1})
        await world.run()
        assert (job(world).status.state.phase, job(world).status.running) == ("Running", 2)
        assert told(world, "StatusRefused")


async def test_only_the_member_that_has_a_job_can_end_it():
    async with fleet("a", "b") as world:
        for name in ("a", "b"):
            world.join(name, [node("n1")])
        world.start()
        await world.run()
        await world.job("j", 2)
        await world.run()
        first = world.where()["j"]
        other = "b" if first == "a" else "a"
        found = world.members[first].find(JOBS, "default/j")
        world.refuse(other, "delete", "jobs")
        world.members[other].put(JOBS, msgspec.structs.replace(found))
        world.say(other, "j", {"state": {"phase": "Completed"}})
        await world.run()
        assert job(world).status.state.phase != "Completed"


# ---- the end of jobs, and clocks


def test_copies_have_no_time_to_live_and_the_hubs_objects_do():
    spec = {"ttlSecondsAfterFinished": 0, "runPolicy": {"ttlSecondsAfterFinished": 5, "suspend": True}, "a": 1}
    assert without_ttl(spec) == {"runPolicy": {"suspend": True}, "a": 1}


async def test_a_job_with_no_time_to_live_left_ends_once():
    async with fleet("a") as world:
        world.join("a", [node("n1")])
        world.start()
        await world.run()
        await world.job("j", 2, ttlSecondsAfterFinished=0)
        await world.run()
        assert world.members["a"].find(JOBS, "default/j").spec.ttl_seconds_after_finished is None
        assert job(world).spec.ttl_seconds_after_finished == 0


@pytest.mark.parametrize(
    ("ended", "left"),
    [("1970-01-01T00:16:00Z", 20.0), ("1970-01-01T00:00:00Z", 0.0), ("1970-01-01T09:00:00Z", 60.0), ("soon", 60.0)],
)
def test_a_members_clock_cannot_keep_a_job_for_ever(ended, left):
    condition = {"type": "Completed", "status": "True", "lastTransitionTime": ended}
    value = {"metadata": {"name": "s"}, "spec": {"ttlSecondsAfterFinished": 60}, "status": {"conditions": [condition]}}
    assert expires_in(msgspec.convert(value, JOB_SETS.struct), 1000.0) == left


@pytest.mark.parametrize("minutes", [-20, 20])
async def test_a_member_whose_clock_is_off_runs_jobs_as_others_do(minutes):
    async with fleet("a", "b") as world:
        for name in ("a", "b"):
            world.join(name, [node("n1")])
        world.start()
        await world.run()
        await world.job("j", 2, annotations={WORKER_LOST_TIMEOUT: "1m", START_TIMEOUT: "5m"})
        await world.run()
        first = world.where()["j"]
        client = world.members[first]
        world.play()
        shifted = f"2{'0' if minutes < 0 else '9'}00-01-01T00:00:00Z"
        for pod in client.objects(PODS):
            meta = msgspec.structs.replace(pod.metadata, creation_timestamp=shifted)
            status = msgspec.structs.replace(pod.status, start_time=shifted)
            client.put(PODS, msgspec.structs.replace(pod, metadata=meta, status=status))
        world.say(first, "j", {"state": {"phase": "Running", "lastTransitionTime": shifted}, "running": 2})
        await world.run(700)
        assert world.where()["j"] == first
        assert placement_of(job(world)).generation == 1
        world.lose(first)
        await world.run(45)
        assert world.where()["j"] == first
        await world.run(90)
        assert world.where()["j"] not in ("", first)


# ---- slow members, garbage


async def test_a_member_that_answers_garbage_is_lost_like_one_that_does_not_answer():
    async with fleet("a", "b") as world:
        for name in ("a", "b"):
            world.join(name, [node("n1")])
        broken: set[str] = set()
        honest = world.connect

        def connect(config: Any) -> tuple[Any, Any]:
            name = config.server.removeprefix("https://").partition(":")[0]
            client, probe = honest(config)

            async def answer() -> str:
                if name in broken:
                    raise msgspec.DecodeError("JSON is malformed: invalid character (byte 0)")
                return await probe()

            return client, answer

        world.connect = connect  # type: ignore[method-assign]
        world.start()
        await world.run()
        await world.job("j", 2, annotations={WORKER_LOST_TIMEOUT: "1m"})
        await world.run()
        first = world.where()["j"]
        broken.add(first)
        await world.run(45)
        assert "cannot be read" in world.condition(first, "Reachable")[1]
        await world.run(60)
        assert world.where()["j"] not in ("", first)
        broken.discard(first)
        await world.run(30)
        assert world.condition(first, "Ready")[0] == "True"
        assert sum(len(names) for names in world.copies().values()) == 1


async def test_members_that_take_no_writes_lose_the_jobs_that_they_never_got_and_delay_no_others():
    async with fleet("a", "b", "c") as world:
        for name in ("a", "b", "c"):
            world.join(name, [node("n1", 64)])
        world.start()
        await world.run()
        slow = {"a", "b"}
        for name in slow:
            client = world.members[name]
            create = client.create

            async def late(kind: Any, obj: Any, *, dry_run: bool = False, at: str = name, make: Any = create) -> Any:
                if at in slow and kind is JOBS:
                    await asyncio.get_running_loop().create_future()
                return await make(kind, obj, dry_run=dry_run)

            client.create = late  # type: ignore[method-assign]
        pinned = {"pod": {"nodeSelector": {"unisono.io/cluster": "a"}}}
        for number in range(30):
            await world.job(f"a{number}", 1, **pinned)
            await world.job(f"b{number}", 1, pod={"nodeSelector": {"unisono.io/cluster": "b"}})
        await world.run(2)
        await world.job("quick", 1, pod={"nodeSelector": {"unisono.io/cluster": "c"}})
        await world.run(2)
        assert world.copies()["c"] == ["quick"], "two members that hang hold up a third"


# ---- more than there can be


def endless(pages: int | None, items: int) -> HttpClient:
    """A member of which the list of pods goes on: each page says that more follow."""
    client = HttpClient(ClusterConfig(server="https://m:6443"), most_listed=25)
    left = iter(range(pages)) if pages is not None else itertools.count()

    async def page(*_: Any, **__: Any) -> bytes:
        number = next(left, None)
        more = {"continue": f"c{number}"} if number is not None else {}
        pods = [{"metadata": {"name": f"p{number}-{index}", "namespace": "ns"}} for index in range(items)]
        return msgspec.json.encode({"metadata": {"resourceVersion": "1", **more}, "items": pods})

    client._call = page  # type: ignore[assignment, method-assign]
    return client


@pytest.mark.parametrize(("items", "why"), [(10, "more than 25 objects"), (0, "is empty, and says that more follow")])
async def test_a_list_that_never_ends_is_given_up(items: int, why: str):
    with pytest.raises(Unavailable, match=why):
        await endless(None, items).list(PODS)


async def test_a_list_within_the_bound_is_read():
    assert len((await endless(1, 10).list(PODS)).items) == 20


async def test_a_member_with_more_objects_than_are_taken_in_gets_no_work(monkeypatch: pytest.MonkeyPatch):
    async with fleet("a", "b") as world:
        monkeypatch.setattr(MemberSink.__init__, "__defaults__", (MemberSink.__init__.__defaults__[0], 3))
        world.join("a", [node(f"n{index}", 64) for index in range(5)])
        world.join("b", [node("n1")])
        world.start()
        await world.run()
        await world.job("j", 2)
        await world.run(30)
        assert world.where() == {"j": "b"}
        assert world.condition("a", "Ready") == ("False", f"it has more than {MOST_OBJECTS} objects of one kind")


async def test_a_gang_record_that_a_user_wrote_holds_no_room_for_the_jobs_of_others():
    async with fleet("a") as world:
        world.join("a", [node("n1")])
        world.start()
        await world.run()
        await world.job("theirs", 2)
        await world.run(5)
        uid = world.hub_client.find(JOBS, "default/theirs").metadata.uid
        part = {"cluster": "a", "number": 7, "uid": uid}
        forged = {"number": 7, "since": 9e12, "parts": {"llm-x-0": part}}
        await world.hyper("llm", {"name": "x", "pods": 64}, marks={GANG: json.dumps(forged)})
        await world.run(30)
        found = world.members["a"].find(CONFIG_MAPS, f"{gang_parts.NAMESPACE}/{gang_parts.NAME}")
        assert found is None or not found.data
