"""Objects that scheduling cannot read: their owners are told, and everybody else is served."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import generate_latest
from scheduler_world import fill, group, node, pod, world

from unisono.api.annotations import SET_ASIDE, VERDICT
from unisono.api.core import Event, Node, NodeCondition
from unisono.api.kinds import EVENTS, NODES, POD_GROUPS, PODS
from unisono.errors import Invalid
from unisono.scheduler.feed import Feed


def told(events: list[Event], kind: str) -> list[tuple[str | None, str | None]]:
    return [(event.involved_object.name, event.reason) for event in events if event.involved_object.kind == kind]


def conditions(of: Node) -> dict[str, NodeCondition]:
    return {one.type or "": one for one in of.status.conditions or ()}


async def test_a_node_is_told_again_when_the_server_refuses_to_say_so() -> None:
    async with world() as w:
        fill(w.client)
        refuse = True

        def intercept(operation: str, *arguments: Any) -> None:
            if refuse and operation == "patch" and "nodes" in str(arguments):
                raise Invalid("not now")

        w.client.interceptor = intercept
        w.client.put(NODES, node("n9", cpu="many"))
        await w.run(15.0)
        assert SET_ASIDE not in conditions(await w.client.get(NODES, "n9"))
        refuse = False
        await w.run(120.0)
        assert conditions(await w.client.get(NODES, "n9"))[SET_ASIDE].status == "True"


async def test_a_pod_and_a_group_that_cannot_be_read_are_told_of_and_stop_nobody() -> None:
    async with world() as w:
        fill(w.client, gangs={"good": 2})
        w.client.put(PODS, pod("odd", "good", cpu="many"))
        bad = group("bad", 1)
        bad.spec.min_resources = {"cpu": "many"}
        w.client.put(POD_GROUPS, bad)
        strange = node("n9", cpu="many")
        strange.status.conditions = [NodeCondition(type="Ready", status="True", reason="KubeletReady")]
        w.client.put(NODES, strange)
        await w.run(15.0)
        assert all(w.nodes_of("good-").values())
        odd = await w.client.get(PODS, "odd", "team")
        condition = next(one for one in odd.status.conditions or () if one.type == "PodScheduled")
        assert (condition.status, condition.reason) == ("False", "SchedulerError")
        assert "'many' is not a quantity" in (condition.message or "")
        found = await w.client.get(POD_GROUPS, "bad", "team")
        assert "'many' is not a quantity" in (found.metadata.annotations or {})[VERDICT]
        assert {(one.type, one.reason) for one in found.status.conditions or ()} == {
            ("Unschedulable", "SchedulerError")
        }
        events = w.client.objects(EVENTS)
        assert ("odd", "SchedulerError") in told(events, "Pod")
        assert told(events, "PodGroup").count(("bad", "SchedulerError")) == 1
        assert told(events, "Node") == [("n9", "SchedulerError")]
        ours = conditions(await w.client.get(NODES, "n9"))
        assert (ours["Ready"].status, ours["Ready"].reason) == ("True", "KubeletReady")
        assert ours[SET_ASIDE].status == "True" and "'many' is not a quantity" in (ours[SET_ASIDE].message or "")
        text = generate_latest(w.scheduler.metrics.registry).decode()
        for kind in ("Pod", "PodGroup", "Node"):
            assert f'unisono_objects_rejected{{kind="{kind}"}} 1.0' in text

        written = [write for write in w.client.writes if write.resource == "nodes"]
        await w.client.patch(NODES, "n9", {"status": {"allocatable": {"cpu": "4"}}}, subresource="status")
        await w.run(15.0)
        ours = conditions(await w.client.get(NODES, "n9"))
        assert (ours["Ready"].status, ours[SET_ASIDE].status, len(written)) == ("True", "False", 1)

        await w.client.patch(POD_GROUPS, "bad", {"spec": {"minResources": {"cpu": "1"}}}, namespace="team")
        await w.run(15.0)
        assert not [one for one in w.scheduler.feed.state.rejected.all() if one.kind == "PodGroup"]
        assert 'unisono_objects_rejected{kind="PodGroup"} 0.0' in generate_latest(w.scheduler.metrics.registry).decode()


async def test_a_node_that_was_corrected_while_no_scheduler_ran_loses_its_condition() -> None:
    async with world() as w:
        fill(w.client)
        corrected = node("n9")
        mark = NodeCondition(type=SET_ASIDE, status="True", reason="SchedulerError", message="of a run before")
        corrected.status.conditions = [*(corrected.status.conditions or ()), mark]
        w.client.put(NODES, corrected)
        await w.run(15.0)
        assert conditions(await w.client.get(NODES, "n9"))[SET_ASIDE].status == "False"
        assert len([write for write in w.client.writes if write.resource == "nodes"]) == 1


async def test_what_cannot_be_decoded_is_set_aside_and_holds_its_place() -> None:
    async with world() as w:
        fill(w.client, nodes=1, gangs={"good": 1})
        await w.run()
        broken = pod("broken", "good", cpu="3")
        broken.spec.node_name, broken.metadata.uid = "n0", "u"
        sink = w.scheduler.feed.sink(PODS)
        sink.refuse(broken, "Expected `int`, got `str`")
        state = w.scheduler.feed.state
        assert "Pod team/broken" in state.rejected
        assert list(state.tasks_on["n0"]) == ["team/good-0", "team/broken"]
        sink.apply("DELETED", broken)
        assert not state.rejected
        sink.replace([], [(broken, "Expected `int`, got `str`")])
        assert list(state.tasks_on["n0"]) == ["team/broken"]


@pytest.mark.parametrize("method", ["take", "take_all"])
async def test_a_record_that_cannot_be_kept_stops_neither_the_watch_nor_the_start(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world() as w:
        feed = w.scheduler.feed
        records = feed._records["Pod"]
        real = type(records).put

        def put(self: Any, obj: Any) -> None:
            if obj.metadata.name == "odd":
                raise RuntimeError("injected")
            real(self, obj)

        monkeypatch.setattr(type(records), "put", put)
        odd, fine = pod("odd", "g"), pod("fine", "g")
        if method == "take":
            feed.take(PODS, "ADDED", odd)
            feed.take(PODS, "ADDED", fine)
        else:
            feed.take_all(PODS, [odd, fine])
        assert list(feed.state.tasks) == list(feed.pods) == ["team/fine"]
        assert "Pod team/odd" in feed.state.rejected


async def test_changes_that_waited_for_a_cycle_are_all_made() -> None:
    async with world() as w:
        feed: Feed = w.scheduler.feed
        made: list[int] = []
        with feed.hold():
            feed.do(lambda: made.append(1))
            feed.do(lambda: 1 // 0)  # type: ignore[arg-type,return-value]
            feed.do(lambda: made.append(2))
        assert made == [1, 2]
