"""Evictions end to end: the real engine, the real controllers, an API server in memory, and hands that play kubelet."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import Any

import msgspec
import pytest
from scheduler_world import World, node, queue, unadvised, world
from scheduler_world import fill as put_gangs

from support.memory import MemoryClient
from unisono.api.annotations import CHECKPOINT_BEFORE, EVICT_NOTICE
from unisono.api.core import Pod
from unisono.api.groups.batch import Job
from unisono.api.kinds import EVENTS, JOBS, NODES, POD_GROUPS, PODS, QUEUES
from unisono.api.times import parse_time, rfc3339
from unisono.cluster.state import ClusterState
from unisono.cluster.status import TaskStatus
from unisono.controllers.registry import all_controllers
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.config_file.reader import DEFAULT_TEXT, load_config
from unisono.errors import ApiError
from unisono.kube.controller import Manager
from unisono.scheduler.evictor import GIVE_UP, Evictor
from unisono.scheduler.feed import Feed
from unisono.scheduler.metrics import Metrics
from unisono.scheduler.settings import FixedConfig

RECLAIM = load_config(DEFAULT_TEXT.replace("allocate, backfill", "allocate, reclaim, backfill"))
GUARDED = load_config(
    DEFAULT_TEXT.replace("allocate, backfill", "allocate, reclaim, backfill").replace(
        "  - name: conformance\n",
        """  - name: conformance
  - name: eviction-guard
    arguments: {eviction-guard.minRunTime: 1m, eviction-guard.maxPerWindow: 2, eviction-guard.window: 2m}
""",
    )
)


def job(name: str, queue_name: str, notice: str = "") -> Job:
    """Mission example 06's job; its pods get this notice before they are evicted."""
    requests = {"cpu": "500m", "memory": "100Mi"}
    container = {"name": "eater", "image": "busybox", "resources": {"requests": requests}}
    template: dict[str, Any] = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    if notice:
        template["metadata"] = {"annotations": {EVICT_NOTICE: notice}}
    spec: dict[str, Any] = {
        "schedulerName": "volcano",
        "queue": queue_name,
        "minAvailable": 1,
        "tasks": [{"name": "main", "replicas": 1, "template": template}],
        "policies": [{"event": "PodEvicted", "action": "RestartJob"}],
    }
    return msgspec.convert({"metadata": {"name": name, "namespace": "default"}, "spec": spec}, Job)


class Recorder:
    def event(self, *_: object) -> None:
        """Events of controllers are not looked at here."""


async def kubelet(client: MemoryClient) -> None:
    """One look: bound pods run, pods whose grace is over are gone."""
    for pod in client.objects(PODS):
        if not pod.spec.node_name:
            continue
        if pod.metadata.deletion_timestamp:
            client.remove(PODS, pod.key)
        elif pod.status.phase in (None, "", "Pending"):
            patch = {"status": {"phase": "Running"}}
            await client.patch(
                PODS, pod.metadata.name, patch, namespace=pod.metadata.namespace or "", subresource="status"
            )


async def live(it: World, seconds: int) -> None:
    for _ in range(seconds):
        await it.run(1.0)
        await kubelet(it.client)


@contextlib.asynccontextmanager
async def plane(client: MemoryClient, settings: SchedulerConfig = RECLAIM) -> Any:
    manager = Manager(client, clock=client.clock)
    running = asyncio.create_task(manager.run(all_controllers(Recorder())))  # type: ignore[arg-type]
    async with world(client, unadvised, config=FixedConfig(settings)) as it:
        yield it
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


def holders(client: MemoryClient) -> Counter[str]:
    """Pods with a node that are not leaving, by queue."""
    pods: list[Pod] = client.objects(PODS)
    held = (p for p in pods if p.spec.node_name and not p.metadata.deletion_timestamp)
    return Counter(p.metadata.name.split("-")[1] for p in held)


async def fill(it: World, notice: str = "") -> None:
    """queue-a's six jobs take the whole node."""
    client = it.client
    client.put(NODES, node("n1", cpu="3"))
    for name, weight in (("queue-a", 1), ("queue-b", 2)):
        made = queue(name)
        made.spec.weight = weight
        client.put(QUEUES, made)
    for number in range(6):
        await client.create(JOBS, job(f"job-a-{number}", "queue-a", notice))
    await live(it, 20)
    assert holders(client) == {"a": 6}


