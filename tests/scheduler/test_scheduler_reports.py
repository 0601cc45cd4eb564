from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from scheduler_world import SlotEngine, fill, pod, world

from support.memory import MemoryClient
from unisono.api.annotations import VERDICT
from unisono.api.kinds import EVENTS, POD_GROUPS, PODS, QUEUES
from unisono.cluster.snapshot import Snapshot
from unisono.engine.decisions import Condition, Decisions, IdleJob, PodCondition, PodGroupUpdate, QueueUpdate
from unisono.engine.verdict import Cause, Holder, Verdict
from unisono.errors import Conflict, Unavailable
from unisono.scheduler.explain import material, render
from unisono.scheduler.explanations import Explanations


class Saying(SlotEngine):
    """An engine that binds nothing and says what the test tells it to say."""

    def __init__(self, say: Callable[[Snapshot, Decisions], None]) -> None:
        super().__init__(slots=0)
        self.extra = say


def update(snapshot: Snapshot, phase: str, message: str = "", running: int = 0, **more: Any) -> PodGroupUpdate:
    conditions = (Condition("Unschedulable", "True", "NotEnoughResources", message),) if message else ()
    uid = snapshot.jobs["team/a"].uid
    return PodGroupUpdate("team", "a", uid, phase, running, 0, 0, conditions, **more)


def group_writes(it: Any) -> list[dict[str, Any]]:
    return [write.body for write in it.writes("patch", "podgroups")]


async def test_status_is_written_once_with_its_conditions_and_events() -> None:
    client = MemoryClient()
    fill(client, gangs={"a": 2})

    def say(snapshot: Snapshot, decisions: Decisions) -> None:
        event = ("Warning", "Unschedulable", "2/2 tasks in gang unschedulable")
        decisions.pod_groups.append(update(snapshot, "Pending", "need 2, have 1", events=(event,)))

    async with world(client, Saying(say)) as it:
        await it.run(40)
        assert len(it.engine.calls) > 1
        assert len(group_writes(it)) == 1
        status = client.raw(POD_GROUPS, "team/a")["status"]
        assert status["phase"] == "Pending"
        (condition,) = status["conditions"]
        assert condition == {
            "type": "Unschedulable",
            "status": "True",
            "reason": "NotEnoughResources",
            "message": "need 2, have 1",
            "lastTransitionTime": "2023-11-14T22:13:20Z",
            "transitionID": "c1",
        }
        (event,) = client.objects(EVENTS)
        assert (event.type, event.reason, event.count) == ("Warning", "Unschedulable", 1)
        assert event.involved_object.kind == "PodGroup"


async def test_changed_numbers_wait_a_little_and_a_changed_phase_does_not() -> None:
    client = MemoryClient()
    fill(client, gangs={"a": 1})
    wish = {"phase": "Pending", "message": "have 0", "running": 0}

    def say(snapshot: Snapshot, decisions: Decisions) -> None:
        decisions.pod_groups.append(update(snapshot, **wish))  # type: ignore[arg-type]

    async with world(client, Saying(say)) as it:

        async def tell(seconds: float, **changes: Any) -> int:
            wish.update(changes)
            it.nudge()
            await it.run(seconds)
            return len(group_writes(it))

        await it.run(1.0)
        assert await tell(0.5, message="have 1") == 1
        assert await tell(0.3, message="have 2") == 1
        assert await tell(3.0) == 2
        assert client.raw(POD_GROUPS, "team/a")["status"]["conditions"][0]["message"] == "have 2"
        assert await tell(1.1, phase="Inqueue") == 3
        assert await tell(1.1, running=1) == 4
        since = {c["lastTransitionTime"] for c in client.raw(POD_GROUPS, "team/a")["status"]["conditions"]}
        assert since == {"2023-11-14T22:13:20Z"}


