"""What was deleted is not deleted again for as long as caches may still show it."""

from __future__ import annotations

from support.memory import MemoryClient
from support.virtual_clock import VirtualClock
from unisono.api.base import ObjectMeta
from unisono.api.core import Pod
from unisono.api.groups.batch import Job
from unisono.api.groups.scheduling import PodGroup
from unisono.api.kinds import JOBS, POD_GROUPS, PODS
from unisono.controllers.execution import Executor, Wording
from unisono.controllers.job.sync import VolcanoPlan
from unisono.controllers.objects import PATIENCE_SECONDS, Deletions, Expectations


class Plain(Executor[Job, VolcanoPlan]):
    wording = Wording("", "", ("", ""), ("", ""), ("", ""), successes=True)


async def test_a_pod_that_an_informer_still_shows_is_deleted_once() -> None:
    clock = VirtualClock()
    client = MemoryClient(clock)
    told: list[str] = []
    executor = Plain(client, clock, JOBS, Expectations(), lambda job, notice: told.append(notice.message))
    job = Job(metadata=ObjectMeta(name="job", namespace="default", uid="u"))
    seen = await client.create(PODS, Pod(metadata=ObjectMeta(name="p", namespace="default")))
    asked: list[str] = []
    client.interceptor = lambda operation, resource, namespace, name: asked.append(f"{operation} {resource} {name}")
    for _ in range(3):
        await executor.delete_one(job, PODS, seen)
        await clock.advance(1)
    assert (asked, told) == (["delete pods p"], ["Deleted pod: p"])
    # A pod of the same name that came after it is another one.
    client.interceptor = None
    again = await client.create(PODS, Pod(metadata=ObjectMeta(name="p", namespace="default")))
    await executor.delete_one(job, PODS, again)
    assert client.find(PODS, "default/p") is None


async def test_a_pod_group_that_an_informer_still_shows_is_deleted_once() -> None:
    clock = VirtualClock()
    client = MemoryClient(clock)
    executor = Plain(client, clock, JOBS, Expectations(), lambda job, notice: None)
    job = await client.create(JOBS, Job(metadata=ObjectMeta(name="job", namespace="default")))
    seen = await client.create(POD_GROUPS, PodGroup(metadata=ObjectMeta(name="job-u", namespace="default")))
    asked: list[str] = []
    client.interceptor = lambda operation, resource, namespace, name: asked.append(f"{operation} {resource} {name}")
    for _ in range(3):
        await executor.run(job, VolcanoPlan(delete_group=seen))
        await clock.advance(1)
    assert asked == ["delete podgroups job-u"]


def test_a_deletion_of_which_nothing_was_heard_is_asked_for_again_and_nothing_is_kept() -> None:
    deletions = Deletions()
    for number in range(1000):
        deletions.note(f"u{number}", float(number))
    assert deletions.pending("u999", 999.0)
    assert not deletions.pending("u999", 999.0 + PATIENCE_SECONDS)
    assert not deletions.pending("unknown", 0.0)
    assert len(deletions._until) <= PATIENCE_SECONDS