async def test_a_queue_reclaims_its_share_and_the_evicted_jobs_wait() -> None:
    client = MemoryClient()
    async with plane(client) as it:
        await fill(it)
        for number in range(6):
            await client.create(JOBS, job(f"job-b-{number}", "queue-b"))
        await live(it, 60)
        assert holders(client) == {"a": 2, "b": 4}
        evictions = {write.key for write in it.writes("delete", "pods")}
        assert len(evictions) == 4
        assert all("job-a" in key for key in evictions)
        waiting = {g.metadata.name for g in client.objects(POD_GROUPS) if g.status.phase in ("Pending", "Inqueue")}
        assert sum("job-a" in name for name in waiting) == 4, "evicted jobs wait for their turn"
        said = [event.message or "" for event in client.objects(EVENTS) if event.reason == "Evict"]
        assert len(said) == 4 and all("reclaim for default/job-b" in text for text in said)
        before = len(it.writes("delete", "pods"))
        await live(it, 60)
        assert holders(client) == {"a": 2, "b": 4}
        assert len(it.writes("delete", "pods")) == before


async def test_a_victim_is_chosen_once_while_its_eviction_is_on_the_way_and_again_when_it_failed() -> None:
    client = MemoryClient()
    async with plane(client) as it:
        await fill(it)
        refused: list[str] = []

        def refuse(operation: str, resource: str, namespace: str, name: str) -> None:
            if (operation, resource) == ("delete", "pods") and len(refused) < 2:
                refused.append(name)
                raise ApiError("no", code=500, reason="InternalError")

        client.interceptor = refuse
        await client.create(JOBS, job("job-b-0", "queue-b"))
        for _ in range(20):
            await it.run(0.5)
            it.nudge()
        assert len(refused) == 2
        leaving = [p.metadata.name for p in client.objects(PODS) if p.metadata.deletion_timestamp]
        assert len(leaving) == 1
        client.interceptor = None
        await live(it, 20)
        assert holders(client) == {"a": 5, "b": 1}


async def test_evictions_wait_for_the_minimum_run_time_and_keep_to_the_rate() -> None:
    """Though nothing else happens the job that waits is served soon after the minimum, and failures are not counted."""
    client = MemoryClient()
    async with plane(client, GUARDED) as it:
        await fill(it)
        created = [_created(p) for p in client.objects(PODS)]
        times: list[float] = []
        refused: list[str] = []

        def watch(operation: str, resource: str, namespace: str, name: str) -> None:
            if (operation, resource) != ("delete", "pods"):
                return
            if not refused:
                refused.append(name)
                raise ApiError("no", code=500, reason="InternalError")
            times.append(client.clock.time())

        client.interceptor = watch
        for number in range(6):
            await client.create(JOBS, job(f"job-b-{number}", "queue-b"))
        await live(it, 330)
        assert holders(client) == {"a": 2, "b": 4}
        assert len(refused) == 1 and len(times) == 4
        assert times[0] >= min(created) + 60.0
        assert times[1] <= max(created) + 60.0 + 45.0
        assert times[2] - times[0] >= 120.0 and times[3] - times[1] >= 120.0


def _created(one: Pod) -> float:
    return parse_time(one.metadata.creation_timestamp or "")


async def test_pods_of_a_gang_that_is_given_up_do_not_count() -> None:
    client = MemoryClient()
    put_gangs(client, gangs={"j": 2})
    feed = Feed(ClusterState(), lambda: None)
    for kind in (QUEUES, NODES, POD_GROUPS, PODS):
        feed.take_all(kind, client.objects(kind))
    evictor = Evictor(client, Recorder(), Metrics(), client.clock, feed=feed)  # type: ignore[arg-type]
    for name in ("j-0", "j-1"):
        feed.state.assume(f"team/{name}", "n0")
        one = next(p for p in client.objects(PODS) if p.metadata.name == name)
        one.spec.node_name = "n0"
        feed.take(PODS, "MODIFIED", one)
    uids = {p.metadata.name: p.metadata.uid or "" for p in client.objects(PODS)}
    evictor.submit([("team", "j-0", uids["j-0"])], GIVE_UP, "why")
    assert len(feed.state.evictions) == 0
    evictor.submit([("team", "j-1", uids["j-1"])], "preempt", "why")
    (noted,) = feed.state.evictions.since(0.0)
    assert (noted.job, noted.queue, noted.time) == ("team/j", "default", client.clock.time())
    await evictor.drain()