async def test_a_conflict_is_compared_again_and_others_fields_survive() -> None:
    client = MemoryClient()
    fill(client, gangs={"a": 1})
    conflicts = [0]

    def disturb(operation: str, resource: str, namespace: str, name: str) -> None:
        if operation == "patch" and resource == "podgroups" and not conflicts[0]:
            conflicts[0] += 1
            found = client.find(POD_GROUPS, "team/a")
            assert found is not None
            found.metadata.labels = {"someone": "else"}
            client.put(POD_GROUPS, found)

    client.interceptor = disturb
    say = Saying(lambda snapshot, decisions: decisions.pod_groups.append(update(snapshot, "Inqueue", "wait")))
    async with world(client, say) as it:
        await it.run(5)
        raw = client.raw(POD_GROUPS, "team/a")
        assert raw["metadata"]["labels"] == {"someone": "else"}
        assert raw["status"]["conditions"][0]["message"] == "wait"
        value = it.scheduler.metrics.registry.get_sample_value(
            "unisono_scheduler_writes_total", {"outcome": "conflict"}
        )
        assert value == 1


async def test_writes_survive_an_outage_and_only_the_latest_counts() -> None:
    client = MemoryClient()
    fill(client, gangs={"a": 1})
    wish = {"message": "first"}

    def refuse(operation: str, *_: str) -> None:
        if operation == "patch":
            raise Unavailable("down")

    def say(snapshot: Snapshot, decisions: Decisions) -> None:
        decisions.pod_groups.append(update(snapshot, "Pending", wish["message"]))

    client.interceptor = refuse
    async with world(client, Saying(say)) as it:
        await it.run(5)
        wish["message"] = "second"
        it.nudge()
        await it.run(5)
        assert it.scheduler.statistics().waiting_writes == 1
        client.interceptor = None
        await it.run(60)
        assert [body["status"]["conditions"][0]["message"] for body in group_writes(it)] == ["second"]


async def test_endless_conflicts_end() -> None:
    client = MemoryClient()
    fill(client, gangs={"a": 1})

    def refuse(operation: str, *_: str) -> None:
        if operation == "patch":
            raise Conflict("modified")

    client.interceptor = refuse
    say = Saying(lambda snapshot, decisions: decisions.pod_groups.append(update(snapshot, "Inqueue", "x")))
    async with world(client, say) as it:
        await it.run(25)
        value = it.scheduler.metrics.registry.get_sample_value(
            "unisono_scheduler_writes_total", {"outcome": "conflict"}
        )
        assert value is not None and value <= 7


def full(cause: Cause = Cause.NODES_FULL, have: int = 1) -> Verdict:
    return Verdict(
        job="team/a",
        cause=cause,
        message=f"needs 2 pods, {have} fit",
        need={"pods": 2},
        have={"pods": have},
        reasons={"Insufficient cpu": 2},
        nodes=2,
        holders=(Holder("Job", "team/other", {"cpu": 4000}),),
        suggestion="lower minAvailable to 1",
        queue="default",
    )


async def test_a_verdict_is_published_changed_and_removed() -> None:
    client = MemoryClient()
    fill(client, gangs={"a": 2})
    verdicts: dict[str, Verdict] = {"team/a": full()}
    say = Saying(lambda snapshot, decisions: decisions.verdicts.update(verdicts))

    def published() -> Any:
        text = client.raw(POD_GROUPS, "team/a")["metadata"].get("annotations", {}).get(VERDICT)
        return None if text is None else json.loads(text)

    async with world(client, say) as it:

        async def again(seconds: float) -> Any:
            it.nudge()
            await it.run(seconds)
            return published()

        await it.run(1.0)
        assert published()["cause"] == "NodesFull" and published()["suggestion"] == "lower minAvailable to 1"
        assert it.scheduler.verdict("team/a") == full()
        await again(0.5)
        assert len(group_writes(it)) == 1
        verdicts["team/a"] = full(have=0)
        assert (await again(0.2))["have"] == {"pods": 1}
        assert (await again(1.5))["have"] == {"pods": 0}
        verdicts["team/a"] = full(Cause.QUEUE_CLOSED)
        assert (await again(0.2))["cause"] == "QueueClosed"
        verdicts.clear()
        assert await again(0.2) is None
        assert it.scheduler.verdict("team/a") is None


def test_a_verdict_is_bounded_in_size() -> None:
    huge = Verdict(
        job="team/a",
        cause=Cause.FILTERS,
        message="m" * 50_000,
        need={f"example.com/{index}": index for index in range(400)},
        have={f"example.com/{index}": index for index in range(400)},
        reasons={f"reason {index} " + "x" * 200: index for index in range(100)},
        holders=tuple(Holder("Job", "n" * 250, {"cpu": 1}) for _ in range(100)),
        suggestion="s" * 5000,
    )
    text = render(huge)
    assert len(text) <= 4096
    assert json.loads(text)["cause"] == "Filters"


