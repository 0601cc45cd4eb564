"""A recorder on an embedded server: what it hears of while it runs, and of what it makes up for."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor, Future
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from support.backends import NOW, Wall, opened
from support.backends import settle as settled
from support.histories import Story, a_job, uid_of
from support.virtual_clock import VirtualClock, settle
from unisono.api.base import ObjectMeta, OwnerReference
from unisono.api.core import Container, Pod, PodSpec, ResourceRequirements
from unisono.api.groups.batch import Job, JobSpec, TaskSpec
from unisono.api.groups.resource_metrics import POD_METRICS, PodMetrics
from unisono.api.kinds import JOBS, PODS
from unisono.apiserver.backend import Backend
from unisono.apiserver.storage.objects import Retention
from unisono.errors import ApiError, NotFound
from unisono.history.reading import Filter, Reader
from unisono.history.recorder import Recorder
from unisono.history.records import Changes
from unisono.history.report import JobLine, Window
from unisono.history.sqlite import SqliteFile
from unisono.history.storage import NotStored
from unisono.kube.client import Client

MILLIS = round(NOW * 1000)


class AtOnce(Executor):
    """Runs each call where it is asked for: a virtual clock does not wait for a thread."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as error:
            done.set_exception(error)
        return done


@asynccontextmanager
async def recording(backend: Backend, path: Path, clock: VirtualClock) -> AsyncIterator[None]:
    """A recorder that has taken up its work; at the end it stores what it has heard."""
    recorder = Recorder(backend.client(), SqliteFile(path), clock=clock, executor=AtOnce)
    task = asyncio.create_task(recorder.run())
    ready = asyncio.create_task(recorder.ready.wait())
    await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
    assert ready.done(), task.exception()
    try:
        yield
        await settled(backend)
        await settle()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def submit(client: Client, name: str) -> Job:
    template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
    tasks = [msgspec.convert({"name": "t", "replicas": 1, "template": template}, TaskSpec)]
    meta = ObjectMeta(name=name, namespace="default")
    return await client.create(JOBS, Job(metadata=meta, spec=JobSpec(queue="default", tasks=tasks)))


async def pod_of(client: Client, job: Job, node: str = "n1") -> None:
    reference = OwnerReference(
        api_version=JOBS.api_version, kind="Job", name=job.metadata.name, uid=job.metadata.uid or "", controller=True
    )
    asked = ResourceRequirements(requests={"cpu": "2"})
    meta = ObjectMeta(name=f"{job.metadata.name}-0", namespace="default", owner_references=[reference])
    pod = Pod(metadata=meta, spec=PodSpec(containers=[Container(name="c", image="i", resources=asked)]))
    made = await client.create(PODS, pod)
    await client.bind("default", made.metadata.name, node)


async def ends(client: Client, name: str) -> None:
    await client.patch(PODS, f"{name}-0", {"status": {"phase": "Succeeded"}}, namespace="default", subresource="status")
    state = {"status": {"state": {"phase": "Completed"}}}
    await client.patch(JOBS, name, state, namespace="default", subresource="status")


async def goes(client: Client, name: str) -> None:
    await client.delete(PODS, f"{name}-0", "default", grace_seconds=0)
    await client.delete(JOBS, name, "default")


def lines(path: Path, clock: VirtualClock) -> dict[str, JobLine]:
    now = round(clock.time() * 1000)
    window = Window(MILLIS - 1000, now + 1000, now)
    return {job.name: job for job in Reader(SqliteFile(path)).jobs(window, Filter(), [("default", JOBS.resource)]).jobs}


async def test_a_job_is_remembered_when_it_is_gone(tmp_path: Path) -> None:
    clock, wall, path = VirtualClock(NOW), Wall(), tmp_path / "history.db"
    async with opened(clock=wall) as backend:
        client = backend.client()
        async with recording(backend, path, clock):
            job = await submit(client, "first")
            await pod_of(client, job)
            await settled(backend)
            await settle()
            await clock.advance(100)
            await ends(client, "first")
            await goes(client, "first")
    line = lines(path, clock)["first"]
    assert (line.state, line.queue, line.pods, line.cpus) == ("Completed", "default", 1, 2)
    assert line.cpu_hours == pytest.approx(2 * 100 / 3600)