async def test_a_failed_pod_is_deleted_counts_as_an_eviction_and_is_not_marked_as_disrupted() -> None:
    client = MemoryClient()
    put_gangs(client, gangs={"j": 2})
    feed = Feed(ClusterState(), lambda: None)
    for one in client.objects(PODS):
        phase = "Failed" if one.metadata.name == "j-0" else "Running"
        patch = {"status": {"phase": phase}}
        await client.patch(PODS, one.metadata.name, patch, namespace="team", subresource="status")
    for kind in (QUEUES, NODES, POD_GROUPS, PODS):
        feed.take_all(kind, client.objects(kind))
    evictor = Evictor(client, Recorder(), Metrics(), client.clock, feed=feed)  # type: ignore[arg-type]
    uids = {p.metadata.name: p.metadata.uid or "" for p in client.objects(PODS)}
    marked: list[str] = []

    def watch(operation: str, resource: str, namespace: str, name: str) -> None:
        if (operation, resource) == ("patch", "pods"):
            marked.append(name)

    client.interceptor = watch
    evictor.submit([("team", name, uids[name]) for name in ("j-0", "j-1")], "shuffle", "shuffle")
    assert "team/j-0" in {entry.pod for entry in feed.state.evictions.since(0.0)}
    assert feed.state.tasks["team/j-0"].status is TaskStatus.FAILED
    await evictor.drain()
    assert marked == ["j-1"]
    assert not [p for p in client.objects(PODS) if not p.metadata.deletion_timestamp]


async def test_no_pod_stays_for_longer_than_half_an_hour_once_it_is_evicted() -> None:
    """Neither by its own grace, nor because its owner has deleted it with one that never ends."""
    client = MemoryClient()
    put_gangs(client, gangs={"j": 4})
    year = 365 * 86_400
    for number, one in enumerate(client.objects(PODS)):
        one.spec.node_name, one.status.phase = "n0", "Running"
        one.spec.termination_grace_period_seconds = (60, year, 60, 60)[number]
        client.put(PODS, one)
    await client.delete(PODS, "j-2", "team", grace_seconds=year)
    await client.delete(PODS, "j-3", "team", grace_seconds=120)
    feed = Feed(ClusterState(), lambda: None)
    for kind in (QUEUES, NODES, POD_GROUPS, PODS):
        feed.take_all(kind, client.objects(kind))
    states = [feed.state.tasks[f"team/j-{number}"].status for number in range(4)]
    assert states == [TaskStatus.RUNNING] * 3 + [TaskStatus.RELEASING]
    evictor = Evictor(client, Recorder(), Metrics(), client.clock, feed=feed)  # type: ignore[arg-type]
    pods = {one.metadata.name: one.metadata.uid or "" for one in client.objects(PODS)}
    evictor.submit([("team", name, uid) for name, uid in pods.items() if name != "j-3"], "budget", "why")
    await evictor.drain()
    found = {one.metadata.name: one.metadata.deletion_grace_period_seconds for one in client.objects(PODS)}
    assert found == {"j-0": 60, "j-1": 1800, "j-2": 1800, "j-3": 120}
    feed.take_all(PODS, client.objects(PODS))
    assert {task.status for task in feed.state.tasks.values()} == {TaskStatus.RELEASING}


def noticed(client: MemoryClient) -> list[str]:
    pods: list[Pod] = client.objects(PODS)
    return [p.metadata.name for p in pods if CHECKPOINT_BEFORE in (p.metadata.annotations or {})]


async def test_victims_are_told_and_go_when_the_time_is_over() -> None:
    client = MemoryClient()
    async with plane(client) as it:
        await fill(it, "40s")
        for number in range(6):
            await client.create(JOBS, job(f"job-b-{number}", "queue-b"))
        await live(it, 10)
        told = noticed(client)
        assert len(told) == 4 and holders(client) == {"a": 6}
        said = [event.message or "" for event in client.objects(EVENTS) if event.reason == "EvictionNotice"]
        assert len(said) == 4 and all("reclaim for default/job-b" in text for text in said)
        phases = {one.status.state.phase for one in client.objects(JOBS) if "job-a" in one.metadata.name}
        assert phases == {"Running"}
        await it.run(28.0)
        assert holders(client) == {"a": 6} and noticed(client) == told
        await live(it, 20)
        assert holders(client) == {"a": 2, "b": 4}
        assert sorted(name for _, _, name in (w.key.rpartition("/") for w in it.writes("delete", "pods"))) == told


async def test_a_notice_is_taken_back_when_nobody_waits_for_the_place_any_longer() -> None:
    client = MemoryClient()
    async with plane(client) as it:
        await fill(it, "60s")
        await client.create(JOBS, job("job-b-0", "queue-b"))
        await live(it, 10)
        assert len(noticed(client)) == 1
        for kind in (JOBS, PODS, POD_GROUPS):
            for obj in client.objects(kind):
                if obj.metadata.name.startswith("job-b-0"):
                    client.remove(kind, obj.key)
        await live(it, 120)
        assert holders(client) == {"a": 6} and noticed(client) == []
        assert not [w for w in it.writes("delete", "pods") if "job-a" in w.key]
        assert it.scheduler.feed.state.noticed == {} and len(it.scheduler.feed.state.evictions) == 0
        await client.create(JOBS, job("job-b-1", "queue-b"))
        await live(it, 80)
        assert holders(client) == {"a": 5, "b": 1}


