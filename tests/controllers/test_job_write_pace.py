"""The status of a job while pods of other jobs are being made on a slow API server."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.virtual_clock import VirtualClock
from unisono.api.base import ObjectMeta
from unisono.api.core import ContainerStatus, Pod, PodCondition, PodStatus
from unisono.api.groups.batch import JobState, JobStatus
from unisono.controllers.job.controller import matters
from unisono.controllers.job.status import GivingWay
from unisono.kube.pace import LONGEST_COUNT_SECONDS, WritePace

PENDING = JobStatus(state=JobState(phase="Pending"), pending=8)
RUNS = JobStatus(state=JobState(phase="Running"), running=8)


class Rush:
    """Pods that are being made, each in 400 ms."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.pace = WritePace(self.clock)
        self.resumed: list[str] = []
        self.giving_way = GivingWay(self.pace, self.resumed.append)

    async def make(self, pods: int = 30, seconds: float = 0.4) -> None:
        for _ in range(pods):
            with self.pace.urgent(), self.pace.write():
                await self.clock.advance(seconds)

    def wait(self, old: JobStatus, new: JobStatus) -> float:
        return self.giving_way.wait("ns/a", old, new, self.clock.monotonic())


@pytest.mark.parametrize("new", [RUNS, JobStatus(state=JobState(phase="Pending"), pending=3, running=5)])
async def test_good_news_wait_until_the_pods_are_made(new: JobStatus) -> None:
    rush = Rush()
    await rush.make()
    assert rush.wait(PENDING, new) == LONGEST_COUNT_SECONDS
    assert not rush.resumed
    await rush.clock.advance(1.0)
    assert rush.resumed == ["ns/a"]
    assert rush.wait(PENDING, new) == 0.0


@pytest.mark.parametrize(
    "new",
    [
        JobStatus(state=JobState(phase="Failed"), failed=1),
        JobStatus(state=JobState(phase="Pending", reason="PVCError", message="pvc x is not found"), pending=8),
        JobStatus(state=JobState(phase="Running"), running=8, version=1),
        JobStatus(state=JobState(phase="Running"), running=8, controlled_resources={"last-command": "u"}),
    ],
    ids=["failed", "obstacle", "version", "command"],
)
async def test_everything_else_is_written_at_once(new: JobStatus) -> None:
    rush = Rush()
    await rush.make()
    assert rush.wait(PENDING, new) == 0.0


async def test_on_a_calm_server_nothing_waits() -> None:
    rush = Rush()
    await rush.make(seconds=0.01)
    assert rush.wait(PENDING, RUNS) == 0.0


async def test_a_rush_without_end_hides_nothing_for_ever() -> None:
    rush = Rush()
    await rush.make()
    assert rush.wait(PENDING, RUNS) > 0
    await rush.make(80)
    assert rush.wait(PENDING, RUNS) == 0.0


async def test_a_job_that_is_gone_is_not_asked_for() -> None:
    rush = Rush()
    await rush.make()
    rush.wait(PENDING, RUNS)
    rush.giving_way.over("ns/a")
    await rush.clock.advance(1.0)
    assert not rush.resumed


# --- changes of pods that are worth a look -------------------------------------------------------------------


def _pod(**status: object) -> Pod:
    meta = ObjectMeta(name="job-0", namespace="ns", uid="u", resource_version="1", labels={"a": "b"})
    return Pod(metadata=meta, status=PodStatus(phase="Pending", **status))  # type: ignore[arg-type]


def test_a_pod_that_only_got_its_node_is_not_looked_at() -> None:
    bound = _pod(conditions=[PodCondition(type="PodScheduled", status="True")])
    bound.spec.node_name = "n1"
    bound.metadata.resource_version = "2"
    assert not matters("MODIFIED", bound, _pod())
    assert matters("ADDED", bound, None)
    assert matters("DELETED", bound, _pod())


@pytest.mark.parametrize(
    "change",
    [
        lambda pod: setattr(pod.status, "phase", "Running"),
        lambda pod: setattr(pod.status, "reason", "Evicted"),
        lambda pod: setattr(pod.status, "container_statuses", [ContainerStatus(name="main", ready=True)]),
        lambda pod: setattr(pod.metadata, "deletion_timestamp", "2026-01-01T00:00:00Z"),
        lambda pod: setattr(pod.metadata, "annotations", {"volcano.sh/job-version": "1"}),
        lambda pod: setattr(pod.metadata, "owner_references", []),
    ],
    ids=["phase", "reason", "containers", "deletion", "annotations", "owner"],
)
def test_what_a_decision_may_depend_on_is_looked_at(change: Callable[[Pod], None]) -> None:
    new = _pod()
    change(new)
    assert matters("MODIFIED", new, _pod())
