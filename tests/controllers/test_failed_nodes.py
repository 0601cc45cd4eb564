"""Failures of pods are entered in the book of their PodGroup: once for a gang, and never for evictions."""

from __future__ import annotations

from job_world import World, job, task

from unisono.api.annotations import FAILED_NODES
from unisono.api.failed_nodes import Failures, avoided, book_of
from unisono.api.kinds import POD_GROUPS, PODS


def book(it: World) -> dict[str, Failures]:
    group = it.group()
    assert group is not None
    return book_of((group.metadata.annotations or {}).get(FAILED_NODES))


async def fail(it: World, name: str, node: str, **conditions: str) -> None:
    """Names and nodes of several pods stand behind commas."""
    with it.client.hands():
        for each, on in zip(name.split(","), node.split(","), strict=True):
            await it.client.patch(PODS, each, {"spec": {"nodeName": on}}, namespace="default")
            status = {"phase": "Failed", "conditions": [{"type": key, "status": on} for key, on in conditions.items()]}
            await it.client.patch(PODS, each, {"status": status}, namespace="default", subresource="status")
    await it.settle()


async def restarted(it: World) -> None:
    """The job has its pods again."""
    for _ in range(10):
        await it.advance(10.0)
        await it.finish_deletions()
        if it.group() is not None:
            await it.admit()


async def test_a_node_that_fails_twice_is_avoided_and_forgotten_after_its_time() -> None:
    async with World() as it:
        policies = [{"event": "PodFailed", "action": "RestartJob"}]
        await it.submit(job(task("work", 2), policies=policies, maxRetry=9))
        await it.admit()
        first, second = sorted(it.names())
        await fail(it, f"{first},{second}", "n7,n8")
        assert {name: one.number for name, one in book(it).items()} == {"n7": 1.0}, "the second fails because of it"
        await restarted(it)
        assert set(book(it)) == {"n7"}, "the PodGroup was made anew, and its book is the same"
        assert len(it.names()) == 2
        await fail(it, sorted(it.names())[0], "n7")
        await restarted(it)
        now = it.client.clock.time()
        (until,) = avoided(book(it), now).values()
        assert now + 3000 < until <= now + 3600
        assert any("n7 2 times" in str(told) for told in it.recorder.of("NodeAvoided"))
        before = book(it)
        await it.advance(until - now + 2.0)
        assert avoided(book(it), it.client.clock.time()) == {}
        assert book(it) != before, "the scheduler looks again, as the PodGroup has changed"
        writes = [write for write in it.client.writes if write.resource == POD_GROUPS.plural]
        await it.advance(7200.0)
        assert [write for write in it.client.writes if write.resource == POD_GROUPS.plural] == writes


async def test_evictions_count_for_nothing_and_an_entry_that_is_taken_out_stays_out() -> None:
    async with World() as it:
        await it.submit(job(task("work", 3), minAvailable=1))
        await it.admit()
        first, second, _ = sorted(it.names())
        await fail(it, first, "n7", DisruptionTarget="True")
        assert book(it) == {}
        group = it.group()
        assert group is not None
        with it.client.hands():
            notes = {"metadata": {"annotations": {FAILED_NODES: "n9=4@2023-11-14T22:13:20Z"}}}
            await it.client.patch(POD_GROUPS, group.metadata.name, notes, namespace="default")
        await it.settle()
        assert set(book(it)) == {"n9"}
        with it.client.hands():
            notes = {"metadata": {"annotations": {FAILED_NODES: ""}}}
            await it.client.patch(POD_GROUPS, group.metadata.name, notes, namespace="default")
        await it.settle()
        await it.advance(600.0)
        assert book(it) == {}
        await fail(it, second, "n8")
        assert set(book(it)) == {"n8"}