@pytest.mark.parametrize(("left", "kept"), [(30, True), (90, False), (-30, False)], ids=["sooner", "later", "over"])
async def test_the_sooner_of_two_times_stands_and_outlives_a_notice_that_is_taken_back(left: int, kept: bool) -> None:
    """The controllers write the same annotation where a machine of the gang is taken back."""
    client = MemoryClient()
    async with plane(client) as it:
        await fill(it, "60s")
        machine = rfc3339(client.clock.time() + left)
        for pod in client.objects(PODS):
            notes = {"metadata": {"annotations": {CHECKPOINT_BEFORE: machine}}}
            await client.patch(PODS, pod.metadata.name, notes, namespace="default")
        await client.create(JOBS, job("job-b-0", "queue-b"))
        await live(it, 10)
        (told,) = it.scheduler.feed.state.noticed.values()
        said = told.annotations[CHECKPOINT_BEFORE]
        assert (said == machine) is kept
        for kind in (JOBS, PODS, POD_GROUPS):
            for obj in client.objects(kind):
                if obj.metadata.name.startswith("job-b-0"):
                    client.remove(kind, obj.key)
        await live(it, 15)
        after = client.find(PODS, told.key).metadata.annotations or {}
        assert it.scheduler.feed.state.noticed == {}
        assert after.get(CHECKPOINT_BEFORE) == (machine if kept else None)


async def test_a_scheduler_that_starts_anew_carries_out_what_was_told() -> None:
    client = MemoryClient()
    async with plane(client) as it:
        await fill(it, "60s")
        await client.create(JOBS, job("job-b-0", "queue-b"))
        await live(it, 10)
        assert len(noticed(client)) == 1
    async with plane(client) as it:
        await live(it, 20)
        assert holders(client) == {"a": 6}
        await live(it, 60)
        assert holders(client) == {"a": 5, "b": 1}


async def test_a_place_that_is_promised_after_a_notice_goes_to_nobody_else() -> None:
    """Others of its queue that come later wait behind the one for which the notice was given."""
    client = MemoryClient()
    async with plane(client) as it:
        await fill(it, "30s")
        await client.create(JOBS, job("job-b-0", "queue-b"))
        await live(it, 10)
        for number in range(1, 6):
            await client.create(JOBS, job(f"job-b-{number}", "queue-b"))
        await live(it, 60)
        assert holders(client) == {"a": 2, "b": 4}
        pods: list[Pod] = client.objects(PODS)
        assert any(p.metadata.name.startswith("job-b-0") and p.spec.node_name for p in pods)


@pytest.mark.parametrize(
    ("own", "of_group", "seconds"),
    [("20s", "", 20), ("", "30s", 30), ("20s", "30s", 20), ("2h", "", 1800), ("soon", "", 0), ("-5s", "", 0)],
)
async def test_how_long_the_notice_is(own: str, of_group: str, seconds: int) -> None:
    client = MemoryClient()
    put_gangs(client, gangs={"j": 1})
    feed = Feed(ClusterState(), lambda: None)
    (one,), (head,) = client.objects(PODS), client.objects(POD_GROUPS)
    one.metadata.annotations = {**(one.metadata.annotations or {}), **({EVICT_NOTICE: own} if own else {})}
    head.metadata.annotations = {EVICT_NOTICE: of_group} if of_group else None
    one.spec.node_name, one.status.phase = "n0", "Running"
    client.put(PODS, one)
    client.put(POD_GROUPS, head)
    for kind in (QUEUES, NODES, POD_GROUPS, PODS):
        feed.take_all(kind, client.objects(kind))
    evictor = Evictor(client, Recorder(), Metrics(), client.clock, feed=feed)  # type: ignore[arg-type]
    evictor.submit([("team", "j-0", client.objects(PODS)[0].metadata.uid or "")], "preempt", "why", "team/other")
    now = client.clock.time()
    await evictor.drain()
    left = [p for p in client.objects(PODS) if not p.metadata.deletion_timestamp]
    until = [parse_time((p.metadata.annotations or {})[CHECKPOINT_BEFORE]) - now for p in left]
    assert until == ([pytest.approx(seconds, abs=1)] if seconds else [])
