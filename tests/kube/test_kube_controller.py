from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs
from test_kube_informer import THINGS, Thing, thing

from support.memory import MemoryClient
from support.virtual_clock import settle
from unisono.controllers.objects import for_each
from unisono.errors import Conflict, Invalid, Unavailable, UnisonoError
from unisono.kube.controller import Context, Controller, Manager, Retry
from unisono.kube.pace import Backoff


class Recorder(Controller):
    name = "recorder"
    workers = 2

    def __init__(self) -> None:
        self.calls: list[tuple[float, str]] = []
        self.answers: list[object] = []
        self.running: set[str] = set()
        self.seen: list[int] = []

    def setup(self, context: Context) -> None:
        self.clock = context.clock
        self.things = context.watch(THINGS, when=lambda event, new, old: new.spec.color != "ignored")

    async def reconcile(self, key: str) -> float | None:
        assert key not in self.running
        self.running.add(key)
        self.calls.append((self.clock.monotonic(), key))
        self.seen.append(len(self.things))
        await asyncio.sleep(0)
        self.running.discard(key)
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[return-value]


@asynccontextmanager
async def managed(client: MemoryClient, controller: Controller) -> AsyncIterator[Manager]:
    manager = Manager(client, clock=client.clock, backoff=lambda: Backoff(base=1.0, cap=8.0, jitter=0.0))
    task = asyncio.create_task(manager.run([controller]))
    await settle()
    try:
        yield manager
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_nothing_is_reconciled_before_the_first_list_is_complete() -> None:
    client, controller = MemoryClient(), Recorder()
    for name in "abc":
        await client.create(THINGS, thing(name))
    async with managed(client, controller):
        assert sorted(key for _, key in controller.calls) == ["default/a", "default/b", "default/c"]
        assert controller.seen == [3, 3, 3]


async def test_failures_back_off_conflicts_retry_and_success_forgets() -> None:
    client, controller = MemoryClient(), Recorder()
    controller.answers = [RuntimeError("broken"), Conflict("behind"), Unavailable("busy")]
    await client.create(THINGS, thing("a"))
    async with managed(client, controller) as manager:
        await client.clock.advance(30)
        assert [when for when, _ in controller.calls] == [0, 1, 3, 7]
        statistics = manager.statistics()["recorder"]
        assert (statistics.failures, statistics.conflicts, statistics.reconciles) == (2, 1, 1)
        assert statistics.queue.failing == 0


async def test_a_controller_may_ask_to_look_again() -> None:
    client, controller = MemoryClient(), Recorder()
    controller.answers = [5.0, 2.0]
    await client.create(THINGS, thing("a"))
    async with managed(client, controller):
        await client.clock.advance(60)
        assert [when for when, _ in controller.calls] == [0, 5, 7]


@pytest.mark.parametrize(("most", "woken"), [(0, ["a", "b"]), (1, ["a"])])
async def test_what_was_refused_is_tried_again_when_it_may_be_allowed(most: int, woken: list[str]) -> None:
    """Of the namespace of what has changed; what failed otherwise waits as long as before."""
    client, controller = MemoryClient(), Recorder()
    controller.workers = 1
    controller.answers = [Invalid("no"), Invalid("no"), RuntimeError("broken"), None]
    for name in "abcd":
        await client.create(THINGS, thing(name))
    await client.create(THINGS, thing("other", "ignored"))
    retries = [Retry(THINGS, lambda event, new, old: event == "MODIFIED" and new.spec.color == "ignored", most)]
    manager = Manager(client, clock=client.clock, backoff=lambda: Backoff(base=9.0, jitter=0.0), retries=retries)
    task = asyncio.create_task(manager.run([controller]))
    await settle()
    first = len(controller.calls)
    await client.patch(THINGS, "other", {"metadata": {"labels": {"a": "b"}}}, namespace="default")
    await settle()
    assert [key.partition("/")[2] for _, key in controller.calls[first:]] == woken
    await client.patch(THINGS, "other", {"metadata": {"labels": {"a": "c"}}}, namespace="default")
    await settle()
    assert len(controller.calls) == first + 2
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_retry_after_of_the_server_is_respected() -> None:
    client, controller = MemoryClient(), Recorder()
    busy = Unavailable("busy")
    busy.retry_after = 20.0
    controller.answers = [busy]
    await client.create(THINGS, thing("a"))
    async with managed(client, controller):
        await client.clock.advance(60)
        assert [when for when, _ in controller.calls] == [0, 20]