async def test_a_job_of_another_scheduler_is_left_to_that_one() -> None:
    client = MemoryClient()
    fill(client, gangs={"a": 2})

    def say(snapshot: Snapshot, decisions: Decisions) -> None:
        decisions.pod_groups.append(update(snapshot, "Pending", "need 2, have 0"))

    for name in ("a-0", "a-1"):
        made = pod(name, "a")
        made.spec.scheduler_name = "other"
        client.put(PODS, made)
    annotated = client.objects(POD_GROUPS)[0]
    annotated.metadata.annotations = {VERDICT: "said before its pods came"}
    client.put(POD_GROUPS, annotated)
    async with world(client, Saying(say)) as it:
        await it.run(60)
        assert it.engine.calls
        assert [write["metadata"]["annotations"] for write in group_writes(it)] == [{VERDICT: None}]
        assert all("status" not in write for write in group_writes(it))
        client.put(PODS, pod("a-0", "a"))
        await it.run(60)
        assert client.raw(POD_GROUPS, "team/a")["status"]["conditions"]


def test_numbers_are_not_material_and_foreign_text_is() -> None:
    assert material(render(full(have=0))) == material(render(full(have=1)))
    assert material(render(full())) != material(render(full(Cause.QUEUE_CLOSED)))
    assert material(None) != material("not json") != material(render(full()))
    assert material("[1]") == ("unreadable",)
    assert material('{"a":' * 20_000) == material("[" * 20_000) == ("unreadable",)


async def test_pod_conditions_are_written_when_they_change() -> None:
    client = MemoryClient()
    fill(client, gangs={"a": 1})
    wish = {"reason": "Unschedulable", "message": "0/2 nodes are available", "nominated_node": ""}

    def say(snapshot: Snapshot, decisions: Decisions) -> None:
        task = snapshot.tasks["team/a-0"]
        told = {**wish, "withdrawn": bool(wish.get("withdrawn"))}
        decisions.pod_conditions.append(PodCondition("team", "a-0", task.uid, **told))

    found = client.find(PODS, "team/a-0")
    assert found is not None
    raw = client.raw(PODS, "team/a-0")
    raw["status"]["conditions"] = [{"type": "Other", "status": "True"}]
    async with world(client, Saying(say)) as it:
        await it.run(40)
        assert len(it.writes("patch", "pods")) == 1
        status = client.raw(PODS, "team/a-0")["status"]
        assert [(c["type"], c["status"]) for c in status["conditions"]] == [
            ("Other", "True"),
            ("PodScheduled", "False"),
        ]
        wish.update(reason="Schedulable", nominated_node="n1")
        it.nudge()
        await it.run(1.2)
        status = client.raw(PODS, "team/a-0")["status"]
        assert status["conditions"][1]["reason"] == "Schedulable"
        assert status["nominatedNodeName"] == "n1"
        wish.update(nominated_node="")
        it.nudge()
        await it.run(20)
        assert client.raw(PODS, "team/a-0")["status"]["nominatedNodeName"] == "n1"
        assert len(it.writes("patch", "pods")) == 2
        assert {(e.reason, e.count) for e in client.objects(EVENTS)} == {("FailedScheduling", 2)}
        wish.update(withdrawn="yes")
        it.nudge()
        await it.run(20)
        assert not client.raw(PODS, "team/a-0")["status"].get("nominatedNodeName")


@pytest.mark.parametrize("told", [False, True], ids=["new", "told before"])
async def test_a_promised_place_is_written_at_once(told: bool) -> None:
    """Otherwise the new pod of a victim takes it."""
    client = MemoryClient()
    fill(client, gangs={"a": 1})
    wish = {"reason": "Unschedulable", "message": "0/2 nodes are available", "nominated_node": ""}

    def say(snapshot: Snapshot, decisions: Decisions) -> None:
        decisions.pod_conditions.append(PodCondition("team", "a-0", snapshot.tasks["team/a-0"].uid, **wish))

    if not told:
        wish.update(nominated_node="n1")
    async with world(client, Saying(say)) as it:
        if told:
            await it.run(40)
            wish.update(message="0/3 nodes are available", nominated_node="n1")
            it.nudge()
        await it.run(0.3)
        assert client.raw(PODS, "team/a-0")["status"]["nominatedNodeName"] == "n1"


