"""A job that asks for it starts again elsewhere, once, when a pod fails soon after its start."""

from __future__ import annotations

from typing import Any

import pytest
from job_world import World, job, task
from test_failed_nodes import book, fail, restarted

from unisono.api.annotations import PROGRESS, RETRY_ELSEWHERE
from unisono.api.failed_nodes import avoided
from unisono.api.kinds import PODS
from unisono.api.times import rfc3339

ENDS = [{"event": "PodFailed", "action": "AbortJob"}]


def asking(text: str | None = "5m", **spec: Any) -> Any:
    made = job(task("work", 2), **{"policies": ENDS, **spec})
    made.metadata.annotations = {RETRY_ELSEWHERE: text} if text is not None else None
    return made


@pytest.mark.parametrize(
    ("text", "after", "step", "again"),
    [
        ("5m", 10.0, "", True),
        ("5m", 10.0, "0/100", True),
        ("5m", 10.0, "1/100", False),
        ("5m", 400.0, "", False),
        ("soon", 10.0, "", False),
        (None, 10.0, "", False),
    ],
)
async def test_an_early_failure_restarts_a_job_that_its_policy_would_end(
    text: str | None, after: float, step: str, again: bool
) -> None:
    async with World() as it:
        await it.submit(asking(text))
        await it.admit()
        first = sorted(it.names())[0]
        await it.advance(after)
        ended = {"exitCode": 1, "finishedAt": rfc3339(it.clock.time())}
        told = {"status": {"containerStatuses": [{"name": "main", "state": {"terminated": ended}}]}}
        notes = {"metadata": {"annotations": {PROGRESS: step} if step else {}}}
        with it.client.hands():
            await it.client.patch(PODS, first, notes, namespace="default")
            await it.client.patch(PODS, first, told, namespace="default", subresource="status")
        await fail(it, first, "n7")
        await restarted(it)
        assert ("Restarting" in it.history()) is again
        assert (it.phase() == "Aborted") is not again


async def test_it_keeps_away_from_the_node_at_once_and_the_second_failure_is_its_policys() -> None:
    async with World() as it:
        await it.submit(asking())
        await it.admit()
        await fail(it, sorted(it.names())[0], "n7")
        await restarted(it)
        assert set(avoided(book(it), it.client.clock.time())) == {"n7"}
        assert len(it.names()) == 2
        await fail(it, sorted(it.names())[0], "n8")
        await restarted(it)
        assert it.phase() == "Aborted"


async def test_without_a_policy_it_is_restarted_as_well() -> None:
    async with World() as it:
        await it.submit(asking(policies=[]))
        await it.admit()
        await fail(it, sorted(it.names())[0], "n7")
        await restarted(it)
        assert "Restarting" in it.history()


async def test_a_pod_that_was_evicted_did_not_fail_early() -> None:
    async with World() as it:
        await it.submit(asking())
        await it.admit()
        await fail(it, sorted(it.names())[0], "n7", DisruptionTarget="True")
        await restarted(it)
        assert "Restarting" not in it.history()


async def test_a_pod_that_somebody_deleted_did_not_fail_early() -> None:
    async with World() as it:
        await it.submit(asking(policies=[]))
        await it.admit()
        first = sorted(it.names())[0]
        with it.client.hands():
            await it.client.patch(PODS, first, {"spec": {"nodeName": "n7"}}, namespace="default")
            await it.client.delete(PODS, first, "default", grace_seconds=30)
        await fail(it, first, "n7")
        assert book(it) == {}
        await restarted(it)
        assert "Restarting" not in it.history()


async def test_a_pod_that_ran_out_of_its_time_did_not_fail_early() -> None:
    async with World() as it:
        await it.submit(asking(policies=[]))
        await it.admit()
        first = sorted(it.names())[0]
        with it.client.hands():
            late = {"status": {"reason": "DeadlineExceeded"}}
            await it.client.patch(PODS, first, late, namespace="default", subresource="status")
        await fail(it, first, "n7")
        assert book(it) == {}
        await restarted(it)
        assert "Restarting" not in it.history()