async def test_changes_map_to_keys_of_the_new_and_the_old_state() -> None:
    class ByColor(Recorder):
        def setup(self, context: Context) -> None:
            self.clock = context.clock
            self.things = context.watch(THINGS, lambda obj: [obj.spec.color or ""])

    client, controller = MemoryClient(), ByColor()
    await client.create(THINGS, thing("a", "red"))
    async with managed(client, controller):
        await client.patch(THINGS, "a", {"spec": {"color": "blue"}}, namespace="default")
        await settle()
        assert [key for _, key in controller.calls] == ["red", "blue", "red"]


async def test_start_runs_before_the_first_reconcile_and_is_retried() -> None:
    class Starting(Recorder):
        def __init__(self) -> None:
            super().__init__()
            self.starts = 0

        async def start(self) -> None:
            self.starts += 1
            assert not self.calls
            if self.starts < 3:
                raise Unavailable("not yet")

    client, controller = MemoryClient(), Starting()
    await client.create(THINGS, thing("a"))
    async with managed(client, controller):
        await client.clock.advance(1)
        assert not controller.calls
        await client.clock.advance(5)
        assert controller.starts == 3
        assert [key for _, key in controller.calls] == ["default/a"]


async def test_ignored_changes_queue_nothing() -> None:
    client, controller = MemoryClient(), Recorder()
    async with managed(client, controller):
        await client.create(THINGS, thing("a", "ignored"))
        await settle()
        assert controller.calls == []


async def test_two_controllers_share_one_informer() -> None:
    client = MemoryClient()
    first, second = Recorder(), Recorder()
    second.name = "second"
    lists: list[str] = []
    client.interceptor = lambda operation, resource, *_: lists.append(operation) if operation == "list" else None
    manager = Manager(client, clock=client.clock)
    task = asyncio.create_task(manager.run([first, second]))
    await settle()
    await client.create(THINGS, thing("a"))
    await settle()
    assert first.things is second.things
    assert lists == ["list"]
    assert [key for _, key in first.calls] == [key for _, key in second.calls] == ["default/a"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_the_struct_of_the_tests_is_an_object() -> None:
    assert isinstance(thing("a"), Thing)


@pytest.mark.parametrize(
    ("error", "traceback"),
    [
        (UnisonoError("The workflow names no template."), False),
        (Invalid("spec.queue: Invalid value"), False),
        (Unavailable("busy"), False),
        (KeyError("queue"), True),
    ],
)
async def test_only_errors_that_nobody_foresaw_are_logged_with_their_origin(error: Exception, traceback: bool) -> None:
    client, controller = MemoryClient(), Recorder()
    controller.answers = [error]
    await client.create(THINGS, thing("a"))
    with capture_logs() as logs:
        async with managed(client, controller):
            pass
    (told,) = [entry for entry in logs if entry["event"] == "controller.failed"]
    assert told["error"] == str(error)
    assert bool(told["exc_info"]) is traceback


class Large:
    """Stands for an object of megabytes."""


class Failing(Recorder):
    """Fails as after many requests at once: a frame holds the errors, of which it raises the first."""

    async def reconcile(self, key: str) -> float | None:
        large = Large()
        self.held = weakref.ref(large)
        errors = await for_each(self._ask, [large, large])
        raise errors[0]

    async def _ask(self, large: Large) -> None:
        raise self.answers[0] if self.answers else KeyError(id(large))  # type: ignore[misc]


@pytest.mark.parametrize("error", [None, Conflict("stale"), Unavailable("busy")], ids=["bug", "conflict", "busy"])
async def test_what_a_failure_held_is_freed_without_the_garbage_collector(error: Exception | None) -> None:
    client, controller = MemoryClient(), Failing()
    controller.answers = [error] if error else []
    await client.create(THINGS, thing("a"))
    gc.disable()
    try:
        with capture_logs():  # what prints local variables keeps them
            async with managed(client, controller):
                assert controller.held() is None
    finally:
        gc.enable()