async def test_queue_status_is_replaced_as_a_whole() -> None:
    client = MemoryClient()
    fill(client)
    await client.patch(
        QUEUES, "default", {"status": {"allocated": {"cpu": "1", "old.io/gpu": "2"}}}, subresource="status"
    )
    say = Saying(lambda snapshot, decisions: decisions.queues.append(QueueUpdate("default", {"cpu": "3"})))
    async with world(client, say) as it:
        await it.run(40)
        raw = client.raw(QUEUES, "default")["status"]
        assert raw == {"state": "Open", "allocated": {"cpu": "3"}}
        assert len(it.writes("patch", "queues")) == 2


async def test_jobs_that_wait_are_counted_and_their_series_removed() -> None:
    client = MemoryClient()
    fill(client, gangs={"a": 2})
    verdicts = {"team/a": Verdict("team/a", Cause.NODES_FULL, "x", tasks_needed=2, tasks_placeable=0)}
    say = Saying(lambda snapshot, decisions: decisions.verdicts.update(verdicts))
    async with world(client, say) as it:
        samples = it.scheduler.metrics.registry.get_sample_value
        await it.run(1)
        assert samples("volcano_unschedule_job_count") == 1
        assert samples("volcano_unschedule_task_count", {"job_id": "a"}) == 2
        verdicts.clear()
        it.nudge()
        await it.run(2)
        assert samples("volcano_unschedule_job_count") == 0
        assert samples("volcano_unschedule_task_count", {"job_id": "a"}) is None


async def test_who_waits_for_a_moment_gets_no_reports() -> None:
    client = MemoryClient()
    fill(client, gangs={"a": 2})
    for index in range(2):
        client.put(PODS, pod(f"a-{index}", "a"))
    waits = [True]

    def say(snapshot: Snapshot, decisions: Decisions) -> None:
        if waits[0]:
            decisions.verdicts["team/a"] = Verdict("team/a", Cause.TOO_FEW_PODS, "1 of 2 pods exist", queue="default")
            for task in snapshot.jobs["team/a"].pending.values():
                condition = PodCondition(task.namespace, task.name, task.uid, "Unschedulable", "gang incomplete", "")
                decisions.pod_conditions.append(condition)

    async with world(client, Saying(say)) as it:
        await it.run(0.5)
        waits[0] = False
        it.engine.slots = 2
        it.nudge()
        await it.run(5)
        assert all(it.nodes_of("a").values())
        assert not group_writes(it)
        assert not it.writes("patch", "pods")
        assert not [event for event in client.objects(EVENTS) if event.reason == "FailedScheduling"]


@pytest.mark.parametrize("kinds", [("Warning",), ("Normal", "Warning")])
async def test_events_tell_of_a_cause_and_not_of_amounts(kinds: tuple[str, ...]) -> None:
    """At most three of each cause, whether the gate in front of the queue speaks as well or not."""
    told_by_pods = 3 - len(kinds)
    client = MemoryClient()
    fill(client, gangs={"a": 5})
    for index in range(5):
        client.put(PODS, pod(f"a-{index}", "a"))
    told = {"cause": Cause.NODES_FULL, "have": 9}

    def say(snapshot: Snapshot, decisions: Decisions) -> None:
        message = f"cpu 10 is asked for, and cpu {told['have']} is free"
        decisions.verdicts["team/a"] = Verdict("team/a", Cause(told["cause"]), message, queue="default")
        events = tuple((kind, "Unschedulable", message) for kind in kinds)
        decisions.pod_groups.append(update(snapshot, "Inqueue", message, events=events))
        for task in snapshot.jobs["team/a"].pending.values():
            decisions.pod_conditions.append(
                PodCondition(task.namespace, task.name, task.uid, "Unschedulable", message, "")
            )

    def happened() -> dict[str, int]:
        return Counter(event.reason for event in client.objects(EVENTS) for _ in range(event.count or 1))

    async with world(client, Saying(say)) as it:
        await it.run(15)
        assert happened() == {"Unschedulable": len(kinds), "FailedScheduling": told_by_pods}
        for have in range(8, 2, -1):
            told["have"] = have
            it.nudge()
            await it.run(15)
        condition = client.raw(PODS, "team/a-4")["status"]["conditions"][-1]
        assert condition["message"].endswith("cpu 3 is free")
        assert happened() == {"Unschedulable": len(kinds), "FailedScheduling": told_by_pods}
        told["cause"] = Cause.OVER_CAPABILITY
        told["have"] = 2
        it.nudge()
        await it.run(15)
        assert happened() == {"Unschedulable": 2 * len(kinds), "FailedScheduling": 2 * told_by_pods}