@pytest.mark.parametrize("retention", [Retention(), Retention(events=20, seconds=0)])
async def test_what_happened_while_it_was_down(tmp_path: Path, retention: Retention) -> None:
    """A server that remembers tells everything; one that does not tells what is there."""
    clock, path = VirtualClock(NOW), tmp_path / "history.db"
    remembers = retention.events > 20
    async with opened(clock=Wall(), retention=retention) as backend:
        client = backend.client()
        async with recording(backend, path, clock):
            for name in ("ended", "deleted", "stays"):
                await pod_of(client, await submit(client, name))
            await settled(backend)
            await settle()
            await clock.advance(50)
        await ends(client, "ended")
        await goes(client, "deleted")
        await pod_of(client, await submit(client, "short"))
        await ends(client, "short")
        await goes(client, "short")
        for number in range(60):
            for kind in (JOBS, PODS):
                name = "stays" if kind is JOBS else "stays-0"
                await client.patch(kind, name, {"metadata": {"labels": {"n": str(number)}}}, namespace="default")
        clock.jump(1000)
        async with recording(backend, path, clock):
            pass
    found = lines(path, clock)
    assert found["ended"].state == "Completed"
    assert found["stays"].state == "Running"
    assert found["deleted"].state == "Deleted"
    assert ("short" in found) is remembers
    if remembers:
        assert found["short"].state == "Completed"
    else:
        # Charged until the server was last heard of.
        assert found["deleted"].cpu_hours == pytest.approx(2 * 50 / 3600, abs=2 * 3 / 3600)


async def test_another_cluster_is_not_taken_for_the_same(tmp_path: Path) -> None:
    clock, path = VirtualClock(NOW), tmp_path / "history.db"
    for cluster in ("a", "b"):
        numbers = itertools.count(1)
        async with opened(clock=Wall(), new_uid=lambda c=cluster, n=numbers: f"{c}{next(n):07}-0000") as backend:
            client = backend.client()
            # The second one has come further: a watch from where the first was left would hear of nothing.
            for number in range(1 if cluster == "a" else 40):
                await submit(client, f"{cluster}-{number}")
            async with recording(backend, path, clock):
                await clock.advance(5)
    found = lines(path, clock)
    assert found["a-0"].state == "Deleted"
    assert {found[f"b-{number}"].state for number in range(40)} == {"Pending"}


async def test_a_kind_that_is_not_served_holds_nothing_up(tmp_path: Path) -> None:
    clock, path = VirtualClock(NOW), tmp_path / "history.db"
    async with opened(clock=Wall()) as backend:
        client = backend.client()
        whole = client.list

        async def partial(kind: Any, *args: Any, **kwargs: Any) -> Any:
            if kind.group == "ray.io":
                raise NotFound("the server could not find the requested resource")
            return await whole(kind, *args, **kwargs)

        client.list = partial  # type: ignore[method-assign]
        backend.client = lambda **_: client  # type: ignore[method-assign]
        async with recording(backend, path, clock):
            await submit(client, "j")
    assert set(lines(path, clock)) == {"j"}


@pytest.mark.parametrize("trouble", [asyncio.CancelledError(), NotStored("disk full")])
async def test_what_was_not_stored_is_stored_later(tmp_path: Path, trouble: BaseException) -> None:
    """Also where the write was cancelled before it began."""
    async with opened(clock=Wall()) as backend:
        recorder = Recorder(backend.client(), SqliteFile(tmp_path / "history.db"), clock=VirtualClock(NOW))
        story = Story()
        story.tell(0, a_job("j"))

        async def fails(*_: Any) -> None:
            raise trouble

        async def works(_work: Any, changes: Changes) -> None:
            stored.append(changes)

        stored: list[Changes] = []
        with suppress(asyncio.CancelledError):
            await recorder._store(story.ledger, fails, full=False)
        story.tell(9, a_job("k"))
        await recorder._store(story.ledger, works, full=False)
        await recorder._store(story.ledger, works, full=True)
    assert [set(each.jobs) for each in stored] == [{uid_of(JOBS, "j"), uid_of(JOBS, "k")}, set()]


async def test_the_most_memory_that_a_pod_used_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, wall, path = VirtualClock(NOW), Wall(), tmp_path / "history.db"
    async with opened(clock=wall) as backend:
        client = backend.client()
        ask, used = client.list, ["300Mi"]

        async def measured(kind: Any, *where: Any, **more: Any) -> Any:
            if kind is not POD_METRICS:
                return await ask(kind, *where, **more)
            if used[0] == "refused":
                raise ApiError("no", code=403, reason="Forbidden")
            each = {"name": "c", "usage": {"memory": used[0], "cpu": "1"}}
            pods = [{"metadata": {"name": "first-0", "namespace": "default"}, "containers": [each, {"usage": {}}]}]
            return SimpleNamespace(items=msgspec.convert(pods, list[PodMetrics]))

        monkeypatch.setattr(type(client), "list", lambda self, *given, **more: measured(*given, **more))
        async with recording(backend, path, clock):
            job = await submit(client, "first")
            await pod_of(client, job)
            await settled(backend)
            await settle()
            for amount in ("300Mi", "700Mi", "200Mi", "refused", "odd"):
                used[0] = amount
                await clock.advance(30)
                await settle()
    assert lines(path, clock)["first"].memory == 700 << 20
