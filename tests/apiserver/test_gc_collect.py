"""The garbage collector: background, foreground, orphan; lost owners; restarts."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.backends import DELETE, OPTIONS, config_map, job_body, names, opened, owner, pod_body, read, settle, value
from support.examples import examples
from unisono.api.base import OwnerReference
from unisono.api.kinds import CONFIG_MAPS, JOBS, PODS, QUEUES
from unisono.apiserver.housekeeping.gc import GarbageCollector, OwnerIndex
from unisono.apiserver.housekeeping.objects import Housekeeper
from unisono.apiserver.types import DeleteOptions

FOREGROUND = DeleteOptions(propagation_policy="Foreground")
ORPHAN = DeleteOptions(propagation_policy="Orphan")


@pytest.fixture
async def backend():
    async with opened() as backend:
        yield backend


async def made(backend, kind, body):
    namespace = body["metadata"].get("namespace")
    return value((await backend.service.create(kind, namespace, body, OPTIONS)).object)


async def family(backend, *, blocks=False):
    """A job that owns two pods and a config map; one of the pods owns another config map."""
    job = await made(backend, JOBS, job_body("job"))
    for name in ("p1", "p2"):
        pod = await made(backend, PODS, pod_body(name, ownerReferences=[owner(job, blocks=blocks)]))
    await made(backend, CONFIG_MAPS, config_map("child", ownerReferences=[owner(job, blocks=blocks)]))
    await made(backend, CONFIG_MAPS, config_map("grandchild", ownerReferences=[owner(pod, blocks=blocks)]))
    await made(backend, CONFIG_MAPS, config_map("stranger"))
    return job


async def test_dependents_go_after_their_owner(backend):
    await family(backend)
    await backend.service.delete(JOBS, "default", "job", DELETE)
    await settle(backend)
    assert await names(backend.service, PODS) == []
    assert await names(backend.service, CONFIG_MAPS) == ["stranger"]


async def test_an_object_with_another_living_owner_stays_and_forgets_the_lost_one(backend):
    first, second = [await made(backend, JOBS, job_body(name)) for name in ("a", "b")]
    shared = [owner(first), owner(second)]
    await made(backend, CONFIG_MAPS, config_map("shared", ownerReferences=shared))
    await backend.service.delete(JOBS, "default", "a", DELETE)
    await settle(backend)
    found = await read(backend.service, CONFIG_MAPS, "default", "shared")
    assert [one["name"] for one in found["metadata"]["ownerReferences"]] == ["b"]
    await backend.service.delete(JOBS, "default", "b", DELETE)
    await settle(backend)
    assert await names(backend.service, CONFIG_MAPS) == []


async def test_another_incarnation_is_another_owner(backend):
    job = await made(backend, JOBS, job_body("job"))
    await backend.service.delete(JOBS, "default", "job", DELETE)
    await made(backend, JOBS, job_body("job"))
    await made(backend, CONFIG_MAPS, config_map("late", ownerReferences=[owner(job)]))
    await settle(backend)
    assert await names(backend.service, CONFIG_MAPS) == []


async def test_bound_pods_of_a_lost_owner_get_their_grace_period(backend):
    job = await made(backend, JOBS, job_body("job"))
    await made(backend, PODS, pod_body("p", ownerReferences=[owner(job)]))
    await backend.service.bind("default", "p", {"target": {"name": "n"}}, OPTIONS)
    await backend.service.delete(JOBS, "default", "job", DELETE)
    await settle(backend)
    pod = await read(backend.service, PODS, "default", "p")
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 30


@pytest.mark.parametrize(
    "reference",
    [
        {"apiVersion": "example.com/v1", "kind": "Gadget", "name": "x", "uid": "u"},
        {"apiVersion": "batch.volcano.sh/v1beta1", "kind": "Job", "name": "job", "uid": None},
    ],
)
async def test_owners_that_are_not_served_or_named_by_an_alias(backend, reference):
    job = await made(backend, JOBS, job_body("job"))
    reference = {**reference, "uid": reference["uid"] or job["metadata"]["uid"]}
    await made(backend, CONFIG_MAPS, config_map("kept", ownerReferences=[reference]))
    await settle(backend)
    assert await names(backend.service, CONFIG_MAPS) == ["kept"]


async def test_an_owner_in_a_namespace_cannot_own_beyond_it(backend):
    job = await made(backend, JOBS, job_body("job"))
    queue = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "q", "ownerReferences": [owner(job)]},
    }
    await made(backend, QUEUES, queue)
    await backend.service.delete(JOBS, "default", "job", DELETE)
    await settle(backend)
    assert "q" in await names(backend.service, QUEUES), "it cannot be checked, so it is kept"


async def test_foreground_waits_for_what_blocks(backend):
    await family(backend, blocks=True)
    await backend.service.patch(PODS, "default", "p1", {"metadata": {"finalizers": ["x.org/wait"]}}, "merge", OPTIONS)
    deleted = value((await backend.service.delete(JOBS, "default", "job", FOREGROUND)).object)
    assert deleted["metadata"]["finalizers"] == ["foregroundDeletion"]
    await settle(backend)
    assert await names(backend.service, PODS) == ["p1"]
    assert await names(backend.service, JOBS) == ["job"], "a pod still blocks it"
    await backend.service.patch(PODS, "default", "p1", {"metadata": {"finalizers": None}}, "merge", OPTIONS)
    await settle(backend)
    assert await names(backend.service, JOBS) == []
    assert await names(backend.service, CONFIG_MAPS) == ["stranger"]


async def test_foreground_does_not_wait_for_what_does_not_block(backend):
    await family(backend)
    change = {"metadata": {"finalizers": ["x.org/wait"]}}
    await backend.service.patch(PODS, "default", "p1", change, "merge", OPTIONS)
    await backend.service.delete(JOBS, "default", "job", FOREGROUND)
    await settle(backend)
    assert await names(backend.service, JOBS) == []
    pod = await read(backend.service, PODS, "default", "p1")
    assert pod["metadata"]["deletionTimestamp"]


async def test_foreground_without_dependents(backend):
    await made(backend, JOBS, job_body("job"))
    await backend.service.delete(JOBS, "default", "job", FOREGROUND)
    await settle(backend)
    assert await names(backend.service, JOBS) == []


async def test_orphans_stay_without_their_owner(backend):
    await family(backend)
    await backend.service.delete(JOBS, "default", "job", ORPHAN)
    await settle(backend)
    assert await names(backend.service, JOBS) == []
    assert await names(backend.service, PODS) == ["p1", "p2"]
    for kind, name in ((PODS, "p1"), (CONFIG_MAPS, "child")):
        found = await read(backend.service, kind, "default", name)
        assert "ownerReferences" not in found["metadata"]


@pytest.mark.parametrize("options", [DELETE, FOREGROUND, ORPHAN])
async def test_a_restart_in_between_loses_nothing(tmp_path, options):
    path = tmp_path / "state.db"
    async with opened(path) as backend:
        await family(backend, blocks=True)
        await next(
            one for one in backend._controllers if isinstance(one, GarbageCollector)
        ).stop()  # as if the process had died before the collector ran
        await backend.service.delete(JOBS, "default", "job", options)
    async with opened(path) as backend:
        await settle(backend)
        assert await names(backend.service, JOBS) == []
        assert await names(backend.service, PODS) == (["p1", "p2"] if options is ORPHAN else [])


async def test_a_thousand_dependents(backend):
    job = await made(backend, JOBS, job_body("job"))
    for i in range(300):
        await made(backend, CONFIG_MAPS, config_map(f"c{i}", ownerReferences=[owner(job)]))
    await backend.service.delete(JOBS, "default", "job", DELETE)
    await settle(backend)
    assert await names(backend.service, CONFIG_MAPS) == []


def test_an_owner_that_is_named_twice_counts_once():
    index = OwnerIndex()
    key = ("pods", "ns", "a")
    assert index.set(key, [reference("1"), reference("1")])
    assert index.set(key, None)
    assert (index.owners(key), index.dependents("1")) == ((), ())


def reference(uid):
    return OwnerReference(api_version="v1", kind="Pod", name="x", uid=uid)


@settings(max_examples=examples(50))
@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.lists(st.sampled_from("123"), unique=True, max_size=3)), max_size=12)
)
def test_the_index_equals_its_definition(steps):
    index, truth = OwnerIndex(), {}
    for name, uids in steps:
        key = ("pods", "ns", name)
        changed = index.set(key, [reference(uid) for uid in uids] or None)
        assert changed is (truth.get(key, ()) != tuple(uids))
        truth[key] = tuple(uids)
    for uid in "123":
        assert set(index.dependents(uid)) == {key for key, uids in truth.items() if uid in uids}
    assert all(index.owners(key) == uids for key, uids in truth.items())


@pytest.mark.parametrize("options", [DELETE, FOREGROUND], ids=["background", "foreground"])
async def test_many_dependents_are_queued_in_slices(backend, monkeypatch, options):
    """An owner of tens of thousands keeps nobody waiting: others run between slices of its dependents."""
    turns = 0
    added = Counter()
    add = Housekeeper.add

    def counted(self, key):
        added[turns] += 1
        add(self, key)

    async def turn():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    job = await made(backend, JOBS, job_body("job"))
    bodies = [config_map(f"c{at}", ownerReferences=[owner(job, blocks=True)]) for at in range(1500)]
    await asyncio.gather(*(backend.service.create(CONFIG_MAPS, "default", body, OPTIONS) for body in bodies))
    await settle(backend)
    monkeypatch.setattr(Housekeeper, "add", counted)
    turning = asyncio.create_task(turn())
    await backend.service.delete(JOBS, "default", "job", options)
    await settle(backend)
    turning.cancel()
    assert await names(backend.service, CONFIG_MAPS) == []
    assert await names(backend.service, JOBS) == []
    assert max(added.values()) <= 1100