def test_explanations_take_an_eighth_of_the_time_at_most() -> None:
    moment, asked = [0.0], list[bool]()
    share = Explanations(lambda: moment[0])

    def run(_snapshot: Any, _config: Any, _now: float, _seed: int, *, verdicts: bool) -> Decisions:
        asked.append(verdicts)
        moment[0] += 0.5
        seconds = {"actions/allocate": 0.1, "explain": 0.3, "close": 0.1} if verdicts else {"close": 0.1}
        return Decisions(explained=verdicts, seconds=seconds)

    cluster: Any = None
    first = share.decide(run, cluster, cluster, 100.0, 0)
    assert first.explained and first.again_at is None
    second = share.decide(run, cluster, cluster, 100.5, 0)
    assert not second.explained
    # 0.4 s were spent: the next explanation is due 2.8 s after the first, which ended half a second after 100.
    assert second.again_at == pytest.approx(103.3)
    while len(asked) < 100:
        share.decide(run, cluster, cluster, 100.0, 0)
    assert asked.count(True) * 0.4 <= moment[0] / 8 + 0.4


def test_no_job_waits_long_for_a_first_word() -> None:
    """An explanation of five seconds, on a machine that has other work, is followed by the next one after ten."""
    share, cluster = Explanations(lambda: 0.0), None

    def run(_snapshot: Any, _config: Any, _now: float, _seed: int, *, verdicts: bool) -> Decisions:
        return Decisions(explained=verdicts, seconds={"explain": 5.0})

    share.decide(run, cluster, cluster, 100.0, 0)  # type: ignore[arg-type]
    assert share.decide(run, cluster, cluster, 100.0, 0).again_at == 110.0  # type: ignore[arg-type]


async def test_a_cycle_that_only_decides_keeps_the_verdicts_of_those_that_wait() -> None:
    client = MemoryClient()
    fill(client, gangs={"a": 1, "b": 1})
    explains = [True]

    def say(snapshot: Snapshot, decisions: Decisions) -> None:
        decisions.explained = explains[0]
        if explains[0]:
            decisions.verdicts["team/a"] = Verdict("team/a", Cause.NODES_FULL, "no room", queue="default")
            decisions.verdicts["team/b"] = Verdict("team/b", Cause.NODES_FULL, "no room", queue="default")
        else:
            decisions.pod_groups.append(update(snapshot, "Running", running=1))

    async with world(client, Saying(say)) as it:
        await it.run(5)
        assert set(it.scheduler.verdicts.jobs()) == {"team/a", "team/b"}
        explains[0] = False
        it.nudge()
        await it.run(5)
        assert set(it.scheduler.verdicts.jobs()) == {"team/b"}


async def test_an_idle_job_and_its_first_pod_have_an_event_when_something_is_new() -> None:
    client = MemoryClient()
    fill(client, gangs={"a": 1})
    said = {"news": "1", "message": "its GPUs are used by 1 %"}

    def say(snapshot: Snapshot, decisions: Decisions) -> None:
        decisions.idle.append(IdleJob("team/a", "team/a-0", "uid-a-0", **said))

    async with world(client, Saying(say)) as it:
        await it.run(40)
        said["message"] = "its GPUs are used by 2 %"
        await it.run(40)
        assert len(it.engine.calls) > 2
        told = [one for one in client.objects(EVENTS) if one.reason == "IdleGPUs"]
        assert sorted((one.involved_object.kind, one.count) for one in told) == [("Pod", 1), ("PodGroup", 1)]
        assert {one.message for one in told} == {"its GPUs are used by 1 %"}
